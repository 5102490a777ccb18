"""The command line's own engine: started for one input, without the limits that protect a service.

Also reads its bundles and settings, and reports failures and warnings at the end.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from app.cli.exit_codes import CANNOT_SERVE, OK, SOME_FAILED, UNREADABLE, WRONG_USAGE
from app.engine.cache import ResultCache, with_cache
from app.engine.engine import Engine
from app.engine.launch import Launch
from app.engine.loaded_models import LoadedModels
from app.engine.messages import WorkerConfig
from app.engine.registry import Catalogue
from app.engine.scheduler import Scheduler
from app.errors import InvalidFields, PairNotServed, ServiceError, Unavailable
from app.formats import FormatOptions, TextLocation
from app.formats.memory_files import read_pairs
from app.llm.client import LargeModel
from app.markup.extract import markup_pieces
from app.runtime.metrics import Metrics
from app.services.startup import load_catalogue, worker_config, worker_count
from app.settings import IN_STORE, Settings, SettingsError, load_settings
from app.storage.memory_sqlite import read_memory
from app.storage.translation_memory import checked_pairs
from app.text.glossary import Glossaries, Glossary
from app.text.glossary_files import load_glossaries, read_file
from app.text.memory_index import MemoryIndex, MemorySnapshot, Pair
from app.translation.memory import MemoryOption
from app.translation.translator import Translator
from app.translation.types import AUTO, EngineOption, Item, Options, TranslatedText
from model.bundle_files import BundleError

WINDOW_TEXTS, WINDOW_CHARS = 64, 4_000
"""Limits of a window: texts that are passed to the translator together."""
BASE_WINDOWS, WINDOWS_PER_WORKER = 4, 3
"""Windows that are translated concurrently. They hold more sentences than the workers decode at once, but are few,
because they finish together."""
MAX_NAMED = 20
"""Maximum number of failed texts and of warnings to name; the rest are counted."""
PAIR_SUFFIXES = (".tmx", ".tsv", ".txt")
"""Of files of pairs; others are memories of a service."""
NO_DEADLINE_MS, NO_LIMIT = 10**12, 1 << 60

Translate = Callable[[Sequence[Item]], Awaitable[list[TranslatedText]]]


T = TypeVar("T")


class CommandError(Exception):
    """Ends the command with a line on standard error and an exit code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[CommandError], tuple[int, str]]:
        return type(self), (self.status, str(self))  # between processes


@dataclass(frozen=True)
class Command:
    """The arguments of `interlinear translate`."""

    source: str
    target: str
    glossary: str = ""
    """A file of terms, or the name of a served glossary."""
    memory: str = ""
    """A file of a translation memory, or "off"; if empty, the settings' file."""
    memory_key: str = ""
    """The name of the API key whose memory it is, in a service's file."""
    engine: EngineOption | None = None
    """Which model translates; None: as the settings say."""
    markup: bool = False
    """Texts are HTML."""
    bundles: str | None = None
    """Folders, separated by commas; installed models do not take their places."""
    workers: int = 0
    quiet: bool = False
    file: Path | None = None
    """A document, instead of standard input."""
    format_options: FormatOptions = field(default_factory=FormatOptions)
    """How to read that document."""
    out: Path | None = None
    replace: bool = False


@dataclass(frozen=True)
class Session:
    """A running engine: its translator, and how many windows keep its workers busy."""

    translate: Translate
    max_windows: int


class Report:
    """Reports to standard error: failures at once, warnings at the end."""

    def __init__(self, quiet: bool, collect: bool = False) -> None:
        """`collect`: says nothing, but keeps all for another report."""
        self.quiet, self._collect = quiet, collect
        self.texts = self.failed = self.warned = self.warnings = self.from_memory = 0
        self.failures: list[str] = []
        """The first `MAX_NAMED`."""
        self._named: list[str] = []

    def add(self, location: TextLocation, done: TranslatedText) -> None:
        """`location`: where the text is in the input."""
        if done.error:
            self.add_failure(location, done.error.detail)
            return
        self.texts += 1
        self.from_memory += done.from_memory
        if found := done.located_warnings:
            self.warned += 1
            self.warnings += len(found)
            self._named += (
                f"{location.at(offset)}: {warning}" for offset, warning in found[: MAX_NAMED - len(self._named)]
            )

    def add_failure(self, location: TextLocation, reason: str) -> None:
        self.texts += 1
        self.failed += 1
        self._name_failure(f"{location} was not translated: {reason}")

    def _name_failure(self, line: str) -> None:
        if len(self.failures) < MAX_NAMED:
            self.failures.append(line)
            if not self._collect:
                say(line)

    def merge(self, other: Report) -> None:
        """Adds what another report has collected."""
        self.texts += other.texts
        self.failed += other.failed
        self.warned += other.warned
        self.warnings += other.warnings
        self.from_memory += other.from_memory
        for line in other.failures:
            self._name_failure(line)
        self._named += other._named[: MAX_NAMED - len(self._named)]

    def close(self) -> int:
        """Prints the summary and returns the exit code."""
        if self.failed > MAX_NAMED:
            say(f"{self.failed:,} of {self.texts:,} texts are not translated")
        if self.from_memory and not self.quiet:
            say(f"{self.from_memory:,} texts or sentences are from the translation memory")
        if self.warned and not self.quiet:
            say(f"{self.warned:,} of {self.texts:,} texts have warnings:")
            for warning in self._named:
                say(warning)
            if self.warnings > len(self._named):
                say(f"and {self.warnings - len(self._named):,} more")
        return SOME_FAILED if self.failed else OK


def say(message: str) -> None:
    print(f"interlinear: {message}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Prepared:
    """What a session needs: all is found and checked, and nothing runs yet."""

    command: Command
    """With the languages' codes as they are served."""
    settings: Settings
    bundles: Catalogue
    needed: Catalogue
    """The bundles of these languages."""
    config: WorkerConfig
    workers: int
    glossaries: Glossaries
    options: Options


@asynccontextmanager
async def open_session(command: Command, launch: Launch) -> AsyncIterator[Session]:
    """Starts an engine without the limits that protect a service. Raises CommandError."""
    async with start_session(prepare(command), launch) as session:
        yield session


def prepare(command: Command) -> Prepared:
    """Raises CommandError."""
    try:
        settings = load_command_settings(command)
        bundles = load_catalogue(settings)
        source, target = bundles.codes(command.source, command.target)
        command = replace(command, source=source, target=target)
        needed = needed_bundles(bundles, source, target)
        needed = needed if any(needed) else bundles  # the engine has a model, even if the large one works alone
        config = worker_config(settings, needed)
        workers = worker_count(settings, needed)
        glossaries = load_glossaries(settings.glossaries)
    except (SettingsError, BundleError) as error:
        raise CommandError(CANNOT_SERVE, str(error)) from None
    check_languages(command, bundles)
    glossary, memory = load_glossary(command, glossaries), load_memory(command, settings)
    options = Options(command.source, command.target, glossary=glossary, memory=memory, engine=command.engine)
    return Prepared(command, settings, bundles, needed, config, workers, glossaries, options)


@asynccontextmanager
async def start_session(prepared: Prepared, launch: Launch) -> AsyncIterator[Session]:
    """Starts the engine. Raises CommandError."""
    settings, workers, options = prepared.settings, prepared.workers, prepared.options
    metrics = Metrics()
    scheduler = Scheduler(settings.queue_tokens, models=LoadedModels(settings.memory_bytes))
    engine = Engine(prepared.config, scheduler, metrics, launch, workers)
    decoder = with_cache(engine, ResultCache(settings.cache_bytes, metrics))  # files often repeat sentences
    large_model = LargeModel(settings, metrics) if settings.llm else None
    translator = Translator(prepared.bundles, decoder, settings, prepared.glossaries, large_model=large_model)

    async def translate(items: Sequence[Item]) -> list[TranslatedText]:
        if prepared.command.markup:
            items = [markup_pieces(item) if isinstance(item, str) else item for item in items]
        try:
            done = (await translator.translate(items, options)).items
        except InvalidFields as error:
            raise CommandError(WRONG_USAGE, error.detail) from None
        except ServiceError as error:  # all workers failed
            done = [TranslatedText(error=error) for _ in items]
        for item in done:
            if isinstance(item.error, Unavailable):
                raise CommandError(CANNOT_SERVE, item.error.detail)
        return done

    await engine.start()
    try:
        yield Session(translate, BASE_WINDOWS + WINDOWS_PER_WORKER * workers)
    finally:
        await engine.stop()
        if large_model:
            await large_model.close()


def needed_bundles(bundles: Catalogue, source: str, target: str) -> Catalogue:
    """The bundles that a worker has to load; `source` may be AUTO."""
    sources = [one for one in bundles.sources(target) if source in (AUTO, one) and bundles.has_route(one, target)]
    needed = {bundle.folder for one in sources for bundle in bundles.route(one, target)}
    return Catalogue((bundle for bundle in bundles if bundle.folder in needed), pivot=False)


def check_languages(command: Command, bundles: Catalogue) -> None:
    """Raises CommandError if these languages are not served."""
    if command.target in (bundles.target_languages if command.source == AUTO else bundles.targets(command.source)):
        return
    try:
        bundles.route(command.source, command.target)
    except PairNotServed as error:
        raise CommandError(WRONG_USAGE, error.detail) from None


def load_glossary(command: Command, glossaries: Glossaries) -> Glossary | dict[str, str] | str | None:
    """The terms of a file, or a name. Raises CommandError."""
    name = command.glossary
    if not name or name in glossaries.names:
        return name or None
    path = Path(name)
    if not path.suffix and not path.exists():
        known = ", ".join(glossaries.names) or "none"
        raise CommandError(WRONG_USAGE, f"{name} is neither a file nor a served glossary: {known}")
    with file_errors(path):
        terms = read_file(path.name, path.read_bytes(), command.source, command.target)
        return terms if command.source == AUTO else Glossary(terms, command.source)


def load_memory(command: Command, settings: Settings) -> MemoryOption | None:
    """The translation memory that the command names, or else the settings do, unless that is in a store. Raises
    CommandError."""
    if command.memory == "off":
        return None
    configured = None if settings.translation_memory == IN_STORE else settings.translation_memory
    if not (name := command.memory or configured):
        return None
    path = Path(name)
    with file_errors(path):
        if path.suffix.lower() in PAIR_SUFFIXES:
            if command.source == AUTO:
                raise CommandError(WRONG_USAGE, f"{path} does not say its languages: --source may not be auto")
            pairs = read_pairs(path.name, path.read_bytes(), command.source, command.target)
            made = list(dict(checked_pairs(pairs, time.time(), "")).values())
            return MemoryOption({(command.source, command.target): snapshot_of(made, command.source, command.target)})
        if not command.memory and not path.exists():  # no service has made it yet
            return None
        found = read_memory(path, command.memory_key)
    if command.memory_key and not found:
        raise CommandError(WRONG_USAGE, f"{path} has no memory of a key named {command.memory_key}")
    needed = {pair: of for pair, of in found.items() if command.source in (AUTO, pair[0]) and pair[1] == command.target}
    return MemoryOption({pair: snapshot_of(of, *pair) for pair, of in needed.items()})


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raises CommandError, which names the file, for what is wrong with it."""
    try:
        yield
    except OSError as error:
        raise CommandError(UNREADABLE, f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(UNREADABLE, f"{path}: {error}") from None
    except InvalidFields as error:
        raise CommandError(UNREADABLE, f"{path}: {error.detail}") from None


def snapshot_of(pairs: Sequence[Pair], source: str, target: str) -> MemorySnapshot:
    index = MemoryIndex(source, target)
    for pair in pairs:
        index.put(pair, 1)
    return MemorySnapshot(index, 1)


def load_command_settings(command: Command) -> Settings:
    """The environment's settings, with the command line's options and without limits. Raises SettingsError."""
    chosen = load_settings({"bundles": command.bundles, "workers": command.workers or None})
    if command.bundles:  # these, and no installed model in their place
        chosen = chosen.model_copy(update={"models_dir": Path(os.devnull)})
    limits = dict.fromkeys(("max_text_chars", "max_items", "queue_tokens"), NO_LIMIT)
    return chosen.model_copy(update={**limits, "deadline_ms": NO_DEADLINE_MS})


def split_windows(texts: Sequence[T], length: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """Splits `texts` into windows for the translator; `length` gives the characters of one text."""
    start, chars = 0, 0
    for number, text in enumerate(texts):
        if number > start and (number - start == WINDOW_TEXTS or chars + length(text) > WINDOW_CHARS):
            yield texts[start:number]
            start, chars = number, 0
        chars += length(text)
    if start < len(texts):
        yield texts[start:]
