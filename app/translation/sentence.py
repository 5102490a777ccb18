"""A sentence to translate: its text, and the sequence that the engine decodes for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from msgspec import Struct, structs

from app.engine import sequence as engine
from app.markup.passage import Passage, ProtectedSpan, usable_spans, with_insertions
from app.translation.input_normalisation import (
    added_full_stop,
    max_protected_spans,
    model_input,
    source_tokens,
    split_at_protected,
)
from app.translation.memory import Similar
from model.bundle import Bundle


def make_sequence(bundle: Bundle, ids: Sequence[int], limit: int, **wishes: Any) -> engine.Sequence:
    """The sequence that decodes the text of `ids` in the direction of `bundle`. `wishes`: other fields."""
    source_prefix, target_prefix = bundle.direction.prefixes
    return engine.Sequence(
        bundle.spec.name,
        tuple(ids),
        limit,
        source_prefix=source_prefix,
        target_prefix=target_prefix,
        length_penalty=bundle.decoding.length_penalty,
        narrowing=bundle.decoding.narrowing,
        **wishes,
    )


class Sentence(Struct, frozen=True, eq=False, dict=True):
    """A sentence to translate. `passage` is the sentence alone, with offsets from its start.

    To decode it in another way, make another one of it, by `structs.replace`, `with_passage` or
    `with_protected_terms`.
    """

    passage: Passage
    bundle: Bundle
    sequence: engine.Sequence
    """The sequence to decode."""
    start: int = 0
    """Offset of the sentence in its text."""
    tagged_symbols: Sequence[tuple[int, int]] = ()
    """Symbols of the text that are tags of `passage` instead, such as `<b>` in plain text: where, and of what
    length."""
    terms: tuple[ProtectedSpan, ...] = ()
    """The terms and numbers that the sentence contains, with their required translations as `raw`."""
    has_written_terms: bool = False
    """Whether the `raw` of `terms` is encoded for the passage's format."""
    begun: tuple[str, str] | None = None
    """The prefix that the translation continues, as the user typed it and as the model generates it."""
    original: Passage | None = None
    """The passage before symbols of its text became tags."""
    mark_retries: int = 0
    """How often numbers, signs and quotation marks were protected, because a translation had others."""
    similar: Similar | None = None
    """A pair of the translation memory to repair for the sentence."""

    def with_passage(self, passage: Passage) -> Sentence:
        """The sentence with another passage, which is encoded again."""
        ids = self.bundle.source_tokenizer.encode_source_parts(model_input(passage, self.bundle))
        sequence = sequence_of(passage, self.bundle, ids, self.sequence.beam_size)
        return structs.replace(self, passage=passage, sequence=sequence)

    def with_protected_terms(self) -> Sentence:
        """The sentence with its terms protected as well."""
        terms = self.terms
        if not self.has_written_terms:  # `write` does not apply to the `raw` of a protected span
            terms = tuple(term._replace(raw=self.passage.write(term.raw)) for term in terms)
        written = structs.replace(self, terms=terms, has_written_terms=True)
        protected = tuple(sorted([*self.passage.protected, *written.protectable_terms()]))
        return written.with_passage(replace(self.passage, protected=protected))

    def protectable_terms(self) -> list[ProtectedSpan]:
        """The terms that are not protected yet, as far as symbols are left for them."""
        room = max_protected_spans(self.bundle) - len(self.passage.protected)
        return list(usable_spans(self.passage, self.terms)[: max(0, room)])

    @property
    def end(self) -> int:
        """Offset of the sentence's end in its text."""
        return self.start + len(self.passage.text) + sum(size for _, size in self.tagged_symbols)

    def text_span(self, span: tuple[int, int]) -> tuple[int, int]:
        """The characters of the text, counted from the sentence's start, that are characters `span` of the passage."""
        return with_insertions(span, self.tagged_symbols)

    @property
    def added_full_stop(self) -> str:
        """The full stop that the model reads after the text, or an empty string."""
        return added_full_stop(self.passage.text, self.bundle)

    @property
    def source_tokens(self) -> int:
        """The number of tokens of the text, with its end symbol if it has one."""
        count = len(self.sequence.source)
        return count + self.bundle.architecture.source_ends(count)

    @cached_property
    def source_spans(self) -> Sequence[tuple[int, int]]:
        """The characters of the sentence that each source token encodes; the end symbol, which is last if there is one,
        encodes none."""
        spans = [(piece.start, piece.end) for piece in source_tokens(self.passage, self.bundle)]
        length = len(self.passage.text)
        ends = [(length, length)] * self.bundle.architecture.source_ends(len(spans))
        return [*spans, *ends]

    def source_pieces(self) -> list[str | ProtectedSpan]:
        """The sentence itself, with its protected spans as written in the source."""
        text = self.passage.text
        protected = (one._replace(raw=text[one.start : one.end]) for one in self.passage.protected)
        return [part if isinstance(part, str) else next(protected) for part in split_at_protected(self.passage)]


def sequence_of(passage: Passage, bundle: Bundle, ids: Sequence[int], beam_size: int) -> engine.Sequence:
    """The sequence for a passage that `ids` encode: the decoder must generate the reserved symbol of each protected
    span exactly once, and no other."""
    symbols = bundle.target_tokenizer.reserved_ids
    count = len(passage.protected)
    copies = bundle.reserved_copies
    required, forbidden = tuple(symbols[:count]), tuple(symbols[count:]) if count or copies else ()
    forbidden += tuple(target for source, target in copies[:count] if source not in ids)
    limit = bundle.limits.target(len(ids))
    return make_sequence(bundle, ids, limit, required=required, forbidden=forbidden, beam_size=beam_size)
