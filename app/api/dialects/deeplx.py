"""DeepLX's API (OwO-Network/DeepLX)."""

from __future__ import annotations

import time
from typing import Literal

from pydantic import Field

from app.api.dialects.dialect import Asked, Call, Dialect, Row, TextQuestion, json_errors, translated
from app.api.schemas.fields import OneOrSeveral, Text

_HELLO = {"text": "Hello.", "source_lang": "EN", "target_lang": "FR"}


class DeepLXTranslate(TextQuestion):
    """Translate a text."""

    text: Text = Field(description="The text")
    source_lang: str = Field("", description="Its language; empty or `auto`: it is detected")
    target_lang: str = Field(min_length=1, description="The language to translate into")
    tag_handling: Literal["html", "xml", ""] = Field("", description="The text is HTML or XML")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked([self.text], self.source_lang, self.target_lang, bool(self.tag_handling)))
        return {
            "code": 200,
            "id": time.time_ns() % 100_000_000 // 1_000 * 1_000,
            "data": done.texts[0],
            "alternatives": [],  # Subtitle Edit shows the first of them in place of `data`
            "source_lang": done.sources[0].upper(),
            "target_lang": self.target_lang,
            "method": "Free",
        }


class DeepLXOfficial(TextQuestion):
    """Translate texts, as DeepL's own API does."""

    text: OneOrSeveral = Field(description="The text, or a list of texts")
    source_lang: str = Field("", description="Their language; empty or `auto`: it is detected")
    target_lang: str = Field(min_length=1, description="The language to translate into")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked(self.text, self.source_lang, self.target_lang))
        pairs = zip(done.sources, done.texts, strict=True)
        return {"translations": [{"detected_source_language": code.upper(), "text": text} for code, text in pairs]}


DEEPLX = Dialect(
    "deeplx",
    "DeepLX",
    "DeepLX's API, for its clients",
    json_errors(lambda message, status, problem: {"code": status, "message": message}),
    (
        Row("/translate", DeepLXTranslate, "Translate a text", (_HELLO,)),
        Row("/v1/translate", DeepLXTranslate, "Translate a text", (_HELLO,)),
        Row("/v2/translate", DeepLXOfficial, "Translate texts", ({**_HELLO, "text": ["Hello."]},)),
    ),
)
