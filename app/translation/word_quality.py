"""Finds the words of a translation that are likeliest wrong, by the probabilities of their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from app.markup.passage import with_insertions, write_plain
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


def doubtful_words(plan: TextPlan) -> list[DoubtfulWord]:
    """The doubtful words of a translation, in order. The sentences must be decoded."""
    return [word.moved(at) for sentence, at in plan.rendered_sentences() for word in sentence_words(sentence)]


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
    text, spans = _token_spans(sentence)
    inserted = [(one.start, len(one.raw) - (one.end - one.start)) for one in sentence.insertions(sentence.best)]
    for first, end, log_prob in doubtful:
        start, word = spans[first][0], text[spans[first][0] : spans[end - 1][1]]
        start += len(word) - len(word.lstrip())
        if any(map(str.isalnum, word)):
            span = with_insertions((start, start + len(word.strip())), inserted)
            yield DoubtfulWord(span, model.word_probability(log_prob))


def _token_spans(sentence: Sentence) -> tuple[str, Sequence[tuple[int, int]]]:
    """The translation without its tags, and the characters of each token in it."""
    if not (sentence.passage.protected or sentence.passage.tags):
        texts = sentence.bundle.target_tokenizer.token_texts(sentence.best.decoded.tokens)
        text = sentence.render(sentence.best)
        if "".join(texts) == SPACE + text:  # as for most; what follows takes several times as long
            return text, list(pairwise(max(0, end - 1) for end in accumulate(map(len, texts), initial=0)))
    pieces = sentence.pieces(sentence.best)
    text = "".join(piece if isinstance(piece, str) else piece.raw for piece in pieces)
    return text, sentence.target_spans(sentence.best)
