"""The requests of LibreTranslate's API that are not about files."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import Field

from app.api.dialects.dialect import Asked, Call, Question, Row, TextQuestion, served_pair, translated
from app.api.libretranslate.schemas import (
    LibreDetection,
    LibreLanguage,
    LibreLanguageName,
    LibreLanguages,
    LibreSettings,
    LibreSuggested,
    LibreTranslation,
)
from app.api.schemas.fields import Engine, Language, Text, Texts
from app.api.schemas.health import Health
from app.api.state import app_of
from app.errors import InvalidFields, NoTranslationMemory, PairNotServed, Unavailable
from app.formats import MEDIA_TYPES
from app.http.forms import Fields
from app.storage.protocols import Scope
from app.translation.types import AUTO
from model.languages import language_name

MAX_ALTERNATIVES = 8
_TYPING_PAUSE_MS = 500
_HELLO = {"q": "Hello.", "source": "en", "target": "fr"}
L = TypeVar("L", bound="LibreRequest")


class LibreRequest(Question):
    """Fields of every request."""

    text_fields = ("q",)
    repeats = False

    api_key: Text | None = Field(
        None, description="Needed if the service requires a key; `Authorization: Bearer` works too"
    )

    @classmethod
    def read(cls: type[L], fields: Fields) -> L:
        """Empty texts count as missing, as in LibreTranslate; the first of a repeated field is taken."""
        for name, field in cls.model_fields.items():
            if field.is_required() and fields.one(name) in (None, "", []):
                raise InvalidFields(f"Invalid request: missing {name} parameter")
        return super().read(fields)


class Translate(LibreRequest, TextQuestion):
    """Translate a text, or a list of texts.

    If one text of a list fails, the response is an error. With source `auto`, long texts of a list that seem to be in
    an unsupported language are returned unchanged, as long as there are others; their confidence is then near 0.
    """

    q: Texts = Field(description="The text; in JSON also a list of texts, for which the response has lists")
    source: Language = Field(description="The language of the text; `auto`: detected for each text separately")
    target: Language = Field(description="The language to translate into")
    format: Literal["text", "html"] = Field("text", description="`html`: the markup is preserved")
    engine: Engine = None
    alternatives: int = Field(
        0, description=f"Maximum number of alternative translations, best first; up to {MAX_ALTERNATIVES}"
    )

    async def respond(self, call: Call) -> object:
        texts = self.q if isinstance(self.q, list) else [self.q]
        alternatives = min(max(self.alternatives, 0), MAX_ALTERNATIVES)
        asked = Asked(texts, self.source, self.target, self.format == "html", alternatives, self.engine)
        done = await translated(call, asked)
        lists: dict[str, list[Any]] = {"translatedText": done.texts}
        if done.source == AUTO:
            found = zip(done.sources, done.items, strict=True)
            lists["detectedLanguage"] = [_detection(source, item.confidence) for source, item in found]
        if alternatives:
            lists["alternatives"] = [[text for text, _ in item.alternatives] for item in done.items]
        return {name: values if isinstance(self.q, list) else values[0] for name, values in lists.items()}


class Detect(LibreRequest):
    """Detect which of the served languages a text is in. The list has one entry, with its confidence."""

    q: Texts = Field(description="The text; in JSON also a list of texts, which are treated as one text")

    async def respond(self, call: Call) -> object:
        language, confidence = await call.detect("\n".join(self.q) if isinstance(self.q, list) else self.q)
        return [_detection(language, confidence)]


class Suggest(LibreRequest):
    """Remember a translation in the translation memory of the client's key; 403 if the service keeps none.

    From then on, equal texts and sentences get it.
    """

    q: str = Field(min_length=1, description="The text", examples=["Hello."])
    s: str = Field(min_length=1, description="The translation that it shall have", examples=["Salut."])
    source: Language = Field(description="The language of the text; `auto` is detected")
    target: Language = Field(description="The language of the translation")

    async def respond(self, call: Call) -> object:
        memory = app_of(call.request).translation_memory
        if memory is None:
            raise NoTranslationMemory("Suggestions are disabled on this server.")
        assert call.client is not None
        call.translator.check([self.q, self.s])
        source = self.source if self.source.lower() != AUTO else (await call.detect(self.q))[0]
        source, target = served_pair(call.catalogue, source, self.target)
        call.catalogue.route(source, target)
        await memory.put(Scope(call.client.name, source, target), [(self.q, self.s)], call.client.name)
        return {"success": True}


class Languages(Question):
    """List the languages. Each is also its own target, as in LibreTranslate; such texts are returned unchanged."""

    async def respond(self, call: Call) -> object:
        catalogue = call.catalogue
        targets = {target: {target} for target in catalogue.target_languages}
        targets |= {source: {source, *found} for source, found in catalogue.targets_by_source.items()}
        return [
            {"code": code, "name": language_name(code), "targets": sorted(found)}
            for code, found in sorted(targets.items())
        ]


class LibreHealth(Question):
    """Return 200 as long as the process responds, however busy the engine is."""

    async def respond(self, call: Call) -> object:
        return {"status": "ok"}


class FrontendSettings(Question):
    """Return limits, file formats and the initially selected languages."""

    async def respond(self, call: Call) -> object:
        app = app_of(call.request)
        target = call.catalogue.target_languages[0]
        return LibreSettings(
            charLimit=app.settings.max_text_chars,
            frontendTimeout=_TYPING_PAUSE_MS,
            apiKeys=app.access_control.requires_key,
            keyRequired=app.access_control.requires_key,
            suggestions=app.translation_memory is not None,
            filesTranslation=True,
            supportedFilesFormat=list(MEDIA_TYPES),
            language=LibreLanguages(
                source=LibreLanguageName(code=AUTO, name="Auto Detect"),
                target=LibreLanguageName(code=target, name=language_name(target)),
            ),
        ).model_dump()


class Spec(Question):
    """Return this API's own OpenAPI document, by whose title clients know the API."""

    async def respond(self, call: Call) -> object:
        document = call.request.app.openapi()
        paths = {
            path: operations
            for path, operations in document["paths"].items()
            if any("LibreTranslate" in operation["tags"] for operation in operations.values())
        }
        return {**document, "info": {**document["info"], "title": "LibreTranslate"}, "paths": paths}


def _detection(language: str, confidence: float | None) -> dict[str, object]:
    """A LibreDetection, with confidence 0 for a text without words."""
    return {"confidence": round(100 * (confidence or 0.0), 1), "language": language}


_FREE: dict[str, Any] = {"methods": ("GET",), "needs_key": False}
ROWS = (
    Row(
        "/translate",
        Translate,
        "Translate texts",
        (
            _HELLO,
            {"q": ["Hello, my friend.", "How are you?"], "source": "auto", "target": "fr"},
            {**_HELLO, "q": "<p>My <b>house</b>.</p>", "format": "html", "alternatives": 2},
        ),
        LibreTranslation,
    ),
    Row("/detect", Detect, "Detect the language of a text", ({"q": "How are you?"},), list[LibreDetection]),
    Row(
        "/suggest",
        Suggest,
        "Suggest a better translation",
        ({**_HELLO, "s": "Salut."},),
        LibreSuggested,
        errors=(NoTranslationMemory, PairNotServed, Unavailable),
    ),
    Row("/languages", Languages, "List languages, with the targets of each", (), list[LibreLanguage], **_FREE),
    Row("/frontend/settings", FrontendSettings, "Settings for a translation page", (), LibreSettings, **_FREE),
    Row("/health", LibreHealth, "Liveness: is the process responding?", (), Health, **_FREE),
    Row("/spec", Spec, "This API's OpenAPI document", **_FREE),
)
