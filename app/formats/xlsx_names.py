"""Names in a workbook that texts of cells must equal, or that formulas use: columns of tables, and sheets.

Formulas are not translated, so a name that one uses stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import unescape

from app.formats.package import Package
from app.formats.parts import Item, Property, with_letters
from app.formats.xml_parts import Element, local_name, parse_xml, serialize, without_references
from app.markup.passage import Passage
from app.markup.render import render_source

ESCAPE = re.compile(r"(_x[0-9A-Fa-f]{4}_)")
"""A character that XML lacks, or would change (ECMA-376, part 1, chapter 22.9.2.19)."""
_TABLE = "spreadsheetml.table+xml"
_IN_BRACKETS = re.compile(rb"\[@?([^\[\]<>]{1,500}+)\]")
_SHEET_REFERENCE = re.compile(
    # A name in apostrophes, of which one within is doubled; a name without; and the source of a pivot table. None can
    # begin at every character, which would take time for each, and none is tried at other lengths than one.
    rb"(?<!')(?<!&apos;)(?<!&#39;)%(q)s(?:[^'&<>!]|%(q)s{2}|&(?!apos;|#39;)\w{1,20}+;){1,200}+%(q)s!"
    rb"|(?<!%(n)s)%(n)s{1,200}+!|sheet=(?:\"[^\"]{1,200}+\"|'[^']{1,200}+')"
    % {b"q": rb"(?:'|&apos;|&#39;)", b"n": rb"[^\s'\"()+*/^&=<>,;!{}-]"}
)
_BRACKET = re.compile(r"[\[\]]")
_ESCAPED = re.compile(r"'(.)", re.DOTALL)
"""A character with a meaning of its own in a formula."""
_MAX_COLUMN_CHARS = 255 - 8  # and a number
_MAX_ROUNDS = 5
_MAX_SHEET_CHARS = 31
_NOT_IN_SHEETS = re.compile(r"[\[\]:*?/\\\x00-\x1f]+")
_RESERVED = "history"
"""A sheet's name that Excel refuses."""


class TableColumns:
    """The columns of a workbook's tables: each has the text of its header cell as its name, unique in its table.

    `used`: names that a formula uses.
    """

    def __init__(self, package: Package, types: Mapping[str, str]) -> None:
        self._tables = {name: package.read(name) for name, kind in types.items() if kind.endswith(_TABLE)}
        names = {
            _shown(column.get("name") or "") for name in self._tables for column in self._columns(self._parsed(name))
        }
        self.used = {name for name in names if _BRACKET.search(name)}
        if names:
            for part, kind in types.items():
                if kind.endswith("+xml") and not kind.endswith("sharedStrings+xml"):
                    found = {match[1:-1].removeprefix(b"@") for match in package.matches(part, _IN_BRACKETS)}
                    self.used |= {used for each in found if (used := _column_in_formula(each)) in names}

    def rename(self, passages: Sequence[Passage], translations: list[str], of_cells: Sequence[int]) -> dict[str, bytes]:
        """The tables with the names that their columns get by the translations of cells, by part.

        `of_cells`: the numbers of the cells' passages. Translations that a column cannot have as its name are changed.
        """
        numbers: dict[str, list[int]] = {}
        for number in of_cells if self._tables else ():
            numbers.setdefault(passages[number].text, []).append(number)
        tables = {name: self._parsed(name) for name in self._tables}
        names = [[_shown(column.get("name") or "") for column in self._columns(root)] for root in tables.values()]
        for shown in {each for columns in names for each in columns if each in numbers}:
            _unify(passages, translations, numbers[shown])
        for _ in range(_MAX_ROUNDS):  # since a text may be a header of several tables
            separated = [_separate(columns, translations, numbers) for columns in names]
            if not any(separated):
                break
        new = {shown: without_references(translations[found[0]]) for shown, found in numbers.items()}
        return {name: serialize(root) for name, root in tables.items() if self._set_names(root, new)}

    def _set_names(self, root: Element, new: Mapping[str, str]) -> bool:
        """Sets the names of a table's columns, and returns whether any of them changed."""
        is_changed = False
        for column in self._columns(root):
            shown, label = _shown(column.get("name") or ""), column.get("totalsRowLabel")
            if new.get(shown, shown) != shown:
                column.set("name", new[shown].replace("\n", "_x000a_"))
                is_changed = True
            if label is not None and new.get(label, label) != label:
                column.set("totalsRowLabel", new[label])
                is_changed = True
        return is_changed

    def _parsed(self, name: str) -> Element:
        return parse_xml(self._tables[name], f"The part {name}")

    @staticmethod
    def _columns(root: Element) -> list[Element]:
        return list(root.iter("{*}tableColumn"))


def _unify(passages: Sequence[Passage], translations: list[str], numbers: Sequence[int]) -> None:
    """Gives passages with one text one translation that can be a column's name; its formatting may differ."""
    plain = without_references(translations[numbers[0]])
    is_possible = plain.strip() and len(plain) <= _MAX_COLUMN_CHARS
    for number in numbers:
        if not is_possible:
            translations[number] = render_source(passages[number])
        elif without_references(translations[number]) != plain:
            translations[number] = plain


def _separate(columns: Sequence[str], translations: list[str], numbers: Mapping[str, Sequence[int]]) -> bool:
    """Appends numbers to translations of a table's columns that are the same. Returns whether there were any."""
    free = _FreeNames(each for each in columns if each not in numbers)
    is_changed = False
    for shown in dict.fromkeys(columns):
        if shown in numbers and (suffix := free.take(without_references(translations[numbers[shown][0]]))):
            for number in numbers[shown]:
                translations[number] += suffix
            is_changed = True
    return is_changed


class SheetNames:
    """The names of the sheets that no formula uses."""

    def __init__(self, package: Package, main: str) -> None:
        self._all = [sheet.get("name") or "" for sheet in _sheets(package.parse(main))]
        by_key = {name.casefold(): name for name in self._all}
        self._used = {
            by_key[name.casefold()]
            for part in package.parts
            if part.endswith((".xml", ".rels")) and not part.startswith("docProps/")
            for match in set(package.matches(part, _SHEET_REFERENCE))
            for name in _referenced(match)
            if name.casefold() in by_key
        }

    def items(self, root: Element) -> list[Item]:
        """Those of the workbook's main part."""
        return with_letters(Property(sheet, "name") for sheet in _sheets(root) if sheet.get("name") not in self._used)

    def adapt(self, passages: Sequence[Passage], translations: list[str], numbers: Sequence[int]) -> None:
        """Makes the translations with these numbers names that sheets may have, each of them only once."""
        renamed = {passages[number].text for number in numbers}
        free = _FreeNames([_RESERVED, *(name for name in self._all if name not in renamed)])
        for number in numbers:
            name = " ".join(_NOT_IN_SHEETS.sub(" ", translations[number]).split()).strip("'")
            name = name[: _MAX_SHEET_CHARS - 4].rstrip(" '") or passages[number].text
            translations[number] = name + free.take(name)


def _sheets(root: Element) -> list[Element]:
    return [sheet for sheets in root if local_name(sheets) == "sheets" for sheet in sheets if sheet.get("name")]


def _referenced(match: bytes) -> list[str]:
    """The sheets in a reference: of "'A sheet'!", "First:Last!" or "sheet='A sheet'"."""
    text = unescape(match.decode("utf-8", "replace"))
    if text.startswith("sheet="):
        return [text[len("sheet='") : -1]]
    return text.removesuffix("!").removeprefix("'").removesuffix("'").replace("''", "'").split(":")


class _FreeNames:
    """Names other than those `taken`, without regard to case."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {name.casefold() for name in taken}
        self._numbers: Counter[str] = Counter()

    def take(self, name: str) -> str:
        """A suffix that makes `name` a new one, often none."""
        key, suffix = name.casefold(), ""
        while f"{key}{suffix}" in self._taken:
            self._numbers[key] += 1
            suffix = f" {self._numbers[key] + 1}"
        self._taken.add(f"{key}{suffix}")
        return suffix


def _column_in_formula(name: bytes) -> str:
    return _shown(_ESCAPED.sub(r"\1", unescape(name.decode("utf-8", "replace"))))


def _shown(name: str) -> str:
    """The text of a cell with this name of a column."""
    return ESCAPE.sub(lambda found: "\n" if found[0].lower() == "_x000a_" else "", name)
