"""Fits the quality estimates of a bundle that exists, and writes them into its config.json and model card."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from model.atomic_files import replacing_folder
from model.backends import prepare
from model.bundle_files import CARD, CONFIG, SUMS, checksums
from model.bundle_weights import load_bundle
from model.machine import keep_freed_memory
from training.compute import pick_device, use_threads
from training.evaluation.calibration import fit_quality
from training.evaluation.evaluate import TestSet
from training.evaluation.quality_card import quality_section
from training.file_lock import lock_output
from training.options import DEVICE, Option

Say = Callable[[str], None]


@dataclass(frozen=True)
class CalibrateOptions:
    """What to calibrate, and on what."""

    bundle: Path
    """The bundle to change. Its weights stay as they are."""
    pairs: Annotated[tuple[str, ...], Option(metavar="FILE")]
    """Sentence pairs that the bundle was not trained on, to fit with; as `evaluate --pairs`. Repeat for more; a
    file that is repeated counts as often."""
    test: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """More pairs, to measure with only; repeat for more."""
    below: Path | None = None
    """Name sets in this folder by their path there. (default: by the name of the file)"""
    source: str | None = None
    """For a bundle of several directions: the language that it translates."""
    target: str | None = None
    """The language that it translates into."""
    device: Annotated[str, DEVICE] = "auto"
    threads: int | None = None
    """CPU threads. (default: one per core)"""


def calibrate_bundle(options: CalibrateOptions, say: Say = print) -> None:
    """Fits and writes, completely or not at all. Raises BundleError, CorpusError and ValueError."""
    use_threads(options.threads)
    keep_freed_memory()
    with lock_output(options.bundle):
        loaded = load_bundle(options.bundle, pick_device(options.device))
        if options.source and options.target:
            loaded = loaded.in_direction(options.source, options.target)
        repeated = Counter(options.pairs)
        fitted_on, measured_on = (
            [TestSet.read(text, loaded.source, loaded.target, below=options.below) for text in texts]
            for texts in (repeated, options.test)
        )
        backend, times = prepare(loaded.model, "auto"), [*repeated.values()]
        entry, measured = fit_quality(backend, loaded, fitted_on, measured_on, times=times)
        for calibration in measured:
            say(str(calibration))
        pair = loaded.direction.pair
        config = {**loaded.config, "quality": {**loaded.config.get("quality", {}), pair: entry}}
        write_config(options.bundle, config)
    say(f"{options.bundle} estimates the quality of its translations")


def write_config(folder: Path, config: Mapping[str, Any], contents: Mapping[str, bytes] = MappingProxyType({})) -> None:
    """Replaces a bundle's config.json, files by their `contents`, and the section about its quality estimates in its
    card."""
    text = (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
    with replacing_folder(folder) as temporary:
        for file in folder.iterdir():
            shutil.copy2(file, temporary / file.name)
        sums = checksums((folder / SUMS).read_bytes())
        for name, content in {CONFIG: text, **contents}.items():
            (temporary / name).write_bytes(content)
            sums[name] = hashlib.sha256(content).hexdigest()
        (temporary / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
        if (folder / CARD).exists():
            (temporary / CARD).write_text(_with_section((folder / CARD).read_text(), config))


def _with_section(card: str, config: Mapping[str, Any]) -> str:
    """`card` with the section in place of its old one, or before the first about training, or at its end."""
    section = "".join(f"{line}\n" for line in quality_section(config))
    if not section:
        return card
    heading = section.splitlines()[0]
    without = re.sub(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", "", card, flags=re.MULTILINE | re.DOTALL)
    following = re.search(r"^## (Fine-tuned|Training)\n", without, re.MULTILINE)
    place = following.start() if following else len(without)
    return without[:place] + section + without[place:]
