"""Sample PDF documents to upload."""

from __future__ import annotations

import secrets

from locust_realism.common.validation import refusal


def sample_pdf(size: int) -> bytes:
    """Return a valid PDF document of one page and exactly ``size`` bytes, filled with incompressible noise.

    No two documents are equal. Raises ValueError for a ``size`` below that of the page, some 700 bytes.

    >>> document = sample_pdf(2000)
    >>> len(document), document[:5], document[-6:]
    (2000, b'%PDF-', b'%%EOF\\n')
    """
    page = b"BT /F1 24 Tf 72 720 Td (Manual) Tj ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(page), page),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    text = b"%PDF-1.4\n"
    offsets = []
    for number, inside in enumerate(objects, start=1):
        offsets.append(len(text))
        text += b"%d 0 obj%s\nendobj\n" % (number, inside)
    table = b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    tail = b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%010d\n%%%%EOF\n"
    noise = size - len(text) - len(table) - len(tail % 0) - 2
    if noise < 0:
        raise refusal("size", f">= {size - noise}", size)
    text += b"%" + secrets.token_hex(noise // 2 + 1).encode()[:noise] + b"\n"
    return text + table + tail % len(text)
