"""What happens to a sentence's translation, in order: two tables of policies.

A policy is a function of a translation, which knows its sentence. It accepts the translation by returning it, replaces
it by returning another, or has the sentence decoded again by returning what to decode. Between the two tables
`app.translation.request` asks a large model, if there is one, about sentences that need it; before the first, it has
the similar translation of a memory repaired, which then takes the place of the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from app.translation import formality
from app.translation.kept_marks import retry_with_marks
from app.translation.planned_sentence import Translation
from app.translation.quality_checks import check_translation
from app.translation.sentence import Sentence
from app.translation.symbol_places import retry_with_places
from app.translation.terminology import retry_with_terms


class Rules(NamedTuple):
    """What a request wants of each translation, and what the settings demand."""

    formality: formality.Formality | None = None
    min_quality: float | None = None
    low_quality: Literal["warn", "source"] = "warn"
    """What becomes of a sentence below `min_quality`: it gets a warning, or is left as it was."""


Policy = Callable[[Translation, Rules], Translation | Sentence]


def prefer_formality(translation: Translation, rules: Rules) -> Translation:
    """Replaces a translation whose form of address is not the one wanted, if the beam has one whose is."""
    is_own = translation.origin == "model"
    return formality.prefer(rules.formality, translation) if rules.formality and is_own else translation


def require_terms(translation: Translation, rules: Rules) -> Translation | Sentence:
    """Retries with the glossary's terms in the places of the words aligned to them; then with the terms protected."""
    return retry_with_terms(translation.best) or translation


def require_marks(translation: Translation, rules: Rules) -> Translation | Sentence:
    """Retries a sentence whose numbers, signs, quotation marks, brackets or names were lost: with the numbers in their
    places, with all of them protected, and once more with pairs of symbols that were around nothing."""
    return retry_with_marks(translation.best) or translation


def require_places(translation: Translation, rules: Rules) -> Translation | Sentence:
    """Retries a sentence whose protected text came only after its end, with that where it belongs."""
    return retry_with_places(translation.best) or translation


def check(translation: Translation, rules: Rules) -> Translation:
    """Cuts repetitions, and adds a warning for each apparent error."""
    return check_translation(translation)


def render(translation: Translation, rules: Rules) -> Translation:
    """Renders it, which is kept: here, where a long sentence has a thread."""
    _ = translation.best.rendered
    return translation


def require_quality(translation: Translation, rules: Rules) -> Translation:
    """Where the quality is too low, adds a warning, or has the sentence left as it was."""
    quality = translation.quality
    if quality is None or rules.min_quality is None or quality >= rules.min_quality:
        return translation
    if translation.origin == "large model":
        return translation
    if rules.low_quality == "source":
        translation.warnings.append(f"Left as it was: its translation has a quality of {quality:.2f}.")
        return translation.left_as_source()
    translation.warnings.append(f"Check this sentence: its translation has a quality of {quality:.2f}.")
    return translation


WHEN_DECODED: Sequence[Policy] = (prefer_formality, require_terms, require_marks, require_places, check, render)
WHEN_ACCEPTED: Sequence[Callable[[Translation, Rules], Translation]] = (require_quality,)


def decide(translation: Translation, rules: Rules) -> Translation | Sentence:
    """What the policies make of a decoded translation: the one to use, or the sentence to decode again."""
    for policy in WHEN_DECODED:
        decision = policy(translation, rules)
        if isinstance(decision, Sentence):
            return decision
        translation = decision
    return translation


def accepted(translation: Translation, rules: Rules) -> Translation:
    """What the policies make of a translation that is not decoded again."""
    for policy in WHEN_ACCEPTED:
        translation = policy(translation, rules)
    return translation
