"""The sample PDF is valid: its table of objects points at them."""

from __future__ import annotations

import re

import pytest

from locust_realism.kit.pdf import sample_pdf


@pytest.mark.parametrize("size", [800, 801, 100_000])
def test_a_document_has_the_size_and_the_structure_of_a_pdf(size: int) -> None:
    document = sample_pdf(size)
    assert len(document) == size
    assert document.startswith(b"%PDF-1.4\n")
    assert document.endswith(b"%%EOF\n")
    found = re.search(rb"startxref\n(\d+)\n", document)
    assert found is not None
    table = int(found[1])
    assert document[table : table + 9] == b"xref\n0 6\n"
    entries = document[table + 9 :].split(b"\n")[1:6]
    for number, entry in enumerate(entries, start=1):
        offset = int(entry[:10])
        assert document[offset:].startswith(b"%d 0 obj" % number)


def test_no_two_documents_are_equal_and_none_compresses_well() -> None:
    import zlib

    one, other = sample_pdf(50_000), sample_pdf(50_000)
    assert one != other
    assert len(zlib.compress(one)) > 20_000


def test_a_small_size_is_refused_with_the_least_one() -> None:
    with pytest.raises(ValueError, match=r"size must be >= \d+, not 100") as refused:
        sample_pdf(100)
    least = int(re.findall(r"\d+", str(refused.value))[0])
    assert len(sample_pdf(least)) == least
