"""Reads text files of unknown format: detects compression, encoding and line endings, then yields lines."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

Compression = Literal["plain", "gzip", "xz"]

SAMPLE_BYTES = 1 << 20
_COMPRESSION_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz"}
_OPENERS = {"plain": open, "gzip": gzip.open, "xz": lzma.open}
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is a prefix of this one
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ENCODING_NAMES = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8 with a byte order mark",
    "utf-16": "UTF-16",
    "utf-32": "UTF-32",
}
_LINE_END_NAMES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}
_UNSUPPORTED_COMPRESSION = {
    b"BZh91AY&SY": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
}
_MAX_ZERO_BYTE_SHARE = 0.1
"""The share of lines that may have zero bytes: `training.cleaning.repair` handles stray ones."""
# Western European text has at most one accented letter in ten; other alphabets are nearly all high bytes.
_MAX_WESTERN_HIGH_BYTE_SHARE = 0.2


class CorpusError(ValueError):
    """An error in a file of sentences, with a one-line message; `line` (from 1) is None if it is unknown."""

    def __init__(self, path: Path | str, message: str, line: int | None = None) -> None:
        where = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {message}")
        self.path = Path(path)
        self.line = line


@dataclass(frozen=True)
class TextFile:
    """An examined text file; `guessed` means that the bytes do not prove the encoding."""

    path: Path
    compression: Compression
    encoding: str
    line_end: str
    guessed: bool = False

    def describe(self) -> str:
        """The detected format, such as "xz, UTF-8, LF line endings"."""
        encoding = _ENCODING_NAMES.get(self.encoding, self.encoding)
        if self.guessed:
            encoding = f"not UTF-8: read as {encoding} (if letters look wrong, give --encoding)"
        packed = [] if self.compression == "plain" else [self.compression]
        return ", ".join([*packed, encoding, f"{_LINE_END_NAMES[self.line_end]} line endings"])

    def lines(self) -> Iterator[str]:
        """Yields the lines without their ends; bytes that are invalid in the encoding become U+FFFD.

        Only the file's own line end separates lines: a U+2028 or form feed inside a sentence does not. Raises
        CorpusError, with the line reached, if the file is damaged or truncated.
        """
        number = 0
        try:
            with _open_bytes(self.path, self.compression) as raw:
                newline = "\r" if self.line_end == "\r" else "\n"
                text = io.TextIOWrapper(raw, encoding=self.encoding, errors="replace", newline=newline)
                for number, line in enumerate(text, 1):  # noqa: B007
                    line = line.removesuffix(newline)
                    yield line.removesuffix("\r") if self.line_end == "\r\n" else line
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise CorpusError(self.path, _read_error_message(error, self.compression), number + 1) from error


def open_text(path: Path, encoding: str | None = None) -> TextFile:
    """Detects the format of `path` from its first MiB; `encoding` applies to a file that does not show its own.

    If an encoding is requested for several files, those that are certainly UTF-8 are read as UTF-8. Raises CorpusError
    if the file is missing, empty, a directory, damaged or not text.
    """
    if encoding is not None:
        _check_encoding(path, encoding)
    compression, sample = _sample(path)
    guessed = False
    if encoding is None or _has_certain_encoding(sample):
        encoding, guessed = _guess_encoding(path, sample)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample)
    if not text.strip():
        raise CorpusError(path, "the file is empty" if not sample else "it contains only white space")
    return TextFile(path, compression, encoding, _line_end(text), guessed)


def _sample(path: Path) -> tuple[Compression, bytes]:
    """The compression of `path`, by its first bytes rather than its name, and the first MiB of its content."""
    if path.is_dir():
        raise CorpusError(path, "this is a directory; expected a file")
    if not path.exists():
        raise CorpusError(path, "no such file")
    if not path.is_file():
        raise CorpusError(path, "this is not a regular file; it must be readable more than once")
    compression: Compression = "plain"
    try:
        with open(path, "rb") as file:
            head = file.read(8)
        compression = next((kind for magic, kind in _COMPRESSION_MAGIC.items() if head.startswith(magic)), "plain")
        return compression, _first_bytes(path, compression)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise CorpusError(path, _read_error_message(error, compression), 1) from error


def _first_bytes(path: Path, compression: Compression) -> bytes:
    """Up to SAMPLE_BYTES of the decompressed file. Reads in small chunks, so that a truncated file still yields its
    beginning."""
    sample = bytearray()
    with _open_bytes(path, compression) as file:
        while len(sample) < SAMPLE_BYTES:
            try:
                piece = file.read1(1 << 16)  # type: ignore[attr-defined]  # every opener returns a buffered reader
            except EOFError:
                if sample:
                    break  # `lines` reaches the same end and can name its line
                raise
            if not piece:
                break
            sample += piece
    return bytes(sample)


def _open_bytes(path: Path, compression: Compression) -> IO[bytes]:
    return _OPENERS[compression](path, "rb")  # type: ignore[operator, no-any-return]


def _read_error_message(error: BaseException, compression: Compression) -> str:
    if compression == "plain":
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if isinstance(error, EOFError):
        return f"the {compression} file is cut off here"
    return f"the {compression} file is damaged: {error}"


def _check_encoding(path: Path, encoding: str) -> None:
    try:
        known = codecs.lookup(encoding)
    except LookupError:
        raise CorpusError(path, f"unknown encoding {encoding!r}; try utf-8, cp1252, gb18030, shift_jis ...") from None
    if not known._is_text_encoding:
        raise CorpusError(path, f"{encoding!r} is not a text encoding")


def _guess_encoding(path: Path, sample: bytes) -> tuple[str, bool]:
    """The encoding of `sample`, and whether it is a guess.

    A byte order mark decides. Otherwise it is UTF-8 if among the lines with non-ASCII bytes at least as many are valid
    as broken (the broken ones are skipped and reported later); else Windows-1252, if that is plausible.
    """
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if sample.startswith(mark):
            return encoding, False
    if sample.startswith(b"PK\x03\x04"):
        raise CorpusError(path, "this is a zip archive or a spreadsheet; save it as tab-separated text")
    for mark, packer in _UNSUPPORTED_COMPRESSION.items():
        if sample.startswith(mark):
            raise CorpusError(path, f"this is compressed with {packer}: decompress it, or use gzip or xz")
    parts = sample.split(b"\n")
    zeros = [number for number, line in enumerate(parts, 1) if b"\0" in line]
    if len(zeros) > _MAX_ZERO_BYTE_SHARE * len(parts):
        shown = _first_line(parts[zeros[0] - 1])
        raise CorpusError(path, f"not text: zero bytes in {shown} (UTF-16 needs a byte order mark)", zeros[0])
    lines = _non_ascii_lines(sample)
    broken = [line for line in lines if not _is_utf8(line)]
    if 2 * len(broken) <= len(lines):
        return "utf-8", False
    size = sum(map(len, broken))
    high = sum(byte >= 0x80 for line in broken for byte in line)
    if high > _MAX_WESTERN_HIGH_BYTE_SHARE * size:
        raise CorpusError(path, f"neither UTF-8 nor Western European: {_first_line(broken[0])}; give --encoding")
    return "cp1252", True


def _has_certain_encoding(sample: bytes) -> bool:
    """Whether a byte order mark shows the encoding, or every line with non-ASCII bytes is valid UTF-8."""
    if any(sample.startswith(mark) for mark in _BYTE_ORDER_MARKS):
        return True
    lines = _non_ascii_lines(sample)
    return b"\0" not in sample and bool(lines) and all(map(_is_utf8, lines))


def _non_ascii_lines(sample: bytes) -> list[bytes]:
    """The lines that are not pure ASCII, without one that the end of the sample cuts off."""
    return [line for line in sample.splitlines()[: None if len(sample) < SAMPLE_BYTES else -1] if not line.isascii()]


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _line_end(text: str) -> str:
    if "\n" not in text:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def _first_line(sample: bytes) -> str:
    return short_repr(sample.split(b"\n", 1)[0][:200])


def short_repr(text: str | bytes, width: int = 60) -> str:
    """`repr` of a text, shortened for a one-line message."""
    shown = repr(text)
    return shown if len(shown) <= width else f"{shown[: width - 4]} ..."
