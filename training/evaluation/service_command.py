"""Translates sentences through the service's command line, in a separate process: `training` must not import `app`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent.parent
_SETTINGS = "INTERLINEAR_"
"""Prefix of the service's settings."""


class NotServed(ValueError):
    """The service's command did not translate everything; one line says why."""


def translate_served(
    bundle: Path,
    languages: tuple[str, str],
    sentences: Sequence[str],
    precision: str = "auto",
    device: str = "auto",
    workers: int | None = None,
) -> list[str]:
    """The translations of `sentences`, in order, by the service with `bundle` and its default settings.

    `languages` are source and target; `workers` is the number of worker processes, None for one per core. Ignores the
    environment's settings for the service, since scores must not depend on them. Raises NotServed.
    """
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(_SETTINGS)}
    settings = {f"{_SETTINGS}PRECISION": precision, f"{_SETTINGS}DEVICE": device}
    lines = "".join(sentence.replace("\n", " ") + "\n" for sentence in sentences)
    done = subprocess.run(
        [*command_for(bundle, *languages), *([] if workers is None else ["--workers", str(workers)])],
        input=lines.encode("utf-8", "surrogatepass"),
        capture_output=True,
        env={**kept, **settings, "PYTHONPATH": path},
        check=False,
    )
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        raise NotServed(_reason(done.returncode, said))
    *translations, rest = done.stdout.decode("utf-8", "surrogatepass").split("\n")
    if rest or len(translations) != len(sentences):
        raise NotServed(f"the service returned {len(translations):,} lines for {len(sentences):,} sentences")
    return translations


def command_for(bundle: Path, source: str, target: str) -> list[str]:
    languages = ["--source", source, "--target", target]
    return [sys.executable, "-m", "app", "translate", *languages, "--bundles", str(bundle), "--quiet"]


def _reason(code: int, said: Sequence[str]) -> str:
    """The reason why the command ended with `code`, in one line: the last line of its output, which names the fault."""
    ended = "it was killed" if code < 0 else f"its exit code is {code}"
    return f"the service's own command failed: {said[-1].removeprefix('interlinear: ') if said else ended}"
