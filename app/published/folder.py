"""The folder of installed models: bundles, jobs as files, and a lock that a killed process does not keep.

en-es/               an installed bundle
.jobs/ID.json        a job; ID.cancel beside it asks whoever works on it to stop
.downloads/          what arrives
.new/en-es/          a bundle that is made; after the swap the one that it replaces, until the new one serves
.lock                held by whoever installs, removes or cleans up
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from app.published.jobs import InstallJob
from model.atomic_files import swap_in
from model.bundle_files import CONFIG
from model.published import ModelName, parse_name


class ModelsFolder:
    """Several processes, also on several machines, may use the same folder. It is created when it is first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.downloads, self.new = path / ".downloads", path / ".new"
        self._jobs = path / ".jobs"

    def check_writable(self) -> None:
        """Raises OSError if nothing can be installed here."""
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.path):
            pass

    # ---- Bundles

    def installed(self) -> dict[Path, ModelName]:
        """The published model that each installed bundle is. Leaves out what is no imported bundle."""
        found = {}
        with suppress(OSError):
            for folder in sorted(self.path.iterdir()):
                if not folder.name.startswith(".") and (name := published_name(folder)):
                    found[folder] = name
        return found

    def missing(self, wanted: Iterable[ModelName]) -> list[ModelName]:
        """Those of the models `wanted` that are not installed."""
        installed = [(name, place.name) for place, name in self.installed().items()]
        return [name for name in wanted if not any(name.is_of(one, pair) for one, pair in installed)]

    def may_replace(self, place: Path) -> bool:
        """Whether `place` is free or has an installed model, and not a bundle of the user's own."""
        return not place.exists() or published_name(place) is not None

    def put_in_place(self, made: Path) -> Path:
        """Swaps a bundle made under `new` in. What was there is kept until `put_back` or `clean`. Raises OSError."""
        place = self.path / made.name
        swap_in(made, place)
        return place

    def put_back(self, place: Path) -> None:
        """Undoes `put_in_place`. Raises OSError."""
        replaced = self.new / place.name
        if replaced.exists():
            swap_in(replaced, place)
            shutil.rmtree(replaced)
        else:
            shutil.rmtree(self.take_away(place).parent)

    def take_away(self, place: Path) -> Path:
        """Removes an installed bundle from its place; it is deleted by `clean`, or renamed back. Raises OSError."""
        self.new.mkdir(exist_ok=True)
        removed = Path(tempfile.mkdtemp(dir=self.new)) / place.name
        place.rename(removed)
        return removed

    def clean(self) -> None:
        """Deletes what is left of jobs that have ended or were killed; what has arrived stays for jobs to come."""
        for old in self.new.glob("*.old"):  # killed between the two renames of a file system without an exchange
            place = self.path / old.stem
            with suppress(OSError):
                if not place.exists():
                    old.rename(place)
        shutil.rmtree(self.new, ignore_errors=True)
        if all(job.has_ended or (job.state in ("queued", "waiting") and not job.bytes) for job in self.jobs()):
            self.drop_downloads()

    def drop_downloads(self) -> None:
        """Deletes what has arrived."""
        shutil.rmtree(self.downloads, ignore_errors=True)

    # ---- Jobs

    def jobs(self) -> list[InstallJob]:
        """Those that can be read, in the order in which they were asked for."""
        found = []
        with suppress(OSError):
            for path in self._jobs.glob("[!.]*.json"):
                with suppress(OSError, msgspec.DecodeError):
                    found.append(_decode(path.read_bytes()))
        return sorted(found, key=lambda job: (job.asked_at, job.id))

    def job(self, id: str) -> InstallJob | None:
        return next((job for job in self.jobs() if job.id == id), None)

    def save(self, job: InstallJob) -> None:
        """Raises OSError. Takes well under a millisecond, since nothing is flushed: a power cut may cost a job's state,
        never a bundle. Only for whoever holds the lock."""
        self._jobs.mkdir(parents=True, exist_ok=True)
        partial = self._jobs / f".{job.id}.partial"
        partial.write_bytes(_encode(job))
        partial.replace(self._jobs / f"{job.id}.json")

    def add(self, job: InstallJob) -> bool:
        """Saves a new job, unless another process has just made the same; whether it did. Raises OSError."""
        self._jobs.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._jobs) as file:
            file.write(_encode(job))
            file.flush()
            path = self._jobs / f"{job.id}.json"
            try:
                os.link(file.name, path)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                with suppress(FileExistsError), path.open("xb") as whole:
                    return whole.write(_encode(job)) > 0
                return False
        return True

    def forget(self, job: InstallJob) -> None:
        """Raises OSError."""
        for path in (self._jobs / f"{job.id}.json", self.cancel_file(job)):
            path.unlink(missing_ok=True)

    def cancel_file(self, job: InstallJob) -> Path:
        """Exists if somebody has asked to cancel the job."""
        return self._jobs / f"{job.id}.cancel"

    # ---- One at a time

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Tries to hold the lock; whether it does. Raises OSError if the folder cannot be written."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the file is closed
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    yield False
                    return
                # A file system without locks: working unlocked is better than not at all.
            yield True


def published_name(folder: Path) -> ModelName | None:
    """The published model that a bundle was made of, as its record says."""
    try:
        return name_in_record(json.loads((folder / CONFIG).read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None


def name_in_record(config: object) -> ModelName | None:
    """The same from the content of config.json."""
    training = config.get("training") if isinstance(config, dict) else None
    imported = training.get("imported") if isinstance(training, dict) else None
    name = imported.get("name") if isinstance(imported, dict) else None
    return parse_name(name) if isinstance(name, str) else None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InstallJob).decode
