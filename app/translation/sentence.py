"""A sentence: its tokens for one bundle, and its translation with tags and protected text restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.engine.sequence import Decoded
from app.engine.sequence import Sequence as EngineSequence
from app.errors import ServiceError
from app.markup.passage import AlignedSpan, Passage, ProtectedSpan, usable_spans, with_insertions
from app.markup.render import Insertion, TagNode, empty_elements, insertions, render_pieces, render_source
from app.text.checked_marks import without_invented
from app.text.tag_projection import place_tags
from app.text.word_units import AlignedWords
from app.translation.detokenisation import detokenised, protected_by_symbol, without_full_stop
from app.translation.input_normalisation import (
    added_full_stop,
    max_protected_spans,
    model_input,
    source_tokens,
    split_at_protected,
)
from app.translation.memory import Similar
from model.bundle import Bundle
from model.languages import has_end_mark


def make_sequence(bundle: Bundle, ids: Sequence[int], limit: int, **wishes: Any) -> EngineSequence:
    """The sequence that decodes the text of `ids` in the direction of `bundle`. `wishes`: other fields."""
    source_prefix, target_prefix = bundle.direction.prefixes
    return EngineSequence(
        bundle.spec.name,
        tuple(ids),
        limit,
        source_prefix=source_prefix,
        target_prefix=target_prefix,
        length_penalty=bundle.decoding.length_penalty,
        narrowing=bundle.decoding.narrowing,
        **wishes,
    )


@dataclass(eq=False, slots=True)
class Candidate:
    """A decoded translation of a sentence; its sentence caches the texts made from it."""

    decoded: Decoded
    pieces: Sequence[str | ProtectedSpan] | None = None
    plain_text: str | None = None
    token_texts: Sequence[str] | None = None
    aligned_words: AlignedWords | None = None
    rendered: str | None = None
    tag_tree: TagNode | None = None
    """Where the rendered text has its tags; None if it has none."""


@dataclass(eq=False)
class Sentence:
    """A sentence to translate. `passage` is the sentence alone, with offsets from its start."""

    passage: Passage
    bundle: Bundle
    sequence: EngineSequence
    """The sequence to decode."""
    start: int = 0
    """Offset of the sentence in its text."""
    marks: Sequence[tuple[int, int]] = ()
    """Marks of the text that are tags of `passage` instead, such as `<b>` in plain text: where, and of what length."""
    warnings: list[str] = field(default_factory=list)
    terms: tuple[ProtectedSpan, ...] = ()
    """The terms and numbers that the sentence contains, with their required translations as `raw`."""
    untranslated_words: Sequence[str] = ()
    """Words to which the translation paid hardly any attention."""
    checked: bool = False
    """Whether `quality_checks.check_translation` has run."""
    copied_words: int = 0
    """Number of words in a translation that copies the source, else 0; see `count_copied_words`."""
    is_left_untranslated: bool = False
    """Whether the sentence itself takes the place of its translation, which is not good enough."""
    candidates: list[Candidate] = field(default_factory=list)
    """The decoded translations, the best first; empty before decoding."""
    begun: tuple[str, str] | None = None
    """The prefix that the translation continues, as the user typed it and as the model generates it."""
    original: Passage | None = None
    """The passage before marks of its text became tags."""
    protected_marks: int = 0
    """How often numbers, signs and quotation marks were protected, because a translation had others."""
    similar: Similar | None = None
    """A pair of the translation memory to repair for the sentence."""
    is_repaired: bool = False
    """Whether the best translation is that of `similar`, repaired."""
    is_by_large_model: bool = False
    """Whether the best translation is a large model's answer."""
    quality: float | None = None
    """The probability that the best translation is good enough to use as it is (`model.quality`); None if the bundle
    does not estimate it."""
    error: ServiceError | None = None
    """The reason why decoding failed."""
    _has_written_terms: bool = False
    """Whether the `raw` of `terms` is encoded for the passage's format."""
    _spans: tuple[Passage, Sequence[tuple[int, int]]] | None = None
    """The passage of which `source_spans` were asked last, and these."""

    @property
    def end(self) -> int:
        """Offset of the sentence's end in its text."""
        return self.start + len(self.passage.text) + sum(size for _, size in self.marks)

    def text_span(self, span: tuple[int, int]) -> tuple[int, int]:
        """The characters of the text, counted from the sentence's start, that are characters `span` of the passage."""
        return with_insertions(span, self.marks)

    @property
    def added_full_stop(self) -> str:
        """The full stop that the model reads after the text, or an empty string."""
        return added_full_stop(self.passage.text, self.bundle)

    @property
    def source_tokens(self) -> int:
        """The number of tokens of the text, with its end symbol if it has one."""
        count = len(self.sequence.source)
        return count + self.bundle.architecture.source_ends(count)

    @classmethod
    def of(cls, passage: Passage, bundle: Bundle, ids: Sequence[int], beam_size: int, start: int) -> Sentence:
        """`ids` encode the passage.

        The decoder must generate the reserved symbol of each protected span exactly once, and no other.
        """
        symbols = bundle.target_tokenizer.reserved_ids
        count = len(passage.protected)
        copies = bundle.reserved_copies
        required, forbidden = tuple(symbols[:count]), tuple(symbols[count:]) if count or copies else ()
        forbidden += tuple(target for source, target in copies[:count] if source not in ids)
        limit = bundle.limits.target(len(ids))
        sequence = make_sequence(bundle, ids, limit, required=required, forbidden=forbidden, beam_size=beam_size)
        return cls(passage, bundle, sequence, start)

    def protectable_terms(self) -> list[ProtectedSpan]:
        """The terms that are not protected yet, as far as symbols are left for them."""
        room = max_protected_spans(self.bundle) - len(self.passage.protected)
        return list(usable_spans(self.passage, self.terms)[: max(0, room)])

    def protect_terms(self) -> None:
        """Protects the terms as well, and prepares the sentence to be decoded again."""
        if not self._has_written_terms:  # `write` does not apply to the `raw` of a protected span
            self.terms = tuple(term._replace(raw=self.passage.write(term.raw)) for term in self.terms)
            self._has_written_terms = True
        protected = tuple(sorted([*self.passage.protected, *self.protectable_terms()]))
        self.passage = replace(self.passage, protected=protected)
        self.encode_again()

    def encode_again(self) -> None:
        """Prepares the sentence to be decoded again, after its passage has changed."""
        ids = self.bundle.source_tokenizer.encode_source_parts(model_input(self.passage, self.bundle))
        self.sequence = Sentence.of(self.passage, self.bundle, ids, self.sequence.beam_size, 0).sequence

    def set_decoded(self, decoded: Decoded) -> None:
        """Stores the result of greedy or beam search."""
        self.candidates, self.is_repaired = [Candidate(decoded), *map(Candidate, decoded.alternatives)], False

    def set_repaired(self, candidate: Candidate) -> None:
        """Makes the repaired translation of `similar` the best one."""
        others = (each for each in self.candidates if each.decoded.tokens != candidate.decoded.tokens)
        self.candidates, self.is_repaired = [candidate, *others], True

    def set_answer(self, candidate: Candidate) -> None:
        """Makes a large model's translation the best one. What was found in the sentence's own does not hold for it."""
        self.set_repaired(candidate)
        self.is_repaired, self.is_by_large_model = False, True
        self.warnings, self.untranslated_words, self.copied_words = [], (), 0

    def estimate_quality(self) -> None:
        """Sets `quality`, once repetitions have been cut from the translation: their tokens are nearly certain."""
        if (model := self.bundle.quality) is not None:
            decoded = self.best.decoded
            ended = has_end_mark(self.passage.text.rstrip())
            self.quality = model.quality(decoded.log_probs, decoded.finish_reason == "stop", ended)

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    def leave_untranslated(self) -> None:
        """Has the sentence itself rendered, whatever its candidates are."""
        self.is_left_untranslated, self.is_repaired = True, False
        for candidate in self.candidates:
            candidate.rendered, candidate.tag_tree = render_source(self.passage), None

    def render(self, candidate: Candidate) -> str:
        """The translation, encoded for its format, with its tags and protected text."""
        if candidate.rendered is None:
            candidate.rendered = self._render(candidate)
        return candidate.rendered

    def _render(self, candidate: Candidate) -> str:
        passage = self.passage
        if not (passage.protected or passage.tags):
            if self.begun:
                return self._with_prefix(candidate, *self.begun)
            text = self.plain_text(candidate)
            return passage.write(text if text.strip() else passage.text)
        pieces = self.pieces(candidate)
        if not any(isinstance(piece, ProtectedSpan) or piece.strip() for piece in pieces):
            return render_source(passage)
        if not passage.tags:
            return render_pieces(pieces, (), passage.write)
        candidate.tag_tree = place_tags(pieces, passage.tags, passage.text, self.aligned_words(candidate))
        return render_pieces(pieces, insertions(candidate.tag_tree), passage.write)

    def _with_prefix(self, candidate: Candidate, typed: str, generated: str) -> str:
        """The translation, which begins with `typed` even where rendering changes it."""
        text = self.plain_text(candidate)
        if text.startswith(typed):
            return text
        rest = self.bundle.target_tokenizer.decode(candidate.decoded.tokens)[len(generated) :]
        return typed + (without_full_stop(rest) if self.added_full_stop else rest)

    def insertions(self, candidate: Candidate) -> list[Insertion]:
        """The tags of the rendered translation, in order. Positions count its joined `pieces`."""
        self.render(candidate)
        return list(insertions(candidate.tag_tree)) if candidate.tag_tree else []

    def empty_elements(self, candidate: Candidate) -> list[str]:
        """The words of elements whose tags are around no word of the translation."""
        self.render(candidate)
        if candidate.tag_tree is None:
            return []
        shown = (piece if isinstance(piece, str) else "x" * len(piece.raw) for piece in self.pieces(candidate))
        return list(empty_elements(candidate.tag_tree, self.passage.text, "".join(shown)))

    def plain_text(self, candidate: Candidate) -> str:
        """The translation in plain characters, without protected text."""
        if candidate.plain_text is None:
            candidate.plain_text = "".join(self._token_texts(candidate))
        return candidate.plain_text

    def pieces(self, candidate: Candidate) -> Sequence[str | ProtectedSpan]:
        """The translation in plain characters, with each protected span in the place of its symbol."""
        if candidate.pieces is None:
            candidate.pieces = self._make_pieces(candidate)
        return candidate.pieces

    def _make_pieces(self, candidate: Candidate) -> list[str | ProtectedSpan]:
        if not self.passage.protected:
            return [self.plain_text(candidate)]
        tokens = candidate.decoded.tokens
        protected = protected_by_symbol(tokens, self.passage, self.bundle)
        pieces: list[str | ProtectedSpan] = []
        for token, text in zip(tokens, self._token_texts(candidate), strict=True):
            if token in protected:
                pieces += [text, protected[token]] if text else [protected[token]]
            elif pieces and isinstance(pieces[-1], str):
                pieces[-1] += text
            else:
                pieces.append(text)
        return self._capitalise_term(pieces)

    def source_pieces(self) -> list[str | ProtectedSpan]:
        """The sentence itself, with its protected spans as written in the source."""
        text = self.passage.text
        protected = (one._replace(raw=text[one.start : one.end]) for one in self.passage.protected)
        return [part if isinstance(part, str) else next(protected) for part in split_at_protected(self.passage)]

    def aligned_spans(self, candidate: Candidate) -> Iterator[AlignedSpan]:
        """For each token of the translation, its characters and the source characters that it attends to most."""
        spans = self.source_spans()
        tokens = candidate.decoded.tokens
        protected = protected_by_symbol(tokens, self.passage, self.bundle)
        at = 0
        for token, text, source in zip(tokens, self._token_texts(candidate), candidate.decoded.aligned, strict=True):
            if text:
                yield AlignedSpan(spans[source], (at, at + len(text)))
                at += len(text)
            if token in protected:
                yield AlignedSpan((protected[token].start, protected[token].end), (at, at + len(protected[token].raw)))
                at += len(protected[token].raw)

    def aligned_words(self, candidate: Candidate) -> AlignedWords:
        """The words of the translation, protected text included."""
        if candidate.aligned_words is None:
            candidate.aligned_words = AlignedWords(self.pieces(candidate), list(self.aligned_spans(candidate)))
        return candidate.aligned_words

    def target_spans(self, candidate: Candidate) -> list[tuple[int, int]]:
        """For each token of the translation, its characters in the joined `pieces`, protected text included."""
        protected = protected_by_symbol(candidate.decoded.tokens, self.passage, self.bundle)
        spans: list[tuple[int, int]] = []
        at = 0
        for token, text in zip(candidate.decoded.tokens, self._token_texts(candidate), strict=True):
            size = len(text) + (len(protected[token].raw) if token in protected else 0)
            spans.append((at, at + size))
            at += size
        return spans

    def source_spans(self) -> Sequence[tuple[int, int]]:
        """The characters of the sentence that each source token encodes; the end symbol, which is last if there is one,
        encodes none."""
        if self._spans is None or self._spans[0] is not self.passage:
            spans = [(piece.start, piece.end) for piece in source_tokens(self.passage, self.bundle)]
            length = len(self.passage.text)
            ends = [(length, length)] * self.bundle.architecture.source_ends(len(spans))
            self._spans = self.passage, [*spans, *ends]
        return self._spans[1]

    def _token_texts(self, candidate: Candidate) -> Sequence[str]:
        """The text that each token adds; protected text follows the text of its own symbol."""
        if candidate.token_texts is None:
            candidate.token_texts = detokenised(candidate.decoded, self.passage, self.bundle, self._without_invented)
        return candidate.token_texts

    def _without_invented(self, text: str) -> str:
        return text if self.begun else without_invented(text, bool(self.protected_marks))

    def _capitalise_term(self, pieces: list[str | ProtectedSpan]) -> list[str | ProtectedSpan]:
        """Capitalises a term at the start of the translation, if the sentence begins with a capital."""
        blank = (isinstance(piece, str) and not piece.strip() for piece in pieces)
        first = next((number for number, is_blank in enumerate(blank) if not is_blank), 0)
        term = pieces[first] if pieces else ""
        if isinstance(term, ProtectedSpan) and term in self.terms and self.passage.text[:1].isupper():
            pieces[first] = term._replace(raw=term.raw[:1].upper() + term.raw[1:])
        return pieces
