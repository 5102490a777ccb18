"""Xcode's string catalogues, .xcstrings: adds the target language's localisations, in the state needs_review.

Plurals get the categories of the target language; devices and substitutions stay. Everything else, and the layout, are
kept. A localisation that exists is kept too, unless all of it is new.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.formats.catalogue_strings import Value, catalogue_content, written
from app.formats.document import Content, UnreadableDocument
from app.formats.encodings import decode
from app.formats.json_positions import JsonNode, check_characters, check_json, locate
from app.text.plural_categories import target_branches
from model.languages import AUTO, language_alone

_MAX_DEPTH = 12
"""Levels of a localisation. Xcode's have ten at most: a variation by plural, in one by device, of a substitution."""
_SHOWN_NUMBER = re.compile("%")
_State = dict[str, Any]


class _Text(str):
    """A string to translate, in a localisation to write; `category`: of a form of a plural."""

    category = ""


@dataclass(frozen=True)
class _Layout:
    """How the file is written: line end, "" if on one line; indentation of a level; what follows a key and a value."""

    line_end: str
    indent: str
    colon: str
    comma: str

    def gap(self, level: int) -> str:
        return f"{self.line_end}{self.indent * level}" if self.line_end else ""


def read(content: bytes, target: str = "", source: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language to add; `source`: the one to translate, if not the file's."""
    text, encode = decode(content)
    catalogue = check_json(text)
    strings = catalogue.get("strings") if isinstance(catalogue, dict) else None
    if not isinstance(strings, dict) or not isinstance(catalogue.get("sourceLanguage"), str):
        raise UnreadableDocument("The file is not .xcstrings: it has no sourceLanguage, or no strings.")
    root = locate(text)
    own = catalogue["sourceLanguage"]
    is_own = language_alone(source) in ("", AUTO, language_alone(own))
    values = _values(text, root, strings, own if is_own else source, is_own, target) if target else ()
    return catalogue_content(text, values, target, encode)


def _values(
    text: str, root: JsonNode, strings: dict[str, Any], source: str, is_own: bool, target: str
) -> Iterator[Value]:
    layout = _layout_of(text, root)
    ascii_only = text.isascii() and "\\u" in text
    for key, entry in strings.items():
        node = root.get("strings", key)
        if node is None or not isinstance(entry, dict) or entry.get("shouldTranslate") is False:
            continue
        found = entry.get("localizations")
        localizations = found if isinstance(found, dict) else {}
        given = _localization(localizations, source)
        if given is None and is_own:
            given = {"stringUnit": {"value": key}}
        name = next((one for one in localizations if one.lower() == target.lower()), target)
        if given is None or not _is_new(localizations.get(name)):
            continue
        try:
            parts = [*_parts(_translated(given, target, 0), layout, 4, ascii_only)]
        except UnreadableDocument as error:
            raise UnreadableDocument(f"The localization of {_quoted(key[:60], True)} {error}") from None
        if any(isinstance(part, _Text) and any(map(str.isalpha, part)) for part in parts):
            yield from _placed(text, node, name, parts, layout, key, ascii_only)


def _localization(localizations: dict[str, Any], language: str) -> dict[str, Any] | None:
    """The localisation into `language`, or else into a variant of it."""
    wanted = language.replace("_", "-").lower()
    codes = [code for code in localizations if isinstance(localizations[code], dict)]
    exact = [code for code in codes if code.lower() == wanted]
    found = exact or [code for code in codes if code.lower() == language_alone(wanted)]
    return localizations[found[0]] if found else None


def _is_new(localization: Any, depth: int = 0) -> bool:
    """Whether all its strings are in the state `new`."""
    if depth > _MAX_DEPTH or not isinstance(localization, dict):
        return True
    if "state" in localization:
        return bool(localization["state"] == "new")
    return all(_is_new(inner, depth + 1) for inner in localization.values())


def _translated(given: Any, target: str, depth: int, category: str = "") -> Any:
    """A copy of a localisation with the categories of `target`, whose strings are _Text.

    Raises UnreadableDocument, which says what the localisation does, for what Xcode does not write and its categories
    would multiply.
    """
    if depth > _MAX_DEPTH:
        raise UnreadableDocument("is nested too deeply.")
    if not isinstance(given, dict):
        return given
    found: _State = {}
    for key, value in given.items():
        if key == "stringUnit" and isinstance(value, dict) and isinstance(value.get("value"), str):
            shown = _Text(value["value"])
            shown.category = category
            found[key] = {"state": "needs_review", "value": shown}
        elif key == "plural" and isinstance(value, dict):
            if category:
                raise UnreadableDocument("has a plural within a plural.")
            shows = {name: _SHOWN_NUMBER.search(json.dumps(form)) is not None for name, form in value.items()}
            branches = target_branches(shows, target, kept=("zero",))
            forms = {name: _translated(value[branch], target, depth + 1, name) for name, branch in branches}
            found[key] = dict(sorted(forms.items()))
        else:
            found[key] = _translated(value, target, depth + 1, category)
    return found


def _parts(value: Any, layout: _Layout, level: int, ascii_only: bool) -> Iterator[str]:
    """`value` as JSON at a level of indentation: text of the file, and each _Text."""
    if isinstance(value, dict):
        yield "{"
        for number, (key, inner) in enumerate(value.items()):
            yield f"{layout.comma if number else ''}{layout.gap(level + 1)}{_quoted(key, ascii_only)}{layout.colon}"
            yield from _parts(inner, layout, level + 1, ascii_only)
        yield f"{layout.gap(level)}}}"
    elif isinstance(value, _Text):
        yield value
    else:
        yield json.dumps(value, ensure_ascii=ascii_only)


def _placed(
    text: str, entry: JsonNode, language: str, parts: list[str], layout: _Layout, key: str, ascii_only: bool
) -> Iterator[Value]:
    """The values that write `parts` as the entry's localisation into `language`."""
    localizations = entry.get("localizations")
    code = f"{_quoted(language, ascii_only)}{layout.colon}"
    if localizations is None:
        place, end, before, after = _new_member(text, entry, "localizations", layout, 3)
        before = f'{before}"localizations"{layout.colon}{{{layout.gap(4)}{code}'
        after = f"{layout.gap(3)}}}{after}"
    elif (old := localizations.get(language)) is not None:
        place, end, before, after = old.start, old.end, "", ""
    else:
        place, end, before, after = _new_member(text, localizations, language, layout, 4)
        before += code
    pending, values = [before], list[Value]()
    for part in parts:
        if isinstance(part, _Text):
            check_characters(part, place)
            encoded = partial(written, "".join(pending), "", partial(_quoted, ascii_only=ascii_only))
            values.append(Value(place, end if not values else place, part, encoded, key, True, None, part.category))
            pending = []
        else:
            pending.append(part)
    last = values[-1]
    values[-1] = last._replace(encode=partial(written, "", "".join([*pending, after]), last.encode))
    # What is replaced goes with the first value; the others follow it.
    yield from (value._replace(start=end) if number else value for number, value in enumerate(values))


def _new_member(text: str, node: JsonNode, key: str, layout: _Layout, level: int) -> tuple[int, int, str, str]:
    """Where a new member of an object goes, in the order of its keys, and what is before and after it."""
    gap = layout.gap(level)
    earlier = [one for name, one in node.members.items() if name < key]
    if earlier:
        end = max(one.end for one in earlier)
        return end, end, f"{layout.comma}{gap}", ""
    if node.members:
        first = min(one.key_start for one in node.members.values())
        return first, first, "", f"{layout.comma}{gap}"
    return node.start + 1, node.end - 1, gap, layout.gap(level - 1)


def _layout_of(text: str, root: JsonNode) -> _Layout:
    strings = root.members["strings"]
    before = text[root.start + 1 : min(one.key_start for one in root.members.values())]
    line_end = "\r\n" if "\r\n" in before else "\n" if "\n" in before else ""
    colon = text[strings.key_start + len('"strings"') : strings.start]
    comma = ", " if not line_end and ", " in text else ","
    return _Layout(line_end, before.rpartition("\n")[2], colon if "\n" not in colon else ": ", comma)


def _quoted(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)
