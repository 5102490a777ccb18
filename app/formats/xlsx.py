"""Excel workbooks: the texts of cells and of shapes; alternative texts of pictures; the workbook's title, subject and
description; the names of sheets, if asked for.

Formulas, their results, numbers, comments, charts, headers and footers stay as they are. ECMA-376, part 1, chapter 18.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence

from lxml import etree

from app.formats.document import Content, bounded_list
from app.formats.drawing_text import drawing_paragraphs
from app.formats.package import Package
from app.formats.parts import CORE_PROPERTIES, Item, Part, Parts, core_properties, office_types, picture_descriptions
from app.formats.run_formats import FormatRules, check_copied
from app.formats.runs import Run, RunParagraph
from app.formats.xlsx_names import ESCAPE, SheetNames, TableColumns
from app.formats.xml_parts import Element, local_name, text_of

_MAIN = "spreadsheetml.sheet.main+xml"
_DRAWING = "officedocument.drawing+xml"
_INLINE = re.compile(rb"inlineStr")
_RULES = FormatRules(
    ignored=frozenset({"charset", "family", "scheme"}),
    on_space=frozenset({"u", "strike"}),
)
_PHONETIC = {"rPh", "phoneticPr"}
"""How Japanese is read, which does not apply to a translation."""
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def read(content: bytes, sheet_names: bool = False) -> Content:
    """`sheet_names`: whether to translate the names of sheets that no formula uses. Raises UnreadableDocument."""
    package = Package(content, ".xlsx")
    types = office_types(package, _MAIN, "an Excel workbook")
    package.check()
    columns = TableColumns(package, types)

    def strings(root: Element) -> list[Item]:
        found = bounded_list(e for e in _string_elements(root) if any(map(str.isalpha, text_of(e))))
        listed = [
            each for each in map(CellString, found) if each.passage.text and text_of(each.element) not in columns.used
        ]
        check_copied(each.copied_chars for each in listed)
        return list(listed)

    main = next(name for name, kind in types.items() if kind.endswith(_MAIN))
    names = SheetNames(package, main) if sheet_names else None
    related = package.relationships(main, {"sharedStrings", "worksheet"})
    shared = dict.fromkeys(each.target for each in related if each.kind == "sharedStrings")
    sheets = dict.fromkeys(each.target for each in related if each.kind == "worksheet")
    parts = [Part(main, names.items, label="name of a sheet", counted="sheet")] if names else []
    parts += [Part(name, strings, counted="string") for name in shared]
    parts += [Part(name, strings, label=name, counted="text") for name in sheets if package.holds(name, _INLINE)]
    parts += [Part(name, _shapes, label=name) for name, kind in types.items() if kind.endswith(_DRAWING)]
    parts += [Part(name, core_properties, label=name) for name, kind in types.items() if kind.endswith(CORE_PROPERTIES)]
    texts = Parts(package, parts)
    of_cells = [number for number, owner in enumerate(texts.owners) if owner in {**shared, **sheets}]

    def write(translations: Sequence[str]) -> bytes:
        adapted = list(translations)
        tables = columns.rename(texts.passages, adapted, of_cells)
        if names:
            names.adapt(texts.passages, adapted, [n for n, owner in enumerate(texts.owners) if owner == main])
        changed = texts.filled(adapted)
        return package.with_parts({**changed, **tables})

    return Content(texts.passages, write, texts.locations)


def _string_elements(root: Element) -> Iterator[Element]:
    """The shared strings, or the strings in a sheet's cells; not the results of formulas."""
    if local_name(root) == "sst":
        yield from root.iter("{*}si")
        return
    for cell in root.iter("{*}c"):
        if cell.get("t") == "inlineStr" and not any(local_name(e) == "f" for e in cell):
            yield from (e for e in cell if local_name(e) == "is")


def _shapes(root: Element) -> list[Item]:
    """The texts of shapes, except those that show a cell, and descriptions."""
    linked = set[Element]()
    for shape in root.iter("{*}sp"):
        if shape.get("textlink") and shape not in linked:
            linked.update(shape.iter("{*}sp", "{*}p"))
    found = (paragraph for paragraph in drawing_paragraphs(root) if paragraph.element not in linked)
    return [*found, *picture_descriptions(root, "cNvPr")]


class CellString(RunParagraph):
    """An element with a cell's text: si or is."""

    def __init__(self, element: Element) -> None:
        super().__init__(element, list(_runs(element)), _RULES)

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's."""
        for child in list(self.element):
            if local_name(child) in {"t", "r", *_PHONETIC}:
                self.element.remove(child)
        runs: list[tuple[Element | None, list[str]]] = []
        for run in self.runs_of(translation):
            if not runs or runs[-1][0] is not run.properties:
                runs.append((run.properties, []))
            runs[-1][1].append(run.element if isinstance(run.element, str) else run.text or "")
        self.element[:0] = [
            self._written(properties, "".join(texts), alone=len(runs) == 1) for properties, texts in runs
        ]

    def _written(self, properties: Element | None, text: str, alone: bool) -> Element:
        namespace = etree.QName(self.element).namespace
        shown = self.element.makeelement(f"{{{namespace}}}t")
        shown.text = text
        if text != text.strip():
            shown.set(_SPACE, "preserve")
        if properties is None and alone:
            return shown
        run = self.element.makeelement(f"{{{namespace}}}r")
        if properties is not None:
            run.append(copy.deepcopy(properties))
        run.append(shown)
        return run


def _runs(string: Element) -> Iterator[Run]:
    """The runs of a string; characters that it escapes are marks."""
    for child in string:
        name = local_name(child)
        properties = next((e for e in child if local_name(e) == "rPr"), None) if name == "r" else None
        shown = [child] if name == "t" else [e for e in child if local_name(e) == "t"] if name == "r" else []
        for number, part in enumerate(ESCAPE.split("".join(e.text or "" for e in shown))):
            if number % 2:
                yield Run(element=part)
            elif part:
                yield Run(part, properties)
