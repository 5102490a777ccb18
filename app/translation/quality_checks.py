"""What is wrong with a translation, as far as that shows without knowing languages: loops, copies, what is left out.

Knows tokens and attention. The thresholds were measured on development files; docs/text.md has their errors.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from msgspec import structs

from app.text.optional_endings import with_endings
from app.translation.input_normalisation import split_at_protected
from app.translation.sentence import Candidate, Sentence
from app.translation.terminology import missing_terms
from model.languages import WITHOUT_SPACES, language_alone
from model.normalisation import INVISIBLE, normalise_source

MAX_LOOP_TOKENS = 16
"""Tokens of what is looked for as repeated."""
MIN_COVERAGE = 0.1
"""A source word to which all target tokens together gave less attention than this was hardly translated: 2 words in
1,000 of good translations are under it, and of words left out 58 in 100."""
MIN_REPEATED_SHARE = 1 / 3
"""Of a translation: so much of it, and nothing of the source, being said three times or more is a fault. 2 in 3,000
references of newstest2013 are over it; without it, all with any two tokens three times, 4 in 100 are."""
MIN_SOURCE_REPEATS = 8
"""Times that a source has to have a token for its translation to be counted: fewer come in a list, or a rhyme."""
MAX_WORDS_SHOWN = 5
"""Words that a warning names."""
MIN_LABEL_SCORE, MAX_LABEL_WORDS = -0.9, 2
"""Score under which the translation of so few words is mostly wrong: a label, of which the model knows too little."""
MIN_COPY_WORDS = 5
"""Words of a copy that is warned of whatever they are; fewer may be a name, or in both languages."""
_WORD = re.compile(rf"[^\W\d_]+(?:(?:['’-]|[{INVISIBLE}]+)[^\W\d_]+)*")
_SYMBOL = re.compile(r"(?:https?|ftp)://|www\.|\d+|[^\w\s.,;:!?'’‘`´…–—‐‑/&+×°№·¡¿，。！？、；：～-]|_")
"""Not punctuation, nor what often stands for a word: "+" for "plus"."""
_WITHOUT_SYMBOLS = re.compile(r"[A-Za-z\u00c0-\u00f6\u00f8-\u024f\s.,;:!?'’‘`´…–—‐‑/&+×°№·¡¿，。！？、；：～-]*+")
"""Characters of most translations, of which none is a symbol: one class for the whole, since several are slow."""
_QUOTES = '"“”„‟«»‹›「」『』《》〈〉〝〞＂'
_BRACKETS = "()[]{}（）［］｛｝【】〔〕"
_DIGITS, _CURRENCY, _PERCENT = "0", "$", "%％‰٪"


def check_translation(sentence: Sentence) -> None:
    """Cuts loops out of what was decoded, and notes in the sentence's warnings whatever seems wrong with it; once."""
    if sentence.checked:
        return
    text, source, found = sentence.passage.text, sentence.sequence.source, sentence.best
    sentence.candidates = [_without_loops(sentence, candidate) for candidate in sentence.candidates]
    best = sentence.best
    if best is not found:
        sentence.warnings.append("The model repeated itself; the repetitions were cut.")
    elif is_repetitive(best.decoded.tokens, source):
        sentence.warnings.append(f"The translation of “{_shortened(text)}” says the same several times.")
    translation = sentence.plain_text(best)
    sentence.copied_words = count_copied_words(text, translation)
    if not translation.strip() and not sentence.passage.protected:
        sentence.warnings.append(f"No translation was found for “{_shortened(text)}”; it is left as it was.")
    elif sentence.copied_words >= MIN_COPY_WORDS:
        sentence.warnings.append(copy_warning(text))
    elif best.decoded.finish_reason == "length" and not sentence.warnings:
        sentence.warnings.append(f"The translation of “{_shortened(text)}” was stopped where it seemed to have no end.")
    given = "".join([text, *(term.raw for term in sentence.terms)])
    if symbols := find_invented_symbols(given, translation):
        sentence.warnings.append(f"Perhaps made up in the translation of “{_shortened(text)}”: {quoted(symbols)}.")
    sentence.untranslated_words = find_untranslated_words(sentence)
    if not (sentence.warnings or sentence.untranslated_words or sentence.copied_words):
        if repeats_unlike_source(best.decoded.tokens, source):
            sentence.warnings.append(
                f"“{_shortened(text)}” says the same many times, and the translation not as often."
            )
        elif is_uncertain(sentence):
            sentence.warnings.append(f"The model is unsure of its translation of “{_shortened(text)}”.")
    sentence.checked = True


def _without_loops(sentence: Sentence, candidate: Candidate) -> Candidate:
    """`candidate`, or another without its loops. A glossary's terms are not cut: the source says them as often."""
    decoded = candidate.decoded
    left = without_loops(decoded.tokens, sentence.sequence.source)
    if len(left) == len(decoded.tokens):
        return candidate
    tokens, log_probs, aligned = (
        tuple([of[index] for index in left]) for of in (decoded.tokens, decoded.log_probs, decoded.aligned)
    )
    cut = Candidate(structs.replace(decoded, tokens=tokens, log_probs=log_probs, aligned=aligned))
    return cut if len(missing_terms(sentence, cut)) <= len(missing_terms(sentence, candidate)) else candidate


def without_loops(tokens: Sequence[int], source: Sequence[int]) -> list[int]:
    """The indices of `tokens` that are left when of what is said again and again only the first time counts.

    Something of one or two tokens has to come four times on end, anything longer three times, and more often than
    anything does in the source: "ha ha ha ha" may be meant.
    """
    left = list(range(len(tokens)))
    if len(tokens) - len(set(tokens)) < 2 or max(Counter(tokens).values()) < 3:
        return left
    usual, size = 0, 1
    while size <= MAX_LOOP_TOKENS:
        said = [tokens[index] for index in left]
        least = max(4 if size < 3 else 3, usual + 1)
        at = next((at for at in range(len(said)) if _consecutive_repeats(said, at, size) >= least), -1)
        if at >= 0 and not usual:
            usual = _max_repeats(source)
        elif at >= 0:
            end = at + size * _consecutive_repeats(said, at, size)
            while end < len(said) and said[end] == said[end - size]:
                end += 1  # the beginning of one time more
            left, size = left[: at + size] + left[end:], 1  # what now stands side by side may be a loop again
        else:
            size += 1
    return left


def _max_repeats(tokens: Sequence[int]) -> int:
    """How often anything is said on end."""
    sizes = range(1, MAX_LOOP_TOKENS + 1)
    return max((_consecutive_repeats(tokens, at, size) for size in sizes for at in range(len(tokens))), default=1)


def _consecutive_repeats(tokens: Sequence[int], at: int, size: int) -> int:
    """How often the `size` tokens from `at` stand there on end."""
    once = tokens[at : at + size]
    times = 1
    while tokens[at + times * size : at + (times + 1) * size] == once:
        times += 1
    return times


def is_repetitive(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Whether much of the translation is stretches of two or more tokens that come three times or more, anywhere in
    it, while none does in the source."""
    if len(tokens) - len(set(tokens)) < 4:
        return False
    pairs = list(pairwise(tokens))
    times = _bigram_counts(pairs)
    if max(times.values(), default=0) < 3 or max(_bigram_counts(pairwise(source)).values(), default=0) >= 3:
        return False
    again = {place + side for place, pair in enumerate(pairs) if times[pair] >= 3 for side in (0, 1)}
    return len(again) >= MIN_REPEATED_SHARE * len(tokens)


def repeats_unlike_source(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Whether much of the source is one token again and again, and the translation has none about as often."""
    times = max(Counter(source).values(), default=0)
    if times < MIN_SOURCE_REPEATS or times < MIN_REPEATED_SHARE * len(source):
        return False
    return not times / 2 <= max(Counter(tokens).values(), default=0) <= 2 * times


def _bigram_counts(pairs: Iterable[tuple[int, int]]) -> Counter[tuple[int, int]]:
    """How often each pair of neighbours comes; what overlaps the one before does not count."""
    times, last = Counter[tuple[int, int]](), dict[tuple[int, int], int]()
    for place, pair in enumerate(pairs):
        if last.get(pair, -2) < place - 1:
            times[pair] += 1
            last[pair] = place
    return times


def is_uncertain(sentence: Sentence) -> bool:
    """Whether a sentence of a word or two, in a language with spaces, has so low a score that it is hardly right.

    Values count neither as words nor in the score, which they raise: their symbols are certain.
    """
    decoded, passage = sentence.best.decoded, sentence.passage
    scores = list(decoded.log_probs)
    if passage.protected:
        symbols = set(sentence.bundle.tokenizer.reserved_ids)
        scores = [score for id, score in zip(decoded.tokens, scores, strict=True) if id not in symbols]
    if (
        not scores
        or sum(scores) / len(scores) >= MIN_LABEL_SCORE
        or language_alone(sentence.bundle.source) in WITHOUT_SPACES
    ):
        return False
    text = "".join(part if isinstance(part, str) else " " for part in split_at_protected(passage))
    return sum(any(map(str.isalpha, word)) for word in text.split()) <= MAX_LABEL_WORDS


def count_copied_words(source: str, translation: str) -> int:
    """How many words the translation has, if all but one in five are the source's; else 0.

    A run of ten or more letters that are not Latin is counted by its letters: it may be a sentence without spaces.
    """
    words, source = _WORD.findall(translation.casefold()), normalise_source(source).casefold()
    if sum(word in source for word in words) < 0.8 * len(words):  # which is seldom so, and soon known
        return 0
    given = set(_WORD.findall(source))
    if sum(word in given for word in words) < 0.8 * len(words):
        return 0
    spaceless = len(words) == 1 and len(words[0]) >= 10 and not words[0].isascii()
    return len(words[0]) if spaceless else len(words)


def find_invented_symbols(source: str, translation: str) -> list[str]:
    """The numbers and symbols of the translation that nothing in the source accounts for.

    Another mark of the same kind does, as « for "; and a number does for a percent sign and for one of a currency.
    """
    if _WITHOUT_SYMBOLS.fullmatch(translation) and "://" not in translation and "www." not in translation:
        return []
    found = _SYMBOL.findall(translation)
    if not found:
        return []
    given = {_symbol_class(symbol) for symbol in _SYMBOL.findall(source)}
    if _DIGITS in given:
        given |= {_PERCENT, _CURRENCY}
    if "'" in source or "’" in source:
        given.add(_QUOTES)
    return [symbol for symbol in found if _symbol_class(symbol) not in given]


def _symbol_class(symbol: str) -> str:
    """What of a kind may become each other in translation."""
    if symbol[0].isdecimal():
        return _DIGITS
    if unicodedata.category(symbol[0]) == "Sc":
        return _CURRENCY
    return next((kind for kind in (_QUOTES, _BRACKETS, _PERCENT) if symbol[0] in kind), symbol.lower())


def find_untranslated_words(sentence: Sentence) -> list[str]:
    """The source words that the translation hardly attended to."""
    coverage = sentence.best.decoded.coverage
    if not coverage or min(coverage[:-1], default=1) >= MIN_COVERAGE:
        return []
    text = sentence.passage.text
    seen = [0.0] * (len(text) + 1)
    for (start, end), weight in zip(sentence.source_spans(), coverage, strict=True):
        if end > start:
            seen[start] += weight
    upto = [0.0, *accumulate(seen)]
    parts = with_endings(split_at_protected(sentence.passage), sentence.bundle.source)
    protected = sentence.passage.protected
    shown = "".join(p if isinstance(p, str) else " " * (protected[p].end - protected[p].start) for p in parts)
    words = _WORD.finditer(shown)
    return [
        normalise_source(word[0])
        for word in words
        if upto[word.end()] - upto[_token_start(text, word.start())] < MIN_COVERAGE
    ]


def _token_start(text: str, start: int) -> int:
    """Where the token that begins a word begins: at the blanks before it, mostly."""
    while start and (text[start - 1].isspace() or text[start - 1] in INVISIBLE):
        start -= 1
    return start


def untranslated_warning(words: Sequence[str]) -> str:
    """The warning of words that were overlooked."""
    return f"Perhaps not translated: {quoted(words)}."


def quoted(words: Sequence[str]) -> str:
    """For a warning: each once."""
    words = list(dict.fromkeys(words))
    more = f" and {len(words) - MAX_WORDS_SHOWN} more" if len(words) > MAX_WORDS_SHOWN else ""
    return ", ".join(f"“{word}”" for word in words[:MAX_WORDS_SHOWN]) + more


def copy_warning(text: str) -> str:
    return f"Copied rather than translated: “{_shortened(text)}”."


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
