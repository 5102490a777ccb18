"""Chooses the language that a text is translated from, where the client leaves that to us.

Knows what is served and how sure detection is; what is done with a text is app/translation/request.py's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.engine.registry import Catalogue
from app.errors import PairNotServed
from app.text.language_id import Detected, Detector
from model.languages import NAMES, language_name

CONFIDENT_PROBABILITY = 0.5
"""A language that is chosen with less confidence is warned of, and one that is likelier than this is named."""
IMPLAUSIBLE_PROBABILITY = 0.02
"""If no language that reaches the target is likelier, a text is refused, or at least warned of: it would become
nonsense. docs/text.md has how often that is wrong."""
LONG_TEXT_BYTES = 30
"""UTF-8 bytes of the letters of a text that is refused whatever else it looks like."""
SHORT_TEXT_BYTES, CLEAR_PROBABILITY = 12, 0.9
"""One that has only so many is refused if it is that likely in another language, and not perhaps a name."""


class LanguageChoice(NamedTuple):
    """The language to translate from, or none if the text holds no words; and what is to be said of the choice."""

    detected: Detected
    warnings: Sequence[str] = ()
    error: PairNotServed | None = None
    """Why it is not to be translated at all."""


class SourceLanguages:
    """The languages that a text for `target` may be in: those that are translated into it, and `target` itself."""

    def __init__(self, catalogue: Catalogue, detector: Detector, target: str) -> None:
        """`detector`: of all languages served."""
        self._target, self._all = target, detector
        self._reaching = detector.among([b.source for b in catalogue if b.target == target] + [target])

    def choose(self, text: str) -> LanguageChoice:
        """The likeliest, however likely it is; with an error for a long text that is in some other language."""
        detected = self._reaching.detect(text)
        if detected.language is None or detected.confidence >= CONFIDENT_PROBABILITY:
            return LanguageChoice(detected)
        taken = language_name(detected.language)
        unsure = f"Taken for {taken}, but that is not sure."
        if detected.confidence >= IMPLAUSIBLE_PROBABILITY:
            return LanguageChoice(detected, [unsure])
        other, share = self._all.likeliest(text)
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
    """At most those of the first thousand characters."""
    return sum(len(c.encode("utf-8", "surrogatepass")) for c in text[:1000] if c.isalpha())


def all_capitalised(text: str) -> bool:
    """Whether all of its words begin with a capital letter, as names do."""
    return all(word[0].isupper() for word in re.findall(r"[^\W\d_]+", text[:200]))
