"""Decodes a sentence again whose translation lost or added numbers, signs, quotation marks, brackets or names.

The second time they are protected.

A first translation in which they are right stays as the model wrote it, since it sees them in their places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from app.markup.passage import OBJECT, ProtectedSpan, masked, usable_spans
from app.text.checked_marks import checked_spans, has_same_marks, is_sign, may_have_marks
from app.text.glossary import merge_spans
from app.text.optional_endings import join_endings
from app.text.symbols import nesting_pairs
from app.translation.candidate import Candidate
from app.translation.input_normalisation import max_protected_spans
from app.translation.names import lost_names
from app.translation.plain_text_tags import symbols_as_tags, with_tab_tags
from app.translation.sentence import Sentence
from app.translation.terminology import missing_terms, sequence_with_terms

_MAX_TIMES = 2
"""How often more of a sentence is protected: the second time, pairs of symbols that are around nothing."""
_MAX_WHOLE_CHARS = 40
"""Maximum length of a pair of symbols, with its words, that is kept as it is where none of them can be found again."""


def retry_with_marks(candidate: Candidate) -> Sentence | None:
    """The sentence to decode again whose translation has other numbers, signs, quotation marks, brackets or names, or
    has a pair of symbols around nothing. None if it is none, or no more of it can be protected."""
    sentence = candidate.sentence
    if sentence.begun or sentence.mark_retries == _MAX_TIMES:
        return None
    is_first = not sentence.mark_retries
    pairs = _empty_pairs(candidate)
    names = lost_names(candidate) if is_first or pairs else []
    if not (pairs or (is_first and (names or not has_marks(candidate)))):
        return None
    return _with_required_numbers(candidate) or _with_protected_marks(sentence, pairs, names)


def has_marks(candidate: Candidate) -> bool:
    """Whether the translation has the numbers, signs, quotation marks and brackets of the sentence."""
    sentence, translation = candidate.sentence, candidate.plain_text
    passage = sentence.passage
    if not may_have_marks(passage.text + translation):  # as for most sentences
        return True
    for term in sentence.terms:  # it may have marks of its own
        translation = re.sub(re.escape(term.raw), OBJECT, translation, count=1, flags=re.IGNORECASE)
    [text] = join_endings(
        [masked(passage.text, merge_spans(passage.protected, sentence.terms), OBJECT)], sentence.bundle.source
    )
    return has_same_marks(str(text), translation, sentence.bundle.source, sentence.bundle.target)


def _with_required_numbers(candidate: Candidate) -> Sentence | None:
    """The sentence to decode again, with each number that the translation lacks in the place of the words aligned to
    it, as a required term. None if none is missing, if there is no such place, or at the second attempt."""
    sentence = candidate.sentence
    if sentence.sequence.prefix or sentence.mark_retries:
        return None
    passage = sentence.passage
    visible = masked(passage.text, merge_spans(passage.protected, sentence.terms), OBJECT)
    found = checked_spans(visible, sentence.bundle.source, sentence.bundle.target)
    numbers = usable_spans(passage, [one for one in found if one.raw[:1].isdigit() and one.raw[-1:].isdigit()])
    if not numbers:
        return None
    sentence = structs.replace(sentence, terms=tuple(sorted((*sentence.terms, *numbers))))
    candidate = structs.replace(candidate, sentence=sentence)
    missing = missing_terms(candidate)
    again = sequence_with_terms(candidate, missing) if missing else None
    return structs.replace(sentence, sequence=again) if again else None


def _with_protected_marks(
    sentence: Sentence, pairs: Sequence[ProtectedSpan], names: Sequence[ProtectedSpan]
) -> Sentence:
    """The sentence to decode again, with its numbers and marks, `pairs` and `names` protected."""
    passage, bundle = sentence.original or sentence.passage, sentence.bundle
    terms, names = list(sentence.terms), [one._replace(raw=passage.write(one.raw)) for one in names]
    if sentence.original:
        terms, names = (
            [one._replace(start=start, end=end) for one in spans for start, end in [sentence.text_span(one[:2])]]
            for spans in (terms, names)
        )
    codes = [one for one in passage.protected if not is_sign(passage.text[one.start : one.end])]
    kept = merge_spans(pairs, codes)
    kept = merge_spans(kept, names[: max(0, max_protected_spans(bundle) - len(kept))])
    [text] = join_endings([masked(passage.text, merge_spans(kept, terms), OBJECT)], bundle.source)
    found = checked_spans(str(text), bundle.source, bundle.target)
    checked = [one._replace(raw=passage.write(one.raw)) for one in found]
    room = max(0, max_protected_spans(bundle) - len(kept))
    protected = tuple(merge_spans(kept, usable_spans(replace(passage, protected=()), checked)[:room]))
    original = replace(passage, protected=protected, terms=tuple(terms))
    tagged, symbols = symbols_as_tags(original)
    again = structs.replace(
        sentence,
        original=original,
        tagged_symbols=symbols,
        terms=tagged.terms,
        mark_retries=sentence.mark_retries + 1,
    )
    return again.with_passage(with_tab_tags(tagged))


def _empty_pairs(candidate: Candidate) -> list[ProtectedSpan]:
    """Pairs of symbols of the text, with the few words between them, if any pair is around no word of the
    translation."""
    passage, found = candidate.sentence.original, list[ProtectedSpan]()
    if passage is None or not candidate.sentence.tagged_symbols or not candidate.empty_elements():
        return []
    for first, last in sorted(nesting_pairs(passage.text, passage.protected)):
        start, end = passage.protected[first].start, passage.protected[last].end
        if end - start <= _MAX_WHOLE_CHARS and not (found and start < found[-1].end):
            found.append(ProtectedSpan(start, end, passage.write(passage.text[start:end])))
    return list(usable_spans(replace(passage, protected=()), found))
