"""Chooses the language to translate a text from, if the client leaves it open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.errors import PairNotServed
from app.text.language_id import Detected, Detector
from model.languages import NAMES, language_name

CONFIDENT_PROBABILITY = 0.5
"""A choice with less confidence causes a warning; a language likelier than this is named in one."""
IMPLAUSIBLE_PROBABILITY = 0.02
"""If no language that is translated into the target is likelier, a text is refused, or causes a warning: its
translation would be nonsense. docs/language-detection.md has the error rate."""
LONG_TEXT_BYTES = 30
"""A text with at least this many UTF-8 bytes of letters is refused whatever other language it seems to be in."""
SHORT_TEXT_BYTES, CLEAR_PROBABILITY = 12, 0.9
"""A text with at least this many bytes is refused if another language is this likely, unless it may be a name."""


class LanguageChoice(NamedTuple):
    """The language to translate from, or none if the text has no words; and warnings about the choice."""

    detected: Detected
    warnings: Sequence[str] = ()
    error: PairNotServed | None = None
    """The reason not to translate the text at all."""


class SourceLanguages:
    """The languages that a text for `target` may be in: those translated into it, and `target` itself."""

    def __init__(self, sources: Sequence[str], detector: Detector, target: str) -> None:
        """`sources`: the languages that are translated into `target`; `detector`: for all served languages."""
        self._target, self._all_languages = target, detector
        self._candidates = detector.for_languages([*sources, target])

    def choose(self, text: str) -> LanguageChoice:
        """The likeliest language, whatever its probability; with an error for a long text in some other language."""
        detected = self._candidates.detect(text)
        if detected.language is None or detected.confidence >= CONFIDENT_PROBABILITY:
            return LanguageChoice(detected)
        taken = language_name(detected.language)
        unsure = f"Taken for {taken}, but that is not sure."
        if detected.confidence >= IMPLAUSIBLE_PROBABILITY:
            return LanguageChoice(detected, [unsure])
        other, share = self._all_languages.likeliest(text)
        name = NAMES.get(other or "") if share >= CONFIDENT_PROBABILITY and other != detected.language else None
        found = f"looks {name}, which" if name else "seems to be in no language that"
        reason = f"The text {found} is {'not ' if name else ''}translated into {language_name(self._target)} here."
        size = _letter_bytes(text)
        if size >= LONG_TEXT_BYTES or (
            size >= SHORT_TEXT_BYTES and name and share >= CLEAR_PROBABILITY and not all_capitalised(text)
        ):
            return LanguageChoice(detected, error=PairNotServed(reason))
        return LanguageChoice(detected, [f"{reason} It was taken for {taken}."])


def _letter_bytes(text: str) -> int:
    """UTF-8 bytes of the letters among the first thousand characters."""
    return sum(len(c.encode("utf-8", "surrogatepass")) for c in text[:1000] if c.isalpha())


def all_capitalised(text: str) -> bool:
    """Whether all words begin with a capital letter, as names do."""
    return all(word[0].isupper() for word in re.findall(r"[^\W\d_]+", text[:200]))
