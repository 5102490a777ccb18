"""Web pages: what app/markup.py finds in them, in the file's encoding."""

from __future__ import annotations

import re

from app.documents.document import Content, Slot, slotted
from app.documents.encodings import decoded, refuse_other
from app.markup import located

_IN_XML = re.compile(r"""<\?xml[^>]{0,100}\sencoding\s*=\s*["']([\w.:-]+)""")
_IN_HTML = re.compile(r"""<meta\b[^>]{0,200}\bcharset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_HEAD = 4_096
"""Characters in which an encoding is declared."""


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    text, encode = decoded(content)
    refuse_other(_IN_XML.match(text))
    refuse_other(_IN_HTML.search(text, 0, _HEAD))
    return slotted(text, [Slot(start, end, passage) for start, end, passage in located(text)], encode)
