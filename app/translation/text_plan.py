"""Plans the translation of a text: splits it into sentences and copied text, and renders the result."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, pairwise, repeat
from operator import attrgetter
from typing import NamedTuple

from app.engine.waiting_queue import cost
from app.markup.passage import Passage, Piece, ProtectedSpan, Tag, resolve_references, usable_spans, write_plain
from app.markup.render import render_source
from app.text.glossary import Glossary, merge_spans
from app.text.mnemonics import Mnemonic
from app.text.placeholders import find_placeholders
from app.text.segmentation import Segment, segments, split_to_fit
from app.text.tag_projection import split_tags
from app.text.word_tags import keep_word_tags, with_protected
from app.translation.alternatives import best_combinations
from app.translation.candidate import Candidate
from app.translation.input_normalisation import max_protected_spans, model_input
from app.translation.memory import MemoryLookup, RememberedText
from app.translation.plain_text_tags import symbols_as_tags, with_tab_tags
from app.translation.planned_sentence import Part, PlannedSentence, rendered, sentences_of
from app.translation.quality_checks import untranslated_warning
from app.translation.sentence import Sentence, sequence_of
from app.translation.terminology import missing_terms
from model.bundle import Bundle
from model.languages import joint, spacing
from model.normalisation import normalise_source

_best_of, _start_of = attrgetter("best"), attrgetter("start")
_OPENING = re.compile(r"[(\[{«“‘「『（【《*_~\d\u2460-\u2473]")
"""Text between two sentences that belongs to the second: no space after it."""
_END = Segment(0, 0, False)
_LAST = _END, Passage(""), ()

_Encoded = tuple[Segment, Passage, Sequence[int]]
"""A segment, its text without tags, and its tokens."""
LocatedWarning = tuple[int, str]
"""An offset in the passage, and the warning about the text there."""


class BudgetExceeded(Exception):
    """A text costs more than its budget."""


class Label(NamedTuple):
    """A `text` such as "&Open", which is translated as `shown`, "Open"."""

    text: str
    shown: str
    mnemonic: Mnemonic
    target: str


@dataclass
class TextPlan:
    """A text split into parts for `bundle`; without one, all of it is copied."""

    bundle: Bundle | None
    parts: list[Part] = field(default_factory=list)
    nested: dict[int, list[Part]] = field(default_factory=dict)
    """The parts of the nested passages that `parts` refer to, by number."""
    warnings: list[LocatedWarning] = field(default_factory=list)
    """Warnings that belong to no single sentence."""
    cost: int = 0
    """Cost of the sentences, in tokens of the queue."""
    label: Label | None = None
    """The label, if its mnemonic was removed from the text."""

    @property
    def sentences(self) -> list[PlannedSentence]:
        """All sentences to decode."""
        return sentences_of(chain(*self.nested.values(), self.parts))

    def render(self, choose: Callable[[PlannedSentence], Candidate] = _best_of) -> str:
        """The translation, from the candidate that `choose` returns for each sentence.

        The sentences must be decoded and checked.
        """
        text = self.resolve_nested(_join(self.parts, choose), choose)
        if self.label is None:
            return text
        if normalise_source(text) == normalise_source(self.label.shown):
            return self.label.text  # a copy: `insert_into` would choose the first of two places for the mark
        return self.label.mnemonic.insert_into(text, self.label.target)

    def resolve_nested(self, text: str, choose: Callable[[PlannedSentence], Candidate] = _best_of) -> str:
        """`text`, a part of the translation, with its references replaced by the nested passages' translations."""

        def nested(number: int) -> str | None:
            return _join(self.nested[number], choose) if number in self.nested else None

        return resolve_references(text, nested)

    def rendered_sentences(self, length: Callable[[str], int] = len) -> Iterator[tuple[PlannedSentence, int]]:
        """The sentences of `parts`, which must be decoded, with their offsets in the translation.

        `length`: how many characters of the translation a part of it counts as.
        """
        at = 0
        for part in self.parts:
            if isinstance(part, PlannedSentence):
                yield part, at
            at += length(rendered(part))

    def paragraphs(self) -> Iterator[list[Part]]:
        """The parts in order, split after line ends."""
        paragraph: list[Part] = []
        for part in self.parts:
            paragraph.append(part)
            if isinstance(part, str) and "\n" in part:
                yield paragraph
                paragraph = []
        if paragraph:
            yield paragraph

    def located_warnings(self) -> list[LocatedWarning]:
        """All warnings. The sentences must be checked."""
        found = [*self.warnings]
        nested = {id(part) for parts in self.nested.values() for part in parts}
        for sentence in self.sentences:
            done = sentence.translation
            start = 0 if id(sentence) in nested else done.sentence.start  # a nested passage has no offset in the text
            found += ((start, warning) for warning in done.warnings)
            if done.untranslated_words:
                found.append((start, untranslated_warning(done.untranslated_words)))
        return found

    def alternatives(self, count: int, scored_with: Sequence[Candidate] = ()) -> list[tuple[str, float]]:
        """Up to `count` other translations and their scores, the best first, from other candidates for some
        sentences. `scored_with`: candidates whose tokens count in every score."""
        text, found = self.render(), dict[str, float]()
        sentences = list(self.sentences)
        options = [_acceptable_candidates(sentence.translation.candidates) for sentence in sentences]
        combinations = best_combinations(
            [
                [one.decoded.ranking_score(one.sentence.sequence.length_penalty) for one in candidates]
                for candidates in options
            ]
        )
        for combination in islice(combinations, 4 * count + 1):  # several may render to the same text
            numbers = (combination.get(place, 0) for place in range(len(sentences)))
            chosen = {s: of[number] for s, of, number in zip(sentences, options, numbers, strict=True)}
            other = self.render(chosen.__getitem__)
            if other != text:
                found.setdefault(other, mean_score([*scored_with, *chosen.values()]))
            if len(found) == count:
                break
        return sorted(found.items(), key=lambda pair: -pair[1])


def _join(parts: Iterable[Part], choose: Callable[[PlannedSentence], Candidate]) -> str:
    return "".join(part if isinstance(part, str) else choose(part).rendered for part in parts)


def mean_score(candidates: Iterable[Candidate]) -> float:
    """Mean log probability of all tokens; 0 if there are none."""
    log_probs = [value for candidate in candidates for value in candidate.decoded.log_probs]
    return sum(log_probs) / len(log_probs) if log_probs else 0.0


def plan_copy(pieces: Sequence[Piece]) -> TextPlan:
    """A plan that copies the whole text."""
    return TextPlan(None, ["".join(piece if isinstance(piece, str) else render_source(piece) for piece in pieces)])


def plan_text(
    bundle: Bundle,
    pieces: Sequence[Piece],
    glossary: Glossary | None,
    beam_size: int,
    budget: int,
    memory: MemoryLookup | None = None,
) -> TextPlan:
    """Splits `pieces` into sentences, for a beam of `beam_size` or the bundle's, whichever is larger. A sentence that
    `memory` has becomes copied text: its translation.

    Raises BudgetExceeded as soon as they cost more than `budget`.
    """
    plan = TextPlan(bundle)

    def parts_of(passage: Passage) -> list[Part]:
        return PassagePlanner(plan, bundle, passage, glossary, beam_size, memory).parts(budget)

    for piece in pieces:
        if isinstance(piece, str):
            plan.parts.append(piece)
            continue
        for inner in piece.nested:
            plan.nested[inner.number] = parts_of(inner.passage)
        plan.parts += parts_of(piece)
    return plan


class PassagePlanner:
    """Splits a passage, which may be the part of a longer text that begins at `start`, into parts of `plan`, whose cost
    and warnings it keeps."""

    def __init__(
        self,
        plan: TextPlan,
        bundle: Bundle,
        passage: Passage,
        glossary: Glossary | None,
        beam_size: int,
        memory: MemoryLookup | None = None,
        start: int = 0,
    ) -> None:
        self.plan, self.bundle, self.passage = plan, bundle, protected_passage(passage, bundle)
        self.beam_size = max(beam_size, bundle.decoding.beam_size or 1)
        self.glossary, self.memory, self.start = glossary, memory, start

    def parts(self, budget: int, follows_sentence: bool = False) -> list[Part]:
        """The parts. `follows_sentence`: whether the text before the passage ends in a sentence.

        Raises BudgetExceeded as soon as the whole plan costs more than `budget`.
        """
        parts: list[Part] = []
        for part in self._parts(follows_sentence):
            parts.append(PlannedSentence(part) if isinstance(part, Sentence) else part)
            if isinstance(part, Sentence):
                self.plan.cost += cost(len(part.sequence.source), part.sequence.beam_size)
                if self.plan.cost > budget:
                    raise BudgetExceeded
        return parts

    @cached_property
    def joint(self) -> str:
        return joint(self.bundle.source, self.bundle.target)

    def _parts(self, follows: bool) -> Iterator[str | Sentence]:
        passage = self.passage
        all_of_it = segments(passage.text, self.bundle.source, passage.protected, passage.whole)
        found: Iterable[_Encoded] = (part for one in all_of_it or [_END] for part in self._split_to_fit(one))
        tags: Iterable[Sequence[Tag]] = repeat(())
        if passage.tags:
            found = list(found)
            tags = split_tags(passage.tags, [(segment.start, segment.end) for segment, _, _ in found])
        pairs = pairwise(chain(found, [_LAST]))
        for ((segment, part, ids), (following, _, _)), share in zip(pairs, tags, strict=False):
            part = replace(part, tags=tuple(share)) if share else part
            if segment.translate:
                if follows and self.joint:
                    yield passage.write(self.joint)
                yield self._make_sentence(part, ids, self.start + segment.start)
            elif follows and following.translate and not share:
                yield self._copy_between(part)
            else:
                yield render_source(part)
            follows = segment.translate

    def _make_sentence(self, part: Passage, ids: Sequence[int], start: int) -> str | Sentence:
        end = start + len(part.text)
        if self.memory and (remembered := self.memory.passage(part)) is not None:
            return RememberedText(remembered, end)
        terms = self._find_terms(part)
        if not (part.tags or part.protected) and [(one.start, one.end) for one in terms] == [(0, len(part.text))]:
            # A model adds words of its own to a required word that is all there is.
            text = terms[0].raw
            shown = text[:1].upper() + text[1:] if part.text[:1].isupper() else text
            return RememberedText(part.write(shown), end)
        similar = self.memory.similar(part, start) if self.memory else None
        original = part
        tagged, symbols = symbols_as_tags(part)
        if symbols:
            ids_without = self.bundle.source_tokenizer.encode_source_parts(model_input(tagged, self.bundle))
            fits = len(ids_without) <= self.bundle.limits.max_source
            part, ids, symbols = (tagged, ids_without, symbols) if fits else (part, ids, ())
        part = with_tab_tags(part)
        return Sentence(
            part,
            self.bundle,
            sequence_of(part, self.bundle, ids, self.beam_size),
            start,
            tagged_symbols=symbols,
            terms=self._find_terms(part),
            original=original,
            similar=None if symbols else similar,
        )

    def _copy_between(self, part: Passage) -> str:
        """Copied text between two sentences, with the space that the target language has there."""
        text = part.text
        if text.isspace() and not part.protected:
            return part.write(spacing(text, self.bundle.source, self.bundle.target))
        space = "" if "|" in text or any(map(str.isspace, text)) else part.write(self.joint)
        opens = _OPENING.match(text)
        return (space if opens else "") + render_source(part) + ("" if opens else space)

    def _split_to_fit(self, segment: Segment) -> Iterator[_Encoded]:
        """`segment`, its text and tokens. Splits one with too many tokens or protected spans, and adds a warning."""
        start, end, translate = segment
        whole = slice_passage(self.passage, (), start, end)
        ids = self._encode(whole) if translate else []
        limit = self.bundle.limits.max_source
        if ids is not None and len(ids) <= limit:
            yield segment, whole, ids
            return

        def count_tokens(start: int, end: int) -> int:
            ids = self._encode(slice_passage(self.passage, (), start, end))
            return limit + 1 if ids is None else len(ids)

        terms = [one.moved(start) for one in self._find_terms(whole)]
        cuts = split_to_fit(self.passage.text, start, end, self.passage.protected, count_tokens, limit, terms)
        count = sum(cut.translate for cut in cuts)
        much = (
            f"of more than {limit} tokens"
            if ids
            else f"with more than {max_protected_spans(self.bundle)} things to keep"
        )
        done = f"translated in {count} part{'s' * (count > 1)}" if count else "left as it was"
        self.plan.warnings.append((self.start + start, f"A sentence {much} was {done}."))
        for cut in cuts:
            part = slice_passage(self.passage, (), cut.start, cut.end)
            yield cut, part, (self._encode(part) or []) if cut.translate else []

    def _encode(self, part: Passage) -> list[int] | None:
        """The tokens of `part`; None if it contains too many protected spans."""
        much = len(part.protected) + len(self._find_terms(part)) > max_protected_spans(self.bundle)
        return None if much else self.bundle.source_tokenizer.encode_source_parts(model_input(part, self.bundle))

    def _find_terms(self, part: Passage) -> tuple[ProtectedSpan, ...]:
        found = self.glossary.find(part.text) if self.glossary else []
        return usable_spans(part, merge_spans(part.terms, found)) if found or part.terms else ()


def protected_passage(passage: Passage, bundle: Bundle) -> Passage:
    """`passage`, in which placeholders, symbols, and words that tags are part of are protected.

    Nothing else is protected in its terms, which have translations.
    """
    if passage.tags:
        passage = keep_word_tags(passage)
    found = find_placeholders(passage.text, bundle.source)
    if passage.terms:
        terms = set(passage.terms)
        found = [one for one in merge_spans(passage.terms, found) if one not in terms]
    if not found:
        return passage
    if passage.write is not write_plain:
        found = [one._replace(raw=passage.write(one.raw)) for one in found]
    if not passage.tags:
        return replace(passage, protected=tuple(merge_spans(passage.protected, found)))
    return with_protected(passage, found)


def slice_passage(passage: Passage, tags: Sequence[Tag], start: int, end: int) -> Passage:
    """Characters [start, end) of `passage`; `tags`, those within, already count from `start`."""
    protected = passage.protected
    first, last = (bisect_left(protected, place, key=_start_of) for place in (start, end)) if protected else (0, 0)
    within = tuple([ProtectedSpan(one.start - start, one.end - start, one.raw) for one in protected[first:last]])
    terms = tuple([one.moved(-start) for one in passage.terms if start <= one.start and one.end <= end])
    return Passage(passage.text[start:end], within, tuple(tags), passage.write, terms=terms)


def _acceptable_candidates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, the best first, without those that lack more terms than the best."""
    best, *others = candidates
    return [best, *(other for other in others if len(missing_terms(other)) <= len(missing_terms(best)))]
