"""YAML's scalars: which are strings, and how a translation is written in the style of the one that it replaces.

What is written is parsed again; if that gives another string, it is written between double quotation marks instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import yaml

from app.formats.encodings import escape_above

_STRING_TAGS = {"tag:yaml.org,2002:str", "!"}
_NOT_A_STRING = re.compile(r"0o[0-7]+|[yYnN]")
"""Plain scalars that YAML 1.2, or some reader of 1.1, does not read as strings, besides those that PyYAML knows."""
_SPECIAL = re.compile('[\\\\"\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]')
_SPELLINGS = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NOT_PRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_WIDE_ESCAPE = re.compile(r"\\u(?!00[0-7])|\\x[89A-Fa-f]")
_HEADER = re.compile(r"[|>]([-+0-9]*)[^\n]*\n")
_MIN_WIDTH = 40


def is_string(event: yaml.ScalarEvent) -> bool:
    """Whether the value is a string for its readers."""
    if event.tag is not None:
        return event.tag in _STRING_TAGS
    return bool(event.style) or not _is_other_type(event.value)


def _is_other_type(value: str) -> bool:
    """Whether a plain scalar with this value is a number, a boolean, a date, null or a merge."""
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(value[:1], [])
    return any(pattern.match(value) for _, pattern in resolvers) or _NOT_A_STRING.fullmatch(value) is not None


def written_like(raw: str, value: str, style: str, is_flow: bool) -> tuple[str, Callable[[str], str]]:
    """The text to translate of a scalar, and what writes a translation like `raw`. `is_flow`: within [] or {}."""
    if style in ("|", ">"):
        shown = value.rstrip("\n")
        return shown, partial(_block, raw, style, value[len(shown) :])
    if style == "'":
        return value, partial(_single, is_flow)
    if style == '"':
        return value, partial(_double, bool(_WIDE_ESCAPE.search(raw)) and raw.isascii())
    return value, partial(_plain, is_flow)


def _plain(is_flow: bool, text: str) -> str:
    """Plain, if that is read as the same string."""
    may_be_plain = "\n" not in text and "\t" not in text and not _NOT_PRINTABLE.search(text)
    may_be_plain &= not (is_flow and "?" in text)  # libyaml reads one, PyYAML's own parser does not
    if may_be_plain and not _is_other_type(text) and _reads_as(f"[{text}]" if is_flow else f"k: {text}", text, ""):
        return text
    return _double(False, text)


def _single(is_flow: bool, text: str) -> str:
    doubled = text.replace("'", "''")
    if "\n" in text or _NOT_PRINTABLE.search(text):
        return _double(False, text)
    return f"'{doubled}'"


def _double(ascii_only: bool, text: str) -> str:
    spelled = _SPECIAL.sub(lambda found: _SPELLINGS.get(found[0]) or f"\\u{ord(found[0]):04X}", text)
    if ascii_only:
        # An escape for each character: YAML does not join halves.
        spelled = "".join(one if ord(one) <= 0xFFFF else f"\\U{ord(one):08X}" for one in spelled)
        spelled = escape_above(0x7F, spelled, "\\u")
    return f'"{spelled}"'


def _block(raw: str, style: str, line_ends: str, text: str) -> str:
    """`text` as a literal or folded block with the header, indentation and last line ends of `raw`."""
    end = "\r\n" if "\r\n" in raw else "\n"
    plain = raw.replace("\r\n", "\n")
    header = _HEADER.match(plain)
    lines = plain[header.end() :].split("\n") if header else []
    indented = next((line for line in lines if line.strip(" ")), "")
    content = plain.rstrip(" \t\n")
    trailing = plain[len(content) :]
    # An indentation that is given depends on what is around the block.
    if header and indented and not re.search(r"\d", header[1]) and not _NOT_PRINTABLE.search(text):
        indent = indented[: len(indented) - len(indented.lstrip(" "))]
        shown = text if style == "|" else _folded(text, max(_MIN_WIDTH, *map(len, lines)) - len(indent))
        body = "\n".join(f"{indent}{line}" if line else "" for line in shown.split("\n"))
        block = f"{header[0]}{body}{trailing}"
        if _reads_as(f"k: {block}", text + line_ends, style):
            return block.replace("\n", end)
    # The line ends after the block separate it from what follows.
    return f"{_double(False, text + line_ends)}{trailing or ''}".replace("\n", end)


def _folded(text: str, width: int) -> str:
    """`text` in lines for a folded block, in which a single line end is a space."""
    folded = []
    for line in text.split("\n"):
        parts, start = list[str](), 0
        while len(line) - start > width:
            cut = line.rfind(" ", start, start + width + 1)
            if cut <= start or line[cut - 1] == " " or line[cut + 1 : cut + 2] in ("", " "):
                break
            parts.append(line[start:cut])
            start = cut + 1
        folded.append("\n".join([*parts, line[start:]]))
    return "\n\n".join(folded)


def _reads_as(document: str, value: str, style: str) -> bool:
    """Whether YAML reads the last scalar of `document` as `value`, in that style."""
    try:
        events = list(yaml.parse(document, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeEncodeError):
        return False
    found = [event for event in events if isinstance(event, yaml.ScalarEvent)]
    nodes = [event for event in events if isinstance(event, yaml.NodeEvent)]
    # The collection, its key if it is a mapping, and the scalar.
    return (
        len(nodes) == (2 if document[0] == "[" else 3)
        and len(found) == len(nodes) - 1
        and found[-1].value == value
        and (found[-1].style or "") == style
        and found[-1].tag is None
        and found[-1].anchor is None
    )
