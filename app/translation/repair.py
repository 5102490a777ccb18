"""Repairs the translation of a similar text: what differs is decoded again, the rest stays as the memory has it.

The stored translation is forced, to see which of its words are aligned to the words that differ. Then the model
translates the sentence itself, forced to begin as the stored translation does up to these words, or to a word or two
before; where its own words meet the rest of the stored translation again, they are joined (cf. Koehn and Senellart
2010, "Convergence of translation memory and statistical machine translation"). A result is
usable if the model scores it no lower than its own translation of the sentence, or no lower by more than a tolerance;
the usable one that keeps the most of the stored translation is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.markup.passage import Passage
from app.text.memory_difference import AlmostEqual
from app.translation.candidate import Candidate
from app.translation.given_translation import given_pieces
from app.translation.input_normalisation import (
    added_full_stop,
    is_all_caps,
    is_better_lowercased,
    max_protected_spans,
    model_input,
)
from app.translation.memory import Similar
from app.translation.quality_checks import cut_loops
from app.translation.sentence import Sentence, make_sequence
from app.translation.terminology import missing_terms
from app.translation.text_plan import protected_passage
from model.bundle import Bundle

MAX_STARTS = 3
"""Places from which the translation is decoded again: before the words that differ, and up to two words earlier, since
an article or an adjective may have to change with them."""
MAX_CANDIDATES = 16
"""How many repaired translations are scored."""
MIN_MEETING_TOKENS = 2
"""Tokens that must agree where the model's words meet the rest of the stored translation."""
MAX_MORE_WORDS = 2
"""How many words more than differ in the source may take their place, if the model's words never meet the rest."""

MIN_KEPT_SHARE = 0.5
"""Share of the stored translation's tokens that a repaired translation has at least."""

Decode = Callable[[Sequence[engine.Sequence]], Awaitable[Sequence[Decoded]]]
Tokens = tuple[int, ...]


class Word(NamedTuple):
    """Tokens [first, end) of a translation that are a word or a mark."""

    first: int
    end: int


class _Stored(NamedTuple):
    """A stored translation in tokens, without end symbol."""

    forced: engine.Sequence
    """Scores it as the translation of its own source."""
    aligned_to: Sequence[tuple[int, int]]
    """The characters of its source that each source token encodes."""
    tokens: Tokens
    """With reserved symbols numbered as in the sentence to translate."""
    words: list[Word]

    def before(self, word: int) -> Tokens:
        return self.tokens[: self.words[word].first] if word < len(self.words) else self.tokens

    def since(self, word: int) -> Tokens:
        return self.tokens[self.words[word].first :] if word < len(self.words) else ()


async def repair(sentence: Sentence, plain: Decoded, similar: Similar, decode: Decode) -> Candidate | None:
    """The repaired translation of a sentence whose own translation is `plain`; None if none is good enough.

    Raises what `decode` raises.
    """
    difference = similar.difference
    stored = _prepare(sentence, difference)
    if stored is None:
        return None
    [forced] = await decode([stored.forced])
    aligned = [stored.aligned_to[index] for index in forced.aligned[: len(stored.tokens)]]
    first, end = differing_words(stored.words, aligned, difference.start, difference.end)
    sequences = [
        _continuing(sentence, stored.before(word)) for word in range(first, first - MAX_STARTS, -1) if word >= 0
    ]
    possible = [sequence for sequence in sequences if sequence]
    if not possible:
        return None
    kept: dict[Tokens, int] = {}
    own_translation = _without_end(sentence.bundle, plain)
    for sequence, decoded in zip(possible, await decode(possible), strict=True):
        own = _without_end(sentence.bundle, decoded)[len(sequence.prefix) :]
        for made, count in _joined(sentence.bundle, sequence.prefix, own, stored, end, difference.new_tokens):
            is_stored = count >= MIN_KEPT_SHARE * len(stored.tokens)
            if is_stored and made != own_translation and _is_whole(sentence, made):
                kept[made] = max(count, kept.get(made, 0))
    candidates = sorted(kept, key=lambda tokens: -kept[tokens])[:MAX_CANDIDATES]
    if not candidates:
        return None
    source = sentence.sequence.source
    scored = await decode([_forced(sentence.bundle, source, tokens) for tokens in candidates])
    least = cut_loops(Candidate(sentence, plain)).decoded.score - similar.tolerance
    good: list[tuple[int, float, Candidate]] = []
    for tokens, decoded in zip(candidates, scored, strict=True):
        candidate = Candidate(sentence, decoded)
        is_fit = cut_loops(candidate) is candidate and not missing_terms(candidate)
        if decoded.score >= least and is_fit:
            good.append((kept[tokens], decoded.score, candidate))
    return max(good, key=lambda found: found[:2], default=(0, 0.0, None))[2]


def differing_words(words: Sequence[Word], aligned: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """The words [first, end) of a translation that translate characters [start, end) of its source.

    `aligned`: the characters of the source that each token of the translation attends to. If no word translates them,
    or they are none, the result is the place for their translation: before that of what follows them.
    """
    spans = [[span for span in aligned[word.first : word.end] if span[0] < span[1]] for word in words]
    hits = [number for number, of in enumerate(spans) if any(a < end and b > start for a, b in of)]
    if hits:
        return hits[0], hits[-1] + 1
    following = [(a, number) for number, of in enumerate(spans) for a, _ in of if a >= end]
    place = min(following)[1] if following else len(words)
    return place, place


def _prepare(sentence: Sentence, difference: AlmostEqual) -> _Stored | None:
    """None if the model reads both sentences in different ways, or cannot read the stored pair."""
    bundle, protected = sentence.bundle, sentence.passage.protected
    source = protected_passage(Passage(difference.source), bundle)
    if len(source.protected) > max_protected_spans(bundle) or _form(source, bundle) != _form(sentence.passage, bundle):
        return None
    raws = Counter(span.raw for span in source.protected)
    if raws != Counter(span.raw for span in protected) or max(raws.values(), default=1) > 1:
        return None
    ids = bundle.source_tokenizer.encode_source_parts(model_input(source, bundle))
    tokens = tuple(piece.id for piece in given_pieces(bundle, source, difference.target))
    if not tokens or len(ids) > bundle.limits.max_source or len(tokens) > bundle.limits.max_target:
        return None
    symbols = bundle.target_tokenizer.reserved_ids
    numbers = {span.raw: number for number, span in enumerate(protected)}
    renumbered = {symbols[number]: symbols[numbers[span.raw]] for number, span in enumerate(source.protected)}
    forced = _forced(bundle, ids, tokens)
    spans = Sentence(source, bundle, forced).source_spans
    return _Stored(forced, spans, tuple(renumbered.get(token, token) for token in tokens), _words(bundle, tokens))


def _form(passage: Passage, bundle: Bundle) -> tuple[bool, bool, bool]:
    """In what the model's input differs from the text, so that rendering has to restore it."""
    tokenizer = bundle.source_tokenizer
    has_stop = bool(added_full_stop(passage.text, bundle))
    return is_all_caps(passage, tokenizer), is_better_lowercased(passage, tokenizer), has_stop


def _words(bundle: Bundle, tokens: Tokens) -> list[Word]:
    found = bundle.target_tokenizer.words(tokens, [0.0] * len(tokens), bundle.target)
    return [Word(first, end) for first, end, _ in found]


def _continuing(sentence: Sentence, prefix: Tokens) -> engine.Sequence | None:
    """The sequence that decodes the sentence from `prefix` on; None if the prefix leaves no room."""
    sequence, limits = sentence.sequence, sentence.bundle.limits
    limit = limits.target(len(sequence.source), len(prefix))
    missing = sum(symbol not in prefix for symbol in sequence.required)
    if len(prefix) + missing >= limit:
        return None
    return structs.replace(sequence, prefix=prefix, limit=limit, beam_size=1)


def _forced(bundle: Bundle, source: Sequence[int], tokens: Tokens) -> engine.Sequence:
    return make_sequence(bundle, source, len(tokens), forced=tokens)


def _without_end(bundle: Bundle, decoded: Decoded) -> Tokens:
    return decoded.tokens[:-1] if decoded.tokens[-1:] == (bundle.target_tokenizer.eos_id,) else decoded.tokens


def _joined(
    bundle: Bundle, prefix: Tokens, own: Tokens, stored: _Stored, end: int, new_words: int
) -> Iterator[tuple[Tokens, int]]:
    """Translations of `prefix`, words of `own`, and what is stored from word `end` on or later; with each, the number
    of its tokens that are stored.

    If `own` never meets the rest, as many words of it as differ, and a few more, come before the rest.
    """
    sizes = range(1, MIN_MEETING_TOKENS + 1)
    first_at = {own[at : at + size]: at for size in sizes for at in range(len(own) - size, -1, -1)}
    for word in range(end, len(stored.words)):
        rest = stored.since(word)
        at = first_at.get(rest[:MIN_MEETING_TOKENS])
        if at is not None:
            yield prefix + own[:at] + rest, len(prefix) + len(rest)
        elif word == end:
            ends = [0, *(each.end for each in _words(bundle, own))]
            for at in ends[: new_words + MAX_MORE_WORDS + 1]:
                yield prefix + own[:at] + rest, len(prefix) + len(rest)
    yield prefix + own, len(prefix)


def _is_whole(sentence: Sentence, tokens: Tokens) -> bool:
    """Whether the tokens fit, and have the symbol of each protected span once."""
    symbols = set(sentence.bundle.target_tokenizer.reserved_ids)
    found = sorted(token for token in tokens if token in symbols)
    return 0 < len(tokens) <= sentence.bundle.limits.max_target and found == sorted(sentence.sequence.required)
