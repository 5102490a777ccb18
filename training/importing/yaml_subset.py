"""Reads the YAML that Marian's options and vocabularies use: one mapping of scalars, and of lists of scalars.

A YAML library would be a dependency for these few forms, and does more: aliases, tags, nesting. These are refused.
"""

from __future__ import annotations

import re

from training.importing.errors import ImportFault

Value = str | list[str]
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'')
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_ESCAPED = dict(zip('0abtnvfre"/\\N_LP ', '\0\a\b\t\n\v\f\r\x1b"/\\\x85\xa0\u2028\u2029 ', strict=True))


def read_mapping(text: str) -> dict[str, Value]:
    """The mapping in `text`. All scalars are strings, and no value is "". Raises ImportFault."""
    found: dict[str, Value] = {}
    key: str | None = None
    waits = False  # for the list or value of `key`, on the lines after it
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r ")
        content = line.lstrip(" ")
        if not content or content.startswith("#") or line in ("---", "...") or line.startswith("%"):
            continue
        if content.startswith(("- ", "-\t")) and waits and key is not None:
            items = found[key]
            if isinstance(items, str):
                raise _fault(number)
            items.append(_scalar(content[2:].strip(), number))
            continue
        if line.startswith(": ") and waits and key is not None:  # of a long key, which has "? " before it
            found[key], waits = _value(content[2:].strip(), number), False
            continue
        if content != line and waits and key is not None and not found[key]:
            found[key], waits = _value(content, number), False
            continue
        if content != line:
            raise _fault(number)
        is_long = line.startswith("? ")
        name, rest = (_scalar(line[2:].strip(), number), "") if is_long else _split(line, number)
        if name in found:
            raise ImportFault(f"line {number} has {name!r} again")
        key, waits = name, not rest
        found[key] = _value(rest, number) if rest else []
    return found


def _split(line: str, number: int) -> tuple[str, str]:
    """A key, and what follows on its line."""
    if line[0] in "\"'":
        quoted = _SCALAR.match(line)
        if quoted is None or line[quoted.end() : quoted.end() + 1] != ":":
            raise _fault(number)
        return _scalar(quoted.group(), number), line[quoted.end() + 1 :].strip()
    name, colon, rest = line.partition(": ")
    if not colon:
        if not line.endswith(":"):
            raise _fault(number)
        name = line[:-1]
    return _scalar(name.strip(), number), rest.strip()


def _value(content: str, number: int) -> Value:
    if content.startswith("[") and content.endswith("]"):
        items = content[1:-1].strip()
        return [_scalar(item.strip(), number) for item in items.split(",")] if items else []
    return _scalar(content, number)


def _scalar(content: str, number: int) -> str:
    if content[:1] in ('"', "'"):
        quoted = _SCALAR.match(content)
        if quoted is None or not re.fullmatch(r"(\s+#.*)?", content[quoted.end() :]):
            raise _fault(number)
        inner = quoted.group()[1:-1]
        if content[0] == "'":
            return inner.replace("''", "'")
        return _ESCAPE.sub(lambda escape: _unescaped(escape, number), inner)
    if content[:1] in ("&", "*", "!", "|", ">", "{", "[", "@", "`") and len(content) > 1:
        raise ImportFault(f"line {number} uses a part of YAML that is not supported: {content[:1]}")
    return content


def _unescaped(escape: re.Match[str], number: int) -> str:
    *codes, letter = escape.groups()
    code = next((code for code in codes if code), None)
    try:
        return chr(int(code, 16)) if code else _ESCAPED[letter]
    except (KeyError, ValueError, OverflowError):
        raise _fault(number) from None


def _fault(number: int) -> ImportFault:
    return ImportFault(f"line {number} is not in a form that is supported")
