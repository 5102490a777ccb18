"""Which marks end sentences: what the trainer counts, and the service adds for a model that knows no others."""

from __future__ import annotations

import re

from model.languages import language_alone

END_MARKS_EXPECTED = 0.9
"""A model of whose training sources more than this share had an end mark takes a text without one for unfinished."""

_ENDED = re.compile(r"[.!?…。！？।؟።][\"'»”’)\]」』）]*$")
_FULL_STOPS = {"zh": "。", "yue": "。", "ja": "。", "hi": "।", "mr": "।", "ne": "।", "bn": "।", "th": ""}


def has_end_mark(sentence: str) -> bool:
    return _ENDED.search(sentence) is not None


def full_stop(language: str) -> str:
    """What ends a plain sentence; empty where nothing does."""
    return _FULL_STOPS.get(language_alone(language), ".")
