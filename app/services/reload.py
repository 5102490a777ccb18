"""Hot reload: replaces the served bundles, with their engine and translator, as a whole while requests continue."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct

from app.engine.cache import ResultCache, with_cache
from app.engine.engine import Engine
from app.engine.launch import Launch
from app.engine.loaded_models import LoadedModels
from app.engine.messages import WorkerConfig
from app.engine.registry import Catalogue
from app.engine.scheduler import Scheduler
from app.errors import BundlesRefused
from app.llm.client import LargeModel
from app.runtime.metrics import Metrics
from app.runtime.peers import Peers
from app.runtime.polling import watch
from app.services.startup import bundle_folders, installed_folders, load_catalogue, worker_config, worker_count
from app.settings import Settings, SettingsError
from app.text.glossary import Glossaries
from app.text.language_id import Libraries
from app.translation.translator import Translator
from model.bundle_files import SUMS, BundleError, read_file
from model.machine import give_freed_memory_back

log = logging.getLogger(__name__)
RELOAD_TIMEOUT_S = 900.0
"""How long another instance may take for a reload."""
Fingerprint = list[tuple[str, bytes]]
FileStates = dict[Path, tuple[int, int, int] | None]


@dataclass(frozen=True)
class ReloadTiming:
    """When bundles are replaced, and how long the old ones may stay."""

    check_interval_s: float = 2.0
    """How often to check watched folders."""
    max_retire_s: float = 3600.0
    """How long requests may keep a replaced deployment; translating a document in the background takes longest."""
    retry_delays_s: tuple[float, ...] = (30.0, 120.0, 600.0, 3600.0)
    """Delays between retries of a refused reload, each of which costs as much as starting the service."""
    clock: Callable[[], float] = monotonic


RELOAD_TIMING = ReloadTiming()


def _free_garbage() -> None:
    """Frees what was replaced: bundles are in cycles of references, and full collections are rare, see
    app.runtime.process_tuning."""
    gc.collect()
    give_freed_memory_back()


@dataclass
class FolderSnapshot:
    """The watched folder as last seen, and the result of serving it."""

    file_states: FileStates
    due: float
    """When to try to serve it, in seconds on the monotonic clock."""
    refusals: int = 0
    refusal: Exception | None = None
    """Why it was last refused; None if it is being served."""


class Deployment:
    """Bundles and their engine and translator. As a context, it keeps the engine running while the context is open."""

    def __init__(self, translator: Translator, engine: Engine, fingerprint: Fingerprint) -> None:
        self.translator, self.engine, self.fingerprint = translator, engine, fingerprint
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()

    def __enter__(self) -> Deployment:
        self._users += 1
        self._unused.clear()
        return self

    def __exit__(self, *error: object) -> None:
        self._users -= 1
        if not self._users:
            self._unused.set()

    async def retire(self, max_s: float) -> None:
        """Stops the workers once no request uses them, after `max_s` at the latest. New requests must not use them."""
        with suppress(TimeoutError):  # the clients that are left do not read their responses
            await asyncio.wait_for(self._unused.wait(), max_s)
        await self.engine.stop()


class Deployments:
    """Holds the `current` deployment and replaces it."""

    def __init__(
        self,
        settings: Settings,
        bundles: Catalogue,
        launch: Launch,
        metrics: Metrics,
        glossaries: Glossaries,
        timing: ReloadTiming = RELOAD_TIMING,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        large_model: LargeModel | None = None,
    ) -> None:
        """`turn`: a context in which to reload; it waits while another instance does, so that the machine has to bear
        the load and the memory of one. Raises SettingsError and BundleError."""
        self.settings, self.metrics, self._timing, self._turn = settings, metrics, timing, turn
        self._launch, self._glossaries, self._large_model = launch, glossaries, large_model
        self._result_cache = ResultCache(settings.cache_bytes, metrics)
        self._alignments: dict[str, str] = {}
        self.libraries = Libraries()
        self._reloading = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._snapshot = FolderSnapshot({}, math.inf)
        self._deployments: set[Deployment] = set()
        """The current one, those being retired, and possibly one that is starting."""
        self.current = self._create(bundles, _fingerprint_of_loaded(bundles, settings))

    async def start(self) -> None:
        """Starts loading the workers, and watching the folders."""
        self.current.engine.publish_metrics()
        await self.current.engine.start()
        # Any failure, including a lack of memory, may have passed by the next check.
        interval_s = self._timing.check_interval_s
        self._watcher = asyncio.create_task(watch(self._check_folder, interval_s, (Exception,), _log_refusal))

    async def load_libraries(self) -> None:
        """Loads the language detector's libraries once the workers have started: it would hold them up by a second."""
        await self.current.engine.wait_started()
        await asyncio.to_thread(self.libraries.load)
        await asyncio.to_thread(give_freed_memory_back)  # what only loading needed, here and at the start

    async def stop(self) -> None:
        """Finishes the accepted requests, then stops all workers."""
        if self._watcher:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        async with self._reloading:
            await asyncio.gather(self.current.engine.stop(), *self._retiring)

    async def reload(self) -> bool:
        """Serves the current contents of the folders of bundles; returns False if nothing changed.

        The new workers check their samples first, while the old ones serve and finish their requests. Raises
        BundlesRefused, and then nothing changes.
        """
        async with self._reloading, self._turn():
            new = await self._load_changed()
            if new is None:
                return False
            try:
                await new.engine.start()
                if not await new.engine.wait_started():
                    raise BundlesRefused(new.engine.failure or "The workers could not be started.")
            except BaseException:  # includes cancellation, as when the service stops meanwhile
                await new.engine.stop()
                self._forget_metrics(new)
                raise
            old, self.current = self.current, new
            new.engine.publish_metrics()
            for line in new.translator.catalogue.descriptions():
                log.info(line)
            retiring = asyncio.create_task(self._retire(old))
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retiring.discard)
            return True

    async def _retire(self, old: Deployment) -> None:
        await old.retire(self._timing.max_retire_s)
        self._forget_metrics(old)
        del old
        await asyncio.to_thread(_free_garbage)

    def _forget_metrics(self, gone: Deployment) -> None:
        """Removes the metrics of the models of `gone`, except for those that another deployment has.

        A bundle may be served again while its previous deployment is being retired.
        """
        self._deployments.remove(gone)
        kept = {bundle.spec.name for one in self._deployments for bundle in one.translator.catalogue}
        for bundle in gone.translator.catalogue:
            if bundle.spec.name not in kept:
                self.metrics.forget(bundle.spec.name)

    async def _load_changed(self) -> Deployment | None:
        """Creates a deployment of the folders' current bundles; returns None if they are already served.

        Raises BundlesRefused.
        """
        try:
            # Before loading: a change during the load must not go unnoticed.
            fingerprint = await asyncio.to_thread(_fingerprint_of_folders, self.settings)
            bundles = await asyncio.to_thread(load_catalogue, self.settings)
            if fingerprint == self.current.fingerprint:  # and the files are those whose checksums it has
                del bundles
                await asyncio.to_thread(_free_garbage)
                return None
            return self._create(bundles, fingerprint)
        except (BundleError, SettingsError) as error:
            raise BundlesRefused(str(error)) from None

    def _create(self, bundles: Catalogue, fingerprint: Fingerprint) -> Deployment:
        """Raises SettingsError."""
        settings = self.settings
        models = LoadedModels(settings.memory_bytes)
        scheduler = Scheduler(settings.queue_tokens, settings.max_wait_ms / 1000, models)
        config = worker_config(settings, bundles)
        engine = Engine(config, scheduler, self.metrics, self._launch, worker_count(settings, bundles))
        decoder = with_cache(engine, self._results_of(config))
        translator = Translator(
            bundles,
            decoder,
            settings,
            self._glossaries,
            self.libraries,
            engine.observe_quality,
            self._large_model,
        )
        deployment = Deployment(translator, engine, fingerprint)
        self._deployments.add(deployment)
        return deployment

    def _results_of(self, config: WorkerConfig) -> ResultCache:
        """The cache, or a new one if a model that stays aligns differently: the name of a model does not tell."""
        alignments = {spec.name: spec.alignment_checksum for spec in config.models}
        if any(self._alignments.get(name, found) != found for name, found in alignments.items()):
            self._result_cache = ResultCache(self.settings.cache_bytes, self.metrics)
        self._alignments |= alignments
        return self._result_cache

    async def _check_folder(self) -> None:
        """Reloads a changed folder once two checks in a row find it the same; until then a copy may be in progress.

        Retries refused bundles when they change, and otherwise at growing intervals. Every check raises the reason for
        the last refusal as long as it applies.
        """
        found = await asyncio.to_thread(_file_states, self.settings)
        if found != self._snapshot.file_states:
            self._snapshot = FolderSnapshot(found, due=self._timing.clock())
            return
        snapshot = self._snapshot
        if self._timing.clock() >= snapshot.due:
            try:
                await self.reload()
                snapshot.refusal, snapshot.due = None, math.inf
            except Exception as error:
                delays_s = self._timing.retry_delays_s
                snapshot.due = self._timing.clock() + delays_s[min(snapshot.refusals, len(delays_s) - 1)]
                snapshot.refusals, snapshot.refusal = snapshot.refusals + 1, error
        if snapshot.refusal:
            raise snapshot.refusal.with_traceback(None)  # otherwise the traceback would grow with every check


class PeerReload(Struct):
    """What an instance answers to another that tells it to reload."""

    changed: bool = False
    refusal: str = ""


def reload_for_peer(deployments: Deployments, loop: asyncio.AbstractEventLoop) -> bytes:
    """Reloads on `loop`, which runs in another thread. Returns an encoded PeerReload."""
    try:
        result = PeerReload(asyncio.run_coroutine_threadsafe(deployments.reload(), loop).result())
    except BundlesRefused as error:
        result = PeerReload(refusal=str(error))
    return msgspec.msgpack.encode(result)


async def reload_everywhere(deployments: Deployments, peers: Peers | None) -> bool:
    """Reloads here, and then in all other instances; returns whether any has changed. Raises BundlesRefused."""
    changed = await deployments.reload()
    if peers:
        changed = await asyncio.to_thread(_reload_peers, peers) or changed
    return changed


def _reload_peers(peers: Peers) -> bool:
    """Tells all other instances to reload, one after the other, and returns whether any has changed.

    Blocks. An instance that dies meanwhile loads the bundles when it is restarted. Raises BundlesRefused once all have
    answered.
    """
    results = {}
    for number in peers.others:
        with suppress(OSError, msgspec.DecodeError):
            answer = peers.ask(number, "reload", RELOAD_TIMEOUT_S)
            results[number] = msgspec.msgpack.decode(answer, type=PeerReload)
    if refusals := [f"Instance {number}: {result.refusal}" for number, result in results.items() if result.refusal]:
        raise BundlesRefused(" ".join(refusals))
    return any(result.changed for result in results.values())


def _log_refusal(error: Exception) -> None:
    log.error("keeping the bundles that are being served: %s", str(error) or repr(error))


def _fingerprint_of_folders(settings: Settings) -> Fingerprint:
    """The bundle folders and their checksums. Raises BundleError."""
    installed = installed_folders(settings)
    found = [(folder, read_file(folder, SUMS)) for folder in chain(*bundle_folders(settings.bundles, not installed))]
    for folder in installed:
        with suppress(BundleError):  # it is left out
            found.append((folder, read_file(folder, SUMS)))
    return [(str(folder), content) for folder, content in found]


def _fingerprint_of_loaded(bundles: Catalogue, settings: Settings) -> Fingerprint:
    """Omits bundles that changed after they were loaded, so that a reload notices the change. Raises BundleError."""
    loaded = chain(bundles, (old for old, _ in bundles.replaced))
    sums = {str(one.folder): (one.checksum.encode(), one.spec.alignment_checksum.encode()) for one in loaded}
    return [
        (folder, content)
        for folder, content in _fingerprint_of_folders(settings)
        if folder in sums and all(checksum in content for checksum in sums[folder])
    ]


def _file_states(settings: Settings) -> FileStates:
    """The size and times of each file of the watched bundles, to detect changes: of installed models, which another
    service on the same volume may have made, always. Raises BundleError and OSError."""
    watched = installed_folders(settings)
    if settings.watch_bundles:
        watched = [*chain(*bundle_folders(settings.bundles, is_needed=not watched)), *watched]
    return {path: _file_state(path) for folder in watched for path in folder.glob("*")}


def _file_state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:  # just deleted, or a broken link
        return None
    # A copy may keep the original's modification time, but not the change time, the last value.
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
