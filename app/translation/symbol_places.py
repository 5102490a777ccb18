"""Decodes a sentence again whose protected text came only after its end: "Hello :name." as "你好。:name".

Decoding ends once all symbols have come, so the one that the model would not write comes where it would end.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from app.markup.passage import OBJECT, ProtectedSpan, masked
from app.text.segmentation import segments
from app.translation.candidate import Candidate
from app.translation.sentence import Sentence
from model.languages import ends_sentence


def retry_with_places(candidate: Candidate) -> Sentence | None:
    """The sentence to decode again, with the first symbol that came too late after the translation of the word before
    it, and what follows up to the model; None if none did, or at the second attempt."""
    sentence = candidate.sentence
    if not sentence.passage.protected or sentence.sequence.prefix or sentence.begun:
        return None
    late = min(_late_spans(candidate), default=None)
    if late is None:
        return None
    span, end = late
    symbol = sentence.bundle.target_tokenizer.reserved_ids[sentence.passage.protected.index(span)]
    prefix = (*candidate.decoded.tokens[: min(end, _place(candidate, span))], symbol)
    if len(prefix) + sum(other not in prefix for other in sentence.sequence.required) > sentence.sequence.limit:
        return None
    return structs.replace(sentence, sequence=structs.replace(sentence.sequence, prefix=prefix))


def _late_spans(candidate: Candidate) -> Iterator[tuple[ProtectedSpan, int]]:
    """The protected spans whose symbols follow an end mark of the translation and no word does, though words follow
    them in the text; and the place of that mark among the tokens."""
    sentence, tokenizer = candidate.sentence, candidate.sentence.bundle.target_tokenizer
    symbols = dict(zip(tokenizer.reserved_ids, sentence.passage.protected, strict=False))
    shown = masked(sentence.passage.text, sentence.passage.protected, OBJECT)
    texts, late = tokenizer.token_texts(candidate.decoded.tokens), list[ProtectedSpan]()
    for place, (token, text) in reversed(list(enumerate(zip(candidate.decoded.tokens, texts, strict=True)))):
        if token in symbols:
            late.append(symbols[token])
        elif any(map(str.isalnum, text)):
            return
        elif text.strip() and ends_sentence(text) and late and _is_end("".join(texts[: place + 1]), sentence):
            yield from ((span, place) for span in late if any(map(str.isalnum, shown[span.end :])))
            late = []


def _is_end(text: str, sentence: Sentence) -> bool:
    """Whether this part of a translation is a sentence, and does not end in an abbreviation, such as "M."."""
    text = text.strip()
    return segments(f"{text} Yes.", sentence.bundle.target)[-1].start > len(text)


def _place(candidate: Candidate, span: ProtectedSpan) -> int:
    """How many tokens of the translation come before the span: up to the end of the word that translates the nearest
    one before it, or else to the beginning of the one that translates the nearest after it. Where none translates
    either, all do."""
    sentence, decoded = candidate.sentence, candidate.decoded
    spans = sentence.source_spans
    before = [number for number, (start, end) in enumerate(spans) if start < end <= span.start]
    after = [number for number, (start, end) in enumerate(spans) if span.end <= start < end]
    words = sentence.bundle.target_tokenizer.words(decoded.tokens, decoded.log_probs, sentence.bundle.target)
    for source in reversed(before):
        ends = [end for first, end, _ in words if source in decoded.aligned[first:end]]
        if ends:
            return max(ends)
    for source in after:
        starts = [first for first, end, _ in words if source in decoded.aligned[first:end]]
        if starts:
            return min(starts)
    return len(decoded.tokens) if before else 0
