"""The budget of a document: passages, levels and bytes written, whatever its format."""

from __future__ import annotations

from functools import partial

import pytest

from app.formats.document import (
    MAX_DEPTH,
    MAX_PASSAGES,
    UnreadableDocument,
    check_depth,
    check_passages,
    write_bounded,
)
from app.markup.passage import NestedPassage, Passage


def nested(levels: int) -> Passage:
    passage = Passage("a")
    for number in range(levels - 1):
        passage = Passage("a", nested=(NestedPassage(number, passage),))
    return passage


def test_nested_passages_count_as_passages_of_a_document() -> None:
    inner = tuple(NestedPassage(number, Passage("a")) for number in range(MAX_PASSAGES // 2 - 1))
    check_passages([Passage("a", nested=inner)] * 2)
    with pytest.raises(UnreadableDocument, match=f"over {MAX_PASSAGES} paragraphs"):
        check_passages([Passage("a", nested=inner)] * 3)


def test_passages_nest_as_deeply_as_the_budget_of_levels() -> None:
    check_passages([nested(MAX_DEPTH)])
    with pytest.raises(UnreadableDocument, match="nested too deeply"):
        check_passages([nested(MAX_DEPTH + 1)])
    with pytest.raises(UnreadableDocument, match="The JSON is nested too deeply"):
        check_depth(MAX_DEPTH + 1, "The JSON")


@pytest.mark.parametrize(("size", "characters", "written"), [(0, 0, 1 << 20), (1 << 20, 1 << 18, 32 << 20)])
def test_written_file_is_in_proportion_to_the_file_and_its_translations(
    size: int, characters: int, written: int
) -> None:
    def write(length: int, translations: object) -> bytes:
        return bytes(length)

    assert len(write_bounded(partial(write, written), size, ["a" * characters])) == written
    with pytest.raises(UnreadableDocument, match="Split it"):
        write_bounded(partial(write, written + 1), size, ["a" * characters])
