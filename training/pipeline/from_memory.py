"""Adapts a bundle in its place to the pairs of a translation memory, for a job that runs every night.

    curl "http://127.0.0.1:8000/memory?source=en&target=fr" -o corrections.tmx
    python -m training adapt --from-memory corrections.tmx --bundle bundles/en-fr

`training.pipeline.run` trains on most of the pairs, measures the rest and general sets before and after, and refuses
weights that lose too much elsewhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from model.atomic_files import replacing_folder
from model.bundle import open_bundle
from training.adapt.finetune import FineTuning
from training.file_lock import lock_output
from training.optim.trainer import MINUTES
from training.options import DEVICE, Option, OptionGroup, Values
from training.pipeline.options import RunArguments
from training.pipeline.run import run_all
from training.pipeline.work_folder import work_folder

Say = Callable[[str], None]


@dataclass(frozen=True)
class AdaptOptions:
    """What to adapt, and to what."""

    from_memory: Annotated[Path, Option(metavar="FILE")]
    """The pairs: a memory's export (TMX), or a TSV."""
    bundle: Path
    """The bundle to replace; a service that watches its folder reloads it."""
    source: str | None = None
    """For a bundle of several directions: the language that it translates."""
    target: str | None = None
    """The language that it translates into."""
    minutes: Annotated[float | None, MINUTES] = None
    work: Path | None = None
    """Folder for intermediate results, from which the same command resumes. (default: runs/adapt-bundles-en-fr for
    --bundle bundles/en-fr)"""
    tuning: Annotated[Values, OptionGroup(FineTuning)] = field(default_factory=dict)
    device: Annotated[str, DEVICE] = "auto"
    threads: int | None = None
    """CPU threads. (default: one per core)"""


def adapt_bundle(options: AdaptOptions, say: Say = print) -> None:
    """Trains beside the bundle and then swaps the result in; after an error or a refusal the bundle is what it was.

    Raises the errors of `run_all`.
    """
    before = open_bundle(options.bundle)
    default = work_folder(options.bundle)
    work = options.work or default.with_name(f"adapt-{default.name}")
    initial = work / "initial" / before.checksum[:12]
    if not initial.exists():
        with replacing_folder(initial) as temporary:
            shutil.copytree(options.bundle, temporary, dirs_exist_ok=True)
    adapted = work / "adapted" / before.checksum[:12]
    languages: dict[str, Any] = {"source": options.source, "target": options.target}
    pairs = {"pairs": (str(options.from_memory),), **{k: v for k, v in languages.items() if v is not None}}
    arguments = RunArguments(
        out=adapted,
        top_level=pairs,
        init=initial,
        minutes=options.minutes,
        work=work / "run" / before.checksum[:12],
        replace=True,
        tuning=options.tuning,
        device=options.device,
        threads=options.threads,
    )
    run_all(arguments, say)
    with lock_output(options.bundle), replacing_folder(options.bundle) as temporary:
        shutil.copytree(adapted, temporary, dirs_exist_ok=True)
    shutil.rmtree(work)  # the next memory begins from this bundle
    after = open_bundle(options.bundle)
    say(f"{options.bundle} was {before.name} and is {after.name}; POST /models/reload, or a watched folder, serves it")
