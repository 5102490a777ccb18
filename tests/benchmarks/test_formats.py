"""The documents whose cost is measured are documents of their formats, with all of their texts."""

from __future__ import annotations

import pytest

from app.formats import read
from benchmarks import formats


@pytest.mark.parametrize("suffix", formats.SUFFIXES.split())
def test_each_format_has_a_document_with_all_texts(suffix: str) -> None:
    texts = formats.paragraphs(0.002)
    document = read(f"a{suffix}", formats.document(suffix, texts))
    found = "\n\n".join(passage.text for passage in document.passages)
    assert all("".join(each) in found for each in texts)


def test_cost_is_measured() -> None:
    megabytes, reading, writing, memory = formats.measure(".epub", 0.001)
    assert megabytes > 0
    assert min(reading, writing, memory) >= 0
