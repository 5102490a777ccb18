"""JSON: catalogues (i18next, ARB and similar), and plain texts that are JSON. Translates the string values. Keys,
order, numbers and layout are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content, UnreadableDocument, check_depth
from app.formats.encodings import decode
from app.formats.json_positions import AFTER_KEY, check_characters, check_json, locate
from app.formats.value_paths import PathFilter, ValuePath
from app.markup.passage import Passage, Piece
from model.languages import AUTO, language_alone

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],]')
_WIDE_ESCAPE = re.compile(r"\\u(?!00[0-7])")
_OPENING = re.compile(r"[ \t\n\r]*+[{\[]")


def read(content: bytes, target: str = "", paths: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language to translate labels into; `paths`: see PathFilter."""
    chosen = PathFilter(paths)
    text, encode = decode(content)
    check_json(text)
    return catalogue_content(text, _values(text, chosen), target, encode)


def text_pieces(text: str) -> list[Piece] | None:
    """The pieces of a plain text that is a JSON object or array with a string in it: its string values, and what is
    between them. None if it is none."""
    if not _OPENING.match(text):  # as for most texts
        return None
    pieces, at = list[Piece](), 0
    try:
        check_json(text)
        for value in _values(text, PathFilter("")):
            if any(map(str.isalpha, value.text)):
                pieces += [text[at : value.start + 1], Passage(value.text, write=partial(_inside_quotes, value.encode))]
                at = value.end - 1
            else:
                pieces += [text[at : value.end]]
                at = value.end
    except UnreadableDocument:
        return None
    return [*pieces, text[at:]] if pieces else None


def _inside_quotes(encode: Callable[[str], str], text: str) -> str:
    return encode(text)[1:-1]


def read_arb(content: bytes, target: str = "", source: str = "") -> Content:
    """Reads Flutter's catalogue. It will declare `target` as its locale if it declares `source`, or if that is "" or
    auto. Raises UnreadableDocument."""
    text, encode = decode(content)
    catalogue = check_json(text)
    locale = locate(text).get("@@locale")
    declared = catalogue.get("@@locale") if isinstance(catalogue, dict) else None
    if (
        locale
        and target
        and isinstance(declared, str)
        and language_alone(source) in ("", AUTO, language_alone(declared))
    ):
        text = f"{text[: locale.start]}{json.dumps(target.replace('-', '_'))}{text[locale.end :]}"
    return read(encode(text), target)


def _values(text: str, chosen: PathFilter) -> Iterator[Value]:
    """The string values that `chosen` takes, except for keys with "@", which belong to ARB or JSON-LD. Raises
    UnreadableDocument."""
    # A file that spells "é" as "\u00e9" stays within ASCII for a reason.
    ascii_only = text.isascii() and _WIDE_ESCAPE.search(text) is not None
    escapes_slashes = "\\/" in text  # as PHP does

    def quoted(value: str) -> str:
        written = json.dumps(value, ensure_ascii=ascii_only)
        return written.replace("/", "\\/") if escapes_slashes else written

    for start, end, path in _positions(text, chosen):
        if chosen.takes(path):
            yield Value(start, end, check_characters(json.loads(text[start:end]), start), quoted, path.shown)


def _positions(text: str, chosen: PathFilter) -> Iterator[tuple[int, int, ValuePath]]:
    """The positions of the string values, quotes included, and their paths."""
    skipped_depth = -1
    keys: list[str | int] = []
    """For each open object its latest key, and for each open list the index of its next item."""
    paths: list[ValuePath] = []
    """Those of the open objects and lists."""

    def path() -> ValuePath:
        return chosen.below(paths[-1], keys[-1]) if paths else chosen.root

    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            paths.append(path())
            keys.append("" if token[0] == "{" else 0)
            check_depth(len(keys), "The JSON")
        elif token[0] in "}]":
            paths.pop()
            keys.pop()
            if len(keys) <= skipped_depth:
                skipped_depth = -1
        elif token[0] == ",":
            if isinstance(keys[-1], int):
                keys[-1] += 1
        elif AFTER_KEY.match(text, token.end()):
            keys[-1] = json.loads(token[0])
            if skipped_depth in (-1, len(keys)):
                skipped_depth = len(keys) if str(keys[-1]).startswith("@") else -1
        elif skipped_depth == -1:
            yield *token.span(), path()
