"""Finds the words of a translation that are likeliest wrong, by the probabilities of their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from app.markup.passage import with_insertions, write_plain
from app.translation.candidate import Candidate
from app.translation.planned_sentence import Translation
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
    return [
        word.moved(at) if at else word
        for sentence, at in plan.rendered_sentences()
        for word in sentence_words(sentence.translation)
    ]


def sentence_words(translation: Translation) -> Iterator[DoubtfulWord]:
    """The doubtful words of a sentence of plain text, with offsets from the start of its rendered translation."""
    sentence, best = translation.sentence, translation.best
    model, decoded = sentence.bundle.quality, best.decoded
    is_not_its_own = translation.origin in ("source", "large model")
    if model is None or is_not_its_own or sentence.passage.write is not write_plain:
        return
    limit = model.doubtful_word_log_prob
    words = sentence.bundle.target_tokenizer.words(decoded.tokens, decoded.log_probs, sentence.bundle.target)
    doubtful = [word for word in words if word[2] < limit]
    if not doubtful:
        return
    text, spans = _word_spans(best, doubtful)
    inserted = [(one.start, len(one.raw) - (one.end - one.start)) for one in best.insertions]
    for (start, end), (_, _, log_prob) in zip(spans, doubtful, strict=True):
        word = text[start:end].lstrip()
        if any(map(str.isalnum, word)):
            start = end - len(word)
            span = start, start + len(word.rstrip())
            yield DoubtfulWord(with_insertions(span, inserted) if inserted else span, model.word_probability(log_prob))


def _word_spans(best: Candidate, words: Sequence[tuple[int, int, float]]) -> tuple[str, list[tuple[int, int]]]:
    """The translation without its tags, and the characters of each word in it, with the spaces around them."""
    sentence = best.sentence
    if not (sentence.passage.protected or sentence.passage.tags):
        texts = sentence.bundle.target_tokenizer.token_texts(best.decoded.tokens)
        text = best.rendered
        if "".join(texts) == SPACE + text:  # as for most; what follows takes several times as long
            ends = list(accumulate(map(len, texts), initial=0))
            return text, [(max(0, ends[first] - 1), ends[end] - 1) for first, end, _ in words]
    text = "".join(piece if isinstance(piece, str) else piece.raw for piece in best.pieces)
    spans = best.target_spans()
    return text, [(spans[first][0], spans[end - 1][1]) for first, end, _ in words]
