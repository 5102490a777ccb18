"""Azure Translator's API, version 3.0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from fastapi.responses import PlainTextResponse
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

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
from app.api.dialects.router import key_of
from app.api.schemas.fields import Text
from app.http.forms import read_query
from model.languages import language_name

_CODES = {404: 404000, 401: 401000, 405: 405000, 413: 400077, 415: 415000, 429: 429000}


class AzureText(BaseModel):
    """A text."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    text: Text = Field(validation_alias=AliasChoices("Text", "text"), description="The text")


class _Texts(Question):
    text_fields: ClassVar[Sequence[str]] = ("texts",)
    body_list = "texts"

    texts: list[AzureText] = Field(description="The texts")


class AzureTranslate(_Texts, TextQuestion):
    """Translate texts, into several languages if `to` is repeated or a list with commas."""

    text_fields = ("texts", "to")

    from_: str = Field("", alias="from", description="Their language; without one it is detected")
    to: str | list[str] = Field(min_length=1, description="The language to translate into")
    textType: Literal["plain", "html", "Plain", "Html"] = Field("plain", description="`html`: the texts are HTML")

    async def respond(self, call: Call) -> object:
        targets = [code for to in ([self.to] if isinstance(self.to, str) else self.to) for code in to.split(",")]
        asked = Asked([each.text for each in self.texts], self.from_, "", self.textType.lower() == "html")
        call.translator.check_count(len(asked.texts) * len(targets))
        found = [(target, await translated(call, asked._replace(target=target))) for target in targets]
        entries = []
        for number in range(len(asked.texts)):
            entry: dict[str, object] = {
                "translations": [{"text": done.texts[number], "to": target} for target, done in found]
            }
            if is_detected(self.from_):
                first = found[0][1]
                sure = first.items[number].confidence or 0.0
                entry = {"detectedLanguage": {"language": first.sources[number], "score": sure}, **entry}
            entries.append(entry)
        return entries


class AzureDetect(_Texts):
    """Detect which of the served languages texts are in."""

    async def respond(self, call: Call) -> object:
        texts = [each.text for each in self.texts]
        call.translator.check(texts)
        support = {"isTranslationSupported": True, "isTransliterationSupported": False}
        found = [await call.detect(text) for text in texts]
        return [{"language": code, "score": sure, **support} for code, sure in found]


class AzureLanguages(Question):
    """List the languages."""

    async def respond(self, call: Call) -> object:
        codes = sorted({code for pair in call.catalogue.pairs() for code in pair})
        names = {code: {"name": language_name(code), "nativeName": language_name(code)} for code in codes}
        right_to_left = {"ar", "fa", "he", "ps", "sd", "ug", "ur", "yi"}
        directions = {code: {"dir": "rtl" if code in right_to_left else "ltr"} for code in codes}
        return {"translation": {code: {**names[code], **directions[code]} for code in codes}}


class AzureToken(Question):
    """Exchange a key for a token, which here is the key itself."""

    async def respond(self, call: Call) -> object:
        return PlainTextResponse(key_of(call.request, read_query(call.request)) or "")


_HELLO = [{"Text": "Hello."}]
AZURE = Dialect(
    "azure",
    "Azure",
    "Azure Translator's API, version 3.0, for its clients",
    json_errors(
        lambda message, status, problem: {"error": {"code": _CODES.get(status, status * 1_000), "message": message}}
    ),
    (
        Row("/translate", AzureTranslate, "Translate texts", ({"texts": _HELLO},)),
        Row("/detect", AzureDetect, "Detect languages", ({"texts": _HELLO},)),
        Row("/languages", AzureLanguages, "List languages", methods=("GET",), needs_key=False),
        Row("/sts/v1.0/issueToken", AzureToken, "Exchange a key for a token"),
    ),
)
