"""Paragraphs that are a flat list of runs, as in slides and cells: converted to a passage and back.

Other things between the runs are values of the sentence or marks, and move with the words beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from app.formats.passage_builder import PassageBuilder
from app.formats.run_formats import FormatRules, FormatTags, character_count, main_format
from app.formats.xml_parts import Element, clean, reference, split_references
from app.markup.passage import Passage


class Run(NamedTuple):
    """Text with its properties; or an element to copy, which displays `placeholder`, if anything."""

    text: str | None = None
    properties: Element | None = None
    element: Element | str | None = None
    placeholder: str = ""


class _Target(NamedTuple):
    """The target of a reference: an element to copy, or a tag, with the properties of the text in it."""

    element: Element | str | None = None
    opens: bool = False
    properties: Element | None = None


class RunParagraph:
    """An element with runs in it. Its passage's text is empty if there is nothing to translate."""

    def __init__(self, element: Element, runs: Sequence[Run], rules: FormatRules) -> None:
        self.element = element
        self._targets: list[_Target] = []
        builder = PassageBuilder()
        formats = [rules.format_of(run.properties) for run in runs]
        main = main_format((format, run.text or "") for format, run in zip(formats, runs, strict=True))
        self._properties = next(
            (r.properties for f, r in zip(formats, runs, strict=True) if r.text is not None and f == main), None
        )
        tags = FormatTags(
            builder,
            main,
            lambda properties: self._refer(_Target(opens=True, properties=properties)),
            lambda: self._refer(_Target()),
        )
        for format, run in zip(formats, runs, strict=True):
            if run.text is not None:
                tags.add_text(run.text, format, run.properties)
                continue
            tags.end()
            raw = self._refer(_Target(run.element))
            if run.placeholder:
                builder.add_protected(run.placeholder, raw)
            else:
                builder.add_mark(raw)
        tags.end()
        self.passage = builder.build_translatable(clean) or Passage("")

    may_have_copy = True

    @property
    def copied_chars(self) -> int:
        """The approximate number of characters of formatting in a translation, a run for each line."""
        length = cache(character_count)
        of_text = (self._properties, *(target.properties for target in self._targets))
        return (len(self._targets) + self.passage.text.count("\n") + 1) * max(map(length, of_text))

    def runs_of(self, translation: str) -> list[Run]:
        """The translation's runs, in order; their properties and elements are those of the paragraph."""
        found: list[Run] = []
        properties = [self._properties]
        for part in split_references(translation):
            if isinstance(part, str):
                found.append(Run(part, properties[-1]))
            elif (target := self._targets[part]).element is not None:
                found.append(Run(element=target.element, properties=properties[-1]))
            elif target.opens:
                properties.append(target.properties)
            else:
                properties.pop()
        return found

    def _refer(self, target: _Target) -> str:
        self._targets.append(target)
        return reference(len(self._targets) - 1)
