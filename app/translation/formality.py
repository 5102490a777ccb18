"""Chooses the hypothesis of a beam that addresses its reader formally, or informally: "vous" or "tu"."""

from __future__ import annotations

import re
from typing import Literal

from app.translation.planned_sentence import Translation
from model.languages import language_alone

Formality = Literal["more", "less"]
BEAM_SIZE = 9
"""Smaller beams seldom have both forms."""
_FORMS = {
    "de": {
        "less": r"\b(?:[Dd](?:u|ich|ir|ein\w*)|[Ee]u(?:ch|er\w*|re\w*))\b",
        "more": r"\b(?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b",
    },
    "es": {
        "less": r"(?i)\b(?:tú|te|ti|tus?|tuy[ao]s?|contigo|vosotr[ao]s|os|vuestr[ao]s?|eres|estás|has|vas|sabes|puedes"
        r"|quieres|tienes|debes|crees|haces|dices|necesitas)\b",
        "more": r"(?i)\busted(?:es)?\b",
    },
    "fr": {"less": r"(?i)\b(?:t['’]|(?:tu|te|toi|ton|ta|tes)\b)", "more": r"(?i)\b(?:vous|votre|vos|vôtres?)\b"},
}
"""Words by which a language addresses somebody. Some have other meanings, too: only with another hypothesis that has
the other form do they count as an address."""


def has_formality(target: str) -> bool:
    """Whether translations into this language can be chosen so."""
    return language_alone(target).lower() in _FORMS


def prefer(formality: Formality, translation: Translation) -> Translation:
    """The translation with the best of its candidates that has this form of address as the first, if the first has
    another."""
    forms = _FORMS.get(language_alone(translation.sentence.bundle.target).lower())
    if forms is None:
        return translation
    wanted, other = re.compile(forms[formality]), re.compile(forms["less" if formality == "more" else "more"])
    candidates = list(translation.candidates)
    texts = [candidate.plain_text for candidate in candidates]
    if other.search(texts[0]):
        fit = (number for number, text in enumerate(texts) if wanted.search(text) and not other.search(text))
        candidates.insert(0, candidates.pop(next(fit, 0)))
    return Translation(candidates)
