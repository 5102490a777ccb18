"""Azure Translator's API, versions 3.0 and 2026-06-06."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from fastapi.responses import PlainTextResponse
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from app.api.admission import key_of
from app.api.dialects.dialect import (
    STATUSES,
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
from app.api.schemas.fields import Language, OneOrSeveral, Text
from app.errors import InvalidFields, PairNotServed, TooMuchText
from app.http.forms import read_query
from app.http.problems import Problem
from model.languages import language_name

_CODES = {PairNotServed.slug: 400023, TooMuchText.slug: 400077}


class AzureTarget(BaseModel):
    """A language to translate into."""

    language: Language = Field(description="Its code")


class AzureText(BaseModel):
    """A text."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    text: Text = Field(validation_alias=AliasChoices("Text", "text"), description="The text")


class AzureInput(AzureText):
    """A text with options of its own, which version 2026-06-06 has."""

    language: str = Field("", description="Its language, in place of `from`")
    textType: str = Field("", description="In place of the query's")
    targets: list[AzureTarget] = Field([], description="The languages to translate into, in place of `to`")


class AzureTranslate(TextQuestion):
    """Translate texts, into several languages if `to` is repeated or a list with commas."""

    text_fields: ClassVar[Sequence[str]] = ("inputs", "to")
    body_list = "inputs"

    inputs: list[AzureInput] = Field(description="The texts")
    from_: str = Field("", alias="from", description="Their language; without one it is detected")
    to: OneOrSeveral = Field([], description="The language to translate into")
    textType: Literal["plain", "html", "Plain", "Html"] = Field("plain", description="`html`: the texts are HTML")
    version: str = Field("3.0", alias="api-version", description="`2026-06-06`: as that version answers")

    async def respond(self, call: Call) -> object:
        to = [code for each in self.to for code in each.split(",") if code]
        name = "to" if self.version.startswith("3") else "language"
        places: dict[tuple[str, str, bool], list[tuple[str, dict[str, Any], dict[str, str]]]] = {}
        entries: list[dict[str, Any]] = []
        for each in self.inputs:
            is_html = (each.textType or self.textType).lower() == "html"
            targets = [target.language for target in each.targets] or to
            entries.append({"translations": [{name: target} for target in targets]})
            for target, translation in zip(targets, entries[-1]["translations"], strict=True):
                languages = each.language or self.from_, target, is_html
                places.setdefault(languages, []).append((each.text, entries[-1], translation))
            if not targets:
                raise InvalidFields.at("#/to", "Field required")
        call.translator.check_count(sum(map(len, places.values())))
        for (source, target, is_html), those in places.items():
            done = await translated(call, Asked([text for text, _, _ in those], source, target, is_html))
            for number, (_, entry, translation) in enumerate(those):
                translation["text"] = done.texts[number]
                if is_detected(source):
                    sure = done.items[number].confidence or 0.0
                    entry["detectedLanguage"] = {"language": done.sources[number], "score": sure}
        return entries if name == "to" else {"value": entries}


class AzureDetect(Question):
    """Detect which of the served languages texts are in."""

    text_fields: ClassVar[Sequence[str]] = ("inputs",)
    body_list = "inputs"

    inputs: list[AzureText] = Field(description="The texts")

    async def respond(self, call: Call) -> object:
        texts = [each.text for each in self.inputs]
        call.translator.check(texts)
        support = {"isTranslationSupported": True, "isTransliterationSupported": False}
        found = [await call.detect(text) for text in texts]
        return [{"language": code, "score": sure, **support} for code, sure in found]


class AzureLanguages(Question):
    """List the languages."""

    async def respond(self, call: Call) -> object:
        codes = call.catalogue.languages
        names = {code: {"name": language_name(code), "nativeName": language_name(code)} for code in codes}
        right_to_left = {"ar", "fa", "he", "ps", "sd", "ug", "ur", "yi"}
        directions = {code: {"dir": "rtl" if code in right_to_left else "ltr"} for code in codes}
        return {"translation": {code: {**names[code], **directions[code]} for code in codes}}


class AzureToken(Question):
    """Exchange a key for a token, which here is the key itself."""

    async def respond(self, call: Call) -> object:
        return PlainTextResponse(key_of(call.request, read_query(call.request)) or "")


def _error(message: str, status: int, problem: Problem) -> dict[str, object]:
    return {"error": {"code": _CODES.get(problem.type.rpartition(":")[2], status * 1_000), "message": message}}


_HELLO = [{"Text": "Hello."}]
AZURE = Dialect(
    "azure",
    "Azure",
    "Azure Translator's API, versions 3.0 and 2026-06-06, for its clients",
    json_errors(_error, {**STATUSES, 413: 400}),
    (
        Row("/translate", AzureTranslate, "Translate texts", ({"inputs": _HELLO, "to": "fr"},)),
        Row("/detect", AzureDetect, "Detect languages", ({"inputs": _HELLO},)),
        Row("/languages", AzureLanguages, "List languages", methods=("GET",), needs_key=False),
        Row("/sts/v1.0/issueToken", AzureToken, "Exchange a key for a token", ({},), response_class=PlainTextResponse),
    ),
)
