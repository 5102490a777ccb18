"""Google's APIs: Cloud Translation v2, and translate_a/single, which its pages and many tools ask."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.api.dialects.dialect import (
    Asked,
    Call,
    Dialect,
    Question,
    Row,
    TextQuestion,
    is_detected,
    json_errors,
    translated,
)
from app.api.schemas.fields import Language, OneOrSeveral
from app.http.problems import Problem
from model.languages import language_name

_BOTH = ("GET", "POST")


class GoogleTranslate(TextQuestion):
    """Translate texts."""

    text_fields = ("q",)

    q: OneOrSeveral = Field(description="The text, or a list of texts")
    source: str = Field("", description="Their language; without one it is detected")
    target: Language = Field(description="The language to translate into")
    format: Literal["html", "text"] = Field("html", description="`text`: plain text")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked(self.q, self.source, self.target, self.format == "html"))
        found: list[dict[str, str]] = [{"translatedText": text} for text in done.texts]
        if is_detected(self.source):
            for entry, code in zip(found, done.sources, strict=True):
                entry["detectedSourceLanguage"] = code
        return {"data": {"translations": found}}


class GoogleDetect(Question):
    """Detect which of the served languages texts are in."""

    text_fields = ("q",)

    q: OneOrSeveral = Field(description="The text, or a list of texts")

    async def respond(self, call: Call) -> object:
        call.translator.check(self.q)
        found = [await call.detect(text) for text in self.q]
        detections = [[{"language": code, "isReliable": False, "confidence": sure}] for code, sure in found]
        return {"data": {"detections": detections}}


class GoogleLanguages(Question):
    """List the languages."""

    target: str = Field("", description="If it is given, names are listed as well; in English, whatever it is")

    async def respond(self, call: Call) -> object:
        codes = call.catalogue.languages
        names = [{"name": language_name(code)} if self.target else {} for code in codes]
        return {"data": {"languages": [{"language": code, **name} for code, name in zip(codes, names, strict=True)]}}


class GoogleSingle(TextQuestion):
    """Translate a text, as Google's own page asks."""

    text_fields = ("q",)

    q: str = Field(description="The text")
    sl: str = Field("", description="Its language; `auto`: it is detected")
    tl: Language = Field(description="The language to translate into")
    dj: str = Field("", description="`1`: the response is an object, not a list")

    async def respond(self, call: Call) -> object:
        """Clients read the positions 0, 2, 6 and 8 of the list, and take what is null for absent."""
        done = await translated(call, Asked([self.q], self.sl, self.tl))
        text, source, sure = done.texts[0], done.sources[0], done.items[0].confidence or 1.0
        if self.dj == "1":
            languages = {"srclangs": [source], "srclangs_confidences": [sure], "extended_srclangs": [source]}
            sentence = {"trans": text, "orig": self.q, "backend": 10}
            return {"sentences": [sentence], "src": source, "confidence": sure, "ld_result": languages}
        detected = [[source], None, [sure], [source]]
        return [[[text, self.q, None, None, 10]], None, source, None, None, None, sure, [], detected]


class GoogleText(TextQuestion):
    """Translate texts, as Google's element for web pages asks."""

    text_fields = ("q",)

    q: OneOrSeveral = Field(description="The text, or a list of texts")
    sl: str = Field("", description="Their language; `auto`: it is detected")
    tl: Language = Field(description="The language to translate into")
    format: Literal["html", "text"] = Field("text", description="`html`: the markup is preserved")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked(self.q, self.sl, self.tl, self.format == "html"))
        if not is_detected(self.sl):
            return done.texts
        return [list(pair) for pair in zip(done.texts, done.sources, strict=True)]


_KINDS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_KINDS |= {
    405: "UNIMPLEMENTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _error(message: str, status: int, problem: Problem) -> dict[str, Any]:
    kind = _KINDS.get(status, "INTERNAL")
    entry = {"message": message, "domain": "global", "reason": kind.lower()}
    return {"error": {"code": status, "message": message, "errors": [entry], "status": kind}}


_HELLO = {"q": ["Hello."], "source": "en", "target": "fr", "format": "text"}
_SINGLE = {"q": "Hello.", "sl": "auto", "tl": "fr"}
GOOGLE = Dialect(
    "google",
    "Google",
    "Google's Cloud Translation v2 and translate_a, for tools that take another address",
    json_errors(_error),
    (
        Row("/language/translate/v2", GoogleTranslate, "Translate texts", (_HELLO,), methods=_BOTH),
        Row("/language/translate/v2/detect", GoogleDetect, "Detect languages", ({"q": ["Hi."]},), methods=_BOTH),
        Row("/language/translate/v2/languages", GoogleLanguages, "List languages", ({"target": "en"},), methods=_BOTH),
        Row("/translate_a/single", GoogleSingle, "Translate a text", (_SINGLE,), methods=_BOTH),
        Row("/translate_a/t", GoogleText, "Translate texts", (_SINGLE,), methods=_BOTH),
    ),
)
