"""Plans the items of a request: chooses language, bundles and glossary of each, and splits it into sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec import structs

from app.engine.engine import Decoder
from app.engine.registry import Catalogue
from app.errors import InvalidFields, PairNotServed, TooMuchText
from app.formats import json_strings
from app.llm.client import LargeModel
from app.markup.extract import markup_pieces
from app.markup.passage import Passage, Piece
from app.settings import Settings
from app.text.glossary import Glossaries, Glossary
from app.text.icu_messages import message_pieces
from app.text.language_id import Detected, Detector
from app.text.mnemonics import remove_mnemonic
from app.translation import formality
from app.translation.completion import continue_prefix
from app.translation.language_checks import LanguageChecks
from app.translation.llm_alone import plan_unserved
from app.translation.memory import MemoryLookup, RememberedText
from app.translation.pivot import PivotPlan
from app.translation.planned_item import PlannedItem
from app.translation.planned_sentence import PlannedSentence
from app.translation.source_language import SourceLanguages
from app.translation.text_plan import BudgetExceeded, Label, TextPlan, plan_copy, plan_text
from app.translation.types import AUTO, Item, Options
from model.bundle import Bundle
from model.languages import NAMES, is_traditional, language_name

UNDETERMINED = "und"
"""The language of a text without words (BCP 47)."""
MIN_BEAM_SIZE = 4
"""Minimum beam size for alternatives: a smaller beam misses good ones."""


ObserveQuality = Callable[[str, float], None]
"""Records the quality of a sentence's translation, with the name of the model's spec."""


@dataclass(frozen=True)
class Services:
    """The services that a request needs."""

    catalogue: Catalogue
    engine: Decoder
    settings: Settings
    glossaries: Glossaries
    detector: Detector
    checks: LanguageChecks
    observe_quality: ObserveQuality
    large_model: LargeModel | None = None


class Planner:
    """Plans the items of one request."""

    def __init__(self, services: Services, options: Options) -> None:
        source, target = services.catalogue.codes(options.source, options.target)
        self._wanted = options.target
        if (source, target) != (options.source, options.target):
            options = structs.replace(options, source=source, target=target)
        self.options = options
        """The request's options, with the codes of served languages."""
        self.is_abandoned = False
        """Set when nobody waits for the plan any more, which perhaps a thread is making."""
        self._services = services
        self._glossaries: dict[str, Glossary] = {}
        """The request's glossary, by source language."""

    @cached_property
    def _languages(self) -> SourceLanguages:
        return SourceLanguages(self._sources, self._services.detector, self.options.target)

    @property
    def _sources(self) -> Sequence[str]:
        """The languages that are translated into the target language, those with a bundle first."""
        return self._services.catalogue.sources(self.options.target)

    def check_pair(self) -> None:
        """Raises PairNotServed if no text can be translated."""
        source = self.options.source
        if source in (AUTO, self.options.target) and self._sources:
            return
        if not self._is_for_large_model_alone(source):
            self._route(source)

    def _is_for_large_model_alone(self, source: str) -> bool:
        """Whether no bundle translates from `source`, and the large model may."""
        large_model, target = self._services.large_model, self.options.target
        if large_model is None or (self.options.engine or self._services.settings.engine) == "local":
            return False
        is_pair = {source, target} <= NAMES.keys() and source != target
        return is_pair and large_model.serves(source, target) and not self._services.catalogue.has_route(source, target)

    def default_model(self) -> str:
        """The model to name if there was nothing to translate."""
        is_open = self.options.source in (AUTO, self.options.target)
        source = self._sources[0] if is_open else self.options.source
        if self._services.large_model and self._is_for_large_model_alone(source):
            return self._services.large_model.name
        return " + ".join(bundle.name for bundle in self._route(source))

    def plan(self, items: Sequence[Item]) -> list[PlannedItem]:
        """Plans each item; one that cannot be translated has an error. Raises TooMuchText and InvalidFields."""
        room = self._services.settings.queue_tokens
        planned: list[PlannedItem] = []
        for item in items:
            planned.append(self._plan_item(item, room))
            plan = planned[-1].first_plan
            room -= plan.cost if isinstance(plan, TextPlan) else 0
        return planned

    def plan_from_pivot(self, item: PlannedItem, others: int) -> list[PlannedSentence]:
        """Plans the second translation of what is known of the first, and returns the new sentences.

        `others`: what the second translations of other items cost. Raises TooMuchText.
        """
        assert item.pivot is not None
        try:
            added = item.pivot.advance(self._services.settings.queue_tokens - others)
        except BudgetExceeded:
            raise self._too_many_tokens() from None
        if item.pivot.error:
            item.plan = item.pivot.error
        return added

    def _plan_item(self, item: Item, room: int) -> PlannedItem:
        planned = PlannedItem(item, Detected(self.options.source, 1.0))
        try:
            self._plan(planned, room)
            if self.options.prefix:
                self._continue(planned)
        except BudgetExceeded:
            raise self._too_many_tokens() from None
        except (PairNotServed, TooMuchText) as error:
            planned.plan = error
        return planned

    def _plan(self, planned: PlannedItem, room: int) -> None:
        """Sets an item's plan, its source, and its pivot plan if it needs a pivot language.

        Raises PairNotServed, TooMuchText and BudgetExceeded.
        """
        options, item = self.options, planned.item
        check_length(item_length(item), self._services.settings)
        label = _label(item, options)
        pieces = [Passage(label.shown)] if label else _pieces(item, options)
        planned.has_spans = isinstance(item, str) and not options.html and len(pieces) == 1
        source, warnings = options.source, list[str]()
        if source == AUTO:
            detected, doubts, error = self._languages.choose(_text_of(pieces))
            planned.source = Detected(detected.language or UNDETERMINED, detected.confidence)
            if error:
                raise error
            if detected.language is None:
                planned.plan = _plan_copy(item)
                return
            source = detected.language
            warnings += doubts
        if source == options.target:
            certain = f"In {language_name(source)} already, and left as it was."
            warnings.append("It was left as it was." if warnings else certain)
            planned.plan = replace(_plan_copy(item), warnings=[(0, warning) for warning in warnings])
            return
        if self._is_for_large_model_alone(source):
            planned.glossary = self._glossary(source, options.target)
            planned.plan, planned.unserved = plan_unserved(pieces, source, options.target)
            planned.plan.label = label
            return
        route = self._route(source)
        target = route[-1].target
        if is_traditional(self._wanted) and not is_traditional(target):
            warnings.append(f"There is no bundle for {self._wanted}: the translation may be in simplified characters.")
        glossary = self._glossary(route[0].source, target)
        memory = planned.memory = self._memory(source, glossary)
        if memory and isinstance(item, str) and not options.html:
            text = memory.text(item)
            if text is not None:
                remembered = RememberedText(text, len(item))
                planned.plan = TextPlan(route[-1], [remembered], warnings=[(0, warning) for warning in warnings])
                return
        if memory:
            pieces = memory.pieces(pieces)
        if len(route) > 1:
            pivot = planned.pivot = PivotPlan(route, pieces, glossary, self._beam_size, room, label)
            planned.plan, plan = pivot.from_pivot, pivot.into_pivot
        else:
            plan = planned.plan = plan_text(route[0], pieces, glossary, self._beam_size, room, memory)
            plan.label = label
        plan.warnings[:0] = [(0, warning) for warning in warnings]
        if memory and isinstance(item, str) and not options.html:
            memory.suggest_whole(item)

    def _continue(self, planned: PlannedItem) -> None:
        """Raises InvalidFields and TooMuchText."""
        if planned.pivot:
            raise InvalidFields.at("#/prefix", "not available for languages that need a pivot language")
        assert isinstance(planned.plan, TextPlan)
        continue_prefix(planned.plan, self.options.prefix)

    def _route(self, source: str) -> Sequence[Bundle]:
        """The bundles that translate from `source`. Raises PairNotServed."""
        return self._services.catalogue.route(source, self.options.target)

    def _memory(self, source: str, glossary: Glossary | None) -> MemoryLookup | None:
        """The request's memory for this source language, if it has one."""
        wanted = self.options.memory
        if wanted is None or self.options.prefix:  # the user wants a translation of their own
            return None
        snapshot = wanted.snapshots.get((source, self.options.target))
        return MemoryLookup(snapshot, wanted.mode, glossary, wanted.repair_tolerance, lambda: self.is_abandoned)

    def _too_many_tokens(self) -> TooMuchText:
        tokens = self._services.settings.queue_tokens
        return TooMuchText(f"The text is over {tokens} tokens, the capacity of the queue.")

    @property
    def _beam_size(self) -> int:
        alternatives = self.options.alternatives
        least = formality.BEAM_SIZE if self.options.formality else 1
        return max(MIN_BEAM_SIZE, alternatives + 1, least) if alternatives else least

    def _glossary(self, source: str, target: str) -> Glossary | None:
        """The request's glossary, for this pair. Raises InvalidFields."""
        wanted = self.options.glossary
        if wanted is None or isinstance(wanted, Glossary):
            return wanted
        if source not in self._glossaries:
            self._glossaries[source] = self._find_glossary(wanted, source, target)
        return self._glossaries[source]

    def _find_glossary(self, wanted: str | Mapping[str, str], source: str, target: str) -> Glossary:
        glossaries = self._services.glossaries
        try:
            if not isinstance(wanted, str):
                return Glossary(wanted, source)
            if found := glossaries.find(wanted, source, target):
                return found
            known = ", ".join(glossaries.names) or "none"
            raise ValueError(f"There is no glossary {wanted!r} for {source}-{target}. There are: {known}.")
        except ValueError as error:
            raise InvalidFields.at("#/glossary", str(error)) from None


def check_length(characters: int, settings: Settings) -> None:
    """Raises TooMuchText if a text of that length is over the limit."""
    limit = settings.max_text_chars
    if characters > limit:
        raise TooMuchText(f"The text has {characters} characters, over the limit of {limit}.")


def check_tokens(field: str, count: int, limit: int) -> None:
    """Raises TooMuchText if `field` has more tokens than a sentence of the model may have."""
    if count > limit:
        raise TooMuchText(f"{field} has {count} tokens; a sentence may have {limit}.")


def _label(item: Item, options: Options) -> Label | None:
    """`item` as a label, if it is plain text with a mnemonic, but not JSON. If words are aligned, offsets must stay
    unchanged."""
    if not isinstance(item, str) or options.html or options.alignment or options.prefix:
        return None
    found = remove_mnemonic(item)
    return Label(item, *found, options.target) if found and not json_strings.text_pieces(item) else None


def _plan_copy(item: Item) -> TextPlan:
    return plan_copy([item] if isinstance(item, str) else item)


def _pieces(item: Item, options: Options) -> Sequence[Piece]:
    target = options.target
    if isinstance(item, str) and not options.html:
        pieces: Sequence[Piece] = (None if options.prefix else json_strings.text_pieces(item)) or [Passage(item)]
    else:
        pieces, target = (markup_pieces(item) if isinstance(item, str) else item), ""  # the markup stays as it is
    if options.alignment:  # a message whose words move into its branches cannot be aligned
        return pieces
    return [part for piece in pieces for part in _message_pieces(piece, target)]


def _message_pieces(piece: Piece, target: str) -> Sequence[Piece]:
    return (None if isinstance(piece, str) else message_pieces(piece, target)) or [piece]


def _text_of(pieces: Sequence[Piece]) -> str:
    return " ".join(piece.words for piece in pieces if isinstance(piece, Passage))


def item_length(item: Item) -> int:
    """Number of characters."""
    return len(item) if isinstance(item, str) else sum(len(p) if isinstance(p, str) else p.size for p in item)
