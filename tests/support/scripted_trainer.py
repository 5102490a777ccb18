"""A trainer that learns nothing, as a process: it writes the files that the service reads, and exports a given bundle.

`python tests/support/scripted_trainer.py BUNDLE GOES_ON run ...`: an export waits until the file GOES_ON exists.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path

from model.bundle import open_bundle


def plan(init: Path, work: Path, minutes: str | None) -> None:
    work.mkdir()
    preview = {"bundle": open_bundle(init).name, "pairs": 90, "held_out": 10, "left_out": {}, "rehearsed": 5}
    preview |= {"general": {"general set": 4}, "accepted_loss": 100.0, "minutes": minutes and float(minutes)}
    (work / "preview.json").write_text(json.dumps(preview))


def export(adapted: Path, goes_on: Path, pairs: Path, work: Path, out: Path) -> None:
    print("step 1", flush=True)
    while not goes_on.exists():
        time.sleep(0.01)
    (work / "data").mkdir()
    (work / "data" / "dev.tsv").write_text("".join(pairs.read_text().splitlines(keepends=True)[:10]))
    shutil.copytree(adapted, out)


def main() -> None:
    adapted, goes_on, verb, *words = sys.argv[1:]
    given = dict(pairwise(words))
    if verb == "evaluate":
        sources = Path(given["--pairs"]).read_text().splitlines()
        Path(given["--out"]).write_text("".join(f"{given['--bundle']}: {source}\n" for source in sources))
    elif "--dry-run" in words:
        plan(Path(given["--init"]), Path(given["--work"]), given.get("--minutes"))
    else:
        export(Path(adapted), Path(goes_on), *(Path(given[f"--{name}"]) for name in ("pairs", "work", "out")))


if __name__ == "__main__":
    main()
