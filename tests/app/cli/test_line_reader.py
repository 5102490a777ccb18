"""Reading lines: nothing is lost however input is chunked, and invalid UTF-8 is reported with its line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli import line_reader as module
from app.cli.line_reader import MAX_LINE_CHARS, Line, LineSplitter, NotUTF8, read_lines


def lines_of(pieces: Sequence[bytes]) -> list[Line]:
    lines = LineSplitter()
    return [line for piece in [*filter(None, pieces), b""] for line in lines.add(piece)]


@given(text=st.text(st.sampled_from("aé你😀\n\r \x85.")), cuts=st.lists(st.integers(1, 9)))
def test_lines_do_not_depend_on_how_the_input_is_chunked(text: str, cuts: list[int]) -> None:
    data, pieces = text.encode(), []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    found = lines_of([*pieces, data])
    assert "".join(line.text + line.end for line in found) == text
    assert [line.text for line in found] == text.removesuffix("\n").split("\n") if text else found == []
    assert [line.number for line in found] == list(range(1, len(found) + 1))
    assert all(line.end == "\n" for line in found[:-1])


@pytest.mark.parametrize("unit", ["a", "word ", "A sentence. ", "你好。", "a\r"])
def test_very_long_line_is_read_in_parts(unit: str) -> None:
    text = unit * (3 * MAX_LINE_CHARS // len(unit))
    data = f"first\n{text}\nlast\n".encode()
    found = lines_of([data[start : start + 999] for start in range(0, len(data), 999)])
    assert "".join(line.text + line.end for line in found).encode() == data
    assert all(len(line.text) <= MAX_LINE_CHARS for line in found)
    assert [line.number for line in found] == [1, *[2] * (len(found) - 2), 3]
    assert [line.end for line in found if line.number == 2] == [*[""] * (len(found) - 3), "\n"]
    if unit.endswith((" ", "。")):
        assert all(line.text.endswith(unit) for line in found[1:-1])


def test_invalid_utf_8_is_reported_after_the_preceding_lines() -> None:
    found = LineSplitter().add(b"one\ntwo\nthr\xe9e\nfour\n")
    assert [next(found).text, next(found).text] == ["one", "two"]
    with pytest.raises(NotUTF8, match="line 3 "):
        next(found)
    with pytest.raises(NotUTF8, match="line 2 "):
        lines_of([b"one\nt\xc3", b"wo\n"])
    with pytest.raises(NotUTF8, match="line 1 "):
        lines_of([b"cut off: \xe4\xbd"])


def test_complete_lines_are_yielded_before_more_input_arrives() -> None:
    more = threading.Event()
    pieces = iter([b"one\ntw", b"o\n", b""])

    def read(size: int) -> bytes:
        piece = next(pieces)
        assert piece != b"o\n" or more.wait(60)
        return piece

    async def run() -> list[list[str]]:
        batches = []
        async for batch in read_lines(read):
            batches.append([line.text for line in batch])
            more.set()
        return batches

    assert asyncio.run(run()) == [["one"], ["two"]]


def test_reader_reads_little_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def read(size: int) -> bytes:
        nonlocal count
        count += 1
        return b"a line\n" if count < 1_000 else b""

    async def run() -> int:
        reader = read_lines(read)
        await anext(reader)
        await asyncio.sleep(0.05)
        return count

    assert asyncio.run(run()) <= module.MAX_QUEUED_BATCHES + 3


def test_read_errors_are_raised() -> None:
    def read(size: int) -> bytes:
        raise IsADirectoryError(21, "Is a directory")

    async def run() -> None:
        async for _ in read_lines(read):
            pass

    with pytest.raises(IsADirectoryError):
        asyncio.run(run())
