"""app/formats/: catalogues that were damaged anywhere: read or refused, and whatever is written can be read again."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples

from app.formats import FormatOptions, UnreadableDocument, read
from tests.app.formats.test_apps import PROPERTIES, STRINGS, STRINGSDICT, XCSTRINGS
from tests.app.formats.test_formats import JSON, PO, SRT, VTT, as_it_was, shouted
from tests.app.formats.test_localisation import ASS, CSV, FLUENT, TMX, TS
from tests.app.formats.test_resources import ANDROID, ARB, RESX
from tests.app.formats.test_rst import RST
from tests.app.formats.test_values import TOML, YAML

pytestmark = pytest.mark.slow

SAMPLES = {
    ".json": JSON,
    ".po": PO,
    ".srt": SRT,
    ".vtt": VTT,
    ".properties": PROPERTIES,
    ".strings": STRINGS,
    ".stringsdict": STRINGSDICT,
    ".xcstrings": XCSTRINGS,
    ".xml": ANDROID,
    ".resx": RESX,
    ".arb": ARB,
    ".yaml": YAML,
    ".toml": TOML,
    ".ts": TS,
    ".tmx": TMX,
    ".ftl": FLUENT,
    ".csv": CSV,
    ".ass": ASS,
    ".rst": RST,
}
BESIDE_THE_SOURCE = {".po", ".ts", ".tmx", ".xcstrings"}
MARKS = [*"\n\r\t \\\"'<>&{}[]()=:;,.#%*|!-~@", "]]>", "<!--", "/*", "''", "<b>", "</b>", "\x00", "\x85", "é😀"]
PIECES = st.sampled_from(MARKS)


@st.composite
def damaged(draw: st.DrawFn, sample: str) -> str:
    """`sample` with a few parts removed, repeated, moved or inserted."""
    text = sample
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        place = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["remove", "insert", "repeat", "cut"]))
        if kind == "remove":
            text = text[:start] + text[end:]
        elif kind == "insert":
            text = text[:start] + draw(st.lists(PIECES, min_size=1, max_size=3).map("".join)) + text[start:]
        elif kind == "repeat":
            text = text[:place] + text[start:end] + text[place:]
        else:
            text = text[:start] if draw(st.booleans()) else text[start:]
    return text


@draw_examples(60)
@pytest.mark.parametrize("suffix", SAMPLES)
@given(data=st.data(), target=st.sampled_from(["", "de", "fr", "zh", "ru"]))
def test_damaged_catalogue_is_refused_or_written_so_that_it_can_be_read(
    suffix: str, data: st.DataObject, target: str
) -> None:
    content = data.draw(damaged(SAMPLES[suffix])).encode()
    options: FormatOptions = {"columns": "1, 2"} if suffix == ".csv" else {}
    document, fault = None, ""
    try:
        document = read(f"a{suffix}", content, target, source="en", **options)
    except UnreadableDocument as error:
        fault = str(error)
    if document is None:
        assert len(fault.splitlines()) == 1
        return
    read(f"a{suffix}", shouted(document), target, source="en", **options)
    if suffix not in BESIDE_THE_SOURCE:
        unchanged = read(f"a{suffix}", content, **options)
        assert as_it_was(unchanged) == content


@draw_examples(60)
@given(
    suffix=st.sampled_from(sorted(SAMPLES)),
    translations=st.lists(st.lists(st.characters(exclude_categories=["Cs"]) | PIECES).map("".join), min_size=1),
    target=st.sampled_from(["", "fr", "zh", "ru"]),
)
@example(suffix=".rst", translations=["00\t0", ""], target="")  # in a table, whose parser asserts
def test_any_translation_leaves_a_catalogue_that_can_be_read(suffix: str, translations: list[str], target: str) -> None:
    options: dict[str, Any] = {"columns": "1, 2"} if suffix == ".csv" else {}
    document = read(f"a{suffix}", SAMPLES[suffix].encode(), target, source="en", **options)
    texts = [
        passage.write(translations[number % len(translations)]) + "".join(tag.raw for tag in passage.tags)
        for number, passage in enumerate(document.passages)
    ]
    read(f"a{suffix}", document.write(texts), target, source="en", **options)


@given(content=st.binary(max_size=80), suffix=st.sampled_from(sorted(SAMPLES)), target=st.sampled_from(["", "fr"]))
def test_no_bytes_break_a_reader_with_a_target(content: bytes, suffix: str, target: str) -> None:
    with contextlib.suppress(UnreadableDocument):
        shouted(read(f"a{suffix}", content, target, source="en"))
