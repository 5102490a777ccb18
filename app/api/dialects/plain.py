"""Small dialects: nllb-serve's, nllb-api's, and plain GET requests, as of XUnity.AutoTranslator and OmegaT."""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import Field

from app.api.dialects.dialect import Asked, Call, Dialect, Row, TextQuestion, message_of, status_of, translated
from app.api.schemas.fields import Language, OneOrSeveral, Text
from app.http.problems import Problem

_BOTH = ("GET", "POST")


class NLLBTranslate(TextQuestion):
    """Translate texts, with codes as of FLORES-200."""

    text_fields = ("source",)

    source: OneOrSeveral = Field(description="The text, or a list of texts")
    src_lang: str = Field("eng_Latn", description="Their language")
    tgt_lang: Language = Field(description="The language to translate into")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked(self.source, self.src_lang, self.tgt_lang))
        languages = {"src_lang": self.src_lang, "tgt_lang": self.tgt_lang}
        return {"source": self.source, "translation": done.texts, **languages}


class NLLBTranslator(TextQuestion):
    """Translate a text, with codes as of FLORES-200."""

    text: Text = Field(description="The text")
    source: str = Field("", description="Its language")
    target: Language = Field(description="The language to translate into")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked([self.text], self.source, self.target))
        return {"result": done.texts[0]}


class PlainTranslate(TextQuestion):
    """Translate a text; the response is the translation alone."""

    splits_query = True

    text: Text = Field(description="The text")
    from_: str = Field("", alias="from", description="Its language; `auto`: it is detected")
    to: Language = Field(description="The language to translate into")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked([self.text], self.from_, self.to))
        return PlainTextResponse(done.texts[0])


class OmegaTTranslate(NLLBTranslator):
    """Translate a text."""

    splits_query = True

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked([self.text], self.source, self.target))
        # Without a charset, OmegaT reads ISO 8859-1.
        return JSONResponse({"translation": done.texts[0]}, media_type="application/json; charset=utf-8")


def _as_text(problem: Problem, headers: dict[str, str]) -> Response:
    text = message_of(problem).encode("utf-8", "replace")
    return PlainTextResponse(text, status_of(problem), headers)


_NLLB = {"source": ["Hello."], "src_lang": "eng_Latn", "tgt_lang": "fra_Latn"}
_HELLO = {"text": "Hello.", "source": "en", "target": "fr"}
_FROM_TO = {"text": "Hello.", "from": "en", "to": "fr"}
NLLB = Dialect(
    "nllb",
    "nllb-serve",
    "The APIs of nllb-serve and nllb-api, for their clients",
    _as_text,
    (
        Row("/translate", NLLBTranslate, "Translate texts", (_NLLB,), methods=_BOTH),
        Row("/api/v4/translator", NLLBTranslator, "Translate a text", (_HELLO,), methods=_BOTH),
    ),
)
PLAIN = Dialect(
    "plain",
    "Plain GET",
    "A text in the query, its translation alone in the response",
    _as_text,
    (
        Row(
            "/translate",
            PlainTranslate,
            "Translate a text",
            (_FROM_TO,),
            response_class=PlainTextResponse,
            methods=_BOTH,
        ),
    ),
)
OMEGAT = Dialect(
    "omegat",
    "OmegaT",
    "What OmegaT's fake-MT plugin asks",
    _as_text,
    (Row("/translate", OmegaTTranslate, "Translate a text", (_HELLO,), methods=_BOTH),),
)
