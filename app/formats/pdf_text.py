"""Reads the text of a PDF with pdfminer.six, in reading order, as the positions of the letters show it.

A damaged or hostile file may keep the library busy for ever; app/formats/pdf_budget.py counts its work.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from pdfminer.converter import PDFPageAggregator
from pdfminer.layout import LAParams, LTTextBox, LTTextLine
from pdfminer.pdfdocument import PDFPasswordIncorrect
from pdfminer.pdfinterp import PDFPageInterpreter
from pdfminer.pdfpage import PDFPage
from pdfminer.pdftypes import dict_value, resolve1, stream_value
from pdfminer.psexceptions import PSEOF
from pdfminer.psparser import PSKeyword, PSLiteralTable, keyword_name

from app.formats.document import UnreadableDocument
from app.formats.pdf_budget import Budget, ContentParser, Document, Resources
from app.formats.pdf_layout import Page

MAX_PAGES = 2_000
_STRING_UNITS, _LETTER_UNITS = 15, 20
_METHODS = str.maketrans({"*": "_a", '"': "_w", "'": "_q"})
_NAMES = dict(PSLiteralTable.dict)
"""Names that the library itself uses. It would keep those of every file, too."""

logging.getLogger("pdfminer").setLevel(logging.CRITICAL)


def blocks(content: bytes, budget: Budget | None = None) -> Iterator[tuple[int, float, str]]:
    """The page, from 1, the size of the letters in points, and the text of each block. Raises UnreadableDocument."""
    try:
        yield from _blocks(content, budget or Budget(len(content)))
    except (UnreadableDocument, MemoryError):
        raise
    except PDFPasswordIncorrect:
        raise UnreadableDocument("The PDF is encrypted, and its password is not empty: save it without one.") from None
    except Exception as error:  # whatever a damaged file brings about in the library
        raise UnreadableDocument(f"The file is not a PDF that can be read: {type(error).__name__}.") from None
    finally:
        PSLiteralTable.dict = dict(_NAMES)


def _blocks(content: bytes, budget: Budget) -> Iterator[tuple[int, float, str]]:
    document = Document(content, budget)
    resources = Resources(budget)
    device = _Device(resources, budget)
    interpreter = _Interpreter(resources, device, budget)
    has_text, pages = False, 0
    for page in PDFPage.create_pages(document):
        pages += 1
        if pages > MAX_PAGES:
            raise UnreadableDocument(f"The PDF has over {MAX_PAGES:,} pages. Split it.")
        interpreter.process_page(page)
        for box in device.get_result():
            if not isinstance(box, LTTextBox):
                continue
            lines = [line for line in box if isinstance(line, LTTextLine)]
            # A heading is often close to its text: a change of the font is a new block.
            for (size, _), same in groupby(lines, _font):
                text = "".join(line.get_text() for line in same)
                if size and text.strip():
                    has_text = True
                    yield pages, size, text
    if not pages:
        raise UnreadableDocument("The file is not a PDF, or has no pages.")
    if not has_text:
        raise UnreadableDocument(
            "The PDF has no text: it is a scan, or its letters are drawings. Recognise its text first (OCR)."
        )


def _font(line: Any) -> tuple[float, str]:
    """Size in points and name of most letters of an LTTextLine; (0, "") if it has none."""
    fonts = Counter((round(char.size, 1), char.fontname) for char in line if hasattr(char, "fontname"))
    return max(fonts, key=fonts.__getitem__, default=(0.0, ""))


class _Device(PDFPageAggregator):
    """Collects the letters of a page, and nothing else of it."""

    def __init__(self, resources: Resources, budget: Budget) -> None:
        super().__init__(resources, laparams=LAParams())
        self._budget = budget

    def begin_page(self, page: PDFPage, ctm: Any) -> None:
        super().begin_page(page, ctm)
        self.cur_item = Page(self.pageno, self.cur_item.bbox, self._budget)

    def render_string(self, textstate: Any, seq: Any, ncs: Any, graphicstate: Any) -> None:
        count = sum(len(one) for one in seq if isinstance(one, bytes))
        self._budget.spend(
            _STRING_UNITS + 2 * len(seq) + _LETTER_UNITS * count / (2 if textstate.font.is_multibyte() else 1)
        )
        super().render_string(textstate, seq, ncs, graphicstate)

    def paint_path(self, *_: object) -> None:
        """Leaves out lines and areas."""

    def begin_figure(self, *_: object) -> None:
        """Leaves out pictures."""

    def render_image(self, *_: object) -> None:
        """Leaves out pictures."""

    def end_figure(self, *_: object) -> None:
        """Leaves out pictures."""


class _Interpreter(PDFPageInterpreter):
    """Draws pages, within the budget. Forms are pictures, whose text was never read."""

    def __init__(self, resources: Resources, device: _Device, budget: Budget) -> None:
        super().__init__(resources, device)
        self._budget = budget

    def init_resources(self, resources: dict[object, object]) -> None:
        kinds: Mapping[object, Any] = dict_value(resources)
        self._budget.spend(sum(len(kind) for kind in map(resolve1, kinds.values()) if isinstance(kind, (dict, list))))
        super().init_resources(resources)

    def pop(self, n: int) -> list[Any]:
        """The last operands. The library copies those before them, which may be as many as the page has."""
        if n <= 0:
            return super().pop(n)
        popped = self.argstack[-n:]
        del self.argstack[-n:]
        return popped

    def do_q(self) -> None:
        self._budget.spend(5)
        super().do_q()

    def do_Do(self, xobjid_arg: Any) -> None:
        """Leaves out pictures and forms."""

    def execute(self, streams: Sequence[object]) -> None:
        found = [stream for stream in map(stream_value, streams) if stream.objid is not None]
        try:
            parser = ContentParser(found, self._budget)
        except PSEOF:
            return
        while True:
            try:
                _, token = parser.nextobject()
            except PSEOF:
                return
            if not isinstance(token, PSKeyword):
                self.push(token)
                continue
            operator = getattr(self, f"do_{str(keyword_name(token)).translate(_METHODS)}", None)
            if operator is None:
                continue
            count = operator.__code__.co_argcount - 1
            operands = self.pop(count)
            if len(operands) == count:
                operator(*operands)
