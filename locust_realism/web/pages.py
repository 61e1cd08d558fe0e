"""Security headers of our own pages and data."""

from __future__ import annotations

import base64
import hashlib
import re

_INLINE_SCRIPT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)


def page_headers() -> dict[str, str]:
    """Headers of every answer: scripts and styles of this origin only, no framing elsewhere, no caching of data."""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
    return _common(policy)


def report_headers(page: str) -> dict[str, str]:
    """Headers of the report, a page of inline scripts: those it was built with run, by their hash, and no others.

    The charts set styles on their elements, hence 'unsafe-inline' for styles; nothing can be fetched or sent.

    >>> "script-src 'sha256-" in report_headers("<script>let a = 1</script>")["Content-Security-Policy"]
    True
    """
    hashes = [_csp_hash(body) for _, body in _INLINE_SCRIPT.findall(page)]
    policy = (
        f"default-src 'none'; script-src {' '.join(hashes) or repr('none')}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
    return _common(policy)


def _csp_hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _common(policy: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
