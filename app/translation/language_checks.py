"""Notices by their language texts that are not in the one they were sent as, and words that were not translated.

Knows detection. A look takes as long as a short request, so only what is suspicious gets one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

from app.text.language_id import Detector
from app.text.short_texts import known_shares
from app.translation.quality_checks import MIN_COPY_WORDS, copy_warning
from app.translation.sentence import Sentence
from app.translation.source_language import CLEAR_PROBABILITY, IMPLAUSIBLE_PROBABILITY, all_capitalised
from app.translation.text_plan import LocatedWarning, TextPlan, mean_score
from model.bundle import Bundle
from model.languages import NAMES, language_alone, language_name

SUSPECT_SCORE = -0.6
"""Translations with a lower score may be of texts in another language: so are 95 in 100 of these, unless they are
copies, and 16 in 100 of Tatoeba's sentences in the right one."""
MAX_CHARS_EXAMINED = 300
"""Characters of a text that tell its language."""
MIN_SOURCE_PROBABILITY = 0.7
"""The least probability, of source and target language, of the source for a few words copied to be warned of: what both
languages have, such as "Orientation", is under it."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class LanguageChecks:
    """Warnings that detection gives reason for. Safe in threads; what was looked at lately is remembered."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._other = lru_cache(4096)(self._other_language)

    @property
    def ready(self) -> bool:
        """Whether the checks are quick; the first loads the libraries of detection."""
        return self._detector.ready

    def warn(self, plan: TextPlan, is_given: bool) -> None:
        """Adds warnings to a plan whose sentences are decoded, and to its sentences.

        `is_given`: the client named the text's language.
        """
        if plan.bundle is None:
            return
        for sentence in plan.sentences:
            words = sentence.plain_text(sentence.best) if 0 < sentence.copied_words < MIN_COPY_WORDS else ""
            if words and self.is_untranslated(words, plan.bundle):
                sentence.warnings.append(copy_warning(sentence.passage.text))
        if is_given:
            plan.warnings += self._other_languages(plan, plan.bundle.source)

    def _other_languages(self, plan: TextPlan, source: str) -> Iterator[LocatedWarning]:
        """Of paragraphs one after another that look to be in the same other language, the first is told of."""
        before = None
        for paragraph in plan.paragraphs():
            if not any(map(str.strip, texts := [_text_of(part) for part in paragraph])):
                continue
            text = "".join(islice(chain.from_iterable(texts), MAX_CHARS_EXAMINED))
            warning = self.other_language(text, source) if is_suspect(paragraph) else None
            if warning and warning != before:
                yield next((part.start for part in paragraph if isinstance(part, Sentence)), 0), warning
            before = warning

    def other_language(self, text: str, source: str) -> str | None:
        """A warning if `text` is clearly in another language than `source`, and not perhaps a name."""
        other = self._other(text, language_alone(source))
        return other and f"The text looks {other}, not {language_name(source)}."

    def is_untranslated(self, words: str, bundle: Bundle) -> bool:
        """Whether `words`, of the source and in the translation, are none of the target's, nor perhaps a name."""
        if may_be_name(words, bundle):
            return False
        found = self._detector.among([bundle.source, bundle.target]).detect(words)
        return found.language == bundle.source and found.confidence >= MIN_SOURCE_PROBABILITY

    def _other_language(self, text: str, source: str) -> str | None:
        """The name of the language that `text` is in, if it is not `source`."""
        if self._detector.at_a_glance(text) == source:
            return None
        if self._detector.among([source]).detect(text).confidence >= IMPLAUSIBLE_PROBABILITY:
            return None
        other, share = self._detector.likeliest(text)
        if share < CLEAR_PROBABILITY or other == source or (all_capitalised(text) and other not in known_shares(text)):
            return None
        return NAMES.get(other or "")


def is_suspect(paragraph: Sequence[str | Sentence]) -> bool:
    """Whether it may be in another language than its bundle's: by its score, its copies, or if nothing of its words is
    translated."""
    sentences = [part for part in paragraph if isinstance(part, Sentence)]
    if not sentences:
        return any(character.isalpha() for part in paragraph if isinstance(part, str) for character in part)
    weak = mean_score(sentence.best for sentence in sentences if not sentence.error) < SUSPECT_SCORE
    return weak or any(sentence.copied_words for sentence in sentences)


def _text_of(part: str | Sentence) -> str:
    return part if isinstance(part, str) else f"{part.passage.text} "


def may_be_name(words: str, bundle: Bundle) -> bool:
    """Whether each word begins with a capital, and none is known in small letters: as a label of user interfaces, or as
    one piece of the vocabulary."""
    if not all_capitalised(words) or language_alone(bundle.source) in known_shares(words):
        return False
    return not any(len(bundle.tokenizer.encode(word.lower())) == 1 for word in _WORD.findall(words))
