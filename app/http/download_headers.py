"""Headers of a response that is a file to download."""

from __future__ import annotations

import re
from urllib.parse import quote

_UNSAFE = re.compile(r'[^ !#-\[\]-~]|["\\]')
_MAX_NAME_CHARS = 150


def download_headers(name: str) -> dict[str, str]:
    """Headers of a response that is a file: Content-Disposition (RFC 6266), with any characters in its name."""
    name = name[-_MAX_NAME_CHARS:]
    plain = _UNSAFE.sub("_", name)
    disposition = f'attachment; filename="{plain}"'
    if plain != name:
        disposition += f"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
    # A browser must not show a client's file as a page of ours, which could act in our name.
    return {"Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}
