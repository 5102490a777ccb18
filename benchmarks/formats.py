"""Measures what it costs to read a document and to write it with other texts, for each format.

    python -m benchmarks.formats [--megabytes 0.5] [--rounds 3] [.docx .epub ...]
    python -m benchmarks.formats --process --megabytes 0.02 --rounds 200 .docx

Prints, per megabyte of text, seconds of processor time and megabytes of memory, each document in a process of its own.
Its paragraphs have a hundred characters, and a word in bold where the format has any. Nothing is translated: texts come
back in capitals. With --process, prints the wall time of reading and writing within this process and through a process
for documents, as the service does it, in turns, and what the latter adds.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import multiprocessing
import random
import resource
import statistics
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter, process_time
from xml.sax.saxutils import escape

from app import formats
from app.documents.messages import File, Read, Texts, Write
from app.documents.processes import DocumentProcesses
from app.documents.worker import OpenDocument
from app.formats import MEDIA_TYPES
from app.markup.passage import Passage
from app.markup.render import render_source
from benchmarks.cores import processor

SUFFIXES = ".txt .md .rst .html .srt .po .json .xliff .docx .pptx .xlsx .odt .ods .odp .epub"
_OFFICE = "http://schemas.openxmlformats.org"
_OPC = f"{_OFFICE}/package/2006"
_RELATED = f"{_OFFICE}/officeDocument/2006/relationships"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_PER_PART = 500
"""Paragraphs on a slide, and in a chapter."""


_TAGGED = {
    ".html": "<p>%s<b>%s</b>%s</p>\n",
    ".xliff": '<unit><segment><source>%s<pc id="1">%s</pc>%s</source></segment></unit>\n',
    ".docx": '<w:p><w:r><w:t xml:space="preserve">%s</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>%s</w:t></w:r>'
    '<w:r><w:t xml:space="preserve">%s</w:t></w:r></w:p>',
    ".pptx": '<a:p><a:r><a:t>%s</a:t></a:r><a:r><a:rPr b="1"/><a:t>%s</a:t></a:r><a:r><a:t>%s</a:t></a:r></a:p>',
    ".xlsx": '<si><r><t xml:space="preserve">%s</t></r><r><rPr><b/></rPr><t>%s</t></r>'
    '<r><t xml:space="preserve">%s</t></r></si>',
    ".odt": '<text:p>%s<text:span text:style-name="B">%s</text:span>%s</text:p>',
    ".ods": '<table:table-row><table:table-cell office:value-type="string"><text:p>%s<text:span text:style-name="B">%s'
    "</text:span>%s</text:p></table:table-cell></table:table-row>",
}
"""By suffix, a paragraph with its middle in bold."""
Text = tuple[str, str, str]
"""A paragraph: before, in and after its bold part."""


def paragraphs(megabytes: float) -> list[Text]:
    """Random words of about that many bytes."""
    draw = random.Random(1)
    words = ["".join(draw.choices("aeioulmnrst", k=draw.randint(2, 9))) for _ in range(5_000)]
    found, size = list[Text](), 0
    while size < megabytes * 1e6:
        one = (" ".join(draw.choices(words, k=8)) + " ", draw.choice(words), " " + " ".join(draw.choices(words, k=7)))
        found.append(one)
        size += sum(map(len, one))
    return found


def document(suffix: str, texts: list[Text]) -> bytes:
    """A document of that format with these paragraphs."""
    lines = ["".join(each) for each in texts]
    if suffix in _PACKAGES:
        return _packed(_PACKAGES[suffix](texts))
    if suffix in (".odt", ".ods", ".odp"):
        return _packed({"mimetype": MEDIA_TYPES[suffix], "content.xml": _odf(suffix, texts)})
    if suffix == ".html":
        return _html(texts).encode()
    if suffix == ".xliff":
        space = "urn:oasis:names:tc:xliff:document:2.0"
        return f'<xliff xmlns="{space}" version="2.0"><file>{_tagged(suffix, texts)}</file></xliff>'.encode()
    if suffix == ".srt":
        times = "00:00:01,000 --> 00:00:02,000"
        return "\n\n".join(f"{number}\n{times}\n{a}<i>{b}</i>{c}" for number, (a, b, c) in enumerate(texts, 1)).encode()
    if suffix in (".md", ".rst"):
        return "\n\n".join(f"{a}**{b}**{c}" for a, b, c in texts).encode()
    if suffix == ".po":
        return "\n\n".join(f'msgid "{line}"\nmsgstr ""' for line in lines).encode()
    return (json.dumps(lines, indent=1) if suffix == ".json" else "\n\n".join(lines)).encode()


def _tagged(suffix: str, texts: list[Text]) -> str:
    return "".join(_TAGGED[suffix] % each for each in texts)


def _html(texts: list[Text]) -> str:
    return f"<html><head><title>A</title></head><body>\n{_tagged('.html', texts)}\n</body></html>"


def _odf(suffix: str, texts: list[Text]) -> str:
    names = "".join(f' xmlns:{name}="{_ODF}:{name}:1.0"' for name in ("office", "text", "table"))
    body = _tagged(".ods" if suffix == ".ods" else ".odt", texts)
    return f"<office:document-content{names}><office:body>{body}</office:body></office:document-content>"


def _docx(texts: list[Text]) -> Mapping[str, str]:
    space = f"{_OFFICE}/wordprocessingml/2006/main"
    return {
        "[Content_Types].xml": _types({"word/document.xml": "wordprocessingml.document.main"}),
        "word/document.xml": f'<w:document xmlns:w="{space}"><w:body>{_tagged(".docx", texts)}</w:body></w:document>',
    }


def _pptx(texts: list[Text]) -> Mapping[str, str]:
    space = f'xmlns:p="{_OFFICE}/presentationml/2006/main" xmlns:a="{_OFFICE}/drawingml/2006/main"'
    slides = {
        f"ppt/slides/slide{at}.xml": f"<p:sld {space}>{_tagged('.pptx', texts[at : at + _PER_PART])}</p:sld>"
        for at in range(0, len(texts), _PER_PART)
    }
    listed = "".join(f'<p:sldId xmlns:r="{_RELATED}" r:id="r{number}"/>' for number in range(len(slides)))
    main = {"ppt/presentation.xml": "presentationml.presentation.main"}
    return {
        "[Content_Types].xml": _types(main | dict.fromkeys(slides, "presentationml.slide")),
        "ppt/presentation.xml": f"<p:presentation {space}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": _relations("slide", [f"/{name}" for name in slides]),
        **slides,
    }


def _xlsx(texts: list[Text]) -> Mapping[str, str]:
    cells = "".join(f'<row><c t="s"><v>{number}</v></c></row>' for number in range(len(texts)))
    space = f'xmlns="{_OFFICE}/spreadsheetml/2006/main"'
    return {
        "[Content_Types].xml": _types({"xl/workbook.xml": "spreadsheetml.sheet.main"}),
        "xl/workbook.xml": f'<workbook {space}><sheets><sheet name="A"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _relations("sharedStrings", ["sharedStrings.xml"]),
        "xl/sharedStrings.xml": f"<sst {space}>{_tagged('.xlsx', texts)}</sst>",
        "xl/worksheets/sheet1.xml": f"<worksheet {space}><sheetData>{cells}</sheetData></worksheet>",
    }


def _epub(texts: list[Text]) -> Mapping[str, str]:
    pages = {f"{at}.xhtml": _html(texts[at : at + _PER_PART]) for at in range(0, len(texts), _PER_PART)}
    items = "".join(f'<item id="i{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in pages)
    spine = "".join(f'<itemref idref="i{name}"/>' for name in pages)
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="a.opf"/></container>',
        "a.opf": f"<package><metadata/><manifest>{items}</manifest><spine>{spine}</spine></package>",
        **pages,
    }


def _types(parts: Mapping[str, str]) -> str:
    of_part = '<Override PartName="/{}" ContentType="application/vnd.openxmlformats-officedocument.{}+xml"/>'
    listed = "".join(of_part.format(name, kind) for name, kind in parts.items())
    return f'<Types xmlns="{_OPC}/content-types">{listed}</Types>'


def _relations(kind: str, targets: list[str]) -> str:
    listed = (f'<Relationship Id="r{n}" Type="{_RELATED}/{kind}" Target="{escape(t)}"/>' for n, t in enumerate(targets))
    return f'<Relationships xmlns="{_OPC}/relationships">{"".join(listed)}</Relationships>'


def _packed(parts: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return packed.getvalue()


_PACKAGES: Mapping[str, Callable[[list[Text]], Mapping[str, str]]] = {
    ".docx": _docx,
    ".pptx": _pptx,
    ".xlsx": _xlsx,
    ".epub": _epub,
}


def _loud(passage: Passage) -> str:
    return render_source(replace(passage, text=passage.text.upper()))


def measure(suffix: str, megabytes: float) -> tuple[float, float, float, float]:
    """Megabytes of the file, seconds to read it and to write it, and megabytes of memory that both took."""
    content = document(suffix, paragraphs(megabytes))
    formats.read(f"a{suffix}", document(suffix, paragraphs(0.001)), "fr")  # loads what it needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = process_time()
    read = formats.read(f"a{suffix}", content, "fr", max_chars=50_000)
    done = process_time()
    assert sum(passage.size for passage in read.passages) > 0.9e6 * megabytes
    translations = [_loud(passage) for passage in read.passages]
    writing = process_time()
    assert read.write(translations) != content
    ended = process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return len(content) / 1e6, done - began, ended - writing, peak * 1024 / 1e6


async def measure_process(suffix: str, megabytes: float, rounds: int) -> tuple[float, float, float]:
    """Medians, in milliseconds: reading and writing here, the same through a process, and their difference by round."""
    file = File(f"a{suffix}", document(suffix, paragraphs(megabytes)), "fr", "en", max_chars=50_000)
    processes = DocumentProcesses()
    here, there = list[float](), list[float]()
    for _ in range(rounds + 5):
        began = perf_counter()
        opened = OpenDocument(file)
        opened.write([unit.passage.text for unit in opened.units])
        here.append(perf_counter() - began)
        began = perf_counter()
        read = await processes.run(Read(file), "")
        assert isinstance(read, Texts)
        await processes.run(Write(file, [unit.text for unit in read.units]), "")
        there.append(perf_counter() - began)
    await processes.stop()
    here, there = here[5:], there[5:]  # after those that started the process
    added = [b - a for a, b in zip(here, there, strict=True)]
    return 1000 * statistics.median(here), 1000 * statistics.median(there), 1000 * statistics.median(added)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suffixes", nargs="*", default=SUFFIXES.split(), help="formats to measure")
    parser.add_argument("--megabytes", type=float, default=0.5, help="text of each document")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each, of which the median counts")
    parser.add_argument("--process", action="store_true", help="what a process for documents adds")
    options = parser.parse_args()
    print(processor())
    if options.process:
        print("| | ms within this process | through another | added |\n|---|--:|--:|--:|")
        for suffix in options.suffixes:
            times = asyncio.run(measure_process(suffix, options.megabytes, options.rounds))
            print(f"| {suffix} | {' | '.join(f'{each:.1f}' for each in times)} |", flush=True)
        return
    print("| | MB of the file | s to read | s to write | MB of memory |\n|---|--:|--:|--:|--:|")
    context = multiprocessing.get_context("spawn")
    for suffix in options.suffixes:
        found = []
        for _ in range(options.rounds):
            with context.Pool(1) as pool:
                found.append(pool.apply(measure, (suffix, options.megabytes)))
        size, *costs = (statistics.median(column) for column in zip(*found, strict=True))
        per_mb = [cost / options.megabytes for cost in costs]
        print(f"| {suffix} | {size:.2f} | {per_mb[0]:.2f} | {per_mb[1]:.2f} | {per_mb[2]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
