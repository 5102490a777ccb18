"""Continues a translation that the user has begun: the prefix of a text of one sentence."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from app.errors import InvalidFields, TooMuchText
from app.translation.input_normalisation import is_all_caps, is_better_lowercased
from app.translation.planned_sentence import PlannedSentence
from app.translation.sentence import Sentence
from app.translation.text_plan import TextPlan
from model.spelling import Spelling
from model.tokenizer import SPACE, Tokenizer

MAX_FREE_CHARS = 12
"""Characters at the end of a prefix whose tokens are free, in a text without spaces: the longest usual tokens."""


class TokenPrefix(NamedTuple):
    """A prefix for the decoder: tokens that are given, and the ways to spell what follows them."""

    tokens: tuple[int, ...]
    spelling: Spelling


def token_prefix(tokenizer: Tokenizer, text: str) -> TokenPrefix | None:
    """The words of `text`, which is not empty, up to its last space as the vocabulary spells them, and the rest freely.

    A rest that is the beginning of a word has any tokens that spell it or begin with it: "Bonj" may become "▁Bonjour".
    None if the vocabulary cannot spell it.
    """
    pieces = tokenizer.pieces(text)
    texts = tokenizer.token_texts([piece.id for piece in pieces])
    boundary = max(text.rfind(SPACE), len(text) - MAX_FREE_CHARS)
    count = sum(piece.end <= boundary for piece in pieces)
    while count and not texts[count - 1]:  # bytes that begin a character
        count -= 1
    given, whole = "".join(texts[:count]), SPACE + text
    if not whole.startswith(given):
        return None
    spelling = tokenizer.spellings.spelling(whole[len(given) :].encode())
    return None if spelling is None else TokenPrefix(tuple(piece.id for piece in pieces[:count]), spelling)


def continue_prefix(plan: TextPlan, prefix: str) -> None:
    """Makes the translation of `plan`, which begins with its only sentence, continue `prefix`.

    Raises InvalidFields for what cannot be continued, and TooMuchText.
    """
    if len(plan.sentences) != 1 or plan.nested:
        raise _refused(f"only available for a text of one sentence; this one has {len(plan.sentences)}")
    [planned] = plan.sentences
    sentence = planned.sentence
    if sentence.passage.protected or sentence.passage.tags or sentence.tagged_symbols:
        raise _refused("not available for a text with placeholders, tags or symbols to keep")
    text = _model_text(sentence, prefix)
    tokenizer = sentence.bundle.target_tokenizer
    found = token_prefix(tokenizer, text) if text else TokenPrefix((), ())
    if found and is_better_lowercased(sentence.passage, sentence.bundle.source_tokenizer):
        found = _with_either_case(tokenizer, found, text)
    if found is None:
        raise _refused("contains characters that the model's vocabulary lacks")
    limits, length = sentence.bundle.limits, len(found.tokens) + len(found.spelling)
    if length >= limits.max_target:
        raise TooMuchText(f"prefix may have {length} tokens; a translation may have {limits.max_target}.")
    limit = limits.target(len(sentence.sequence.source), length)
    sequence = structs.replace(sentence.sequence, prefix=found.tokens, spelling=found.spelling, limit=limit)
    # Without terms: their words may be in the prefix, which no second pass may change.
    continued = structs.replace(sentence, sequence=sequence, begun=(prefix, text), terms=())
    plan.parts = [PlannedSentence(continued), *plan.parts[plan.parts.index(planned) + 1 :]]


def _with_either_case(tokenizer: Tokenizer, found: TokenPrefix, text: str) -> TokenPrefix:
    """`found`, the prefix `text` of a label, which the model may begin with a small letter; rendering capitalises
    it."""
    lowered = text[:1].lower() + text[1:]
    other = token_prefix(tokenizer, lowered)
    if lowered == text or other is None or found.tokens or other.tokens or len(found.spelling) != len(other.spelling):
        return found
    # States are numbers of bytes, so that those of both spellings agree.
    both = zip(found.spelling, other.spelling, strict=True)
    return TokenPrefix((), tuple(tuple(sorted({*one, *another})) for one, another in both))


def _model_text(sentence: Sentence, prefix: str) -> str:
    """`prefix` as the model generates it."""
    tokenizer = sentence.bundle.target_tokenizer
    text = tokenizer.normalise(prefix.lstrip())
    if text.isupper() and is_all_caps(sentence.passage, sentence.bundle.source_tokenizer):
        text = text[:1] + text[1:].lower()
    return text


def _refused(why: str) -> InvalidFields:
    return InvalidFields.at("#/prefix", why)
