"""Reads the text of a PDF with pdfminer.six, in reading order, as the positions of the letters show it.

A damaged or hostile file may keep the library busy for ever, or fill the memory. In the service,
app/documents/worker.py limits both, in proportion to the file's size; on the command line nothing does.
"""

from __future__ import annotations

import io
import logging
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from pdfminer.cmapdb import CMapDB
from pdfminer.converter import PDFPageAggregator
from pdfminer.layout import LTTextBox, LTTextLine
from pdfminer.pdfdocument import PDFDocument, PDFPasswordIncorrect
from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
from pdfminer.pdfpage import PDFPage
from pdfminer.pdfparser import PDFParser
from pdfminer.psparser import PSLiteralTable

from app.formats.document import UnreadableDocument
from app.formats.pdf_layout import Page, Params

MAX_PAGES = 2_000
_KEPT_TABLES = 8
"""Of letters, which the library would keep for ever."""
_NAMES = dict(PSLiteralTable.dict)
"""Names that the library itself uses. It would keep those of every file, too."""

logging.getLogger("pdfminer").setLevel(logging.CRITICAL)


def blocks(content: bytes) -> list[tuple[int, float, str]]:
    """The page, from 1, the size of the letters in points, and the text of each block. Raises UnreadableDocument."""
    try:
        return list(_blocks(content))
    except (UnreadableDocument, MemoryError):
        raise
    except PDFPasswordIncorrect:
        raise UnreadableDocument("The PDF is encrypted, and its password is not empty: save it without one.") from None
    except Exception as error:  # whatever a damaged file brings about in the library
        raise UnreadableDocument(f"The file is not a PDF that can be read: {type(error).__name__}.") from None
    finally:
        PSLiteralTable.dict = dict(_NAMES)
        if len(CMapDB._cmap_cache) > _KEPT_TABLES:
            CMapDB._cmap_cache.clear()


def _blocks(content: bytes) -> Iterator[tuple[int, float, str]]:
    document = PDFDocument(PDFParser(io.BytesIO(content)))
    document.catalog.pop("PageLabels", None)  # a tree whose branches may meet again; nothing uses it
    resources = PDFResourceManager()
    device = _Device(resources, laparams=Params(len(content)))
    interpreter = _Interpreter(resources, device)
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

    def begin_page(self, page: PDFPage, ctm: Any) -> None:
        super().begin_page(page, ctm)
        self.cur_item = Page(self.pageno, self.cur_item.bbox)

    def _leave_out(self, *_: object, **__: object) -> None:
        """Leaves out lines, areas and pictures."""

    paint_path = begin_figure = render_image = end_figure = _leave_out


class _Interpreter(PDFPageInterpreter):
    """Draws pages. Forms are pictures, whose text was never read."""

    def do_Do(self, xobjid_arg: Any) -> None:
        """Leaves out pictures and forms."""
