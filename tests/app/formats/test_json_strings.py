"""A plain text that is JSON is cut at its string values; its other parts stay byte for byte."""

from __future__ import annotations

import json

import pytest

from app.formats import json_strings, read
from app.markup.passage import Passage, Piece
from app.markup.render import render_source


def shown(pieces: list[Piece] | None) -> list[str] | None:
    return None if pieces is None else [piece.text for piece in pieces if isinstance(piece, Passage)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"title": "Save changes?"}', ["Save changes?"]),
        ('[{"a": "One.", "b": ["Two.", {"c": "Three."}]}, null, 1.50, true]', ["One.", "Two.", "Three."]),
        (' \n{"key": "A \\"quoted\\" word\\n", "n": "12.50"}\n', ['A "quoted" word\n']),
        ('{"@context": "x y", "@id": {"a": "b"}, "name": "Red car"}', ["Red car"]),
        ('{"n": "4711", "empty": ""}', []),
        ('["a"]', ["a"]),
    ],
)
def test_text_in_json_is_cut_at_its_string_values(text: str, values: list[str]) -> None:
    pieces = json_strings.text_pieces(text)
    assert shown(pieces) == values
    assert pieces is not None
    assert "".join(each if isinstance(each, str) else render_source(each) for each in pieces) == text
    content = json_strings.read(text.encode())
    assert [passage.text for passage in content.passages] == values  # as of a file


@pytest.mark.parametrize(
    "text",
    [
        "{name}",
        "{}",
        "[]",
        "[1, 2.5, null]",
        '{"a": 1}',
        '{"a"}',
        '{"a": "b"',
        '{"a": "b"} and more',
        '[note] Save "it".',
        '"only a string"',
        "The {count} doors.",
        '{"half": "\\ud800"}',
        "[" * 100_000,
        '{"a": ' * 300 + '"b"' + "}" * 300,
        "",
    ],
)
def test_other_text_is_no_json(text: str) -> None:
    assert json_strings.text_pieces(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "caf\\u00e9 /"}', '{"a": "\\u00e9\\" /"}'),
        ('{"a": "café /"}', '{"a": "é\\" /"}'),
        ('{"a": "x\\/y"}', '{"a": "é\\" \\/"}'),
    ],
)
def test_translations_are_spelled_as_the_text_is(text: str, expected: str) -> None:
    pieces = json_strings.text_pieces(text)
    assert pieces is not None
    made = "".join(each if isinstance(each, str) else each.write('é" /') for each in pieces)
    assert made == expected
    document = read("a.json", text.encode())
    assert document.write(['é" /' for _ in document.passages]).decode() == expected
    assert json.loads(made) == {"a": 'é" /'}
