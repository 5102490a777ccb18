"""Web pages: the pieces that app/markup/extract.py finds, in the file's encoding, and the page's declared language."""

from __future__ import annotations

import re

from app.formats.document import Content, Slot, slotted
from app.formats.encodings import decoded, refuse_other
from app.markup.extract import located
from app.markup.html_tokenizer import tokens, value_spans
from model.languages import language_alone

_IN_XML = re.compile(r"""<\?xml[^>]{0,100}\sencoding\s*=\s*["']([\w.:-]+)""")
_IN_HTML = re.compile(r"""<meta\b[^>]{0,200}\bcharset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_HEAD = 4_096
"""The number of characters in which an encoding may be declared."""


def read(content: bytes, target: str = "", source: str = "") -> Content:
    """Reads a page. It will declare `target` as its language if it declares `source`, or if `source` is "" or auto.

    Raises UnreadableDocument.
    """
    text, encode = decoded(content)
    refuse_other(_IN_XML.match(text))
    refuse_other(_IN_HTML.search(text, 0, _HEAD))
    named = _in_language(text, source, target)
    return slotted(named, [Slot(start, end, passage) for start, end, passage in located(named)], encode)


def _in_language(text: str, source: str, target: str) -> str:
    """`text` with `target` declared as its root's language."""
    at = 0
    for token in tokens(text):
        if token.name:
            break
        at += len(token.raw)
    else:
        return text
    if token.name != "html" or not target:
        return text
    spans = value_spans(token.raw)
    for span in sorted((spans[name] for name in ("lang", "xml:lang") if name in spans), reverse=True):
        said = language_alone(token.raw[span.start : span.end])
        if said and language_alone(source) in ("", "auto", said):
            text = f"{text[: at + span.start]}{target}{text[at + span.end :]}"
    return text
