"""Documents of every format for `benchmarks.golden_requests`: those of the formats' tests, and of the shared cases."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.golden_large_model import SUPPORT
from benchmarks.golden_texts import ROOT, Draw

SHARED = ROOT.parent / "shared" / "cases"
CONSTANTS: Sequence[tuple[str, str, str]] = (
    ("test_formats", "HTML", "a.html"),
    ("test_formats", "SRT", "a.srt"),
    ("test_formats", "VTT", "a.vtt"),
    ("test_formats", "PO", "a.po"),
    ("test_formats", "POT", "a.pot"),
    ("test_formats", "FUZZY", "a.po"),
    ("test_formats", "JSON", "a.json"),
    ("test_apps", "PROPERTIES", "a.properties"),
    ("test_apps", "STRINGS", "a.strings"),
    ("test_apps", "STRINGSDICT", "a.stringsdict"),
    ("test_apps", "XCSTRINGS", "a.xcstrings"),
    ("test_localisation", "TS", "a.ts"),
    ("test_localisation", "TMX", "a.tmx"),
    ("test_localisation", "FLUENT", "a.ftl"),
    ("test_localisation", "CSV", "a.csv"),
    ("test_localisation", "ASS", "a.ass"),
    ("test_markdown", "MARKDOWN", "a.md"),
    ("test_markdown", "EXTENSIONS", "a.md"),
    ("test_markdown", "EXTENSIONS", "a.mdx"),
    ("test_resources", "ANDROID", "strings.xml"),
    ("test_resources", "CDATA", "strings.xml"),
    ("test_resources", "RESX", "a.resx"),
    ("test_resources", "RESX", "a.resw"),
    ("test_resources", "ARB", "a.arb"),
    ("test_rst", "RST", "a.rst"),
    ("test_values", "YAML", "a.yaml"),
    ("test_values", "YAML", "a.yml"),
    ("test_values", "TOML", "a.toml"),
    ("test_xliff", "ONE", "a.xliff"),
    ("test_xliff", "TWO", "a.xlf"),
    ("test_xliff", "PLAIN", "a.xliff"),
    ("test_pptx", "CONTENT", "a.pptx"),
    ("test_epub", "CONTENT", "a.epub"),
)
"""Modules of the formats' tests, constants there, and names that tell the format."""
FUNCTIONS: Sequence[tuple[str, str, str]] = (
    ("test_xlsx", "by_xlsxwriter", "a.xlsx"),
    ("test_xlsx", "by_openpyxl", "a.xlsx"),
    ("test_odf", "text_document", "a.odt"),
    ("test_odf", "spreadsheet", "a.ods"),
    ("test_odf", "slides", "a.odp"),
)
SEEDS = 10
"""Documents of each kind that `test_ten_of_a_kind` makes."""


def documents(draw: Draw) -> Sequence[tuple[str, bytes]]:
    """Names and contents."""
    sys.path.append(str(SUPPORT))
    found = [*_of_tests(), *_with_sentences(draw), *_shared()]
    draw.shuffle(found)
    return found


def _module(name: str) -> Any:
    return importlib.import_module(f"tests.app.formats.{name}")


def _of_tests() -> Iterator[tuple[str, bytes]]:
    for module, constant, name in CONSTANTS:
        content = getattr(_module(module), constant)
        yield name, content if isinstance(content, bytes) else content.encode()
    for module, function, name in FUNCTIONS:
        yield name, getattr(_module(module), function)()
    made = _module("test_ten_of_a_kind")
    for name, (make, _) in made.KINDS.items():
        for seed in range(SEEDS):
            yield name, make(made.Draw(seed))[0]
    word = _module("test_docx")
    yield "a.docx", word.word(word.RICH)
    markdown = _module("test_markdown")
    for text, *_ in (each if isinstance(each, tuple) else (each,) for each in markdown.EXTENDED):
        yield "a.md", str(text).encode()


def _with_sentences(draw: Draw) -> Iterator[tuple[str, bytes]]:
    """Documents of real sentences, in the formats that are easily made."""
    word = _module("test_docx")
    pdf = _module("test_pdf")
    paragraph = importlib.import_module("reportlab.platypus").Paragraph

    def text() -> str:
        return draw.sentences("en", 1, 3).replace("&", "and").replace("<", "(").replace(">", ")")

    def docx() -> bytes:
        bold = "<w:b/>"
        runs = (
            (word.run(text() + " "), word.run(draw.label("en").replace("&", "+").replace("<", "("), bold))
            for _ in "123"
        )
        return bytes(word.word("".join(f"<w:p>{one}{other}</w:p>" for one, other in runs)))

    makers: dict[str, Callable[[], bytes]] = {
        "a.docx": docx,
        "a.pdf": lambda: pdf.made([paragraph(text(), pdf.STYLES["BodyText"]) for _ in "123"]),
        "a.txt": lambda: f"{text()}\n\n{draw.label('en')}\n\n  {text()}\n".encode(),
        "a.md": lambda: f"# {draw.label('en')}\n\n{text()} **{draw.label('en')}** `code`\n\n- {text()}\n".encode(),
        "a.html": lambda: f"<html><title>{draw.label('en')}</title><p>{text()}<p>{text()}</html>".encode(),
        "a.srt": lambda: (
            f"1\n00:00:01,000 --> 00:00:03,000\n{text()}\n\n2\n00:00:04,000 --> 00:00:05,000\n- {text()}\n".encode()
        ),
        "a.json": lambda: json.dumps({"title": text(), "menu": {"items": ["Save", draw.label("en")]}, "n": 1}).encode(),
        "a.csv": lambda: f'id,text,en,fr\n1,"{text().replace(chr(34), "")}",Open,\n2,Hello.,Close,Fermer\n'.encode(),
    }
    for name, make in makers.items():
        for _ in range(SEEDS):
            yield name, make()


def _shared() -> Iterator[tuple[str, bytes]]:
    for path in sorted(SHARED.rglob("*")) if SHARED.is_dir() else ():
        if path.suffix in {".md", ".xml", ".xlf", ".txt", ".xliff", ".xcstrings", ".pdf", ".html"}:
            yield Path(path).name, path.read_bytes()
