"""What an import says while it goes on: lines for people, or JSON for the program that started it."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from training.command_line import memory_fault
from training.download import ProgressLine, progress_text
from training.file_lock import BusyError
from training.importing.registries.offer import Offer
from training.launch import serve_command

Say = Callable[[str], None]
State = Literal["finding", "downloading", "converting", "checking", "done", "unchanged", "failed", "note"]


class Report:
    """For people: results on stdout, and what is no result, which a script may read there, on stderr."""

    progress_every_s: float = 10
    """Minimum time between two events about the same download."""

    def __init__(self, say: Say = print) -> None:
        self._say = say
        self._line = ProgressLine()
        self._offer, self._arrived, self._reported_s = "", 0, -math.inf

    def emit(self, state: State, text: str | None = None, *, is_result: bool = False, **facts: Any) -> None:
        """An event, which is for people its `text`, if it has one."""
        self._line.clear()
        for line in (text or "").splitlines():
            if is_result:
                self._say(line)
            else:
                print(line, file=sys.stderr, flush=True)

    def result(self, text: str) -> None:
        self.emit("note", text, is_result=True)

    def warn(self, text: str) -> None:
        self.emit("note", text)

    def download(self, offer: Offer, arrived: int, total: int | None) -> None:
        """Reports how many bytes of an offer's files are here, and of how many if that is known; not at every call.
        `arrived` never becomes less: a file that is downloaded again counts from where it was."""
        if offer.name != self._offer:
            self._offer, self._arrived, self._reported_s = offer.name, 0, -math.inf
        self._arrived = max(self._arrived, arrived)
        total = total and max(total, self._arrived)
        self._line.show(offer.name, self._arrived, total)
        if (now := time.monotonic()) - self._reported_s < self.progress_every_s:
            return
        is_first, self._reported_s = self._reported_s == -math.inf, now
        text = None
        if not self._line.is_shown and self._arrived != total:
            text = f"{offer.name}: {'downloading' if is_first else progress_text(self._arrived, total)}"
        facts: dict[str, Any] = {"source": offer.source, "target": offer.target, "licence": offer.licence}
        facts |= {"bytes": self._arrived, "total": total}
        self.emit("downloading", text, name=offer.name, **facts)

    def done(self, folder: Path, model: str, name: str | None) -> None:
        size = sum(file.stat().st_size for file in folder.iterdir())
        text = f"{folder} is {model}, {size / 2**20:.1f} MiB\nnext: {serve_command(folder)}"
        self.emit("done", text, is_result=True, folder=str(folder.absolute()), model=model, name=name)

    def fail(self, error: BaseException) -> None:
        """Reports the error that ends the import; to people the command line says it."""
        passes = isinstance(error, BusyError) or getattr(error, "passes", False)
        self.emit("failed", error=error_text(error), retry_after_s=getattr(error, "retry_after_s", None), passes=passes)


class JsonReport(Report):
    """For a program: an object a line on stdout, and nothing else there."""

    progress_every_s = 0.5

    def emit(self, state: State, text: str | None = None, *, is_result: bool = False, **facts: Any) -> None:
        if state == "note":
            facts = {"text": text}
        print(json.dumps({"state": state, **facts}, allow_nan=False), flush=True)


def error_text(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    return memory_fault(error) or " ".join(str(error).split()) or type(error).__name__
