"""All dialects."""

from __future__ import annotations

from app.api.deepl import DEEPL
from app.api.libretranslate import LIBRETRANSLATE

DIALECTS = (
    LIBRETRANSLATE,
    DEEPL,
)
