"""Sentence-final punctuation, which the trainer counts, and the service adds for models trained only on such
sentences."""

from __future__ import annotations

import re

from model.languages import language_alone

END_MARKS_EXPECTED = 0.9
"""If more than this share of a model's training sources had an end mark, it takes a text without one for unfinished."""

_ENDED = re.compile(r"[.!?…。！？।؟።][\"'»”’)\]」』）]*$")
_FULL_STOPS = {"zh": "。", "yue": "。", "ja": "。", "hi": "।", "mr": "।", "ne": "।", "bn": "।", "th": ""}


def has_end_mark(sentence: str) -> bool:
    return _ENDED.search(sentence) is not None


def full_stop(language: str) -> str:
    """The mark that ends a plain sentence; empty for languages without one."""
    return _FULL_STOPS.get(language_alone(language), ".")
