"""One adaptation at a time: a served bundle learns the pairs of a file, in processes of the trainer, and may then be
replaced by the result.

The state is in memory; files are in a temporary folder of each adaptation's own. Both end with the service.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from app.errors import AdaptationConflict, BundlesRefused, NoAdaptation
from app.services.trainer import TrainerFailed, missing_for_trainer, run_trainer, trainer_command
from app.settings import Settings
from model.atomic_files import replacing_folder
from model.bundle import Bundle, open_bundle
from model.bundle_files import BundleError

log = logging.getLogger(__name__)
MAX_LINES = 200
"""How many of the trainer's last lines are kept."""
COMPARED = 100
"""How many of the pairs held out are translated for the comparison."""
DEVELOPMENT = "development set"
"""The trainer's name for the pairs held out."""
State = Literal["planning", "planned", "training", "comparing", "trained", "accepting", "accepted", "failed"]
REPLACEABLE: tuple[State, ...] = ("planned", "accepted", "failed")
"""Another plan takes the place of one in these states."""
Pairs = Sequence[tuple[str, str]]


@dataclass
class Adaptation:
    """The adaptation of `bundle`. Raises OSError."""

    bundle: Bundle
    options: list[str]
    """The trainer's: its limits."""
    folder: Path
    state: State = "planning"
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    plan: dict[str, Any] | None = None
    """The trainer's preview."""
    scores: list[dict[str, Any]] = field(default_factory=list)
    comparison: list[dict[str, Any]] = field(default_factory=list)
    """These three have the fields of app/api/schemas/adaptation.py."""
    advice: str = ""
    error: str = ""
    model: str = ""
    """The adapted bundle's name."""

    @property
    def original(self) -> Path:
        """The bundle, for processes in another folder."""
        return self.bundle.folder.absolute()

    @property
    def adapted(self) -> Path:
        return self.folder / "adapted" / self.bundle.folder.name

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def training(self) -> list[str]:
        """The trainer's arguments for the plan and, without `--dry-run`, for the training."""
        paths = {"init": self.original, "pairs": self.folder / "pairs.tsv"}
        paths |= {"out": self.adapted, "work": self.work}
        given = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
        return ["run", *given, "--columns", "1,2", "--replace", *self.options]


class Adaptations:
    """The current adaptation, or none."""

    def __init__(self, obstacle: str | None, command: Sequence[str] | None = None) -> None:
        """`obstacle`: why there is none here; see `obstacle_to_adaptation`. `command`: how the trainer is started."""
        self.obstacle, self._command = obstacle, command or trainer_command()
        self.current: Adaptation | None = None
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raises NoAdaptation."""
        if self.obstacle:
            raise NoAdaptation(self.obstacle)

    async def plan(self, bundle: Bundle, pairs: Pairs, minutes: float | None, accepted_loss: float | None) -> None:
        """Begins to find out what an adaptation of `bundle` to `pairs` would learn and measure.

        Raises AdaptationConflict.
        """
        while self.current:  # another request may make one meanwhile
            if self.current.state not in REPLACEABLE:
                raise AdaptationConflict(f"An adaptation is in progress: it is {self.current.state}.")
            await self.discard()
        options = [] if minutes is None else ["--minutes", f"{minutes:g}"]
        options += [] if accepted_loss is None else ["--accept-general-loss", f"{accepted_loss:g}"]
        folder = Path(tempfile.mkdtemp(prefix="interlinear-adaptation-"))
        adaptation = self.current = Adaptation(bundle, options, folder)
        self._begin(adaptation, self._plan(adaptation, pairs))

    def start(self) -> None:
        """Begins to train by the plan. Raises AdaptationConflict."""
        adaptation = self._in_state("planned")
        adaptation.state = "training"
        self._begin(adaptation, self._train(adaptation))

    async def accept(self, reload: Callable[[], Awaitable[object]]) -> None:
        """Puts the adapted bundle in the place of the one that it came from, and calls `reload`, which serves it.

        Raises AdaptationConflict if the bundle has changed since, and BundlesRefused; then nothing has changed.
        """
        adaptation = self._in_state("trained")
        adaptation.state = "accepting"
        accepting = self._task = asyncio.create_task(self._accept(adaptation, reload))
        await asyncio.shield(accepting)  # it goes on if the client leaves meanwhile

    async def discard(self) -> None:
        """Ends the current adaptation, if there is one, kills its process and deletes its files."""
        if self.current and self.current.state == "accepting" and self._task:
            await asyncio.wait([self._task])
        adaptation, self.current = self.current, None
        if adaptation is None:
            return
        if self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.to_thread(shutil.rmtree, adaptation.folder, ignore_errors=True)

    def _in_state(self, state: State) -> Adaptation:
        if self.current is None or self.current.state != state:
            found = f"it is {self.current.state}" if self.current else "there is none"
            raise AdaptationConflict(f"This needs an adaptation that is {state}; {found}.")
        return self.current

    def _begin(self, adaptation: Adaptation, work: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:
                is_expected = isinstance(error, TrainerFailed | OSError)
                log.warning("adapting %s failed: %s", adaptation.bundle.name, error, exc_info=not is_expected)
                adaptation.error, adaptation.state = str(error) or repr(error), "failed"

        self._task = asyncio.create_task(guarded())

    async def _run(self, adaptation: Adaptation, *arguments: str) -> None:
        await run_trainer([*self._command, *arguments], adaptation.folder, adaptation.lines.append)

    async def _plan(self, adaptation: Adaptation, pairs: Pairs) -> None:
        await asyncio.to_thread(_write_pairs, adaptation.folder / "pairs.tsv", pairs)
        await self._run(adaptation, *adaptation.training, "--dry-run")
        adaptation.plan = json.loads((adaptation.work / "preview.json").read_bytes())
        adaptation.state = "planned"

    async def _train(self, adaptation: Adaptation) -> None:
        await self._run(adaptation, *adaptation.training)
        config = json.loads((adaptation.adapted / "config.json").read_bytes())
        adaptation.scores = list(_scores(config))
        adaptation.advice = config["training"].get("tradeoff", {}).get("advice", "")
        adaptation.state = "comparing"
        before, after = [await self._translate(adaptation, of) for of in (adaptation.original, adaptation.adapted)]
        pairs = [line.split("\t") for line in _lines(adaptation.folder / "compared.tsv")]
        if len(pairs) == len(before) == len(after):  # the trainer may take the first line for a header
            names = ("text", "reference", "before", "after")
            rows = zip(pairs, before, after, strict=True)
            adaptation.comparison = [dict(zip(names, (*pair, *both), strict=True)) for pair, *both in rows]
        adapted = await asyncio.to_thread(open_bundle, adaptation.adapted)
        adaptation.model, adaptation.state = adapted.name, "trained"
        log.info("adapted %s: %s", adaptation.bundle.name, adapted.name)

    async def _translate(self, adaptation: Adaptation, bundle: Path) -> list[str]:
        """How `bundle` translates the first pairs that were held out, as the service does."""
        compared, out = adaptation.folder / "compared.tsv", adaptation.folder / "translations.txt"
        if not compared.exists():
            pairs = islice(_lines(adaptation.work / "data" / "dev.tsv"), COMPARED)
            compared.write_text("".join(f"{pair}\n" for pair in pairs), encoding="utf-8")
        given = ["--bundle", str(bundle), "--pairs", str(compared), "--columns", "1,2", "--out", str(out)]
        await self._run(adaptation, "evaluate", *given)
        return _lines(out)

    async def _accept(self, adaptation: Adaptation, reload: Callable[[], Awaitable[object]]) -> None:
        try:
            await self._swap(adaptation, reload)
        except BaseException:
            adaptation.state = "trained"
            raise
        adaptation.state = "accepted"
        log.info("%s was %s and is %s", adaptation.bundle.folder, adaptation.bundle.name, adaptation.model)
        await asyncio.to_thread(shutil.rmtree, adaptation.folder, ignore_errors=True)

    async def _swap(self, adaptation: Adaptation, reload: Callable[[], Awaitable[object]]) -> None:
        bundle, old = adaptation.bundle, adaptation.folder / "old"
        try:
            on_disk = await asyncio.to_thread(open_bundle, bundle.folder)
            if on_disk.checksum != bundle.checksum:
                raise AdaptationConflict(f"{bundle.folder} has changed since: it is {on_disk.name}, not {bundle.name}.")
            await asyncio.to_thread(_copy, bundle.folder, old)
            await asyncio.to_thread(_replace, bundle.folder, adaptation.adapted)
        except (BundleError, OSError) as error:
            raise BundlesRefused(str(error)) from None
        try:
            await reload()
        except BaseException:
            await asyncio.to_thread(_replace, bundle.folder, old)
            raise


def obstacle_to_adaptation(settings: Settings) -> str | None:
    """Why a service cannot adapt bundles, or None."""
    if settings.api_keys_file is None:
        return "Adapting needs API keys, one of them marked `admin`: this service has no API key file."
    if settings.instances > 1 or settings.store:
        return "Adapting needs a service of one instance, since others would know nothing of it: this one has several."
    if missing := missing_for_trainer():
        return f"The trainer is not installed here: {', '.join(missing)} is missing; pip install 'interlinear[train]'."
    return None


def _write_pairs(path: Path, pairs: Pairs) -> None:
    """Writes a line for each pair; white space within a side, such as a line break, becomes a space."""
    lines = ("\t".join(" ".join(side.split()) for side in pair) for pair in pairs)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="replace")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _scores(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the scores of the bare decoder before and after, from an adapted bundle's config.json."""
    measured = config["training"].get("decoder_metrics", config["metrics"])
    after = {(metric["set"], metric["metric"]): metric["score"] for metric in measured}
    for old in config["training"]["initial"]["metrics"]:
        if (new := after.get((old["set"], old["metric"]))) is not None:
            kept = {name: old[name] for name in ("set", "sentences", "metric")}
            yield {**kept, "held_out": old["set"] == DEVELOPMENT, "before": old["score"], "after": new}


def _copy(folder: Path, to: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(to)
    shutil.copytree(folder, to)


def _replace(folder: Path, by: Path) -> None:
    with replacing_folder(folder) as temporary:
        shutil.copytree(by, temporary, dirs_exist_ok=True)
