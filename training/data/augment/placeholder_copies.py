"""Copies of sentence pairs with reserved symbols, from which a model learns to copy placeholders."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from model.tokenizer import RESERVED_SYMBOLS, Tokenizers
from training.corpora.corpus import Pair

Parts = list[str | int]
"""Text in which an integer n represents reserved symbol number n, as `Tokenizer.encode_parts` takes it."""

MAX_SYMBOLS = 3
# Thai to Myanmar, Khmer, kana and Han: without spaces, a run of letters is not a word.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
_LETTER = f"[^\\W{_UNSPACED}\U00020000-\U0003ffff]"
_WORD = re.compile(rf"{_LETTER}+(?:[.,:/@-]+{_LETTER}+)*")
# Share of copies that replace shared words, which are copied best in place; the rest have symbols at the ends.
_WRAP_SHARE = 0.2
_ENDS_SHARE = 0.1


class SharedWord(NamedTuple):
    """A word and its start on each side, in code points."""

    word: str
    source: int
    target: int


def shared_words(pair: Pair) -> list[SharedWord]:
    """Names, numbers and identifiers that occur exactly once on each side, in source order.

    A digit or a capital letter distinguishes them from ordinary words that two languages happen to share.
    """
    target_words = {match[0]: match.start() for match in _WORD.finditer(pair.target)}
    return [
        SharedWord(match[0], match.start(), target_words[match[0]])
        for match in _WORD.finditer(pair.source)
        if match[0] in target_words
        and _is_name(match[0], bool(match.start() or target_words[match[0]]))
        and all(side.count(match[0]) == 1 for side in pair)
        and _is_whole(pair.source, match.start(), match.end())
        and _is_whole(pair.target, target_words[match[0]], target_words[match[0]] + len(match[0]))
    ]


def _is_name(word: str, inside: bool) -> bool:
    """`inside`: on at least one side, the word does not begin the sentence, where any word has a capital."""
    if any(character.isdigit() for character in word):
        return True
    return len(word) >= (2 if inside else 3) and word != word.lower()


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no combining mark is attached to either end: those are part of a word, but are not letters."""
    around = text[max(0, start - 1) : start] + text[end : end + 1]
    return not any(unicodedata.category(character).startswith("M") for character in around)


class TokenCopy(NamedTuple):
    """A copy of pair number `pair` with reserved symbols, as token ids."""

    pair: int
    source: array[int]
    target: array[int]


def token_copies(
    pairs: Sequence[Pair], count: int, tokenizers: Tokenizers, max_tokens: int, random: Random
) -> Iterator[TokenCopy]:
    """Yields `count` copies, or more until every symbol was used, none longer than `max_tokens` on a side.

    Yields fewer if nearly all pairs are too long for a symbol.
    """
    count = max(count, RESERVED_SYMBOLS)
    made, seen = 0, set[str | int]()
    for (index, *parts), _ in zip(symbol_copies(pairs, random), range(20 * count), strict=False):
        source = array("i", tokenizers.source.encode_source_parts(parts[0]))
        target = array("i", tokenizers.target.encode_parts(parts[1]))
        if max(len(source), len(target)) > max_tokens:
            continue
        yield TokenCopy(index, source, target)
        made += 1
        seen.update(part for part in parts[0] if isinstance(part, int))
        if made >= count and len(seen) == RESERVED_SYMBOLS:
            return


def symbol_copies(pairs: Sequence[Pair], random: Random) -> Iterator[tuple[int, Parts, Parts]]:
    """Yields endless copies with one to three symbols each: the index of the pair, and the parts of both sides.

    Both sides of a copy have the same symbols, each once. Symbols come from a shuffled deck, so that all are used
    equally often; pairs with shared words are preferred to those that only take symbols at their ends.
    """
    deck: list[int] = []
    while pairs:
        shuffled = np.random.Generator(np.random.PCG64(random.getrandbits(64))).permutation(len(pairs))
        for index in map(int, shuffled):
            words = shared_words(pairs[index])
            at_ends = random.random() < _ENDS_SHARE
            if not words and not at_ends:
                continue
            if len(deck) < MAX_SYMBOLS:
                deck = _refill(deck, random)
            copy = (
                _symbols_at_ends(pairs[index], deck, random)
                if at_ends
                else _symbols_at_words(pairs[index], words, deck, random)
            )
            yield index, *copy


def _refill(deck: list[int], random: Random) -> list[int]:
    """The rest of the deck and then every symbol once, none twice within one copy's draw."""
    fresh = random.sample(range(RESERVED_SYMBOLS), RESERVED_SYMBOLS)
    return [*deck, *(number for number in fresh if number not in deck), *deck]


def _symbols_at_words(pair: Pair, words: list[SharedWord], deck: list[int], random: Random) -> tuple[Parts, Parts]:
    """Replaces shared words by symbols, or puts two symbols around one of them, as tags would be."""
    if random.random() < _WRAP_SHARE:
        word = random.choice(words)
        opening, closing = deck.pop(0), deck.pop(0)
        put: dict[SharedWord, Parts] = {word: [opening, word.word, closing]}
    else:
        chosen = random.sample(words, min(len(words), random.choice((1, 1, 2, 3))))
        put = {word: [deck.pop(0)] for word in chosen}
    source = replace_at(pair.source, [(word.source, word.word, parts) for word, parts in put.items()])
    return source, replace_at(pair.target, [(word.target, word.word, parts) for word, parts in put.items()])


def replace_at(text: str, places: list[tuple[int, str, Parts]]) -> Parts:
    """`text` with other parts at each place, given as its start and the replaced text."""
    parts: Parts = []
    done = 0
    for start, word, put in sorted(places, key=lambda place: place[0]):
        parts += [text[done:start], *put]
        done = start + len(word)
    return [part for part in [*parts, text[done:]] if part != ""]


def _symbols_at_ends(pair: Pair, deck: list[int], random: Random) -> tuple[Parts, Parts]:
    """Puts symbols before or after both sides, or around them, with or without spaces."""
    count = random.randint(1, MAX_SYMBOLS)
    before = random.randint(0, count)
    space = random.choice(("", " "))
    front: Parts = [part for _ in range(before) for part in (deck.pop(0), space)]
    back: Parts = [part for _ in range(count - before) for part in (space, deck.pop(0))]
    source, target = ([part for part in [*front, text, *back] if part != ""] for text in pair)
    return source, target
