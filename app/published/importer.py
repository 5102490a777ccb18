"""The importer, as a process: downloads a published model and makes a bundle of it, and says how far it is.

It belongs to the package `training`, of which it is a small part that serving installs too; see
`python -m training.importing --help`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from app.published.folder import ModelsFolder
from app.published.jobs import InstallJob
from app.runtime.memory_limit import memory_left
from app.services.trainer import TrainerFailed, importer_command, missing_for_importer, run_trainer
from app.settings import Settings

MIN_MEMORY_BYTES = 256 << 20
"""With less, it would end with an error before it has begun."""
MAX_MEMORY_BYTES = 8 << 30
"""How much the importer may allocate. It takes half a gigabyte and twice the size of the weights (docs/models.md)."""


class Event(Struct, kw_only=True):
    """A line that the importer prints; which fields it has depends on the state."""

    state: str
    name: str | None = None
    source: str | None = None
    target: str | None = None
    licence: str | None = None
    bytes: int = 0
    total: int | None = None
    folder: str = ""
    error: str = ""
    retry_after_s: float | None = None
    passes: bool = False
    text: str = ""


class ImportFailed(Exception):
    """The model cannot be had; the message is a sentence. `passes`: whether the same may succeed later."""

    def __init__(self, error: str, passes: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(error)
        self.passes, self.retry_after_s = passes, retry_after_s or 0.0


def missing_importer() -> str | None:
    """Why there is no importer here, as a sentence; None if there is one."""
    if missing_for_importer():
        return "The importer is not installed here: the package `training.importing` is missing."
    return None


def memory_bound() -> int:
    """How much the importer may allocate now: what a container's limit leaves, since beyond it the kernel would kill
    some process."""
    left = memory_left()
    return MAX_MEMORY_BYTES if left is None else min(MAX_MEMORY_BYTES, max(MIN_MEMORY_BYTES, left))


class Importer:
    """Imports into a folder, as the settings say."""

    def __init__(self, folder: ModelsFolder, settings: Settings, command: Sequence[str] | None = None) -> None:
        self._folder, self._command = folder, command or importer_command()
        self._mirrors: Mapping[str, str] = settings.registries
        self._hosts = [argument for host in settings.registry_hosts for argument in ("--host", host)]

    async def run(self, job: InstallJob, follow: Callable[[Event], None], *options: str) -> Event:
        """Makes the bundle of a job in the folder's `new`, and passes what it says to `follow`. Returns its last event.

        Raises ImportFailed and OSError.
        """
        last: Event | None = None
        printed = ""

        def read(line: str) -> None:
            nonlocal last, printed
            try:
                event = _decode(line)
            except msgspec.DecodeError:  # a warning or a traceback
                printed = line
                return
            if event.state != "note":
                last = event
            follow(event)

        try:
            self._folder.downloads.mkdir(exist_ok=True)  # also for temporary files: /tmp may be in memory
            command = [*self._command, *self._arguments(job), *options]
            await run_trainer(command, self._folder.path, read, memory_bound(), {"TMPDIR": str(self._folder.downloads)})
        except TrainerFailed as error:
            if last and last.state == "failed":
                raise ImportFailed(last.error, last.passes, last.retry_after_s) from None
            # It was killed, or a fault of ours.
            raise ImportFailed(printed or str(error), passes=True) from None
        if last is None or last.state not in ("done", "unchanged"):
            raise ImportFailed(printed or "The importer ended without a result.", passes=True)
        return last

    def _arguments(self, job: InstallJob) -> list[str]:
        places = ["--into", str(self._folder.new), "--downloads", str(self._folder.downloads)]
        mirror = self._mirrors.get(job.model.partition(":")[0])
        registry = ["--registry", mirror] if mirror else []
        accepted = ["--accept-licence"] if job.accepts_licence else []
        fixed = ["--dtype", "int8", "--threads", "1", "--replace", "--json"]
        return [job.model, *places, *fixed, *registry, *self._hosts, *accepted]


_decode = msgspec.json.Decoder(Event).decode
