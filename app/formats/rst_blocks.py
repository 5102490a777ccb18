"""Locates the texts of a reStructuredText file: docutils' parser finds the blocks, and these are recorded.

Nothing of a file is executed or included: no directive and no role of docutils is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser, states, tableparser
from docutils.utils import new_document

from app.formats.document import UnreadableDocument
from app.formats.rst_directives import Directive, directive_of, options_of, titles_of_tree
from app.formats.rst_lines import Line, Lines, lines_of
from app.formats.rst_tables import Cell, Grid, cells_of

_MAX_CHARS = 1_000_000
_MAX_LEVELS = 24
"""Of 791 files of 14 projects, none has over 9. Each takes the parser ten calls and all lines within once more."""
LITERAL_MARK = re.compile(r"(?<!\\)(?:\\\\)*::\Z")
_CLASSIFIER = re.compile(" +: +")
_KEPT_FIELD = re.compile(
    r"(?:type|vartype|kwtype)\b.*|rtype|orphan|tocdepth|nocomments|nosearch|author|authors|organization|contact|address"
    r"|version|revision|status|date|copyright|maintainer|email|license|homepage|repository",
    re.IGNORECASE,
)
"""Names of fields whose values are no text: types, names, dates."""
_PEP = re.compile(r"PEP: \d")


class TextBlock(NamedTuple):
    """Lines of the file that are a paragraph or similar."""

    lines: Sequence[Line]
    adornments: tuple[Line, ...] = ()
    """Of a title: the line below, or those above and below."""
    has_markup: bool = True
    begins_block: bool = True
    """Whether its first line might begin another kind of block."""
    is_quoted: bool = False
    is_term: bool = False
    literal_follows: bool = False
    """Whether a colon after its end makes a literal block of what follows."""
    mark_below: bool = False
    """Whether two colons do so that are the line below: they would be the line below a title of two columns."""


class TableBlock(NamedTuple):
    """A table, and the blocks of each of its cells, whose places are those in the cell's text."""

    grid: Grid
    blocks: Sequence[Sequence[TextBlock | TableBlock]]


Block = TextBlock | TableBlock


@dataclass
class Found:
    """What is in a file."""

    blocks: list[Block] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)
    """Names of explicit targets."""
    references: set[str] = field(default_factory=set)
    """Names that such targets refer to."""


def blocks_of(text: str) -> Found:
    """The blocks of `text`, in any order. Raises UnreadableDocument."""
    if "\0" in text:
        raise UnreadableDocument("The file contains a null character; it is not text.")
    if len(text) > _MAX_CHARS:
        raise UnreadableDocument(f"The file has {len(text)} characters; a .rst may have {_MAX_CHARS}. Split it.")
    document = new_document("", _settings())
    machine = states.RSTStateMachine(_STATES, "RFC2822Body" if _PEP.match(text) else "Body")
    inliner = _NoInliner()
    machine.run(Lines(lines_of(text)), document, inliner=inliner)
    targets = {name for name, is_explicit in document.nametypes.items() if is_explicit}
    indirect = {nodes.fully_normalize_name(str(target.indirect_reference_name)) for target in document.indirect_targets}
    return Found(inliner.found, targets, indirect)


@cache
def _settings() -> Any:
    settings = get_default_settings(Parser)
    settings.report_level = settings.halt_level = 5  # above all: nothing is reported, and nothing raised
    return settings


class _NoInliner(states.Inliner):
    """What all states of a parser share: the blocks found so far."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Block] = []
        self.machines: list[Any] = []
        """Those that have run, and can run again."""
        self.level = 0
        self.keeps_terms = False

    def init_customizations(self, settings: Any) -> None:
        """Nothing: inline markup is read by app/formats/rst_inline.py."""

    def parse(self, *arguments: Any) -> Any:
        return [], []

    def adjust_uri(self, uri: Any) -> Any:
        return uri


class _Recording(states.RSTState):
    """A state that records texts in the place of making nodes of them; each of docutils' states is combined with it."""

    explicit: Any
    parse_field_marker: Any
    state_machine: Any

    def __init__(self, state_machine: Any, debug: bool = False) -> None:
        super().__init__(state_machine, debug)
        self.nested_sm_kwargs = {"state_classes": _STATES, "initial_state": "Body"}

    def runtime_init(self) -> None:
        super().runtime_init()
        self.nested_sm_cache = self._shared.machines

    def _record(self, lines: Sequence[str], **properties: Any) -> None:
        """Records lines of text; not those that docutils made, which are nowhere in the file."""
        found = [line for line in lines if isinstance(line, Line) and line.strip()]
        if len(found) == len(lines):
            self._shared.found.append(TextBlock(found, **properties))

    @property
    def _shared(self) -> _NoInliner:
        shared: _NoInliner = self.inliner  # type: ignore[assignment]
        return shared

    def nested_parse(self, block: Any, *arguments: Any, **properties: Any) -> Any:
        while "state_machine_kwargs" not in properties and block and not block[-1]:
            block.trim_end()
        return self._nested(super().nested_parse, (block, *arguments), properties)

    def nested_list_parse(self, *arguments: Any, **properties: Any) -> Any:
        return self._nested(self._parse_list, arguments, properties)

    def _parse_list(
        self,
        block: Any,
        input_offset: int,
        node: Any,
        initial_state: str,
        blank_finish: bool,
        blank_finish_state: str | None = None,
        extra_settings: Mapping[str, Any] | None = None,
    ) -> tuple[int, bool]:
        """As docutils does it, but with machines that were used before: to make one takes a third of a millisecond."""
        machines = self.nested_sm_cache
        machine: Any = machines.pop() if machines else self.nested_sm(**self.nested_sm_kwargs)
        finishing: Any = machine.states[blank_finish_state or initial_state]
        finishing.blank_finish = blank_finish
        for name, value in (extra_settings or {}).items():
            setattr(machine.states[initial_state], name, value)
        machine.initial_state = initial_state
        machine.run(block, input_offset, memo=self.memo, node=node, match_titles=False)
        machine.initial_state = "Body"
        end, is_finished = machine.abs_line_offset(), finishing.blank_finish
        machines.append(machine)
        return end, is_finished

    def _nested(self, parse: Any, arguments: Any, properties: Any) -> Any:
        shared = self._shared
        if shared.level >= _MAX_LEVELS:
            raise UnreadableDocument(f"The file is nested too deeply: it has over {_MAX_LEVELS} levels.")
        shared.level += 1
        try:
            return parse(*arguments, **properties)
        finally:
            shared.level -= 1

    def _parse_body(self, lines: Lines) -> None:
        if len(lines):
            self.nested_parse(lines, 0, nodes.section(), match_titles=True)

    # Texts

    def paragraph(self, lines: Any, lineno: Any) -> Any:
        lines = [line.rstrip() for line in lines]
        while lines and not lines[-1]:
            lines.pop()
        if not lines:
            return [], False
        last = lines[-1]
        literal_follows = LITERAL_MARK.search(last) is not None
        keeps_colon = literal_follows and last != "::" and last[-3] != " "
        if keeps_colon:
            lines[-1] = last[:-1]
        elif literal_follows:
            lines[-1:] = [last[:-2].rstrip()] if last[:-2].strip() else []
        if lines:
            is_quoted = isinstance(self.parent, nodes.block_quote)
            self._record(lines, literal_follows=keeps_colon, mark_below=last == "::", is_quoted=is_quoted)
        return [], literal_follows

    def section(self, title: Any, source: Any, style: Any, lineno: Any, messages: Any) -> None:
        machine = self.state_machine
        above = [machine.input_lines[machine.line_offset - 2]] if isinstance(style, tuple) else []
        adornments = [line.strip() for line in [*above, machine.line]]
        self._record([title.strip()], adornments=tuple(adornments))

    def parse_attribution(self, indented: Any, line_offset: int) -> Any:
        self._record([line.strip() for line in indented if line.strip()])
        return nodes.attribution(), []

    def line_block_line(self, match: Any, lineno: Any) -> Any:
        indented, _, _, blank_finish = self.state_machine.get_first_known_indented(match.end(), until_blank=True)
        self._record([line.strip() for line in indented if line.strip()], begins_block=False)
        return nodes.line(), [], blank_finish

    def nest_line_block_lines(self, block: Any) -> None:
        """Nothing: it calls itself for each level, and there may be thousands."""

    def term(self, lines: Any, lineno: Any) -> Any:
        if not self._shared.keeps_terms and not _CLASSIFIER.search(lines[0]):
            self._record([lines[0].strip()], is_term=True)
        return [nodes.term()], []

    # Containers

    def field(self, match: Any) -> Any:
        name = self.parse_field_marker(match)
        indented, _, offset, blank_finish = self.state_machine.get_first_known_indented(match.end())
        if indented and not _KEPT_FIELD.fullmatch(name.strip()):
            self.nested_parse(indented, input_offset=offset, node=nodes.field_body())
        return nodes.field(), blank_finish

    def rfc2822_field(self, match: Any) -> Any:
        *_, blank_finish = self.state_machine.get_first_known_indented(match.end(), until_blank=True)
        return nodes.field(), blank_finish

    def _labelled(self, match: Any) -> Any:
        """A footnote or citation."""
        indented, _, offset, blank_finish = self.state_machine.get_first_known_indented(match.end())
        if indented:
            self.nested_parse(indented, input_offset=offset, node=nodes.footnote())
        return [], blank_finish

    def _substitution(self, match: Any) -> Any:
        *_, blank_finish = self.state_machine.get_first_known_indented(match.end(), strip_indent=False)
        return [], blank_finish

    def directive(self, match: Any, **option_presets: Any) -> Any:
        machine = self.state_machine
        indented, _, _, blank_finish = machine.get_first_known_indented(match.end(), strip_top=False)
        self._record_directive(directive_of(match.group(1), indented))
        return [], blank_finish or machine.is_next_line_blank()

    def _record_directive(self, found: Directive) -> None:
        if found.title:
            self._record(found.title)
        for value in options_of(found.options):
            self._record(value, has_markup=False)
        if found.content_is == "tree":
            for title in titles_of_tree(found.content):
                self._record([title], has_markup=False)
        elif found.content_is == "glossary":
            self._parse_glossary(found.content)
        elif found.content_is == "body":
            self._parse_body(found.content)

    def _parse_glossary(self, content: Lines) -> None:
        """The definitions; roles in any file refer to the terms."""
        self._shared.keeps_terms, start = True, 0
        while start < len(content):
            definition, _, _ = content[start:].get_indented()
            start += max(1, len(definition))
            self._parse_body(definition)
        self._shared.keeps_terms = False

    def table(self, isolate_function: Any, parser_class: Any) -> Any:
        block, _, blank_finish = isolate_function()
        if block:
            try:
                grid = cells_of(block, parser_class is tableparser.GridTableParser)
            except tableparser.TableMarkupError:
                return [], blank_finish
            self._shared.found.append(TableBlock(grid, [self._blocks_of_cell(cell) for cell in grid.cells]))
        return [], blank_finish

    def _blocks_of_cell(self, cell: Cell) -> list[Block]:
        outer, self._shared.found = self._shared.found, []
        lines = Lines(lines_of("\n".join(cell.lines)))
        if any(lines):
            self.nested_parse(lines, 0, nodes.entry())
        inner, self._shared.found = self._shared.found, outer
        return inner


_METHODS = {
    "footnote": _Recording._labelled,
    "citation": _Recording._labelled,
    "hyperlink_target": states.Body.hyperlink_target,
    "substitution_def": _Recording._substitution,
    "directive": _Recording.directive,
}
_Recording.explicit = SimpleNamespace(
    patterns=states.Body.explicit.patterns,
    constructs=[(_METHODS[method.__name__], pattern) for method, pattern in states.Body.explicit.constructs],
)
_STATES = tuple(type(state.__name__, (_Recording, state), {}) for state in states.state_classes)
