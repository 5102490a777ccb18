"""MTranServer's API (xxnuo/MTranServer, 4.0), with the plugins that it serves beside it."""

from __future__ import annotations

from pydantic import Field

from app.api.dialects.browser_extensions import HCFY, IMMERSIVE, KISS
from app.api.dialects.dialect import Asked, Call, Dialect, Question, Row, TextQuestion, json_errors, translated
from app.api.schemas.fields import Language, OneOrSeveral, Text
from model import __version__

_HELLO = {"from": "en", "to": "fr"}


class _Pair(TextQuestion):
    from_: str = Field("", alias="from", description="The language of the text; `auto`: it is detected")
    to: Language = Field(description="The language to translate into")
    html: bool = Field(False, description="The text is HTML")


class MTranTranslate(_Pair):
    """Translate a text."""

    text: Text = Field(description="The text")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked([self.text], self.from_, self.to, self.html))
        return {"result": done.texts[0]}


class MTranBatch(_Pair):
    """Translate texts."""

    text_fields = ("texts",)

    texts: OneOrSeveral = Field(description="The texts")

    async def respond(self, call: Call) -> object:
        done = await translated(call, Asked(self.texts, self.from_, self.to, self.html))
        return {"results": done.texts}


class MTranDetect(Question):
    """Detect which of the served languages a text is in."""

    text: Text = Field(description="The text")
    minConfidence: float | None = Field(None, description="Below this the language is empty, from 0 to 1")

    async def respond(self, call: Call) -> object:
        language, confidence = await call.detect(self.text)
        if self.minConfidence is None:
            return {"language": language}
        return {"language": language if confidence >= self.minConfidence else "", "confidence": confidence}


class MTranLanguages(Question):
    """List the languages and the pairs."""

    async def respond(self, call: Call) -> object:
        pairs = [{"from": source, "to": target} for source, target in call.catalogue.pairs()]
        return {"languages": call.catalogue.languages, "pairs": pairs}


class MTranVersion(Question):
    """Return the version of this service."""

    async def respond(self, call: Call) -> object:
        return {"version": __version__}


MTRANSERVER = Dialect(
    "mtranserver",
    "MTranServer",
    "MTranServer's API, for its clients",
    json_errors(lambda message, status, problem: {"error": message, "message": message}),
    (
        Row("/translate", MTranTranslate, "Translate a text", ({**_HELLO, "text": "Hello."},)),
        Row("/translate/batch", MTranBatch, "Translate texts", ({**_HELLO, "texts": ["Hello."]},)),
        Row("/detect", MTranDetect, "Detect the language of a text", ({"text": "How are you?"},)),
        Row("/languages", MTranLanguages, "List languages and pairs", methods=("GET",)),
        Row("/version", MTranVersion, "The version of this service", methods=("GET",), needs_key=False),
        *(
            plugin.rows[0]._replace(path=path)
            for path, plugin in (("/imme", IMMERSIVE), ("/kiss", KISS), ("/hcfy", HCFY))
        ),
    ),
)
