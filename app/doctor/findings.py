"""The lines of `interlinear doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


def ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def warning(subject: str, text: str) -> Finding:
    return Finding(Level.WARNING, subject, text)


def error(subject: str, text: str) -> Finding:
    return Finding(Level.ERROR, subject, text)
