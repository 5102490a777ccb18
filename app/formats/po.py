"""gettext catalogues: fills in empty msgstr entries. polib parses them; changes are made in place.

polib's own writer would wrap every line again, and lose comments that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polib

from app.formats.catalogue_strings import CatalogueString, read_form, read_string
from app.formats.document import Content, TextLocation, UnreadableDocument, check_joins, fill
from app.formats.encodings import check_declared_encoding, decode
from app.markup.extract import inline_pieces
from app.text.icu_messages import has_branches
from app.text.mnemonics import mnemonic_marks
from app.text.plural_categories import counts_more_with_one, gettext_header

_CHARSET = re.compile(r'^"Content-Type:[^"\n]*charset=(?!CHARSET)([^\s\\"]+)', re.MULTILINE | re.IGNORECASE)
_ELEMENT = re.compile(r"</[A-Za-z][^<>]*>")
_PLURAL_TEMPLATE = re.compile(r'^("Plural-Forms:[ ]*)nplurals=INTEGER; plural=EXPRESSION;', re.MULTILINE)
"""As xgettext and msginit leave it for translators."""
_FORM_COUNT = re.compile(r"nplurals[ ]*=[ ]*([1-6])\b")
_KEYWORD = re.compile(r"\s*(?:#[~|]\s*)*msg")
_LINE_ENDS = re.compile("[\x1c-\x1e\x85\u2028\u2029]")
"""What polib takes for line ends, and gettext does not."""
_MAX_STRING_CHARS = 200_000
"""Maximum number of characters of a string in the file: polib's time is quadratic."""


class _Entry(NamedTuple):
    """Lines [start, end) of the file, and what to fill in: for a msgstr, or each plural form, the index of a string.

    `replaces`: it has a translation, which is replaced.
    """

    start: int
    end: int
    forms: Sequence[int]
    replaces: bool


def read(content: bytes, target: str = "", redo_fuzzy: bool = False) -> Content:
    """Raises UnreadableDocument. Entries that are filled in are marked fuzzy, for review.

    `target`: the language to translate labels into. `redo_fuzzy`: translate fuzzy entries again, and drop their
    previous source text.
    """
    text, encode = decode(content)
    check_declared_encoding(_CHARSET.search(text))
    if header := gettext_header(target):
        text = _PLURAL_TEMPLATE.sub(lambda found: f"{found[1]}{header}", text, count=1)
    lines = text.splitlines(keepends=True)
    catalogue = _parse(text)
    forms = _form_count(catalogue)
    marks = mnemonic_marks(entry.msgid for entry in catalogue)
    entries: list[_Entry] = []
    strings: list[CatalogueString] = []
    locations: list[TextLocation] = []
    starts = [*(max((entry.linenum or 0) - 2, 0) for entry in catalogue), len(lines)]
    for entry, start, end in zip(catalogue, starts, starts[1:], strict=False):
        if not _needs_translation(entry, redo_fuzzy):
            continue
        needed = "msgstr[" if entry.msgid_plural else "msgstr"
        if not next(filter(_begins_translation, lines[start:end]), "").lstrip().startswith(needed):
            missing = "msgstr[0] for its plural" if entry.msgid_plural else "msgstr"
            raise UnreadableDocument(
                f"The file is not a gettext catalogue: the entry at line {start + 1} has no {missing}."
            )
        sources = [len(strings) + source for source in _form_sources(entry, forms, target)]
        entries.append(_Entry(start, end, sources, _has_translation(entry)))
        categories = ("one", "other") if entry.msgid_plural else ("", "")
        texts = zip((entry.msgid, entry.msgid_plural), categories, strict=True)
        found = [read_form(text, category) or _string(text, target, marks) for text, category in texts if text]
        strings += found
        line = next((i for i in range(start, end) if lines[i].lstrip().startswith("msgid")), start) + 1
        locations += [TextLocation(line) for string in found for _ in string.passages]

    def write(translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        filled = [string.finish(fill(string.pieces, remaining)) for string in strings]
        assert next(remaining, None) is None
        parts, end_of_last = [], 0
        for entry in entries:
            parts += lines[end_of_last : entry.start]
            parts += _fill_entry(lines[entry.start : entry.end], [filled[form] for form in entry.forms], entry.replaces)
            end_of_last = entry.end
        return encode("".join([*parts, *lines[end_of_last:]]))

    return Content([passage for string in strings for passage in string.passages], write, locations)


def _form_count(catalogue: polib.POFile) -> int:
    """The number of plural forms that the header declares; 0 if it does not."""
    found = _FORM_COUNT.search(catalogue.metadata.get("Plural-Forms", ""))
    return int(found[1]) if found else 0


def _form_sources(entry: polib.POEntry, forms: int, target: str) -> list[int]:
    """The source of its msgstr, or of each plural form: 0 for the singular, 1 for the plural.

    `forms`: their number, if the catalogue says it.
    """
    if not entry.msgid_plural:
        return [0]
    count = forms or len(entry.msgstr_plural)
    hides_number = "%" not in entry.msgid and "{" not in entry.msgid
    # A single form, as in Chinese, is the plural; and so is a first form that also counts 21, as in Russian.
    is_plural = count == 1 or (hides_number and counts_more_with_one(target))
    return [int(bool(form) or is_plural) for form in range(count)]


def _string(text: str, target: str, marks: frozenset[str]) -> CatalogueString:
    """A string with tags is HTML."""
    has_tags = _ELEMENT.search(text) and not has_branches(text)
    return CatalogueString(inline_pieces(text)) if has_tags else read_string(text, target, marks)


def _parse(text: str) -> polib.POFile:
    length = 0
    lines = text.splitlines()
    for line in lines:
        length = length + len(line) if line.lstrip().startswith('"') else len(line)
        if length > _MAX_STRING_CHARS:
            raise UnreadableDocument(f"The file has a string of more than {_MAX_STRING_CHARS} characters.")
    check_joins(size for line in lines for size in _joined(line))
    try:
        # With a line end before it, no content can be a file name, which polib would open.
        return polib.pofile("\n" + text)
    except (OSError, ValueError, IndexError) as error:
        raise UnreadableDocument(f"The file is not a gettext catalogue: {str(error).splitlines()[0]}.") from None


def _joined(line: str) -> Iterator[int]:
    """The characters of a line in the pieces that polib joins: the lines of a comment, and of a string or a header."""
    if _KEYWORD.match(line):
        yield 0
    pieces = 1 + line.count("\\n")
    yield from [1 + len(line) // pieces] * pieces


def _needs_translation(entry: polib.POEntry, redo_fuzzy: bool) -> bool:
    """Whether it needs a translation."""
    if entry.obsolete or (_has_translation(entry) and not (redo_fuzzy and entry.fuzzy)):
        return False
    return any(map(str.isalpha, entry.msgid + entry.msgid_plural))


def _has_translation(entry: polib.POEntry) -> bool:
    return bool(entry.msgstr) or any(entry.msgstr_plural.values())


def _begins_translation(line: str) -> bool:
    return line.lstrip().startswith("msgstr")


def _fill_entry(lines: Sequence[str], translations: Sequence[str], replaces: bool) -> list[str]:
    """An entry's lines with its translations; `replaces`: drop the source text of the previous translation."""
    if replaces:
        lines = [line for line in lines if not line.lstrip().startswith("#|")]
    stripped = [line.lstrip() for line in lines]
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    first = next(i for i, line in enumerate(lines) if _begins_translation(line))
    after = first + 1
    while after < len(lines) and stripped[after].startswith(("msgstr[", '"')):
        after += 1
    keywords = ["msgstr"] if stripped[first][6:7] != "[" else [f"msgstr[{form}]" for form in range(len(translations))]
    msgstr_lines = [
        f"{line}{end}" for pair in zip(keywords, translations, strict=True) for line in _string_lines(*pair)
    ]
    return [*_mark_fuzzy(lines[:first], stripped, end), *msgstr_lines, *lines[after:]]


def _string_lines(keyword: str, text: str) -> list[str]:
    """`keyword` with `text`, one line of the file for each of its lines."""
    plain = _LINE_ENDS.sub(" ", text)
    parts = [f'"{polib.escape(part)}"' for part in re.findall(r"[^\n]*\n|[^\n]+", plain)]
    return [f"{keyword} {parts[0]}"] if len(parts) == 1 else [f'{keyword} ""', *parts]


def _mark_fuzzy(lines: Sequence[str], stripped: Sequence[str], end: str) -> list[str]:
    for i, line in enumerate(lines):
        if stripped[i].startswith("#,"):
            if re.search(r"\bfuzzy\b", line):
                return list(lines)
            return [*lines[:i], line.replace("#,", "#, fuzzy,", 1), *lines[i + 1 :]]
    insert_at = next(i for i, line in enumerate(stripped) if line.startswith(("#|", "msgctxt", "msgid")))
    return [*lines[:insert_at], f"#, fuzzy{end}", *lines[insert_at:]]
