"""A locustfile of the fitted document: users who arrive, think and request as those of the log did.

The log's content is hostile: it enters the file as ASCII literals only. Requests for another server are left out, and
requests that may change data on the server are listed in a comment.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from locust_realism.fit.fitted_document import FitDocument, RequestRow, ThinkTimes, call_of

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
MOST_TASKS = 30

_PATH = re.compile(r"/[!-~]{0,400}")
_POOR_KS = 0.05

_TOO_MANY = "\n# Too many: sessions under way at the start of the log count as new, since it is shorter than two gaps."
_NOBODY = "\n# Nobody: no session begins after the log's first gap. Put a rate in its place."
_TOO_SHORT = "\n        # Requests of a session as the log shows them: its ends cut some, so whole ones are longer."

_TEMPLATE = '''\
"""{title}

{facts}

    locust -f {file} --host http://localhost:8080
"""

from __future__ import annotations

{random_import}from locust import HttpUser, task

from locust_realism import {imports}

install()

# Sessions that begin a second, from midnight ({zone}) on; {bins}{counted}
ARRIVALS = StepRate(
    [
{steps}
    ],
    end={end},
    repeat={repeat},
)
START = {start}  # the run begins at this time of the day in seconds: the busiest of the log
COMPRESSION = 1  # 24 plays a day in an hour, at the same rates


class Visitor(HttpUser):
    host = "http://localhost:8080"  # --host replaces it
    population = Population(
        arrivals=ARRIVALS.shifted(START).compressed(COMPRESSION),{lengths_comment}
        session_length=empirical(
{lengths}
        ),
    )
    {wait_comment}
    wait_time = {wait}

{tasks}'''


class NothingToSend(ValueError):
    """Error of a log without a request that can be sent again."""


def render_locustfile(document: FitDocument, *, file: str = "locustfile.py") -> str:
    """Return the locustfile of a fitted document; NothingToSend if no request can be sent again.

    Tasks are the most frequent requests with a safe method (SAFE_METHODS), in the proportions of the log.
    """
    tasks, left_out = _chosen(document["requests"])
    if not tasks:
        raise NothingToSend("no GET, HEAD or OPTIONS request with a plain path is in the log")
    arrivals, sessions, thinking = document["arrivals"], document["sessions"], document["think_times"]
    known = [row for row in arrivals["by_time_of_day"] if row["observed_s"]]
    wait, comment = _wait(thinking)
    names = {"Population", "StepRate", "empirical", "install", wait.partition("(")[0]}
    written = "\n\n".join(
        [_task(i, *task) for i, task in enumerate(tasks, start=1)] + [_left_out(left_out)] * bool(left_out)
    )
    whole = len(known) == len(arrivals["by_time_of_day"])
    return _TEMPLATE.format(
        title=f"Users as they were in a server's log; made by locust-realism fit from {_files(document)}.",
        facts=_facts(document),
        file=_docstring(file),
        random_import="import random\n\n" if "random.choice" in written else "",
        imports=", ".join(sorted(names)),
        zone=ascii(document["source"]["zone"])[1:-1],
        bins=f"bins of {arrivals['bin_s']} s" + ("" if whole else ", the log does not cover the whole day"),
        steps="\n".join(f"        ({row['start_s']!r}, {row['rate']:.6g})," for row in known),
        end=repr(float(known[-1]["start_s"] + arrivals["bin_s"])),
        repeat=repr(whole),
        start=repr(float(max(known, key=lambda row: row["rate"])["start_s"])),
        counted=_TOO_MANY if arrivals["mean_rate_interval"][0] is None else _NOBODY if not arrivals["sessions"] else "",
        lengths=_lengths(sessions["length_permille"]),
        lengths_comment=_TOO_SHORT if sessions["mean_length"] is None else "",
        wait=wait,
        wait_comment=comment,
        tasks=written + "\n",
    )


def _files(document: FitDocument) -> str:
    names = [_docstring(name.replace("\\", "/").rpartition("/")[2]) for name in document["source"]["files"]]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _docstring(text: str) -> str:
    # No quote or backslash of the log may stand between triple quotes.
    return ascii(text)[1:-1].replace("\\", "?").replace('"', "'")


def _facts(document: FitDocument) -> str:
    source, sessions = document["source"], document["sessions"]
    lines = [
        f"{source['requests']} requests from {source['start']} to {source['end']};",
        f"{document['arrivals']['sessions']} sessions",
    ]
    if sessions["mean_length"] is not None and sessions["mean_duration_s"] is not None:
        lines[-1] += f" of {sessions['mean_length']:.4g} requests and {sessions['mean_duration_s']:.4g} s on average"
    if sessions["concurrent"] is not None:
        lines[-1] += f", {sessions['concurrent']:.4g} at the same time"
    return "\n".join(lines) + "."


def _wait(thinking: ThinkTimes) -> tuple[str, str]:
    """Return the expression of the wait, and a comment on it."""
    best = thinking["best"]
    includes = " (between requests: response times are in it)" if thinking["includes_response_times"] else ""
    if best is not None and best["ks"] <= max(_POOR_KS, 2 * thinking["ks_by_chance"]):
        return call_of(best["distribution"], 6), f"# off from the log's by at most {best['ks']:.4f}{includes}"
    values = [time for _, time in thinking["quantiles"]]
    if not values or not sum(values):
        return "constant(0)", "# the log has no times between requests"
    shown = ", ".join(f"{value:.4g}" for value in values)
    return f"empirical([{shown}], mean={thinking['mean_s']:.6g})", f"# percentiles of the log's{includes}"


def _lengths(permille: Sequence[Sequence[int]]) -> str:
    """Return session lengths as a sum of repeated lists, a thousand values in all."""
    text = " + ".join(f"[{value}]_*_{count}" for value, count in permille) or "[1]"
    return textwrap.fill(text, 112, initial_indent=" " * 12, subsequent_indent=" " * 12).replace("_", " ")


def _chosen(rows: Sequence[RequestRow]) -> tuple[list[tuple[RequestRow, list[str]]], list[RequestRow]]:
    """Return the requests that can be sent with their paths, and the others."""
    chosen: list[tuple[RequestRow, list[str]]] = []
    for row in rows:
        paths = [path for path in row["examples"] if _PATH.fullmatch(path) and "\\" not in path]
        if row["method"] in SAFE_METHODS and paths and len(chosen) < MOST_TASKS:
            chosen.append((row, paths))
    return chosen, [row for row in rows if all(row is not sent for sent, _ in chosen)]


def _task(index: int, row: RequestRow, paths: Sequence[str]) -> str:
    path = ascii(paths[0]) if len(paths) == 1 else f"random.choice([{', '.join(map(ascii, paths))}])"
    return (
        f"    @task({max(round(10_000 * row['share']), 1)})\n"
        f"    def request_{index}(self):\n"
        f"        self.client.request({row['method']!a}, {path}, name={row['name']!a})"
    )


def _left_out(rows: Sequence[RequestRow]) -> str:
    lines = ["    # Not sent, since they may change something, or cannot be asked for as they were:"]
    for row in rows[:MOST_TASKS]:
        lines.append(f"    # {100 * row['share']:.2f} %  {ascii(row['method'])[1:-1]} {ascii(row['name'])[1:-1]}")
    return "\n".join(lines)
