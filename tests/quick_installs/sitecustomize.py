"""Has services and importers install published models quickly, in processes that have this folder in PYTHONPATH.

An importer has a service's lowest priority, and other tests would keep it waiting. Its samples come from few of our
sentences: a random model ends few, so that to translate all of them takes most of the time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any


def _same_priority(trainer: Any) -> None:
    trainer.NICENESS = 0


def _few_sentences(samples: Any) -> None:
    samples.SENTENCES = {language: "|".join(text.split("|")[::9]) for language, text in samples.SENTENCES.items()}


CHANGES: dict[str, Callable[[Any], None]] = {
    "app.services.trainer": _same_priority,
    "training.export.samples": _few_sentences,
}


class Changes(MetaPathFinder):
    """Changes modules as soon as they are imported."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        change = CHANGES.pop(name, None)
        found = find_spec(name) if change else None
        if not change or not found or not found.loader:
            return None
        run = found.loader.exec_module

        def run_and_change(module: Any) -> None:
            run(module)
            change(module)

        found.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return found


sys.meta_path.insert(0, Changes())
