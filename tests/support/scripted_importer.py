"""An importer that asks no registry, as a process: it says what a script says, and copies bundles that are there.

`python tests/support/scripted_importer.py SCRIPT firefox:en-fr --into DIR ...`: SCRIPT is a folder with a file for
each model,
NAME.json, of the lines to print; "await" waits until the file NAME.goes_on exists, "copy" copies NAME.bundle into DIR
and says so, "exit" ends with that status, "allocate" takes so many bytes. NAME.runs has a line for each run, the
arguments.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any


def say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def end_with_service() -> None:
    """As the importer does: a service that was killed leaves none behind."""
    sys.stdin.read()
    os._exit(1)


def do(line: dict[str, Any], name: Path, into: Path) -> None:
    if "await" in line:
        while not name.with_suffix(".goes_on").exists():
            time.sleep(0.01)
    elif "allocate" in line:
        bytearray(line["allocate"])
    elif "copy" in line:
        if "--unless" in sys.argv and not line.get("is_newer"):
            say({"state": "unchanged"})
            return
        target = into / str(line["copy"])
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(name.with_suffix(".bundle"), target)
        say({"state": "done", "folder": str(target), "model": "model", "name": line.get("name", "")})
    elif "exit" in line:
        sys.exit(line["exit"])
    else:
        say(line)


def main() -> None:
    threading.Thread(target=end_with_service, daemon=True).start()
    script, model, *words = sys.argv[1:]
    name = Path(script, model.partition("@")[0].replace(":", "-"))
    with name.with_suffix(".runs").open("a") as runs:
        runs.write(f"{' '.join(words)}\n")
    into = Path(words[words.index("--into") + 1])
    for line in json.loads(name.with_suffix(".json").read_text()):
        do(line, name, into)


if __name__ == "__main__":
    main()
