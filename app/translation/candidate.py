"""A translation of a sentence that the engine decoded, with tags and protected text restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from app.engine.sequence import Decoded
from app.markup.passage import AlignedSpan, ProtectedSpan
from app.markup.render import Insertion, TagNode, empty_elements, insertions, render_pieces, render_source
from app.runtime.lazy import lazy
from app.text.checked_marks import without_invented
from app.text.number_forms import in_target_form, is_range, may_differ, translation_edits
from app.text.punctuation_marks import edited
from app.text.tag_projection import place_tags
from app.text.word_units import AlignedWords
from app.translation.detokenisation import detokenised, protected_by_symbol, without_full_stop
from app.translation.sentence import Sentence
from model.languages import ends_sentence


class Candidate(Struct, frozen=True, eq=False, dict=True):
    """A translation of `sentence`: a hypothesis of the search, or a given one that was forced. Its texts are made when
    they are first asked for."""

    sentence: Sentence
    decoded: Decoded
    given_texts: Sequence[str] | None = None
    """The text that each token adds, if the translation is not this model's."""
    is_source: bool = False
    """Whether it is rendered as the sentence itself, since it is not good enough."""

    @lazy
    def quality(self) -> float | None:
        """The probability that it is good enough to use as it is (`model.quality`), once repetitions have been cut from
        it: their tokens are nearly certain. None if the bundle does not estimate it."""
        model, decoded = self.sentence.bundle.quality, self.decoded
        if model is None:
            return None
        ended = ends_sentence(self.sentence.passage.text.rstrip())
        return model.quality(decoded.log_probs, decoded.finish_reason == "stop", ended)

    @property
    def rendered(self) -> str:
        """The translation, encoded for its format, with its tags and protected text."""
        return self._rendered[0]

    @property
    def insertions(self) -> list[Insertion]:
        """The tags of the rendered translation, in order. Positions count its joined `pieces`."""
        return list(insertions(tree)) if (tree := self._rendered[1]) else []

    def empty_elements(self) -> list[str]:
        """The words of elements whose tags are around no word of the translation."""
        if (tree := self._rendered[1]) is None:
            return []
        shown = (piece if isinstance(piece, str) else "x" * len(piece.raw) for piece in self.pieces)
        return list(empty_elements(tree, self.sentence.passage.text, "".join(shown)))

    @lazy
    def _rendered(self) -> tuple[str, TagNode | None]:
        """The translation as its format writes it, and where it has its tags; None if it has none."""
        passage = self.sentence.passage
        if self.is_source:
            return render_source(passage), None
        if not (passage.protected or passage.tags):
            if self.sentence.begun:
                return self._with_prefix(*self.sentence.begun), None
            return passage.write(self.plain_text if self.plain_text.strip() else passage.text), None
        if not any(isinstance(piece, ProtectedSpan) or piece.strip() for piece in self.pieces):
            return render_source(passage), None
        if not passage.tags:
            return render_pieces(self.pieces, (), passage.write), None
        tree = place_tags(self.pieces, passage.tags, passage.text, self.aligned_words)
        return render_pieces(self.pieces, insertions(tree), passage.write), tree

    def _with_prefix(self, typed: str, generated: str) -> str:
        """The translation, which begins with `typed` even where rendering changes it."""
        if self.plain_text.startswith(typed):
            return self.plain_text
        rest = self.sentence.bundle.target_tokenizer.decode(self.decoded.tokens)[len(generated) :]
        return typed + (without_full_stop(rest) if self.sentence.added_full_stop else rest)

    @lazy
    def plain_text(self) -> str:
        """The translation in plain characters, without protected text."""
        return "".join(self.token_texts)

    @lazy
    def token_texts(self) -> Sequence[str]:
        """The text that each token adds; protected text follows the text of its own symbol."""
        if self.given_texts is not None:
            return self.given_texts
        texts = detokenised(self.decoded, self.sentence.passage, self.sentence.bundle, self._without_invented)
        if self.sentence.begun or not may_differ(self.sentence.passage.text):
            return texts
        return self._with_target_numbers(texts)

    def _without_invented(self, text: str) -> str:
        return text if self.sentence.begun else without_invented(text, bool(self.sentence.mark_retries))

    def _with_target_numbers(self, texts: Sequence[str]) -> Sequence[str]:
        """`texts` with the numbers of the sentence as the target writes them; those of its terms, and of a similar
        translation of the memory, stay."""
        sentence, bundle, passage = self.sentence, self.sentence.bundle, self.sentence.passage
        given = [term.raw for term in sentence.terms]
        if sentence.similar:
            given.append(sentence.similar.match.pair.target)
        protected = [number for number, token in enumerate(self.decoded.tokens) if token in self._protected]
        return edited(
            texts,
            protected,
            lambda text: translation_edits(text, passage.text, bundle.source, bundle.target, passage.protected, given),
        )

    @lazy
    def pieces(self) -> Sequence[str | ProtectedSpan]:
        """The translation in plain characters, with each protected span in the place of its symbol."""
        protected = self._protected
        if not protected:
            return [self.plain_text]
        pieces: list[str | ProtectedSpan] = []
        for token, text in zip(self.decoded.tokens, self.token_texts, strict=True):
            if token in protected:
                pieces += [text, protected[token]] if text else [protected[token]]
            elif pieces and isinstance(pieces[-1], str):
                pieces[-1] += text
            else:
                pieces.append(text)
        return self._with_capital(pieces)

    def _with_capital(self, pieces: list[str | ProtectedSpan]) -> list[str | ProtectedSpan]:
        """Capitalises a term at the start of the translation, if the sentence begins with a capital."""
        blank = (isinstance(piece, str) and not piece.strip() for piece in pieces)
        first = next((number for number, is_blank in enumerate(blank) if not is_blank), 0)
        term = pieces[first] if pieces else ""
        is_term = isinstance(term, ProtectedSpan) and term in self.sentence.terms
        if is_term and self.sentence.passage.text[:1].isupper():
            pieces[first] = term._replace(raw=term.raw[:1].upper() + term.raw[1:])  # type: ignore[union-attr]
        return pieces

    @lazy
    def _protected(self) -> dict[int, ProtectedSpan]:
        sentence, bundle = self.sentence, self.sentence.bundle
        found = protected_by_symbol(self.decoded.tokens, sentence.passage, bundle)
        ranges = {token: one for token, one in found.items() if is_range(one.raw) and one not in sentence.terms}
        if ranges:
            written = in_target_form(ranges.values(), sentence.passage.text, bundle.source, bundle.target)
            found |= zip(ranges, written, strict=True)
        return found

    @lazy
    def aligned_words(self) -> AlignedWords:
        """The words of the translation, protected text included."""
        return AlignedWords(self.pieces, list(self.aligned_spans()))

    def aligned_spans(self) -> Iterator[AlignedSpan]:
        """For each token of the translation, its characters and the source characters that it translates."""
        spans, decoded, at = self.sentence.source_spans, self.decoded, 0
        for token, text, source in zip(decoded.tokens, self.token_texts, decoded.aligned, strict=True):
            if text:
                yield AlignedSpan(spans[source], (at, at + len(text)))
                at += len(text)
            if (protected := self._protected.get(token)) is not None:
                yield AlignedSpan((protected.start, protected.end), (at, at + len(protected.raw)))
                at += len(protected.raw)

    def target_spans(self) -> list[tuple[int, int]]:
        """For each token of the translation, its characters in the joined `pieces`, protected text included."""
        spans: list[tuple[int, int]] = []
        at = 0
        for token, text in zip(self.decoded.tokens, self.token_texts, strict=True):
            size = len(text) + (len(self._protected[token].raw) if token in self._protected else 0)
            spans.append((at, at + size))
            at += size
        return spans
