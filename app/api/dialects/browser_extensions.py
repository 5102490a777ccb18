"""What browser extensions send to a translation service of the user's own, at any address: Immersive Translate,
kiss-translator and hcfy."""

from __future__ import annotations

from pydantic import Field

from app.api.dialects.dialect import Asked, Call, Dialect, Row, TextQuestion, is_detected, json_errors, translated
from app.api.schemas.fields import Language, OneOrSeveral, Text
from app.errors import InvalidFields
from model.language_names import chinese_name, language_named
from model.languages import served_code

_render = json_errors(lambda message, status, problem: {"error": message, "message": message})


class ImmersiveTranslate(TextQuestion):
    """Translate the paragraphs of a page."""

    text_fields = ("text_list",)

    text_list: OneOrSeveral = Field(description="The texts")
    source_lang: str = Field("", description="Their language; `auto`: it is detected")
    target_lang: Language = Field(description="The language to translate into")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked(self.text_list, self.source_lang, self.target_lang))
        pairs = zip(done.sources, done.texts, strict=True)
        return {"translations": [{"detected_source_lang": code, "text": text} for code, text in pairs]}


class KissTranslate(TextQuestion):
    """Translate a text, or a list of texts."""

    text_fields = ("text", "texts")

    text: Text | None = Field(None, description="The text")
    texts: OneOrSeveral = Field([], description="Or several")
    from_: str = Field("", alias="from", description="Their language; `auto`: it is detected")
    to: Language = Field(description="The language to translate into")

    async def respond(self, call: Call) -> object:
        if self.text is None and not self.texts:
            raise InvalidFields.at("#/text", "Field required")
        texts = self.texts if self.text is None else [self.text]
        done = await translated(call, Asked(texts, self.from_, self.to))
        found = [{"text": text, "src": code} for text, code in zip(done.texts, done.sources, strict=True)]
        return {"translations": found} if self.text is None else found[0]


class HcfyTranslate(TextQuestion):
    """Translate a text; languages are Chinese names."""

    text: Text = Field(description="The text")
    source: str = Field("", description="The name of its language; without one it is detected")
    destination: OneOrSeveral = Field(
        min_length=1, description="The language to translate into, and another one for texts that are in the first"
    )
    name: str = Field("", description="What the user calls this service")

    async def respond(self, call: Call) -> object:
        source, *targets = (language_named(name) or name for name in (self.source, *self.destination))
        if is_detected(source) and len(targets) > 1:
            source, _ = await call.detect(self.text)
        is_first = served_code(source, [targets[0]]) is not None
        asked = Asked(self.text.split("\n"), source, targets[1 if is_first and len(targets) > 1 else 0])
        done = await translated(call, asked)
        names = {"from": chinese_name(done.sources[0]), "to": chinese_name(done.target)}
        return {"text": self.text, **names, "result": done.texts}


_HELLO = {"source_lang": "auto", "target_lang": "fr", "text_list": ["Hello."]}
IMMERSIVE = Dialect(
    "immersive",
    "Immersive Translate",
    "What the extension Immersive Translate sends to a custom API",
    _render,
    (Row("/translate", ImmersiveTranslate, "Translate the paragraphs of a page", (_HELLO,)),),
)
KISS = Dialect(
    "kiss",
    "kiss-translator",
    "What the extension kiss-translator sends to a custom API",
    _render,
    (Row("/translate", KissTranslate, "Translate texts", ({"text": "Hello.", "from": "auto", "to": "fr"},)),),
)
HCFY = Dialect(
    "hcfy",
    "hcfy",
    "What the extension 划词翻译 (hcfy) sends to a custom source",
    _render,
    (Row("/translate", HcfyTranslate, "Translate a text", ({"text": "Hello.", "destination": ["法语", "英语"]},)),),
)
