"""What a dialect is, an API of others: rows, each a path and the model of a request's fields, which says what is asked
and makes the response. Languages, limits, the memory and the translation are the same for all."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from app.api.memory_option import memory_option, note_engine
from app.api.state import translator_of
from app.engine.registry import Catalogue
from app.errors import PairNotServed, ServiceError
from app.http.forms import Fields
from app.http.json_body import while_connected
from app.http.problems import ASCIIResponse, ErrorRenderer, Problem, validated
from app.runtime.event_loop import run
from app.runtime.rate_limits import Client
from app.server.state import state_of
from app.translation.translator import Translator
from app.translation.types import AUTO, EngineOption, Item, Options, TranslatedText
from model.languages import served_code

Q = TypeVar("Q", bound="Question")
STATUSES = {408: 400, 415: 400, 422: 400}
"""Statuses of others for ours, where they have fewer."""


class Call(NamedTuple):
    """An admitted request. `client` is None where none is needed."""

    request: Request
    client: Client | None

    @property
    def translator(self) -> Translator:
        return translator_of(self.request)

    @property
    def catalogue(self) -> Catalogue:
        return self.translator.catalogue

    async def detect(self, text: str) -> tuple[str, float]:
        """The served language that the text is in, and how probable that is; the first one for a text without words.
        Raises TooMuchText."""
        self.translator.check_length(len(text))
        detect, is_loaded = self.translator.detect, self.translator.detector.ready
        found = await (run(len(text), detect, text) if is_loaded else to_thread(detect, text))
        return found.language or self.catalogue.source_languages[0], found.confidence


class Asked(NamedTuple):
    """What a request asks for, with languages as the client writes them."""

    texts: Sequence[str]
    source: str
    target: str
    html: bool = False
    alternatives: int = 0
    engine: EngineOption | None = None


class Done(NamedTuple):
    """The translations, with the codes under which the languages are served; `source` may be AUTO."""

    asked: Asked
    source: str
    target: str
    items: Sequence[TranslatedText]
    sources: Sequence[str]
    """The language of each text. Clients look it up, so a text without words has one as well."""

    @property
    def texts(self) -> list[str]:
        """A text that could not be translated, in a list whose languages are detected, is unchanged."""
        return [
            text if item.text is None else item.text for text, item in zip(self.asked.texts, self.items, strict=True)
        ]


class Question(BaseModel):
    """The fields of a request. Unknown ones are ignored, a number is as good as its digits, and an empty field counts
    as absent, except one with texts."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    text_fields: ClassVar[Sequence[str]] = ("text",)
    """Fields of texts: they may be empty, and repeat; a form may have a JSON list there."""
    repeats: ClassVar[bool] = True
    """Whether a repeated field of texts is a list; otherwise the first is taken."""
    splits_query: ClassVar[bool] = False
    """Whether a "?" in the query is an "&": some clients add "?text=..." even to an address with "?key=..."."""
    is_json_only: ClassVar[bool] = False
    """Whether no form can have the fields: they are lists of objects."""
    body_list: ClassVar[str | None] = None
    """The field that a body is, if it is a JSON list."""

    @classmethod
    def read(cls: type[Q], fields: Fields) -> Q:
        """Raises InvalidFields."""
        names = {field.alias or name: name for name, field in cls.model_fields.items()}
        found = {}
        for name in names:
            is_text = name in cls.text_fields
            value = _texts(fields, name, cls.repeats) if is_text else fields.one(name)
            if value is not None and (is_text or value not in ("", [])):
                found[name] = value
        return validated(cls, found)

    async def respond(self, call: Call) -> object:
        """The response, or what its JSON shall be."""
        raise NotImplementedError


class TextQuestion(Question):
    """A request to translate, which is refused early if the service is overloaded."""


class Row(NamedTuple):
    """A route of a dialect."""

    path: str
    question: type[Question]
    summary: str
    examples: Sequence[Mapping[str, Any]] = ()
    """Of requests, for the documentation."""
    response: Any = None
    """The response's model, for the documentation."""
    response_class: type[Response] = JSONResponse
    media_types: Sequence[str] = ()
    """Types that the response may have besides."""
    methods: Sequence[str] = ("POST",)
    needs_key: bool = True
    errors: Sequence[type[ServiceError]] = ()
    """Errors other than those that all have."""
    problems: Mapping[str, Problem] = {}
    """Likewise those that are no ServiceErrors, by name."""


@dataclass(frozen=True, eq=False)
class Dialect:
    """An API of others. It is at /NAME, and where INTERLINEAR_ROOT_API has its name at the root as well."""

    name: str
    title: str
    description: str
    render_problem: ErrorRenderer
    rows: Sequence[Row] = ()
    others: Sequence[APIRouter] = ()
    """Routes that are no rows."""
    error: type[BaseModel] | None = None
    """The model of an error, for the documentation."""
    id_headers: Sequence[str] = ()
    """Headers in which clients look for a request's id, besides X-Request-ID."""

    @property
    def prefix(self) -> str:
        return f"/{self.name}"

    @property
    def paths(self) -> set[str]:
        return {row.path for row in self.rows}.union(*map(paths_of, self.others))


def paths_of(router: APIRouter) -> set[str]:
    return {route.path for route in router.routes if isinstance(route, APIRoute)}


def json_errors(shape: Callable[[str, int, Problem], object], statuses: Mapping[int, int] = STATUSES) -> ErrorRenderer:
    """A renderer of problems as the JSON that `shape` makes of a message, a status and the problem."""

    def render(problem: Problem, headers: dict[str, str]) -> Response:
        status = status_of(problem, statuses)
        return ASCIIResponse(shape(message_of(problem), status, problem), status, headers)

    return render


def status_of(problem: Problem, statuses: Mapping[int, int] = STATUSES) -> int:
    is_pair = problem.type.endswith(f":{PairNotServed.slug}")
    return 400 if is_pair else statuses.get(problem.status, problem.status)


def message_of(problem: Problem) -> str:
    """The problem in a line, with the names of fields as clients know them."""
    faults = [f"{fault.pointer[2:]}: {fault.detail}".removeprefix(": ") for fault in problem.errors[:3]]
    return f"Invalid request: {'; '.join(faults)}" if faults else problem.detail


def _texts(fields: Fields, name: str, repeats: bool) -> Any:
    """A text or a list, of any types from JSON; None if there is no such field."""
    if name in fields.typed or name not in fields.strings:
        return fields.typed.get(name)
    values = fields.strings[name]
    if len(values) == 1 and values[0].startswith('["'):
        with suppress(ValueError):
            return msgspec.json.decode(values[0], type=list[str])
    return values if repeats and len(values) > 1 else values[0]


# ---- The translation


def is_detected(source: str) -> bool:
    """Whether a client means that the language of its texts shall be detected."""
    return source.lower() in ("", AUTO, "detect", "undefined")


def served_pair(catalogue: Catalogue, source: str, target: str) -> tuple[str, str]:
    """The codes under which the languages are served; the source may be AUTO. Raises PairNotServed."""

    def served(code: str) -> str:
        if found := served_code(code, catalogue.languages):
            return found
        raise PairNotServed(f"{code} is not supported")

    return catalogue.codes(AUTO if is_detected(source) else served(source), served(target))


async def translated(
    call: Call, asked: Asked, options: Options | None = None, items: Sequence[Item] | None = None
) -> Done:
    """Translates the texts; the same language is not translated.

    `options`: default: as asked, with the client's memory. `items`: what is translated in place of the texts. Raises
    what the translator raises, for any of the texts, but keeps the error of one whose detected language is not served.
    """
    request, client, translator = call.request, call.client, call.translator
    assert client is not None
    translator.check(asked.texts)
    if options is None:
        source, target = served_pair(call.catalogue, asked.source, asked.target)
        options = Options(
            source,
            target,
            alternatives=asked.alternatives,
            html=asked.html,
            memory=await memory_option(request, source, target),
            engine=asked.engine,
        )
    state = state_of(request)
    options = msgspec.structs.replace(options, waited_s=state.waited_s, client=client.scheduled_as)
    source, target = options.source, options.target
    if source == target:
        unchanged = [TranslatedText(text=text) for text in asked.texts]
        return Done(asked, source, target, unchanged, [source] * len(unchanged))
    await client.charge(translator.cost(asked.texts))
    work = translator.translate(items or asked.texts, options)
    found = note_engine(request, await while_connected(request, work)).items
    for item in found:
        if item.error and not (source == AUTO and isinstance(item.error, PairNotServed)):
            raise item.error
    known, likely = call.catalogue.languages, call.catalogue.sources(target)
    detected = [item.source if item.source in known else likely[0] for item in found]
    return Done(asked, source, target, found, detected if source == AUTO else [source] * len(found))
