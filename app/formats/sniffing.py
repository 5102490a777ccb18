"""Detects a document's format from its first bytes, if its name does not tell."""

from __future__ import annotations

import codecs
import re

_HEAD_BYTES = 4_096
"""Number of bytes to examine."""
_XML = r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?(?:<!DOCTYPE\s+\w+(?:\s[^>\[]*)?>\s*)?"
_SIGNATURES = {
    ".html": re.compile(r"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL),
    ".xhtml": re.compile(_XML + r"<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL),
    ".xliff": re.compile(_XML + r"<xliff\b", re.DOTALL),
    ".tmx": re.compile(_XML + r"<tmx\b", re.DOTALL),
    ".ts": re.compile(_XML + r"<TS\b", re.DOTALL),
    ".xml": re.compile(_XML + r"<resources\b", re.DOTALL),
    ".ass": re.compile(r"\s*\[Script Info\]"),
    ".vtt": re.compile(r"WEBVTT(?=[ \t\r\n]|\Z)"),
    ".srt": re.compile(r"\s*\d{1,9}[ \t]*\r?\n(?:\d{1,4}:)?\d{1,2}:\d{1,2}[,.]\d{1,3}[ \t]*-->"),
    ".po": re.compile(r'(?:\s++|#[^\n]*+\n)*+msgid[ \t]+"'),
}


def suffix_of(content: bytes) -> str:
    """The suffix for its format: ".txt" if it looks like nothing else, "" if it is an unknown kind of zip file."""
    if content.startswith(b"PK"):
        # Not from the zip directory, which may be damaged, or list hundreds of thousands of parts and take seconds.
        return ".docx" if b"word/document.xml" in content else ""
    head = content[:_HEAD_BYTES]
    is_wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = head.decode("utf-16" if is_wide else "utf-8-sig", "replace")
    return next((suffix for suffix, signature in _SIGNATURES.items() if signature.match(text)), ".txt")
