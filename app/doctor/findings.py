"""The lines of `interlinear doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    level: Level
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:<8} {self.subject:<10} {self.text}"


ok, warning, error = (partial(Finding, level) for level in Level)
