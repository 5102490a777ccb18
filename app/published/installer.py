"""Installs published models, one after the other, while the service runs.

Every instance of the service has an installer; the one that holds the folder's lock works, and the others follow what
it serves. All that is known of a job is on the disk, so that another instance, or the next start, finishes what a
killed one has begun.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from app.engine.registry import Catalogue
from app.errors import BundlesRefused, InstallRefused, ModelNotInstalled, NoSuchJob
from app.published.folder import ModelsFolder, name_in_record
from app.published.importer import Event, Importer, ImportFailed, missing_importer
from app.published.jobs import InstallJob, State, job_id
from app.runtime.metrics import Metrics
from app.settings import PREFIX, Settings
from model.published import ModelName

log = logging.getLogger(__name__)
POLL_S = 0.5
"""How often to look for jobs, and whether one that is being done is to be cancelled."""
KEEP_ENDED_S = 86_400.0
"""After this a start forgets a job that has ended."""
TROUBLE_PAUSE_S = 30.0
"""After the folder could not be written."""
SAVE_INTERVAL_S = 1.0
"""How often the progress of a download is saved."""
STEPS: dict[str, State] = {step: step for step in ("finding", "downloading", "converting", "checking")}
"""The importer's states that a job takes over."""
Reload = Callable[[], Awaitable[object]]


class Installer:
    """Installs what the settings name and what is asked for. `obstacle`: why nothing can be installed here, or None."""

    def __init__(
        self,
        settings: Settings,
        served: Callable[[], Catalogue | None],
        reload: Reload,
        metrics: Metrics,
        command: Sequence[str] | None = None,
    ) -> None:
        """`served`: the bundles that serve now; None if that is unknown here. `reload`: serves what the folder has, in
        all instances, or raises BundlesRefused. `command`: how the importer is started."""
        self._wanted, self._served, self._reload, self._metrics = settings.models, served, reload, metrics
        self.obstacle = None if command else missing_importer()
        if settings.models_folder is None:
            self.obstacle = f"There is no place for installed models: set {PREFIX}MODELS_DIR to a folder."
        self.folder = ModelsFolder(settings.models_folder or Path())
        self._importer = Importer(self.folder, settings, command)
        self._have_served = False
        """Whether all models that the settings name have served."""
        self._current: InstallJob | None = None
        """The job that this instance works on."""
        self._unsaved: list[InstallJob] = []
        """Jobs of models that the settings name, while the folder cannot be written."""
        self.seen: list[InstallJob] = []
        """All jobs as they were last looked at, in the order in which they were asked for."""
        self._task: asyncio.Task[None] | None = None
        metrics.models_missing.set_function(lambda: len(self.missing()))

    # ---- What is asked and answered

    def served_names(self) -> dict[ModelName, str]:
        """The published models that serve, with their pairs of languages."""
        served = self._served() or ()
        return {name: bundle.pair for bundle in served if (name := name_in_record(bundle.config))}

    def missing(self) -> list[ModelName]:
        """The models that the settings name and that do not serve."""
        served = self.served_names().items() if self._wanted else ()
        return [wanted for wanted in self._wanted if not any(wanted.is_of(name, pair) for name, pair in served)]

    def required(self) -> list[ModelName]:
        """The same until all of them have served: what is removed or replaced later takes no service down."""
        missing = [] if self._have_served else self.missing()
        self._have_served = not missing
        return missing

    def jobs(self) -> list[InstallJob]:
        """All jobs, as they are now. Reads the folder."""
        found = {job.id: job for job in (*self.folder.jobs(), *self._unsaved)}
        if self._current:
            found[self._current.id] = self._current
        self.seen = sorted(found.values(), key=lambda job: (job.asked_at, job.id))
        return self.seen

    def job(self, id: str) -> InstallJob:
        """Reads the folder. Raises NoSuchJob."""
        for job in self.jobs():
            if job.id == id:
                return job
        raise NoSuchJob(f"There is no job {id}: it may have been forgotten after it ended.")

    def add(self, name: ModelName, accepts_licence: bool = False, is_wanted: bool = False) -> InstallJob:
        """Asks for a model. The same one asked for twice is the same job, which is tried at once. Writes the folder.
        Raises InstallRefused."""
        for wanted in self._wanted:
            if wanted != name and wanted.direction == name.direction:
                raise InstallRefused(f"{PREFIX}MODELS names {wanted} for this direction.")
        job = InstallJob(id=job_id(name), model=str(name), accepts_licence=accepts_licence, is_wanted=is_wanted)
        job.asked_at = time.time()
        with self._writing():
            found = self.folder.job(job.id)
            if found and not found.has_ended:
                return self._ask_again(found, accepts_licence, is_wanted)
            if found:
                self.folder.forget(found)
            self.folder.add(job)
        return self.folder.job(job.id) or job

    def _ask_again(self, job: InstallJob, accepts_licence: bool, is_wanted: bool) -> InstallJob:
        """An unfinished job, which whoever works on it goes on with. Raises OSError."""
        self.folder.cancel_file(job).unlink(missing_ok=True)
        with self.folder.lock() as is_held:
            if is_held:
                job.accepts_licence, job.is_wanted = job.accepts_licence or accepts_licence, job.is_wanted or is_wanted
                if job.state == "waiting":
                    job.state, job.retry_at, job.attempts = "queued", 0.0, 0
                self.folder.save(job)
        return job

    def cancel(self, id: str) -> None:
        """Stops a job, or forgets one that has ended; one that is loading goes on. Writes the folder. Raises NoSuchJob
        and InstallRefused."""
        job = self.job(id)
        with self._writing():
            if job.has_ended:
                self.folder.forget(job)
            else:
                self.folder.cancel_file(job).touch()

    async def remove(self, direction: str) -> None:
        """Removes an installed model, so that what it replaced serves again. Raises ModelNotInstalled, InstallRefused
        and BundlesRefused."""
        with self._writing(), self.folder.lock() as is_held:
            if not is_held:
                raise InstallRefused("A model is being installed: wait until that ends, or cancel it.")
            place, name = self.installed(direction)
            if any(wanted.is_of(name, direction) for wanted in self._wanted):
                raise InstallRefused(f"{PREFIX}MODELS names {name}: the next start would install it again.")
            removed = await asyncio.to_thread(self.folder.take_away, place)
            try:
                await self._reload()
            except BaseException:  # such as BundlesRefused, since nothing else serves
                await asyncio.to_thread(removed.rename, place)
                raise
            await asyncio.to_thread(self.folder.clean)
        log.info("removed %s", name)

    def installed(self, direction: str) -> tuple[Path, ModelName]:
        """An installed model, by the name of its folder. Raises ModelNotInstalled."""
        installed = {place.name: (place, name) for place, name in self.folder.installed().items()}
        if direction not in installed:
            there = ", ".join(installed) or "none"
            raise ModelNotInstalled(f"No installed model is called {direction}; there is {there}.")
        return installed[direction]

    async def newer(self, direction: str, follow: Callable[[Event], None]) -> Path | None:
        """A bundle of the newer weights that the registry has of an installed model, for `folder.put_in_place`; None if
        it has none. Only for whoever holds the lock. Raises ModelNotInstalled, ImportFailed and OSError."""
        place, name = self.installed(direction)
        # Mozilla's variants are sizes, those of others versions.
        asked = name if name.registry == "firefox" else replace(name, variant=None)
        job = InstallJob(id=job_id(asked), model=str(asked), accepts_licence=True)
        done = await self._importer.run(job, follow, "--unless", str(place))
        return None if done.state == "unchanged" else Path(done.folder)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raises InstallRefused where nothing can be installed."""
        if self.obstacle:
            raise InstallRefused(self.obstacle)
        try:
            self.folder.check_writable()
            yield
        except OSError as error:
            raise InstallRefused(
                f"{self.folder.path}, the folder of installed models, cannot be written ({error.strerror or error})."
            ) from None

    # ---- Work

    def start(self, asks_for_wanted: bool = True) -> None:
        """Begins to work on jobs, also those that an earlier start has not finished. `asks_for_wanted`: whether to make
        jobs of what the settings name."""
        self._task = asyncio.create_task(self._run(asks_for_wanted))

    async def stop(self) -> None:
        """Kills the importer; the next start goes on."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, asks_for_wanted: bool) -> None:
        """Never ends by itself: what keeps models from being installed may pass."""
        trouble = ""
        while True:
            pause_s = POLL_S
            try:
                if asks_for_wanted:
                    await asyncio.to_thread(self._ask_for_wanted)
                    asks_for_wanted = False
                if await self._work_once():
                    continue
                trouble = ""
            except Exception as error:  # nothing awaits this task
                pause_s, before, trouble = TROUBLE_PAUSE_S, trouble, str(error) or repr(error)
                if trouble != before:
                    is_known = isinstance(error, OSError | InstallRefused)
                    log.error("no model can be installed: %s", trouble, exc_info=None if is_known else error)
                for job in self._unsaved:
                    job.begin()
                    job.state, job.error, job.retry_at = "waiting", trouble, time.time() + pause_s
                await asyncio.to_thread(self.jobs)
            await asyncio.sleep(pause_s)

    def _ask_for_wanted(self) -> None:
        """Makes jobs of the models that the settings name and that are not installed, and ends those that they named
        before. Raises InstallRefused."""
        names, now = self.folder.missing(self._wanted), time.time()
        self._unsaved = [
            InstallJob(id=job_id(name), model=str(name), is_wanted=True, asked_at=now + number / 1e3)
            for number, name in enumerate(names)
        ]
        for name in names:
            self.add(name, is_wanted=True)
        self._unsaved = []
        wanted = {str(name) for name in self._wanted}
        for job in self.folder.jobs():
            with suppress(OSError):
                if job.has_ended and now - job.asked_at > KEEP_ENDED_S:
                    self.folder.forget(job)
                elif job.is_wanted and job.state == "waiting" and job.model not in wanted:
                    self.folder.cancel_file(job).touch()

    async def _work_once(self) -> bool:
        """Does a job that is due, unless another instance is at work; whether it did. Raises OSError."""
        if self.obstacle or await asyncio.to_thread(self._due) is None:
            return False
        with self.folder.lock() as is_held:
            job = await asyncio.to_thread(self._due) if is_held else None  # another instance may have done it
            if job is None:
                return False
            await asyncio.to_thread(self.folder.clean)
            self._current = job  # which others see as it was, until its end is on the disk
            try:
                after = await self._do(job)
                try:
                    self.folder.save(after)
                except OSError:  # the disk is full, of what has arrived
                    await asyncio.to_thread(self.folder.drop_downloads)
                    self.folder.save(after)
                await asyncio.to_thread(self.folder.clean)
            finally:
                self._current = None
            return True

    def _due(self) -> InstallJob | None:
        """The first job to be done now."""
        now = time.time()
        for job in self.jobs():
            if not job.has_ended and (job.retry_at <= now or self.folder.cancel_file(job).exists()):
                return job
        return None

    async def _do(self, job: InstallJob) -> InstallJob:
        """One attempt at a job, until it ends or is cancelled. Returns the job as it is then."""
        attempt = asyncio.create_task(self._attempt(job))
        try:
            while not attempt.done():
                if await asyncio.to_thread(self.folder.cancel_file(job).exists) and job.state != "loading":
                    attempt.cancel()
                await asyncio.wait([attempt], timeout=POLL_S)
                await asyncio.to_thread(self.jobs)
        finally:
            attempt.cancel()
            await asyncio.wait([attempt])
        if attempt.cancelled():
            after = _ended(job, "cancelled")
        elif error := attempt.exception():
            log.error("installing %s failed", job.model, exc_info=None if isinstance(error, OSError) else error)
            after = _failed(job, str(error) or repr(error), passes=True)
        else:
            after = attempt.result()
        (log.error if after.error else log.info)("%s: %s", job.name or job.model, after.description())
        self._metrics.installs.labels(after.state).inc()
        return after

    async def _attempt(self, job: InstallJob) -> InstallJob:
        """Returns the job as it is afterwards. Raises OSError."""
        job.begin()
        self.folder.save(job)
        log.info("installing %s, attempt %d", job.model, job.attempts)
        try:
            done = await self._importer.run(job, _Progress(self.folder, job, self._metrics).follow)
        except ImportFailed as failure:
            return _failed(job, str(failure), failure.passes, failure.retry_after_s)
        finally:
            self._metrics.set_install_progress(0, 0)
        job.state = "loading"
        self.folder.save(job)
        return await self._serve(job, Path(done.folder))

    async def _serve(self, job: InstallJob, made: Path) -> InstallJob:
        """Serves a bundle that is made. If the service refuses it, what was there before stays. Raises OSError."""
        place = self.folder.path / made.name
        if not await asyncio.to_thread(self.folder.may_replace, place):
            return _failed(job, f"{place} is a bundle that was not installed: move it elsewhere first", passes=False)
        await asyncio.to_thread(self.folder.put_in_place, made)
        try:
            await self._reload()
            if (served := self._served()) is None:
                return _ended(job, "done")
            # It was loaded, though others may serve its directions.
            if place not in {bundle.folder for bundle in (*served, *(old for old, _ in served.replaced))}:
                raise BundlesRefused(f"{place} is damaged, see the log.")
        except BundlesRefused as refusal:
            await asyncio.to_thread(self.folder.put_back, place)
            with suppress(BundlesRefused):
                await self._reload()  # instances that had taken it
            error = f"The service cannot serve it: {refusal.detail}"
            return _failed(job, error, passes=str(place) not in refusal.detail)
        return _ended(job, "done", next((bundle.name for bundle in served if bundle.folder == place), None))


def _ended(job: InstallJob, state: State, serves: str | None = None) -> InstallJob:
    return msgspec.structs.replace(job, state=state, serves=serves, seconds_left=None)


def _failed(job: InstallJob, error: str, passes: bool, retry_after_s: float = 0.0) -> InstallJob:
    after = msgspec.structs.replace(job)
    after.fail(error, passes, time.time(), retry_after_s)
    return after


class _Progress:
    """Takes the importer's events over into a job."""

    def __init__(self, folder: ModelsFolder, job: InstallJob, metrics: Metrics) -> None:
        self._folder, self._job, self._metrics = folder, job, metrics
        self._began_s, self._began_bytes = 0.0, 0
        self._saved_s = 0.0

    def follow(self, event: Event) -> None:
        job, now_s = self._job, time.monotonic()
        if event.state == "note":
            log.info("%s: %s", job.model, event.text)
            return
        if event.state not in STEPS:
            return
        is_new, job.state, job.seconds_left = job.state != event.state, STEPS[event.state], None
        if event.state == "downloading":
            self._take_download(event, is_new, now_s)
        elif event.state == "converting":
            job.bytes = job.total or job.bytes  # the last event need not be at the end
        if is_new:
            log.info("%s: %s", job.name or job.model, job.description())
        if is_new or now_s - self._saved_s >= SAVE_INTERVAL_S:
            self._saved_s = now_s
            with suppress(OSError):  # on a full disk the importer fails, and says so
                self._folder.save(job)

    def _take_download(self, event: Event, is_new: bool, now_s: float) -> None:
        job = self._job
        job.name, job.source, job.target, job.licence = event.name, event.source, event.target, event.licence
        job.bytes, job.total = event.bytes, event.total
        self._metrics.set_install_progress(event.bytes, event.total or 0)
        if is_new:
            self._began_s, self._began_bytes = now_s, event.bytes
        arrived, passed_s = event.bytes - self._began_bytes, now_s - self._began_s
        if event.total and arrived > 0 and passed_s > 0:
            job.seconds_left = round((event.total - event.bytes) * passed_s / arrived, 1)
