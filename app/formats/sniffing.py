"""Detects a document's format from its first bytes, if its name does not tell."""

from __future__ import annotations

import codecs
import re

from app.formats import MEDIA_TYPES

_HEAD_BYTES = 4_096
"""Number of bytes to examine."""
_MAIN_PARTS = {b"word/document.xml": ".docx", b"ppt/presentation.xml": ".pptx", b"xl/workbook.xml": ".xlsx"}
"""By the name of a part of zip files, which is not compressed: their suffix."""
_TYPED_PACKAGE = re.compile(rb"PK\x03\x04.{26}mimetype(application/[\w.+-]{1,80}?)PK", re.DOTALL)
"""A zip file whose first part, which is not compressed, is its type."""
_PACKAGE_TYPES = {MEDIA_TYPES[suffix].encode(): suffix for suffix in (".odt", ".ods", ".odp", ".epub")}
_XML = r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?(?:<!DOCTYPE\s+\w+(?:\s[^>\[]*)?>\s*)?"
_SIGNATURES = {
    ".pdf": re.compile(r"%PDF-\d"),
    ".html": re.compile(r"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL),
    ".xhtml": re.compile(_XML + r"<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL),
    ".xliff": re.compile(_XML + r"<xliff\b", re.DOTALL),
    ".tmx": re.compile(_XML + r"<tmx\b", re.DOTALL),
    ".ts": re.compile(_XML + r"<TS\b", re.DOTALL),
    ".xml": re.compile(_XML + r"<resources\b", re.DOTALL),
    ".ass": re.compile(r"\s*\[Script Info\]"),
    ".vtt": re.compile(r"WEBVTT(?=[ \t\r\n]|\Z)"),
    ".srt": re.compile(r"\s*\d{1,9}[ \t]*\r?\n(?:\d{1,4}:)?\d{1,2}:\d{1,2}[,.]\d{1,3}[ \t]*-->"),
    ".rst": re.compile(r"\s*\.\.[ ](?:_[^\s:][^:\n]{0,200}:|[a-z][\w-]{0,50}::)[ \r\n]"),
    ".po": re.compile(r'(?:\s++|#[^\n]*+\n)*+msgid[ \t]+"'),
}


def suffix_of(content: bytes) -> str:
    """The suffix for its format: ".txt" if it looks like nothing else, "" if it is an unknown kind of zip file."""
    if typed := _TYPED_PACKAGE.match(content):
        return _PACKAGE_TYPES.get(typed[1], "")
    if content.startswith(b"PK"):
        # Not from the zip directory, which may be damaged, or list hundreds of thousands of parts and take seconds.
        # Its last mention is in the directory at the end; those before may be in a document within the document.
        places = {suffix: content.rfind(part) for part, suffix in _MAIN_PARTS.items()}
        suffix = max(places, key=lambda each: places[each])
        return suffix if places[suffix] >= 0 else ""
    head = content[:_HEAD_BYTES]
    is_wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = head.decode("utf-16" if is_wide else "utf-8-sig", "replace")
    return next((suffix for suffix, signature in _SIGNATURES.items() if signature.match(text)), ".txt")
