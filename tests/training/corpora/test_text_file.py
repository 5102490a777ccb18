"""How a file of unknown origin is read, and its lines."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from training.corpora.text_file import CorpusError, open_text

LINES = ["Où est l'été ?", "", "naïve\x0bcafé\u2028là", "你好，世界。", "last"]
PACKERS: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_lines_are_equal_for_any_compression_encoding_and_line_end(
    tmp_path: Path, packer: str, line_end: str, encoding: str
) -> None:
    file = write(tmp_path / "a.txt", PACKERS[packer](line_end.join([*LINES, ""]).encode(encoding)))
    look = open_text(file)
    assert (look.compression, look.line_end, look.guessed) == (packer, line_end, False)
    assert look.encoding == encoding
    assert list(look.lines()) == LINES


def test_file_without_a_final_line_end_keeps_its_last_line(tmp_path: Path) -> None:
    assert list(open_text(write(tmp_path / "a", b"one\ntwo")).lines()) == ["one", "two"]


def test_western_text_that_is_not_utf8_is_read_as_windows_1252_and_reported(tmp_path: Path) -> None:
    lines = ["Plain.", "Où est l'été ? Il n'est pas là.", "C’est déjà l'après-midi, dit-elle."]
    look = open_text(write(tmp_path / "a", "\n".join(lines).encode("cp1252")))
    assert list(look.lines()) == lines
    assert "read as cp1252" in look.describe()
    assert "--encoding" in look.describe()


def test_broken_line_in_utf8_stays_one_broken_line(tmp_path: Path) -> None:
    good = "Où est l'été ?"
    look = open_text(write(tmp_path / "a", f"{good}\n".encode() + b"Caf\xe9.\n" + f"{good}\n".encode()))
    assert look.encoding == "utf-8"
    assert list(look.lines()) == [good, "Caf\ufffd.", good]


def test_other_legacy_encodings_are_refused_unless_named(tmp_path: Path) -> None:
    file = write(tmp_path / "a", "你好，世界。\n今天天气很好。\n".encode("gb18030"))
    with pytest.raises(CorpusError, match="give --encoding"):
        open_text(file)
    assert list(open_text(file, "gb18030").lines()) == ["你好，世界。", "今天天气很好。"]


def test_requested_encoding_does_not_override_a_byte_order_mark(tmp_path: Path) -> None:
    lines = ["Кошка спит.", "Plain."]
    for own in ("utf-8", "utf-8-sig", "utf-16", "cp1251"):
        assert list(open_text(write(tmp_path / own, "\n".join(lines).encode(own)), "cp1251").lines()) == lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b" \n\n\t\n", "only white space"),
        ("Hello.\tBonjour.".encode("utf-16-le"), "line 1: not text: zero bytes.*byte order mark"),
        (b"good\tbon\n" * 3 + b"wi\0ne\tvin\n", "line 4: not text: zero bytes in b'wi"),
        (b"PK\x03\x04\x14\x00", "zip archive or a spreadsheet"),
        (bz2.compress(b"Hello"), "compressed with bzip2: decompress it, or use gzip or xz"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "compressed with zstd"),
        (gzip.compress(b"Hello", mtime=0)[:10], "line 1: the gzip file is cut off"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03 no deflate", "line 1: the gzip file is damaged"),
    ],
)
def test_a_file_that_is_not_text_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        open_text(write(tmp_path / "bad.tsv", content))
    assert str(caught.value).startswith(str(tmp_path / "bad.tsv"))
    assert "\n" not in str(caught.value)


def test_stray_zero_byte_does_not_make_the_file_unreadable(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(30)] + ["with a \0 in it"]
    assert list(open_text(write(tmp_path / "a", "\n".join(lines).encode())).lines()) == lines


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file"):
        open_text(tmp_path / "none.tsv")
    with pytest.raises(CorpusError, match="this is a directory"):
        open_text(tmp_path)


@pytest.mark.parametrize("encoding", ["klingon", "base64"])
def test_an_encoding_that_does_not_exist_is_refused(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(CorpusError, match=encoding):
        open_text(write(tmp_path / "a", b"x"), encoding)


@pytest.mark.parametrize("packer", ["gzip", "xz"])
def test_truncated_file_is_refused_with_the_last_line_read(tmp_path: Path, packer: str) -> None:
    lines = [f"This is sentence number {n * 7919 % 10007}." for n in range(20000)]
    packed = PACKERS[packer]("\n".join(lines).encode())
    look = open_text(write(tmp_path / "a", packed[: len(packed) // 2]))
    read: list[str] = []
    with pytest.raises(CorpusError, match=f"the {packer} file is cut off here") as caught:
        read.extend(iter_into(read, look.lines()))
    assert caught.value.line == len(read) + 1
    assert 100 < len(read) < len(lines)
    assert read == lines[: len(read)]


def iter_into(found: list[str], lines: object) -> list[str]:
    """Appends items one at a time, so that those before an error are kept."""
    for line in lines:  # type: ignore[attr-defined]
        found.append(line)
    return []


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"Hello.\n" * 1000))
    packed[-6] ^= 0xFF  # in the checksum, which is last
    with pytest.raises(CorpusError, match="the gzip file is damaged"):
        list(open_text(write(tmp_path / "a", bytes(packed))).lines())
