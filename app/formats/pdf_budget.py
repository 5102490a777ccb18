"""Reads the objects of a PDF with pdfminer.six, within a budget of work in proportion to the file's size.

The library unpacks streams whole, follows references in circles, and fills in ranges of letters that a file only names.
Its work is counted here, in units of about a microsecond, before it is done.
"""

from __future__ import annotations

import io
import zlib
from base64 import a85decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pdfminer.ascii85 import asciihexdecode
from pdfminer.cmapdb import CMapDB, CMapParser, FileUnicodeMap
from pdfminer.lzw import LZWDecoder
from pdfminer.pdfdocument import PDFDocument, PDFXRefStream
from pdfminer.pdffont import PDFCIDFont, PDFFont, PDFSimpleFont, TrueTypeFont
from pdfminer.pdfinterp import PDFContentParser, PDFResourceManager
from pdfminer.pdfparser import PDFParser, PDFStreamParser
from pdfminer.pdftypes import (
    LITERALS_ASCII85_DECODE,
    LITERALS_ASCIIHEX_DECODE,
    LITERALS_DCT_DECODE,
    LITERALS_FLATE_DECODE,
    LITERALS_JBIG2_DECODE,
    LITERALS_JPX_DECODE,
    LITERALS_LZW_DECODE,
    LITERALS_RUNLENGTH_DECODE,
    PDFStream,
    dict_value,
    int_value,
    list_value,
    resolve1,
)
from pdfminer.psexceptions import PSEOF
from pdfminer.psparser import PSBaseParser, literal_name
from pdfminer.utils import apply_png_predictor, apply_tiff_predictor

from app.formats.document import UnreadableDocument

_MIN_STREAM_BYTES, _MAX_STREAM_BYTES, _MAX_EXPANSION = 4 << 20, 64 << 20, 100
"""What the filters of all streams may write: so many times the bytes of the file, within these limits."""
_MIN_UNITS = 160_000
_UNITS_PER_BYTE = 150
"""Of work, for the bytes from the 4,097th. Three hundred pages of the same sentence take 100 for each of their bytes,
a manual 20."""
_LETTER_CHARS = 64
"""A letter, or a ligature, that stands for more is none."""
_KEPT_TABLES = 8
"""Of letters, which the library would keep for ever."""
_PASSED_ON = (*LITERALS_DCT_DECODE, *LITERALS_JBIG2_DECODE, *LITERALS_JPX_DECODE)
"""Filters of pictures."""


class Budget:
    """The units of work and the bytes of streams that a file of `size` bytes may take."""

    def __init__(self, size: int) -> None:
        self.units = float(_MIN_UNITS + _UNITS_PER_BYTE * max(0, size - 4_096))
        self.stream_bytes = min(max(_MIN_STREAM_BYTES, _MAX_EXPANSION * size), _MAX_STREAM_BYTES)

    def spend(self, units: float) -> None:
        """Counts work before it is done. Raises UnreadableDocument if that is too much."""
        self.units -= units
        if self.units < 0:
            raise UnreadableDocument("The PDF takes too much work to read for its size.")

    def unpack(self, count: int) -> None:
        """Counts bytes that a filter wrote. Raises UnreadableDocument if they are too many."""
        self.stream_bytes -= count
        if self.stream_bytes < 0:
            raise UnreadableDocument(
                f"Unpacked, the PDF is over {_MAX_EXPANSION} times as large, or over {_MAX_STREAM_BYTES >> 20} MiB."
            )
        self.spend(0.1 * count)

    def max_unpacked(self) -> int:
        """How many more bytes a filter may write."""
        return min(self.stream_bytes, int(10 * self.units))


class _Tokens(PSBaseParser):
    """A parser that counts its tokens, and the copies that it makes of a token with each part of it."""

    budget: Budget

    def nexttoken(self) -> Any:
        self.budget.spend(3)
        return super().nexttoken()

    def nextline(self) -> tuple[int, bytes]:
        self.budget.spend(1)
        return super().nextline()

    def fillbuf(self) -> bool:
        if self.charpos < len(self.buf):
            return False
        self.budget.spend(1 + 1e-4 * len(self._curtoken))
        return super().fillbuf()

    def _parse_string(self, s: bytes, i: int) -> int:
        self.budget.spend(1 + 1e-4 * len(self._curtoken))
        return super()._parse_string(s, i)

    def _parse_literal(self, s: bytes, i: int) -> int:
        self.budget.spend(1 + 1e-4 * len(self._curtoken))
        return super()._parse_literal(s, i)


class _Stream(PDFStream):
    """A stream that stops unpacking where the budget ends."""

    def __init__(self, stream: PDFStream, budget: Budget) -> None:
        assert stream.rawdata is not None
        super().__init__(stream.attrs, stream.rawdata, stream.decipher)
        self._budget = budget

    def get_data(self) -> bytes:
        data: bytes = super().get_data()
        self._budget.spend(0.2 * len(data))  # what follows parses it
        return data

    def decode(self) -> None:
        assert self.rawdata is not None
        data = self.rawdata
        if self.decipher:
            self._budget.spend(0.5 * len(data))
            data = self.decipher(self.objid or 0, self.genno or 0, data, self.attrs)
        for name, parameters in self.get_filters():
            self._budget.spend(0.3 * len(data))
            data = self._decoded(name, data)
            if parameters and "Predictor" in parameters:
                data = self._without_predictor(data, parameters)
        self.data, self.rawdata = data, None

    def _decoded(self, name: object, data: bytes) -> bytes:
        """What a filter makes of `data`. Raises UnreadableDocument."""
        decoders: Sequence[tuple[Any, Callable[[bytes], bytes]]] = (
            (LITERALS_FLATE_DECODE, partial(inflate, budget=self._budget)),
            (LITERALS_LZW_DECODE, partial(_lzw_decoded, budget=self._budget)),
            (LITERALS_RUNLENGTH_DECODE, partial(_runs_decoded, budget=self._budget)),
            (LITERALS_ASCII85_DECODE, _ascii85_decoded),
            (LITERALS_ASCIIHEX_DECODE, asciihexdecode),
            (_PASSED_ON, bytes),
        )
        decode = next((decode for names, decode in decoders if name in names), None)
        if decode is None:
            raise UnreadableDocument("The PDF has text with a filter that is not supported.")
        decoded = decode(data)
        self._budget.unpack(len(decoded))
        return decoded

    def _without_predictor(self, data: bytes, parameters: Mapping[str, object]) -> bytes:
        kind, colors, columns, bits = (
            int_value(parameters.get(name, default))
            for name, default in (("Predictor", 1), ("Colors", 1), ("Columns", 1), ("BitsPerComponent", 8))
        )
        if kind == 1:
            return data
        if not data or not 0 < colors * columns <= 8 * len(data) or kind not in (2, *range(10, 16)):
            raise UnreadableDocument("The PDF has a predictor that does not fit its stream.")
        self._budget.spend(len(data))
        if kind == 2:
            return bytes(apply_tiff_predictor(colors, columns, bits, data))
        return bytes(apply_png_predictor(kind, colors, columns, bits, data))


def inflate(data: bytes, budget: Budget) -> bytes:
    """`data` unpacked, as far as it goes if it was cut off or its checksum is wrong. Raises UnreadableDocument."""
    found = _inflated(zlib.decompressobj(), data, budget)
    if found is not None:
        return found
    packer = zlib.decompressobj()
    found = _inflated(packer, data[:-3], budget)
    if found is None:
        return b""
    return found + (_inflated(packer, data[-3:], budget) or b"")


def _inflated(packer: Any, data: bytes, budget: Budget) -> bytes | None:
    limit = budget.max_unpacked()
    try:
        found: bytes = packer.decompress(data, limit + 1)
    except zlib.error:
        return None
    if len(found) > limit:
        budget.unpack(len(found))
    return found


def _lzw_decoded(data: bytes, budget: Budget) -> bytes:
    decoder, found, size, limit = LZWDecoder(io.BytesIO(data)), list[bytes](), 0, budget.max_unpacked()
    for part in decoder.run():
        budget.spend(10 + len(decoder.table) / 1_000)
        found.append(part)
        size += len(part)
        if size > limit:
            budget.unpack(size)
    return b"".join(found)


def _runs_decoded(data: bytes, budget: Budget) -> bytes:
    """RunLengthDecode: a byte below 128 is the length of what is copied, less one, one above that of a run."""
    found, at, size, limit = list[bytes](), 0, 0, budget.max_unpacked()
    while at < len(data) and (length := data[at]) != 128:
        part = data[at + 1 : at + 2 + length] if length < 128 else data[at + 1 : at + 2] * (257 - length)
        found.append(part)
        at += 2 + length if length < 128 else 2
        size += len(part)
        if size > limit:
            budget.unpack(size)
    return b"".join(found)


def _ascii85_decoded(data: bytes) -> bytes:
    """ASCII85Decode, with or without its marks: the library looks for those with a pattern that is quadratic."""
    data = data.strip()
    head = data.removeprefix(b"<").lstrip()
    data = head.removeprefix(b"~").lstrip() if head.startswith(b"~") else data
    tail = data.removesuffix(b">").rstrip()
    return a85decode(tail.removesuffix(b"~") if tail.endswith(b"~") else data)


class _Parser(_Tokens, PDFParser):
    def __init__(self, content: bytes, budget: Budget) -> None:
        self.budget = budget
        super().__init__(io.BytesIO(content))

    def push(self, *objs: Any) -> None:
        place, one = objs[0] if len(objs) == 1 else (0, None)
        super().push(*([(place, _Stream(one, self.budget))] if isinstance(one, PDFStream) else objs))


class _StreamParser(_Tokens, PDFStreamParser):
    def __init__(self, data: bytes, budget: Budget) -> None:
        self.budget = budget
        super().__init__(data)


class _CMapParser(_Tokens, CMapParser):
    def __init__(self, found: FileUnicodeMap, data: bytes, budget: Budget) -> None:
        self.budget = budget
        super().__init__(found, io.BytesIO(data))

    def do_keyword(self, pos: int, token: Any) -> None:
        if token is self.KEYWORD_USECMAP:
            self.pop(1)  # another table, which the library would load, and not use
        else:
            super().do_keyword(pos, token)


class ContentParser(_Tokens, PDFContentParser):
    """The parser of what a page draws. Raises PSEOF if there are no streams."""

    def __init__(self, streams: Sequence[PDFStream], budget: Budget) -> None:
        self.budget = budget
        super().__init__(streams)

    def get_inline_data(self, pos: int, target: bytes = b"EI") -> tuple[int, bytes]:
        """The data of a picture, which nothing uses: skipped up to `target` and white space."""
        self.seek(pos)
        matched = 0
        while matched <= len(target):
            self.fillbuf()
            if not matched:
                place = self.buf.find(target[0], self.charpos)
                self.charpos = len(self.buf) if place < 0 else place + 1
                matched = int(place >= 0)
                continue
            self.budget.spend(1)
            one = self.buf[self.charpos : self.charpos + 1]
            self.charpos += 1
            is_next = one == target[matched : matched + 1] if matched < len(target) else one.isspace()
            matched = matched + 1 if is_next else 0
        return pos, b""


class Document(PDFDocument):
    """A PDF whose objects count. Raises UnreadableDocument, and what the library raises for a damaged file."""

    def __init__(self, content: bytes, budget: Budget) -> None:
        self.budget = budget
        self._tables_read = set[int]()
        super().__init__(_Parser(content, budget))
        for table in self.xrefs:
            if isinstance(table, PDFXRefStream):  # which names its objects by their number alone
                table.ranges = list(_within(table.ranges, len(table.data or b"") // max(1, table.entlen or 1)))
        self.catalog.pop("PageLabels", None)  # a tree whose branches may meet again; nothing uses it

    def getobj(self, objid: int) -> object:
        self.budget.spend(5)
        return super().getobj(objid)

    def read_xref_from(self, parser: PDFParser, start: int, xrefs: list[Any]) -> None:
        self.budget.spend(1_000)
        if start not in self._tables_read:
            self._tables_read.add(start)
            super().read_xref_from(parser, start, xrefs)

    def _get_objects(self, stream: PDFStream) -> tuple[list[object], int]:
        parser = _StreamParser(stream.get_data(), self.budget)
        parser.set_document(self)
        found: list[object] = []
        try:
            while True:
                found.append(parser.nextobject()[1])
        except PSEOF:
            return found, int_value(stream.get("N", 0))


def _within(ranges: Sequence[tuple[int, int]], count: int) -> Iterator[tuple[int, int]]:
    """The ranges, each a first number and a length, as far as their lengths are at most `count` in all."""
    for first, length in ranges:
        yield first, max(0, min(length, count))
        count -= max(0, min(length, count))


def _range_lengths(widths: Sequence[object], count: int) -> Iterator[int]:
    """The lengths of ranges in a list of widths, of which a range takes `count` numbers, and an array ends one."""
    numbers = list[int]()
    for one in map(resolve1, widths):
        numbers = [] if isinstance(one, list) else [*numbers, one if isinstance(one, int) else 0]
        if len(numbers) == count:
            yield max(0, numbers[1] - numbers[0])
            numbers = []


class _Letters(dict[int, str]):
    """What letters stand for, by their codes: each counts."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self._budget = budget

    def __setitem__(self, code: int, text: Any) -> None:
        self._budget.spend(5)
        _check_letter(text)
        super().__setitem__(code, text)


def _check_letter(text: object) -> None:
    if isinstance(text, str) and len(text) > _LETTER_CHARS:
        raise UnreadableDocument(f"A letter of the PDF stands for over {_LETTER_CHARS} characters.")


class _TrueTypeFont(TrueTypeFont):
    """A font whose tables count what they name."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        super().__init__("", io.BytesIO(data))
        self._budget = budget

    def parse_cmap_format_2(self, fp: Any, char2gid: dict[int, int]) -> None:
        super().parse_cmap_format_2(fp, _Counting(char2gid, self._budget))

    def parse_cmap_format_4(self, fp: Any, char2gid: dict[int, int]) -> None:
        super().parse_cmap_format_4(fp, _Counting(char2gid, self._budget))

    def parse_cmap_format_12(self, fp: Any, char2gid: dict[int, int]) -> None:
        super().parse_cmap_format_12(fp, _Counting(char2gid, self._budget))


class _Counting(dict[int, int]):
    def __init__(self, found: dict[int, int], budget: Budget) -> None:
        super().__init__()
        self._found, self._budget = found, budget

    def __setitem__(self, key: int, value: int) -> None:
        self._budget.spend(2)
        self._found[key] = value


class Resources(PDFResourceManager):
    """The fonts of a document, each within the budget."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self._budget = budget
        self._tables = set[str]()

    def get_font(self, objid: object, spec: Mapping[str, Any]) -> PDFFont:
        """Raises UnreadableDocument, and what the library raises for a damaged font."""
        if objid and objid in self._cached_fonts:
            return self._cached_fonts[objid]
        self._budget.spend(200)
        given = dict(spec)
        if literal_name(given.get("Subtype")) == "Type0":  # whose own font comes back here
            return super().get_font(objid, given)
        letters = resolve1(given.get("ToUnicode"))
        if isinstance(letters, PDFStream):
            given["ToUnicode"] = PDFStream({}, b"")
        descriptor = dict(dict_value(given.get("FontDescriptor", {})))
        file = resolve1(descriptor.pop("FontFile2", None))
        if "FontDescriptor" in given:
            given["FontDescriptor"] = descriptor
        if isinstance(header := resolve1(descriptor.get("FontFile")), PDFStream) and "Encoding" not in given:
            self._budget.spend(len(header.get_data()))
        self._budget.spend(sum(_range_lengths(list_value(given.get("W", [])), 3)))
        self._budget.spend(sum(_range_lengths(list_value(given.get("W2", [])), 5)))
        self._count_tables(given)
        font = super().get_font(objid, given)
        if isinstance(letters, PDFStream) and isinstance(font, (PDFSimpleFont, PDFCIDFont)):
            font.unicode_map = self._letters(letters.get_data())
        elif isinstance(file, PDFStream) and "ToUnicode" not in given and isinstance(font, PDFCIDFont):
            named_by_font = font.cidcoding in ("Adobe-Identity", "Adobe-UCS")
            font.unicode_map = self._letters_of_font(file.get_data()) if named_by_font else font.unicode_map
        for text in getattr(font, "cid2unicode", {}).values():
            _check_letter(text)
        return font

    def _count_tables(self, spec: Mapping[str, Any]) -> None:
        """Counts the library's tables that a font needs to find its letters: each is a file."""
        encoding = resolve1(spec.get("Encoding"))
        named = encoding.get("CMapName") if isinstance(encoding, PDFStream) else encoding
        ordering = resolve1(dict_value(spec.get("CIDSystemInfo", {})).get("Ordering"))
        for name in (named, ordering) if "CIDSystemInfo" in spec else ():
            if "Identity" not in str(name) and str(name) not in self._tables:
                self._tables.add(str(name))
                self._budget.spend(40_000)
        if len(CMapDB._cmap_cache) > _KEPT_TABLES:
            CMapDB._cmap_cache.clear()

    def _letters(self, data: bytes) -> FileUnicodeMap:
        found = FileUnicodeMap()
        found.cid2unichr = _Letters(self._budget)
        _CMapParser(found, data, self._budget).run()
        return found

    def _letters_of_font(self, data: bytes) -> FileUnicodeMap | None:
        try:
            found: FileUnicodeMap = _TrueTypeFont(data, self._budget).create_unicode_map()
        except TrueTypeFont.CMapNotFound:
            return None
        return found
