"""Web pages: the pieces that app/markup/extract.py finds, and the page's declared language."""

from __future__ import annotations

from app.formats.document import Content, Slot, content_of_slots
from app.formats.encodings import Encoding, declare_utf8, decode
from app.markup.extract import locate_passages
from app.markup.html_tokenizer import tokens, value_spans
from model.languages import language_alone


def read(content: bytes, target: str = "", source: str = "", encoding: Encoding = "auto") -> Content:
    """Reads a page. It will declare `target` as its language if it declares `source`, or if `source` is "" or auto; and
    UTF-8, unless `encoding` is to be kept.

    Raises UnreadableDocument.
    """
    text, encode = decode(content)
    text = text if encoding == "keep" else declare_utf8(text)
    text_in_target = _declare_language(text, source, target)
    return content_of_slots(
        text_in_target, [Slot(start, end, passage) for start, end, passage in locate_passages(text_in_target)], encode
    )


def _declare_language(text: str, source: str, target: str) -> str:
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
        declared = language_alone(token.raw[span.start : span.end])
        if declared and language_alone(source) in ("", "auto", declared):
            text = f"{text[: at + span.start]}{target}{text[at + span.end :]}"
    return text
