"""Who serves: the bundles, their engine and the translator before it, replaced as a whole while requests go on.

Knows where bundles are found and when others may take over; nothing of requests but that they begin and end.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import monotonic

from starlette.types import ASGIApp, Receive, Scope, Send

from app.engine.cache import Answers, cached
from app.engine.engine import Engine
from app.engine.launch import Launch
from app.engine.registry import Catalogue
from app.engine.scheduler import Scheduler
from app.errors import BundlesRefused
from app.runtime.metrics import Metrics
from app.runtime.polling import watch
from app.services.startup import bundle_folders, load_catalogue, worker_count, worker_order
from app.settings import Settings, SettingsError
from app.text.glossary import Glossaries
from app.text.language_id import Libraries
from app.translation.translator import Translator
from model.bundle import SUMS, BundleError, read_file
from model.hypothesis import Hypothesis

LOOK_S = 2.0
"""So often are the folders looked at, if they are watched."""
RETIRE_S = 3600.0
"""So long may requests need what was replaced: a document that is translated in the background, the longest."""
RETRY_S = 30.0, 120.0, 600.0, 3600.0
"""After each refusal of what lies there, so long until the next try, which costs as much as a start of the service."""
log = logging.getLogger(__name__)
Stamp = list[tuple[str, bytes]]
Files = dict[Path, tuple[int, int, int] | None]


@dataclass
class Sight:
    """The watched folder as looks found it, and what came of serving it."""

    files: Files
    due: float
    """When it is to be tried, by the monotonic clock."""
    refusals: int = 0
    refusal: Exception | None = None
    """The last, unless it is served."""


class Generation:
    """Bundles and what translates with them, for as long as some request is its own."""

    def __init__(self, translator: Translator, engine: Engine, stamp: Stamp) -> None:
        self.translator, self.engine, self.stamp = translator, engine, stamp
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()

    @contextmanager
    def held(self) -> Iterator[Generation]:
        """As long as it is, the engine goes on."""
        self._users += 1
        self._unused.clear()
        try:
            yield self
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    async def retire(self) -> None:
        """Ends the workers once nobody needs them. No request may begin to use them any more."""
        with suppress(TimeoutError):  # then they are of clients that do not read what they asked for
            await asyncio.wait_for(self._unused.wait(), RETIRE_S)
        await self.engine.stop()


class Fleet:
    """The generation that serves, `current`, and how it is replaced by another."""

    def __init__(
        self, settings: Settings, bundles: Catalogue, launch: Launch, metrics: Metrics, glossaries: Glossaries
    ) -> None:
        """Raises SettingsError and BundleError."""
        self.settings, self.metrics = settings, metrics
        self._launch, self._glossaries = launch, glossaries
        self._answers = Answers(settings.cache_bytes, metrics)
        self.libraries = Libraries()
        self._reloading = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._sight = Sight({}, math.inf)
        self._generations: set[Generation] = set()
        """The one that serves, those that end, and perhaps one that is about to serve."""
        self.current = self._generation(bundles, _stamp_of(bundles, settings))

    async def start(self) -> None:
        """The workers begin to load. From now on the folder is watched, if the settings say so."""
        self.current.engine.show()
        await self.current.engine.start()
        if self.settings.watch_bundles:
            # Whatever goes wrong, want of memory too, may have passed at a later look.
            self._watcher = asyncio.create_task(watch(self._look, LOOK_S, (Exception,), _complain))

    async def stop(self) -> None:
        """Finishes what was accepted, then ends all workers."""
        if self._watcher:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        async with self._reloading:
            await asyncio.gather(self.current.engine.stop(), *self._retiring)

    async def reload(self) -> bool:
        """Serves what is in the folder of bundles now; False if that is what is served already.

        The workers of the new bundles check their samples first, while the old ones serve, and those finish what they
        have begun. Raises BundlesRefused, and all is as it was.
        """
        async with self._reloading:
            new = await self._loaded()
            if new is None:
                return False
            try:
                await new.engine.start()
                if not await new.engine.settled():
                    raise BundlesRefused(new.engine.failure or "The workers could not be started.")
            except BaseException:  # cancelled too, as when the service ends meanwhile
                await new.engine.stop()
                self._forget(new)
                raise
            old, self.current = self.current, new
            new.engine.show()
            for line in new.translator.catalogue.described():
                log.info(line)
            retiring = asyncio.create_task(self._retire(old))
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retiring.discard)
            return True

    async def _retire(self, old: Generation) -> None:
        await old.retire()
        self._forget(old)

    def _forget(self, gone: Generation) -> None:
        """Its figures, but for those of models that others have too: one may come back while it still ends."""
        self._generations.remove(gone)
        kept = {bundle.name for one in self._generations for bundle in one.translator.catalogue}
        for bundle in gone.translator.catalogue:
            if bundle.name not in kept:
                self.metrics.forget(bundle.name)

    async def _loaded(self) -> Generation | None:
        """What is in the folder now, not started yet; None if it is served. Raises BundlesRefused."""
        try:
            # Before they are loaded: if they change meanwhile, they are not taken for what they are then.
            stamp = await asyncio.to_thread(_stamp, self.settings)
            if stamp == self.current.stamp:
                return None
            bundles = await asyncio.to_thread(load_catalogue, self.settings)
            return self._generation(bundles, stamp)
        except (BundleError, SettingsError) as error:
            raise BundlesRefused(str(error)) from None

    def _generation(self, bundles: Catalogue, stamp: Stamp) -> Generation:
        """Raises SettingsError."""
        settings = self.settings
        scheduler: Scheduler[Hypothesis] = Scheduler(settings.queue_tokens, settings.max_wait_ms / 1000)
        order = worker_order(settings, bundles)
        engine = Engine(order, scheduler, self.metrics, self._launch, worker_count(settings, bundles))
        translator = Translator(bundles, cached(engine, self._answers), settings, self._glossaries, self.libraries)
        made = Generation(translator, engine, stamp)
        self._generations.add(made)
        return made

    async def _look(self) -> None:
        """Reloads when the folder has changed and two looks find it the same: until then it may be a copy at work.

        What was refused is tried again when it changes, and meanwhile ever more rarely. Raises what it was refused for,
        at every look as long as that holds.
        """
        found = await asyncio.to_thread(_files, self.settings)
        if found != self._sight.files:
            self._sight = Sight(found, due=monotonic())
            return
        sight = self._sight
        if monotonic() >= sight.due:
            try:
                await self.reload()
                sight.refusal, sight.due = None, math.inf
            except Exception as error:
                wait_s = RETRY_S[min(sight.refusals, len(RETRY_S) - 1)]
                sight.refusals, sight.refusal, sight.due = sight.refusals + 1, error, monotonic() + wait_s
        if sight.refusal:
            raise sight.refusal.with_traceback(None)  # else it would grow with every look


class ByGeneration:
    """ASGI middleware: each request is served by one generation, from its beginning to its end."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        fleet: Fleet = scope["state"]["fleet"]
        with fleet.current.held() as generation:
            scope["state"] |= {"engine": generation.engine, "translator": generation.translator}
            await self.app(scope, receive, send)


def _complain(error: Exception) -> None:
    log.error("the bundles that are served stay as they were: %s", str(error) or repr(error))


def _stamp(settings: Settings) -> Stamp:
    """What would be served: the folders and the checksums of what is in each. Raises BundleError."""
    return [(str(folder), read_file(folder, SUMS)) for folder in chain(*bundle_folders(settings.bundles))]


def _stamp_of(bundles: Catalogue, settings: Settings) -> Stamp:
    """That of `bundles`, without what has been replaced since they were loaded: a reload then finds a change."""
    loaded = chain(bundles, (old for old, _ in bundles.replaced))
    sums = {str(bundle.folder): bundle.checksum.encode() for bundle in loaded}
    return [(folder, content) for folder, content in _stamp(settings) if folder in sums and sums[folder] in content]


def _files(settings: Settings) -> Files:
    """Size and times of each file of the bundles, by which a change of it is known. Raises BundleError, OSError."""
    return {path: _state(path) for folder in chain(*bundle_folders(settings.bundles)) for path in folder.glob("*")}


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:  # it has just gone, or leads nowhere
        return None
    # A copy may be given its original's time of change, but not this system's own record of it, the last.
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
