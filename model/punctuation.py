"""Normalises the punctuation of sources as Moses' normalize-punctuation does, for imported models that were trained so.

The rules, and their order, are those of the Perl script and of sacremoses' port, which Hugging Face's tokenizers use;
where the two differ, those of the port.
"""

from __future__ import annotations

import re
from functools import cache

_NBSP = "\u00a0"
_UNCHANGED = re.compile(r"[A-Za-z0-9 .?!-]*")
"""Text that no rule changes, unless it has two spaces together."""
_BEFORE_QUOTES = [
    (r"\r", ""),
    (r"(?=\()", " "),
    (r"(?<=\))", " "),
    (r" {2,}", " "),
    (r"(?<=\)) (?=[.!:?;,])", ""),
    (r"(?<=\() ", ""),
    (r" (?=\))", ""),
    (r"(?<=\d) (?=%)", ""),
    (r" (?=[:;])", ""),
    (r"`", "'"),
    (r"''", ' " '),
    (r"[„“”]", '"'),
    (r"–", "-"),
    (r"—", " - "),
    (r" {2,}", " "),
    (r"[´‘‚’]", "'"),
    (r"''", '"'),
    (r"…", "..."),
    (f"{_NBSP}«{_NBSP}|«{_NBSP}?", '"'),
    (f"{_NBSP}»{_NBSP}|{_NBSP}?»", '"'),
    (f"{_NBSP}(?=[%:?!;])", ""),
    (f"(?<=nº){_NBSP}|{_NBSP}(?=ºC|cm)|(?<=,){_NBSP}", " "),
    (r" {2,}", " "),
]
_QUOTES = {
    "en": [(r'"([,.]+)', r'\1"')],
    **{language: [(r',"', '",'), (r'(\.+)"(\s*[^<])', r'"\1\2')] for language in ("de", "es", "fr")},
}
"""Moves a comma or a full stop into quotation marks, or out of them."""
_DECIMAL_COMMAS = {"de", "es", "cz", "cs", "fr"}


def normalise_punctuation(text: str, language: str) -> tuple[str, list[int]]:
    """`text` with the rules for `language`, and for each n up to the new length how much of `text` its first n
    characters represent, as `normalisation.source_offsets`."""
    offsets = list(range(len(text) + 1))
    if _UNCHANGED.fullmatch(text) and "  " not in text:
        return text, offsets
    new = text
    for pattern, replacement in _rules(language):
        if pattern.search(new):
            new, offsets = _substitute(new, offsets, pattern, replacement)
    if not text.endswith(" "):
        new = new.rstrip(" ")
        offsets = [*offsets[: len(new)], len(text)]
    return new, offsets


@cache
def _rules(language: str) -> list[tuple[re.Pattern[str], str]]:
    number = r"\1,\2" if language in _DECIMAL_COMMAS else r"\1.\2"
    rules = [*_BEFORE_QUOTES, *_QUOTES.get(language, []), (rf"(\d){_NBSP}(\d)", number)]
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


def _substitute(text: str, offsets: list[int], pattern: re.Pattern[str], replacement: str) -> tuple[str, list[int]]:
    """`re.sub`, with the new text's offsets. If a replacement has another length than what it replaces, its last
    character represents all of that."""
    parts: list[str] = []
    found_offsets = [offsets[0]]
    done = 0
    for found in pattern.finditer(text):
        start, end = found.span()
        plain = found.expand(replacement)
        parts += [text[done:start], plain]
        found_offsets += offsets[done + 1 : start + 1]
        if len(plain) == end - start:
            found_offsets += offsets[start + 1 : end + 1]
        elif plain:
            found_offsets += [*[offsets[start]] * (len(plain) - 1), offsets[end]]
        done = end
    found_offsets += offsets[done + 1 :]
    found_offsets[-1] = offsets[-1]
    return "".join([*parts, text[done:]]), found_offsets
