"""Detects texts in another language than the client named, and copied words that are not in the target language.

Detection takes as long as a short request, so only suspect texts are examined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from app.text.language_id import Detector
from app.text.short_texts import listed_shares
from app.translation.memory import RememberedText
from app.translation.planned_sentence import Part, sentences_of
from app.translation.quality_checks import MIN_COPY_WORDS, copy_warning
from app.translation.source_language import CLEAR_PROBABILITY, IMPLAUSIBLE_PROBABILITY, all_capitalised
from app.translation.text_plan import LocatedWarning, TextPlan, mean_score
from model.bundle import Bundle
from model.languages import NAMES, language_alone, language_name

SUSPECT_SCORE = -0.6
"""A text whose translation has a lower score is suspect: so are 95 in 100 texts in another language that are not
copied, and 16 in 100 of Tatoeba's sentences in the right language."""
MAX_CHARS_EXAMINED = 300
"""How much of a text is used to detect its language."""
MIN_SOURCE_PROBABILITY = 0.7
"""A few copied words cause a warning if they are in the source rather than the target language with at least this
probability; words of both languages, such as "Orientation", are below it."""
MAX_EXAMINED = 200
"""Paragraphs, and sentences, of a text that are examined: each may take a millisecond."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class LanguageChecks:
    """Warnings based on language detection. Thread-safe; recent results are cached."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._other = lru_cache(4096)(self._other_language)
        self._source_share = lru_cache(4096)(self._probability_of_source)

    @property
    def ready(self) -> bool:
        """Whether the checks are fast; the first one loads the libraries for detection."""
        return self._detector.ready

    def add_warnings(self, plan: TextPlan, is_given: bool) -> None:
        """Adds warnings to a plan whose sentences are checked, and to its sentences.

        `is_given`: the client named the text's language.
        """
        if plan.bundle is None:
            return
        done = (sentence.translation for sentence in plan.sentences)
        copies = (one for one in done if 0 < one.copied_words < MIN_COPY_WORDS)
        for copy in islice(copies, MAX_EXAMINED):
            words = copy.best.plain_text
            if words and self.is_untranslated(words, plan.bundle):
                copy.warnings.append(copy_warning(copy.sentence.passage.text))
        if is_given:
            plan.warnings += self._other_languages(plan, plan.bundle.source)

    def _other_languages(self, plan: TextPlan, source: str) -> Iterator[LocatedWarning]:
        """A warning for each run of paragraphs that seem to be in the same other language, at the first of them."""
        before, examined = None, 0
        for paragraph in plan.paragraphs():
            if not any(map(str.strip, texts := [_text_of(part) for part in paragraph])):
                continue
            start = "".join(texts)[:MAX_CHARS_EXAMINED]
            suspect = examined < MAX_EXAMINED and is_suspect(paragraph)
            examined += suspect
            warning = self.other_language(start, source) if suspect else None
            if warning and warning != before:
                yield next((part.sentence.start for part in sentences_of(paragraph)), 0), warning
            before = warning

    def other_language(self, text: str, source: str) -> str | None:
        """A warning if `text` is clearly in another language than `source`, unless it may be a name."""
        other = self._other(text, language_alone(source))
        return other and f"The text looks {other}, not {language_name(source)}."

    def is_untranslated(self, words: str, bundle: Bundle) -> bool:
        """Whether `words`, copied to the translation, are not in the target language, unless they may be a name."""
        if may_be_name(words, bundle):
            return False
        return self._source_share(words, bundle.source, bundle.target) >= MIN_SOURCE_PROBABILITY

    def _probability_of_source(self, words: str, source: str, target: str) -> float:
        """The probability that `words` are in `source` rather than in `target`; 0 if they are likelier not."""
        found = self._detector.for_languages([source, target]).detect(words)
        return found.confidence if found.language == source else 0.0

    def _other_language(self, text: str, source: str) -> str | None:
        """The name of the language of `text`, if it is certainly not `source`."""
        if self._detector.quick_guess(text) == source:
            return None
        if self._detector.for_languages([source]).detect(text).confidence >= IMPLAUSIBLE_PROBABILITY:
            return None
        other, share = self._detector.likeliest(text)
        if share < CLEAR_PROBABILITY or other == source or (all_capitalised(text) and other not in listed_shares(text)):
            return None
        return NAMES.get(other or "")


def is_suspect(paragraph: Sequence[Part]) -> bool:
    """Whether a paragraph may be in another language than its bundle's source: its score is low, a sentence is a copy,
    or it has words but no sentence."""
    sentences = sentences_of(paragraph)
    if not sentences:
        return any(map(str.isalpha, "".join(map(_text_of, paragraph))))
    done = [sentence.translation for sentence in sentences if sentence.is_translated]
    return mean_score(one.best for one in done) < SUSPECT_SCORE or any(one.copied_words for one in done)


def _text_of(part: Part) -> str:
    """The part in the item's language."""
    if isinstance(part, RememberedText):
        return ""
    return part if isinstance(part, str) else f"{part.sentence.passage.text} "


def may_be_name(words: str, bundle: Bundle) -> bool:
    """Whether each word begins with a capital letter and none is known in small letters, as a label of user interfaces
    or as a single piece of the vocabulary."""
    if not all_capitalised(words) or language_alone(bundle.source) in listed_shares(words):
        return False
    return not any(len(bundle.source_tokenizer.encode(word.lower())) == 1 for word in _WORD.findall(words))
