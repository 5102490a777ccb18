"""DeepL's /v2/translate."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from app.api.deepl import wire_format
from app.api.deepl.translation_memories import memory_of
from app.api.deepl.wire_format import (
    MAX_GLOSSARIES,
    Body,
    Names,
    example_problem,
    glossary_of,
    invalid_field,
    not_found,
    pair_of,
)
from app.api.dialects.dialect import Asked, Call, Row, TextQuestion, is_detected, translated
from app.api.schemas.fields import Engine, Language, OneOrSeveral
from app.api.state import app_of
from app.errors import StoreUnavailable
from app.http.forms import Fields
from app.markup.extract import markup_pieces
from app.markup.html_elements import Rules
from app.markup.passage import Passage
from app.runtime.event_loop import run
from app.translation.formality import Formality, has_formality
from app.translation.types import AUTO, EngineOption, Item, Options, TranslatedText
from model.languages import language_alone

_UNSUPPORTED = {
    "style_id": "Style rules",
    "style_profile_id": "Style profiles",
    "custom_instructions": "Custom instructions",
}
_ENGINES: dict[str, EngineOption] = {
    "quality_optimized": "llm",
    "latency_optimized": "local",
    "prefer_quality_optimized": "auto",
}
_LINE_BREAKS = re.compile(r"(?<=\S)[^\S\n\v\f\r\x85\u2028\u2029]*[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*+(?=\S)")
"""Line ends between words."""


def _unless_detected(code: str | None) -> str | None:
    return None if code is None or is_detected(code) else code


class TranslationOptions(Body):
    """Options common to texts and documents."""

    target_lang: Language = Field(description="The language to translate into", examples=["FR"])
    source_lang: Annotated[Language | None, AfterValidator(_unless_detected)] = Field(
        None, description="If absent or `auto`, the language of each text is detected", examples=["EN"]
    )
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = Field(
        "default",
        description="How to address the reader, in German, French and Spanish; elsewhere, `more` and `less` "
        "are refused",
    )
    glossary_id: str | None = Field(None, description="A glossary's id. Requires `source_lang`")
    glossary_ids: Names | None = Field(
        None, description=f"Ids of up to {MAX_GLOSSARIES} glossaries; the first that has a term decides"
    )
    translation_memory_id: str | None = Field(None, description="The id of a translation memory, with `source_lang`")
    translation_memory_threshold: int | None = Field(
        None, ge=0, le=100, description="Has no effect: only texts that are equal take the memory's translation"
    )
    engine: Engine = None
    style_id: str | None = Field(None, description="Not supported: style rules are refused")
    style_profile_id: str | None = Field(None, description="Not supported: style profiles are refused")
    custom_instructions: OneOrSeveral | None = Field(None, description="Not supported: they are refused")

    def check(self) -> None:
        """Raises InvalidFields for options that the service could not honour."""
        if self.formality in ("more", "less") and not has_formality(self.target_lang):
            raise invalid_field("formality", f"Target language {self.target_lang} does not support formality.")
        for field, what in _UNSUPPORTED.items():
            if getattr(self, field):
                raise invalid_field(field, f"{what} are not supported.")
        if self.glossary_id is not None and self.glossary_ids is not None:
            raise invalid_field("glossary_ids", "Give either glossary_id or glossary_ids.")

    @property
    def address(self) -> Formality | None:
        """The formality for the translator."""
        return None if self.formality == "default" else "more" if self.formality.endswith("more") else "less"

    @property
    def glossaries(self) -> list[str]:
        return [self.glossary_id] if self.glossary_id is not None else self.glossary_ids or []


class TextRequest(TranslationOptions, TextQuestion):
    """Translate texts. If one of them cannot be translated, the response is its error."""

    text: OneOrSeveral = Field(min_length=1, description="One text or several")
    split_sentences: Literal["0", "1", "nonewlines"] | None = Field(
        None,
        description="`0`: each text is one sentence; `nonewlines`: line ends do not end sentences, and become spaces",
    )
    tag_handling: Literal["xml", "html"] | None = Field(None, description="The texts are XML or HTML")
    ignore_tags: Names = Field([], description="Elements whose content is not translated")
    splitting_tags: Names = Field([], description="Elements that end a sentence")
    non_splitting_tags: Names = Field([], description="Elements that do not end a sentence")
    outline_detection: bool = Field(True, description="false: only `splitting_tags` end a sentence")
    model_type: Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None = Field(
        None,
        description="`engine` as DeepL's clients say it, if the service has a large model: quality_optimized is `llm`, "
        "latency_optimized `local`, prefer_quality_optimized `auto`. Without one it has no effect",
    )
    context: str | None = Field(None, description="Has no effect: each sentence is translated independently")
    preserve_formatting: bool = Field(False, description="Has no effect: formatting is always preserved")
    show_billed_characters: bool = Field(True, description="Has no effect: they are always shown")
    tag_handling_version: Literal["v1", "v2"] | None = Field(None, description="Has no effect")

    @property
    def rules(self) -> Rules:
        named = (self.ignore_tags, self.splitting_tags, self.non_splitting_tags)
        untouched, splitting, joining = (frozenset(name.lower() for name in names) for names in named)
        return Rules(untouched, splitting, joining, self.outline_detection, self.tag_handling == "html")

    @classmethod
    def read(cls, fields: Fields) -> TextRequest:
        return wire_format.validated(cls, fields)

    async def respond(self, call: Call) -> object:
        self.check()
        translator, client = call.translator, call.client
        assert client is not None
        translator.check(self.text)
        source, target = pair_of(call.catalogue, self.source_lang, self.target_lang)
        glossary = await glossary_of(app_of(call.request).glossaries, client.name, self.glossaries, source, target)
        memory = await memory_of(call.request, client.name, self.translation_memory_id, source or AUTO, target)
        engine = self.engine or (_ENGINES.get(self.model_type or "") if translator.large_model else None)
        options = Options(
            source or AUTO, target, glossary=glossary, memory=memory, engine=engine, formality=self.address
        )
        asked = Asked(self.text, options.source, target)
        done = await translated(call, asked, options, await to_items(self))
        return {"translations": [self._entry(*each) for each in zip(self.text, done.items, done.sources, strict=True)]}

    def _entry(self, text: str, done: TranslatedText, source: str) -> dict[str, Any]:
        """Raises the text's error, if it has one."""
        if done.error:
            raise done.error
        detected = self.source_lang or language_alone(source)
        entry = {"detected_source_language": detected.upper(), "text": done.text, "billed_characters": len(text)}
        if self.model_type:
            entry["model_type_used"] = self.model_type.removeprefix("prefer_")
        return entry


class TextTranslation(BaseModel):
    """The result of one text."""

    detected_source_language: str = Field(examples=["EN"], description="The language given or detected")
    text: str = Field(description="The translation", examples=["Bonjour."])
    billed_characters: int = Field(description="Code points of the text sent", examples=[6])
    model_type_used: str | None = Field(default=None, description="Present if `model_type` was sent")


class TextResponse(BaseModel):
    """One entry for each text, in order."""

    translations: list[TextTranslation] = Field(description="One per text, in order")


async def to_items(body: TextRequest) -> list[Item]:
    """The translator's input, with sentences split as `body` asks and its tag options applied."""
    parsed = 0 if body.tag_handling is None else sum(map(len, body.text))
    return await run(parsed, lambda: [_to_item(text, body) for text in body.text])


def _to_item(text: str, body: TextRequest) -> Item:
    whole = body.split_sentences == "0"
    if body.tag_handling is None:
        text = text if body.split_sentences in (None, "1") else _LINE_BREAKS.sub(" ", text)
        return [Passage(text, whole=True)] if whole else text
    items = markup_pieces(text, body.rules)
    if not whole:
        return items
    return [replace(piece, whole=True) if isinstance(piece, Passage) else piece for piece in items]


TRANSLATE = Row(
    "/v2/translate",
    TextRequest,
    "Translate texts",
    (
        {"text": ["Hello.", "How are you?"], "target_lang": "FR", "source_lang": "EN"},
        {"text": ["<p>Hello, <b>my friend</b>!</p>"], "target_lang": "FR", "tag_handling": "html"},
    ),
    TextResponse,
    errors=(StoreUnavailable,),
    problems={"no-glossary": example_problem(404, "Not Found", not_found("glossary").detail)},
)
