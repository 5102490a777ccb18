"""Finds the words of a translation that are likeliest wrong, by the probabilities of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from app.markup.passage import write_plain
from app.translation.sentence import Sentence
from app.translation.text_plan import TextPlan
from model.tokenizer import SPACE


class DoubtfulWord(NamedTuple):
    """A word of the translation, as code points [start, end), and the probability that it is right."""

    span: tuple[int, int]
    probability: float

    def moved(self, by: int) -> DoubtfulWord:
        """The same word, `by` code points later."""
        start, end = self.span
        return DoubtfulWord((start + by, end + by), self.probability)


def doubtful_words(plan: TextPlan, length: Callable[[str], int] = len) -> list[DoubtfulWord]:
    """The doubtful words of a translation, in order. The sentences must be decoded."""
    found: list[DoubtfulWord] = []
    at = 0
    for part in plan.parts:
        if isinstance(part, str):
            at += length(part)
            continue
        found += (word.moved(at) for word in sentence_words(part))
        at += length(part.render(part.best))
    return found


def sentence_words(sentence: Sentence) -> Iterator[DoubtfulWord]:
    """The doubtful words of a sentence of plain text, with offsets from the start of its rendered translation."""
    model, decoded = sentence.bundle.quality, sentence.best.decoded
    if model is None or sentence.is_left_untranslated or sentence.passage.write is not write_plain:
        return
    limit = model.doubtful_word_log_prob
    words = sentence.bundle.target_tokenizer.words(decoded.tokens, decoded.log_probs, sentence.bundle.target)
    doubtful = [word for word in words if word[2] < limit]
    if not doubtful:  # as for most translations; what follows takes longer
        return
    if simple := _unchanged_text(sentence):
        text, ends = simple
        for first, end, log_prob in doubtful:
            start, stop = ends[first - 1] if first else 0, ends[end - 1]
            word = text[start:stop]
            start += len(word) - len(word.lstrip())
            if any(map(str.isalnum, word)):
                yield DoubtfulWord((start, start + len(word.strip())), model.word_probability(log_prob))
        return
    spans = sentence.target_spans(sentence.best)
    inserted = [(one.start, len(one.raw) - (one.end - one.start)) for one in sentence.insertions(sentence.best)]
    text = "".join(piece if isinstance(piece, str) else piece.raw for piece in sentence.pieces(sentence.best))
    for first, end, log_prob in doubtful:
        start, stop = spans[first][0], spans[end - 1][1]
        word = text[start:stop]
        start += len(word) - len(word.lstrip())
        if any(map(str.isalnum, word)):
            stop = start + len(word.strip())
            before = sum(size for place, size in inserted if place <= start)
            within = sum(size for place, size in inserted if place < stop)
            yield DoubtfulWord((start + before, stop + within), model.word_probability(log_prob))


def _unchanged_text(sentence: Sentence) -> tuple[str, list[int]] | None:
    """The translation and where each token ends in it, if it is the text of its tokens, as most are: this takes little
    time."""
    if sentence.passage.protected or sentence.passage.tags:
        return None
    texts = sentence.bundle.target_tokenizer.token_texts(sentence.best.decoded.tokens)
    if "".join(texts) != SPACE + sentence.render(sentence.best):
        return None
    return sentence.render(sentence.best), [end - 1 for end in accumulate(map(len, texts))]
