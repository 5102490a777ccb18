"""Reads the text of a PDF, as a program of its own: bytes on standard input, JSON on standard output.

    python -m app.formats.pdf_text < report.pdf

A damaged or hostile file may keep a parser busy for ever or fill the memory, so that it has a process, which sets its
own limits. Prints a list of blocks, each [page, size of its letters, text], in reading order as pdfminer.six finds it
by the positions of the letters; or {"fault": ...}, a line.
"""

from __future__ import annotations

import io
import json
import logging
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

MAX_SECONDS = 60
MAX_BYTES = 1 << 30
"""Of memory: a page of a hundred thousand letters takes 400 MB."""
MAX_PAGES = 2_000


class Unreadable(Exception):
    """Why the text cannot be read, in one line."""


def blocks(content: bytes) -> Iterator[tuple[int, float, str]]:
    """The page, from 1, the size of the letters in points, and the text of each block. Raises Unreadable, and whatever
    the library raises for a damaged file."""
    from pdfminer.converter import PDFPageAggregator
    from pdfminer.layout import LAParams, LTTextBox, LTTextLine
    from pdfminer.pdfdocument import PDFDocument, PDFPasswordIncorrect, PDFTextExtractionNotAllowed
    from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
    from pdfminer.pdfpage import PDFPage
    from pdfminer.pdfparser import PDFParser

    try:
        document = PDFDocument(PDFParser(io.BytesIO(content)))
    except PDFPasswordIncorrect:
        raise Unreadable("The PDF is encrypted, and its password is not empty: save it without one.") from None
    resources = PDFResourceManager()
    device = PDFPageAggregator(resources, laparams=LAParams())
    interpreter = PDFPageInterpreter(resources, device)
    has_text, pages = False, 0
    try:
        for page in PDFPage.create_pages(document):
            pages += 1
            if pages > MAX_PAGES:
                raise Unreadable(f"The PDF has over {MAX_PAGES:,} pages. Split it.")
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
    except PDFTextExtractionNotAllowed:
        raise Unreadable("The PDF forbids to take its text out.") from None
    if not pages:
        raise Unreadable("The file is not a PDF, or has no pages.")
    if not has_text:
        raise Unreadable(
            "The PDF has no text: it is a scan, or its letters are drawings. Recognise its text first (OCR)."
        )


def _font(line: Any) -> tuple[float, str]:
    """Size in points and name of most letters of an LTTextLine; (0, "") if it has none."""
    fonts = Counter((round(char.size, 1), char.fontname) for char in line if hasattr(char, "fontname"))
    return max(fonts, key=fonts.__getitem__, default=(0.0, ""))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    logging.disable()
    result: object
    try:
        result = list(blocks(sys.stdin.buffer.read()))
    except Unreadable as fault:
        result = {"fault": str(fault)}
    except MemoryError:
        result = {"fault": "The PDF takes too much memory to read."}
    except Exception as error:  # whatever a damaged file brings about in the library
        result = {"fault": f"The file is not a PDF that can be read: {type(error).__name__}."}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
