"""Who serves: the bundles, their engine and the translator before it, replaced as a whole while requests go on.

Knows where bundles are found and when others may take over; nothing of requests but that they begin and end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from app.cache import cached
from app.catalogue import Catalogue, bundle_folders, load_catalogue, worker_count, worker_order
from app.detection import Libraries
from app.engine import Engine
from app.errors import BundlesRefused
from app.glossary import Glossaries
from app.link import Launch
from app.metrics import Metrics
from app.scheduler import Scheduler
from app.settings import Settings, SettingsError
from app.translator import Translator
from app.watching import watch
from model.bundle import SUMS, BundleError
from model.hypothesis import Hypothesis

LOOK_S = 2.0
"""So often is the folder looked at, if it is watched."""
log = logging.getLogger(__name__)
Stamp = list[tuple[str, bytes]]


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
        await self._unused.wait()
        await self.engine.stop()


class Fleet:
    """The generation that serves, `current`, and how it is replaced by another."""

    def __init__(
        self, settings: Settings, bundles: Catalogue, launch: Launch, metrics: Metrics, glossaries: Glossaries
    ) -> None:
        """Raises SettingsError and BundleError."""
        self.settings, self.metrics = settings, metrics
        self._launch, self._glossaries = launch, glossaries
        self.libraries = Libraries()
        self._reloading = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._seen = _stamp(settings)
        """As the watched folder was when it was looked at."""
        self.current = self._generation(bundles, self._seen)

    async def start(self) -> None:
        """The workers begin to load. From now on the folder is watched, if the settings say so."""
        self.current.engine.show()
        await self.current.engine.start()
        if self.settings.watch_bundles:
            wrong = BundleError, BundlesRefused
            self._watcher = asyncio.create_task(watch(self._look, LOOK_S, wrong, _complain))

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
            await new.engine.start()
            if not await new.engine.settled():
                await new.engine.stop()
                raise BundlesRefused(new.engine.failure or "The workers could not be started.")
            old, self.current = self.current, new
            new.engine.show()
            log.info("serving %s", ", ".join(bundle.name for bundle in new.translator.catalogue))
            retiring = asyncio.create_task(old.retire())
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retiring.discard)
            return True

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
        engine = Engine(order, scheduler, self.metrics, self._launch, worker_count(settings))
        decoder = cached(engine, settings.cache_bytes, self.metrics)
        translator = Translator(bundles, decoder, settings, self._glossaries, self.libraries)
        return Generation(translator, engine, stamp)

    async def _look(self) -> None:
        """Reloads if what is in the folder has changed; what cannot be served is not tried again as it is."""
        found = await asyncio.to_thread(_stamp, self.settings)
        if found != self._seen:
            self._seen = found
            await self.reload()


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
    log.error("the bundles that are served stay as they were: %s", error)


def _stamp(settings: Settings) -> Stamp:
    """What would be served: the folders and the checksums of what is in each. Raises BundleError."""
    try:
        return [(str(folder), (folder / SUMS).read_bytes()) for folder in bundle_folders(settings.bundles)]
    except OSError as error:
        raise BundleError(f"{error.filename} cannot be read ({error.strerror})") from None
