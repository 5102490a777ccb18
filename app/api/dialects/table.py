"""All dialects."""

from __future__ import annotations

from app.api.deepl import DEEPL
from app.api.dialects.azure import AZURE
from app.api.dialects.browser_extensions import HCFY, IMMERSIVE, KISS
from app.api.dialects.deeplx import DEEPLX
from app.api.dialects.google import GOOGLE
from app.api.dialects.mtranserver import MTRANSERVER
from app.api.dialects.openai import OPENAI
from app.api.dialects.plain import NLLB, OMEGAT, PLAIN
from app.api.libretranslate import LIBRETRANSLATE

DIALECTS = (
    LIBRETRANSLATE,
    DEEPL,
    DEEPLX,
    MTRANSERVER,
    IMMERSIVE,
    KISS,
    HCFY,
    GOOGLE,
    AZURE,
    NLLB,
    PLAIN,
    OMEGAT,
    OPENAI,
)
