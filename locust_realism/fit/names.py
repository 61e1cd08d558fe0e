"""Labels of the requests of a server's log, and the choice of the requests that count.

A label is a method and a path without its query, with ``{id}`` in place of identifiers. The number of labels is
limited: a log of a million different paths cannot fill the memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import Label

OTHER = Label("", "(others)")
NOT_HTTP = Label("", "(not HTTP)")
LONGEST_NAME = 200
EXAMPLES = 5
"""Paths kept as examples of each label."""

_STATIC = (
    "css js mjs map wasm png jpg jpeg jpe gif ico svg svgz webp avif bmp tif tiff cur woff woff2 ttf otf eot "
    "mp3 mp4 m4a m4v ogg ogv oga wav webm mov avi flv swf"
)
STATIC_EXTENSIONS = frozenset(_STATIC.split())
"""Endings of static files' paths: files that a browser fetches by itself for a page, and media."""

_REQUEST = re.compile(r"([A-Z][A-Z_-]{0,19}) (\S+)(?: HTTP/\d(?:\.\d)?)?")
_IDENTIFIER = re.compile(
    r"\d+|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|(?=[a-f]*\d)[0-9a-f]{12,}|(?=\D*\d)[\w~=-]{24,}"
)
_BOT = re.compile(r"bot\b|bot/|crawl|spider|slurp|facebookexternalhit|monitoring|pingdom|uptime", re.IGNORECASE)


def label_of(request: str, *, collapse: bool = True) -> Label:
    """Return the label of a request line, NOT_HTTP if the text is none.

    >>> label_of("GET /users/1234/photos?page=2 HTTP/1.1")
    Label(method='GET', name='/users/{id}/photos')
    >>> label_of("\\\\x16\\\\x03\\\\x01")
    Label(method='', name='(not HTTP)')
    """
    match = _REQUEST.fullmatch(request)
    if match is None:
        return NOT_HTTP
    path = match[2].partition("?")[0].partition("#")[0]
    if collapse:
        parts = path[: 4 * LONGEST_NAME].split("/")
        path = "/".join("{id}" if _IDENTIFIER.fullmatch(part) else part for part in parts)
    return Label(match[1], path if len(path) <= LONGEST_NAME else path[: LONGEST_NAME - 1] + "…")


class LabelTable:
    """Labels by number, in the order of their first request; the first one is OTHER.

    ``collapse`` puts ``{id}`` in place of identifiers; beyond ``most`` labels, new ones are OTHER.
    """

    def __init__(self, *, collapse: bool = True, most: int = 20_000) -> None:
        self.labels: list[Label] = [OTHER]
        self.examples: list[list[str]] = [[]]
        self._collapse, self._most = collapse, most
        self._numbers: dict[Label, int] = {OTHER: 0}
        self._known: dict[str, int] = {}

    def codes(self, requests: Sequence[str], kept: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the number of each request line's label, 0 for rows that are not ``kept``."""
        known, number, rows = self._known, self._number, zip(requests, kept.tolist(), strict=True)
        codes = [0 if not keep else known[r] if r in known else number(r) for r, keep in rows]
        return np.array(codes, dtype=np.int32)

    def code_of(self, label: Label) -> int:
        """Return the number of a label; a new label gets the next one."""
        number = self._numbers.get(label)
        if number is None:
            if len(self.labels) > self._most:
                return 0
            number = self._numbers[label] = len(self.labels)
            self.labels.append(label)
            self.examples.append([])
        return number

    def _number(self, request: str) -> int:
        number = self.code_of(label_of(request, collapse=self._collapse))
        if len(request) <= 2 * LONGEST_NAME:
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[request] = number
            if number and " " in request:
                self.example(self.labels[number], request.split(" ")[1])
        return number

    def example(self, label: Label, path: str) -> None:
        """Keep a path as an example of a known label that has fewer than EXAMPLES."""
        examples = self.examples[self._numbers.get(label, 0)]
        if label in self._numbers and len(examples) < EXAMPLES and path not in examples:
            examples.append(path)


@dataclass
class RequestFilter:
    """Choice of the requests that count; ``left_out`` counts the others by reason.

    - ``no_static`` leaves out static files (STATIC_EXTENSIONS)
    - ``no_bots`` leaves out clients whose agent names a robot
    - ``exclude`` leaves out paths that match one of these patterns

    >>> only_pages = RequestFilter(no_static=True)
    >>> only_pages.mask(["GET /a.CSS?v=1 HTTP/1.1", "GET /a.php HTTP/1.1"], ["", ""]).tolist(), only_pages.left_out
    ([False, True], {'static files': 1})
    """

    no_static: bool = False
    no_bots: bool = False
    exclude: tuple[re.Pattern[str], ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    static: int = 0
    bots: int = 0
    _requests: dict[str, str] = field(default_factory=dict, repr=False)
    _agents: dict[str, bool] = field(default_factory=dict, repr=False)

    def mask(self, requests: Sequence[str], agents: Sequence[str]) -> NDArray[np.bool_]:
        """Return the mask of the requests that count, shape (n,); ``static`` and ``bots`` count all of these."""
        for cache in (self._requests, self._agents):
            if len(cache) > 20_000:
                cache.clear()
        for request in set(requests).difference(self._requests):
            self._requests[request] = self._reason(request)
        for agent in set(agents).difference(self._agents):
            self._agents[agent] = bool(_BOT.search(agent))
        reasons = np.array([self._requests[request] for request in requests], dtype=object)
        is_bot = np.array([self._agents[agent] for agent in agents], dtype=np.bool_)
        is_static = reasons == "static files"
        self.static += int(is_static.sum())
        self.bots += int(is_bot.sum())
        kept = np.ones(len(requests), dtype=np.bool_)
        for name, rows in (
            ("excluded paths", reasons == "excluded paths"),
            ("static files", is_static & self.no_static),
            ("robots", is_bot & self.no_bots),
        ):
            if n := int((rows & kept).sum()):
                self.left_out[name] = self.left_out.get(name, 0) + n
            kept &= ~rows
        return kept

    def _reason(self, request: str) -> str:
        path = _path_of(request)
        if any(pattern.search(path) for pattern in self.exclude):
            return "excluded paths"
        return "static files" if self.is_static(request) else ""

    @staticmethod
    def is_static(request: str) -> bool:
        """Return True if the path of a request line has the ending of a static file."""
        last = _path_of(request).rpartition("/")[2]
        return "." in last and last.rpartition(".")[2].lower() in STATIC_EXTENSIONS


def _path_of(request: str) -> str:
    return request.split(" ")[1].partition("?")[0] if " " in request else request
