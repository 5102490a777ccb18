"""Cleaning rules, which drop or repair pairs by languages, copies, numbers, lengths and shifts.

Pairs stream through. A rule acts only when it is sure, since losing a good pair is worse than keeping a bad one:
docs/training-data.md has what each drops from clean corpora. Lines are parsed in `training.corpora.corpus`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

from training.cleaning.holdout import comparison_key
from training.cleaning.language_check import SAMPLE_PAIRS, LanguageCheck
from training.cleaning.misalignment import drop_misaligned
from training.cleaning.repair import repair
from training.corpora.corpus import LineTally, NumberedPair, Pair, letter_count
from training.process_map import map_in_order, process_count

RULES = {
    "markup": "repairs HTML remnants, control characters and wrongly decoded text",
    "languages": "drops pairs with a side in another language, and swaps pairs in the wrong order",
    "shifted": "drops runs of lines whose translations are some lines above or below",
    "copies": "drops sentences that were not translated",
    "numbers": "drops pairs whose long numbers have nothing in common",
    "lengths": "drops pairs with one side far too long for the other",
}
"""The rules by name, for `--keep`, with descriptions."""
SWAPPED = "source and target swapped"
COPIED = "not translated"
_MIN_COPIED_WORDS = 5
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f\u066c\uff0c ]\d{3}(?!\d))*")
_MIN_NUMBER_DIGITS = 3
_LENGTH_SMOOTHING_CHARS, _MIN_PAIRS_FOR_LENGTHS = 25, 200
_CHUNK_PAIRS = 1000
"""Pairs per task of a process."""
_MIN_PAIRS_FOR_PROCESSES = 10_000
"""Fewer pairs than this are cleaned before other processes have started."""


@dataclass(frozen=True)
class CleaningOptions:
    """`keep`: the names of rules not to apply. `max_ratio`: how far lengths may be from their usual ratio; `max_chars`:
    per side. Raises ValueError, naming the option."""

    source: str
    target: str
    max_ratio: float = 4.0
    max_chars: int = 4096
    keep: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in self.keep:
            if name != "all" and name not in RULES:
                raise ValueError(f"--keep {name}: no such rule; choose from {', '.join(RULES)} and all")

    def applies(self, rule: str) -> bool:
        return not self.keep & {rule, "all"}


@dataclass
class CleaningTally:
    """What cleaning did: which lines it `repaired`, and which it then `dropped`, with examples."""

    dropped: LineTally = field(default_factory=LineTally)
    repaired: LineTally = field(default_factory=LineTally)

    def merge(self, later: CleaningTally) -> None:
        """Adds the counts of later lines."""
        self.dropped.merge(later.dropped)
        self.repaired.merge(later.repaired)


def clean(
    pairs: Iterable[NumberedPair], options: CleaningOptions, tally: CleaningTally, processes: int | None = None
) -> Iterator[NumberedPair]:
    """Yields the clean pairs with their line numbers, in order; counts repaired and dropped ones in `tally`.

    The slowest rules run in `processes`; None is one per core for a large corpus. Memory holds some ten thousand pairs,
    and a few thousand per process, whatever the size of the corpus.
    """
    stream = _apply_independent_rules(iter(pairs), options, tally, processes)
    if options.applies("shifted"):
        stream = drop_misaligned(stream, tally.dropped)
    for name, rule in _PAIR_RULES.items():
        if options.applies(name):
            stream = _drop_matching(stream, rule, tally.dropped)
    if options.applies("lengths"):
        stream = _drop_disproportionate(stream, options, tally.dropped)
    return stream


def repaired_pairs(pairs: Iterable[Pair], options: CleaningOptions) -> Iterator[Pair]:
    """The pairs as `clean` repairs them, without dropping any."""
    if not options.applies("markup"):
        return iter(pairs)
    return (pair for _, pair in _repair_all(enumerate(pairs), options, CleaningTally()))


def _apply_independent_rules(
    pairs: Iterator[NumberedPair], options: CleaningOptions, tally: CleaningTally, processes: int | None
) -> Iterator[NumberedPair]:
    """Applies the rules that examine single pairs; the first pairs decide whether unsure ones count as swapped."""
    first = list(islice(pairs, _MIN_PAIRS_FOR_PROCESSES))
    check = LanguageCheck(options.source, options.target) if options.applies("languages") else None
    mostly_swapped = check is not None and check.mostly_swapped(
        pair for _, pair in _repair_and_drop_empty(iter(first[:SAMPLE_PAIRS]), options, CleaningTally())
    )
    stream = chain(first, pairs)
    chunks = iter(lambda: list(islice(stream, _CHUNK_PAIRS)), [])
    work = partial(_clean_chunk, options, mostly_swapped)
    for kept, chunk_tally in map_in_order(
        work, chunks, process_count(processes, much=len(first) == _MIN_PAIRS_FOR_PROCESSES)
    ):
        tally.merge(chunk_tally)
        yield from kept


def _clean_chunk(
    options: CleaningOptions, mostly_swapped: bool, pairs: list[NumberedPair]
) -> tuple[list[NumberedPair], CleaningTally]:
    tally = CleaningTally()
    stream = _repair_and_drop_empty(iter(pairs), options, tally)
    if options.applies("languages"):
        stream = _check_languages(stream, options, mostly_swapped, tally)
    return list(stream), tally


def _repair_and_drop_empty(
    pairs: Iterator[NumberedPair], options: CleaningOptions, tally: CleaningTally
) -> Iterator[NumberedPair]:
    if options.applies("markup"):
        pairs = _repair_all(pairs, options, tally)
    return _drop_empty(pairs, options, tally.dropped)


def _repair_all(
    pairs: Iterator[NumberedPair], options: CleaningOptions, tally: CleaningTally
) -> Iterator[NumberedPair]:
    for number, pair in pairs:
        if max(map(len, pair)) > 4 * options.max_chars:
            yield number, pair  # to be dropped for that, so that nothing waits for it
            continue
        repaired, done = repair(pair)
        for what in done:
            tally.repaired.add(what, number, pair)
        yield number, repaired


def _drop_empty(pairs: Iterator[NumberedPair], options: CleaningOptions, dropped: LineTally) -> Iterator[NumberedPair]:
    """Drops pairs with a side that is empty by now, has no letters or digits, or is too long for any token limit."""
    for number, pair in pairs:
        has_text = [any(map(str.isalnum, side)) for side in pair]
        if not all(pair):
            dropped.add("a side is empty after cleaning", number, pair)
        elif max(map(len, pair)) > options.max_chars:
            dropped.add(f"longer than {options.max_chars:,} characters", number, pair)
        elif has_text[0] != has_text[1]:
            dropped.add("a side has no letters or digits", number, pair)
        else:
            yield number, pair


def _check_languages(
    pairs: Iterator[NumberedPair], options: CleaningOptions, mostly_swapped: bool, tally: CleaningTally
) -> Iterator[NumberedPair]:
    check = LanguageCheck(options.source, options.target)
    if check.unknown:
        yield from pairs
        return
    for number, pair in pairs:
        languages = check.identify(pair)
        if languages.order == "swapped" or (mostly_swapped and languages.order == "unsure"):
            tally.repaired.add(SWAPPED, number, pair)
            pair = Pair(pair.target, pair.source)
            languages = check.identify(pair) if languages.order == "unsure" else languages
        if languages.wrong_side is None:
            yield number, pair
        else:
            expected = options.source if languages.wrong_side == "source" else options.target
            tally.dropped.add(f"the {languages.wrong_side} is not {expected} but {languages.detected}", number, pair)


def _drop_matching(pairs: Iterator[NumberedPair], rule: PairRule, dropped: LineTally) -> Iterator[NumberedPair]:
    for number, pair in pairs:
        if rule.matches(pair):
            dropped.add(rule.reason, number, pair)
        else:
            yield number, pair


def _is_copy(pair: Pair) -> bool:
    """Whether the target copies the source. A few words may be names, whose copy is the translation."""
    if pair.source[:1].casefold() != pair.target[:1].casefold() or len(_WORD.findall(pair.source)) < _MIN_COPIED_WORDS:
        return False
    return comparison_key(pair.source) == comparison_key(pair.target)


def _numbers_differ(pair: Pair) -> bool:
    """Whether no long number of one side agrees with one of the other. Short numbers may be words, hours or lists; 1990
    may be the '90s, and 1,500,000 may be 1.5 million."""
    source, target = ([_digits(number) for number in _NUMBER.findall(side)] for side in pair)
    if not all(any(len(number) >= _MIN_NUMBER_DIGITS for number in side) for side in (source, target)):
        return False
    return not any(_numbers_match(one, other) for one in source for other in target)


def _digits(number: str) -> str:
    """Converts digits of any script: ١٩٩٠ and １９９０ are 1990."""
    digits = re.sub(r"\D", "", number)
    return digits if digits.isascii() else "".join(str(unicodedata.decimal(digit)) for digit in digits)


def _numbers_match(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 2 and (long.endswith(short) or long.startswith(short.rstrip("0") or "0"))


@dataclass(frozen=True)
class PairRule:
    reason: str
    matches: Callable[[Pair], bool]


_PAIR_RULES = {
    "copies": PairRule(COPIED, _is_copy),
    "numbers": PairRule("the numbers differ", _numbers_differ),
}


def _drop_disproportionate(
    pairs: Iterator[NumberedPair], options: CleaningOptions, dropped: LineTally
) -> Iterator[NumberedPair]:
    """Drops pairs with a length ratio unusual for this corpus; short ones may differ much."""
    first = list(islice(pairs, SAMPLE_PAIRS))
    usual = (
        sorted(letter_count(pair.target) / letter_count(pair.source) for _, pair in first)[len(first) // 2]
        if first
        else 1.0
    )
    for number, pair in chain(first, pairs):
        expected, length = (
            _LENGTH_SMOOTHING_CHARS + usual * letter_count(pair.source),
            _LENGTH_SMOOTHING_CHARS + letter_count(pair.target),
        )
        if len(first) >= _MIN_PAIRS_FOR_LENGTHS and max(expected / length, length / expected) > options.max_ratio:
            dropped.add("lengths out of proportion", number, pair)
        else:
            yield number, pair
