"""Estimates the quality of a translation without a reference: loops, copies, omissions, invented numbers.

Uses only tokens, scores and attention, in any language. The thresholds were measured on development sets;
docs/quality.md has their error rates.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from operator import eq

from msgspec import structs

from app.text.checked_marks import QUOTES
from app.text.optional_endings import join_endings
from app.translation.candidate import Candidate
from app.translation.input_normalisation import split_at_protected
from app.translation.kept_marks import has_marks
from app.translation.planned_sentence import Translation
from app.translation.terminology import missing_terms
from model.languages import WITHOUT_SPACES, language_alone
from model.normalisation import INVISIBLE, normalise_source

MAX_LOOP_TOKENS = 16
"""Maximum length of a repeated sequence that is detected."""
MIN_COVERAGE = 0.1
"""A source word that receives less attention than this from all target tokens together counts as untranslated: 2 in
1,000 words of good translations do, and 58 in 100 omitted words."""
MIN_REPEATED_SHARE = 1 / 3
"""Share of a translation that repeats itself, while the source does not, from which it counts as repetitive. 2 in 3,000
references of newstest2013 exceed it; 4 in 100 have any two tokens three times."""
MIN_SOURCE_REPEATS = 8
"""Occurrences of one token from which a source counts as repetitive; lists and rhymes have fewer."""
MAX_WORDS_SHOWN = 5
"""Maximum number of words that a warning lists."""
MIN_LABEL_SCORE, MAX_LABEL_WORDS = -0.9, 2
"""Below this score, translations of texts this short are mostly wrong: labels, which give a model no context."""
MIN_COPY_WORDS = 5
"""A copy of at least this many words causes a warning; a shorter one may be a name, or valid in both languages."""
_WORD = re.compile(rf"[^\W\d_]+(?:(?:['’-]|[{INVISIBLE}]+)[^\W\d_]+)*")
_SYMBOL = re.compile(r"(?:https?|ftp)://|www\.|\d+|[^\w\s.,;:!?'’‘`´…–—‐‑/&+×°№·¡¿，。！？、；：～-]|_")
"""Excludes punctuation and symbols that often replace a word, such as "+" for "plus"."""
_WITHOUT_SYMBOLS = re.compile(r"[A-Za-z\u00c0-\u00f6\u00f8-\u024f\s.,;:!?'’‘`´…–—‐‑/&+×°№·¡¿，。！？、；：～-]*+")
"""Matches most translations: characters that are no symbols. One class, since several are slow."""
_BRACKETS = "()[]{}（）［］｛｝【】〔〕"
_DIGITS, _CURRENCY, _PERCENT = "0", "$", "%％‰٪"


def check_translation(translation: Translation) -> Translation:
    """The translation without loops, with a warning for each apparent error."""
    sentence, found = translation.sentence, translation.best
    text, source, warnings = sentence.passage.text, sentence.sequence.source, list[str]()
    candidates = [cut_loops(candidate) for candidate in translation.candidates]
    best = candidates[0]
    if best is not found:
        warnings.append("The model repeated itself; the repetitions were cut.")
    elif is_repetitive(best.decoded.tokens, source):
        warnings.append(f"The translation of “{_shortened(text)}” says the same several times.")
    copied_words = count_copied_words(text, best.plain_text)
    if not best.plain_text.strip() and not sentence.passage.protected:
        warnings.append(f"No translation was found for “{_shortened(text)}”; it is left as it was.")
    elif copied_words >= MIN_COPY_WORDS:
        warnings.append(copy_warning(text))
    elif best.decoded.finish_reason == "length" and not warnings:
        warnings.append(f"The translation of “{_shortened(text)}” was stopped where it seemed to have no end.")
    given = "".join([text, *(term.raw for term in sentence.terms)])
    if symbols := find_invented_symbols(given, best.plain_text):
        warnings.append(f"Perhaps made up in the translation of “{_shortened(text)}”: {quoted(symbols)}.")
    untranslated_words = [normalise_source(word[0]) for word in find_untranslated_words(best)]
    if sentence.passage.tags and (unmarked := best.empty_elements()):
        warnings.append(f"No word of the translation has the markup of {quoted(map(_shortened, unmarked))}.")
    if not (warnings or untranslated_words or copied_words):
        if repeats_unlike_source(best.decoded.tokens, source):
            warnings.append(f"“{_shortened(text)}” says the same many times, and the translation not as often.")
        elif is_uncertain(best):
            warnings.append(f"The model is unsure of its translation of “{_shortened(text)}”.")
    return Translation(candidates, translation.origin, warnings, untranslated_words, copied_words)


def cut_loops(candidate: Candidate) -> Candidate:
    """`candidate` without its loops. Keeps a loop whose removal would lose a term or a number: the source has it."""
    decoded = candidate.decoded
    left = without_loops(decoded.tokens, candidate.sentence.sequence.source)
    if len(left) == len(decoded.tokens):
        return candidate
    tokens, log_probs, aligned = (
        tuple([of[index] for index in left]) for of in (decoded.tokens, decoded.log_probs, decoded.aligned)
    )
    shorter = structs.replace(decoded, tokens=tokens, log_probs=log_probs, aligned=aligned)
    cut = Candidate(candidate.sentence, shorter)
    missing = missing_terms(cut)
    is_whole = not missing or len(missing) <= len(missing_terms(candidate))
    return cut if is_whole and (has_marks(cut) or not has_marks(candidate)) else candidate


def without_loops(tokens: Sequence[int], source: Sequence[int]) -> list[int]:
    """The indices of `tokens` that remain when each loop is reduced to its first occurrence.

    A loop is a sequence of one or two tokens at least four times in a row, or a longer one three times, and more often
    than any sequence in the source: "ha ha ha ha" may be intended.
    """
    left, said = list(range(len(tokens))), list(tokens)
    if len(tokens) - len(set(tokens)) < 2 or max(Counter(tokens).values()) < 3:
        return left
    usual, size = 0, 1
    while size <= MAX_LOOP_TOKENS:
        least = max(4 if size < 3 else 3, usual + 1)
        if size * least > len(left):
            break
        repeats = _repeats(said, size)
        at = repeats.find(b"\1" * (size * (least - 1)))
        if at >= 0 and not usual:
            usual = _max_repeats(source)
        elif at >= 0:
            end = (repeats + b"\0").index(0, at) + size  # with an incomplete repetition
            del left[at + size : end], said[at + size : end]
            size = 1  # the tokens that are now adjacent may form another loop
        else:
            size += 1
    return left


def _max_repeats(tokens: Sequence[int]) -> int:
    """The maximum number of times that any sequence occurs in a row."""
    sizes = range(1, min(MAX_LOOP_TOKENS, len(tokens) // 2) + 1)
    return max((max(map(len, _repeats(tokens, size).split(b"\0"))) // size + 1 for size in sizes), default=1)


def _repeats(tokens: Sequence[int], size: int) -> bytes:
    """For each token but the last `size`, whether the one that is so many tokens later is the same."""
    return bytes(map(eq, tokens, tokens[size:]))


def is_repetitive(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Whether much of the translation consists of bigrams that occur three times or more, while none does in the
    source."""
    if len(tokens) - len(set(tokens)) < 4:
        return False
    pairs = list(pairwise(tokens))
    times = _bigram_counts(pairs)
    if max(times.values(), default=0) < 3 or max(_bigram_counts(pairwise(source)).values(), default=0) >= 3:
        return False
    again = {place + side for place, pair in enumerate(pairs) if times[pair] >= 3 for side in (0, 1)}
    return len(again) >= MIN_REPEATED_SHARE * len(tokens)


def repeats_unlike_source(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Whether one token makes up much of the source, and no token occurs about as often in the translation."""
    if len(source) - len(set(source)) < MIN_SOURCE_REPEATS - 1:  # usually so, and quick to test
        return False
    times = max(Counter(source).values())
    if times < MIN_SOURCE_REPEATS or times < MIN_REPEATED_SHARE * len(source):
        return False
    return not times / 2 <= max(Counter(tokens).values(), default=0) <= 2 * times


def _bigram_counts(pairs: Iterable[tuple[int, int]]) -> Counter[tuple[int, int]]:
    """How often each pair of adjacent tokens occurs; an occurrence that overlaps the previous one does not count."""
    times, last = Counter[tuple[int, int]](), dict[tuple[int, int], int]()
    for place, pair in enumerate(pairs):
        if last.get(pair, -2) < place - 1:
            times[pair] += 1
            last[pair] = place
    return times


def is_uncertain(candidate: Candidate) -> bool:
    """Whether a text of one or two words, in a language with spaces, has a score too low to be right.

    Protected spans count neither as words nor in the score, which their certain symbols would raise.
    """
    decoded, sentence = candidate.decoded, candidate.sentence
    passage = sentence.passage
    scores = list(decoded.log_probs)
    if passage.protected:
        symbols = set(sentence.bundle.target_tokenizer.reserved_ids)
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
    """The number of words in the translation if at least four in five are in the source, too; else 0.

    A single word of ten or more letters that are not ASCII counts by its letters, as it may be a sentence without
    spaces.
    """
    words, source = _WORD.findall(translation.casefold()), normalise_source(source).casefold()
    if sum(word in source for word in words) < 0.8 * len(words):  # rarely true, and quick to check
        return 0
    given = set(_WORD.findall(source))
    if sum(word in given for word in words) < 0.8 * len(words):
        return 0
    spaceless = len(words) == 1 and len(words[0]) >= 10 and not words[0].isascii()
    return len(words[0]) if spaceless else len(words)


def find_invented_symbols(source: str, translation: str) -> list[str]:
    """The numbers and symbols of the translation that nothing in the source explains.

    A mark explains any other of its kind, such as « for "; a number explains a percent or currency sign.
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
        given.add(QUOTES)
    return [symbol for symbol in found if _symbol_class(symbol) not in given]


def _symbol_class(symbol: str) -> str:
    """The class of a symbol: symbols of one class may replace each other in translation."""
    if symbol[0].isdecimal():
        return _DIGITS
    if unicodedata.category(symbol[0]) == "Sc":
        return _CURRENCY
    return next((kind for kind in (QUOTES, _BRACKETS, _PERCENT) if symbol[0] in kind), symbol.lower())


def find_untranslated_words(candidate: Candidate) -> list[re.Match[str]]:
    """The source words to which the translation pays hardly any attention, with their places in the passage."""
    sentence, coverage = candidate.sentence, candidate.decoded.coverage
    if not coverage or min(coverage[: len(sentence.sequence.source)], default=1) >= MIN_COVERAGE:
        return []
    text = sentence.passage.text
    seen = [0.0] * (len(text) + 1)
    for (start, end), weight in zip(sentence.source_spans, coverage, strict=True):
        if end > start:
            seen[start] += weight
    upto = [0.0, *accumulate(seen)]
    parts = join_endings(split_at_protected(sentence.passage), sentence.bundle.source)
    protected = sentence.passage.protected
    shown = "".join(p if isinstance(p, str) else " " * (protected[p].end - protected[p].start) for p in parts)
    return [
        word
        for word in _WORD.finditer(shown)
        if upto[word.end()] - upto[_token_start(text, word.start())] < MIN_COVERAGE
    ]


def _token_start(text: str, start: int) -> int:
    """The start of a word's first token, which includes the white space before the word."""
    while start and (text[start - 1].isspace() or text[start - 1] in INVISIBLE):
        start -= 1
    return start


def untranslated_warning(words: Sequence[str]) -> str:
    """A warning that lists words as untranslated."""
    return f"Perhaps not translated: {quoted(words)}."


def quoted(words: Iterable[str]) -> str:
    """The words, each once, as a warning lists them."""
    words = list(dict.fromkeys(words))
    more = f" and {len(words) - MAX_WORDS_SHOWN} more" if len(words) > MAX_WORDS_SHOWN else ""
    return ", ".join(f"“{word}”" for word in words[:MAX_WORDS_SHOWN]) + more


def copy_warning(text: str) -> str:
    return f"Copied rather than translated: “{_shortened(text)}”."


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
