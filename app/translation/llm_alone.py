"""Translates texts of pairs that no bundle serves: the large model alone, sentence by sentence.

There is no model to align tags with, so they are sent as marks, too; and nothing to fall back on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.llm.client import LargeModel
from app.markup.passage import Passage, Piece
from app.markup.render import render_source
from app.text.checked_marks import has_same_marks
from app.text.glossary import Glossary
from app.text.placeholders import find_placeholders
from app.text.segmentation import segments
from app.text.tag_projection import split_tags
from app.text.word_tags import with_protected
from app.translation.language_checks import LanguageChecks
from app.translation.llm_answers import Unfit, check_text, converse, free_letter, prompt_values, split_at_placeholders
from app.translation.text_plan import TextPlan, slice_passage
from model.languages import spacing

TOKENS_PER_CHAR, MIN_TOKENS = 2, 64
"""A limit, as for other sentences."""
MAX_LENGTH_RATIO, LENGTH_MARGIN = 6, 40
"""Characters of a translation for one of its source: Chinese is short."""


class UnservedSentence(NamedTuple):
    """A sentence whose translation takes `place` in `parts`."""

    parts: list[str]
    place: int
    passage: Passage


def plan_unserved(pieces: Sequence[Piece], source: str, target: str) -> tuple[TextPlan, list[UnservedSentence]]:
    """A plan whose sentences are not translated yet, and these."""
    plan, sentences = TextPlan(None), list[UnservedSentence]()

    def split(passage: Passage, parts: list[str]) -> None:
        passage = with_protected(passage, find_placeholders(passage.text, source))
        found = segments(passage.text, source, passage.protected, passage.whole)
        shares = split_tags(passage.tags, [(one.start, one.end) for one in found])
        for segment, tags in zip(found, shares, strict=True):
            part = slice_passage(passage, tags, segment.start, segment.end)
            if segment.translate:
                sentences.append(UnservedSentence(parts, len(parts), part))
            is_space = part.text.isspace() and not part.protected and not part.tags
            parts.append(passage.write(spacing(part.text, source, target)) if is_space else render_source(part))

    for piece in pieces:
        texts: list[str] = plan.parts  # type: ignore[assignment]  # it has no sentence with a bundle
        if isinstance(piece, str):
            texts.append(piece)
            continue
        for inner in piece.nested:
            split(inner.passage, plan.nested.setdefault(inner.number, []))  # type: ignore[arg-type]
        split(piece, texts)
    return plan, sentences


async def translate_alone(
    passage: Passage,
    pair: tuple[str, str],
    glossary: Glossary | None,
    large_model: LargeModel,
    checks: LanguageChecks,
    until: float,
) -> str:
    """The large model's translation of a sentence, encoded for its format. Raises NoAnswer."""
    found = [*((one.start, one.end, one.raw, 0) for one in passage.protected)]
    found += [(tag.at, tag.at, tag.raw, 1) for tag in passage.tags]
    found.sort(key=lambda one: one[:2])
    letter, text, at = free_letter(passage.text), "", 0
    for number, (start, end, _, _) in enumerate(found, 1):
        text += f"{passage.text[at:start]}<{letter}{number}/>"
        at = end
    text += passage.text[at:]
    visible = "".join(part for part in split_at_placeholders(text, text, len(found), letter)[0])
    terms = glossary.find(passage.text) if glossary else []

    async def read(answer: str) -> str:
        parts, order = split_at_placeholders(answer, text, len(found), letter)
        plain = "".join(parts)
        if not 0 < len(plain.strip()) <= MAX_LENGTH_RATIO * len(visible) + LENGTH_MARGIN:
            raise Unfit("it was too long, or had no words")
        check_text(visible, plain, pair[1], checks)
        if not has_same_marks(visible, plain, *pair):
            raise Unfit("numbers, signs or quotation marks were not those of the text")
        if missing := [term.raw for term in terms if term.raw.lower() not in plain.lower()]:
            raise Unfit(f"the term “{missing[0]}” was missing")
        tags = iter(sorted(number for number in order if found[number - 1][3]))  # tags keep their order
        marks = [found[(next(tags) if found[number - 1][3] else number) - 1][2] for number in order]
        written = [passage.write(part) for part in parts]
        return written[0] + "".join(mark + part for mark, part in zip(marks, written[1:], strict=True))

    given = [f"{passage.text[term.start : term.end]} = {term.raw}" for term in terms]
    values = prompt_values(*pair, text.strip(), given, letter)
    return await converse(large_model, values, read, MIN_TOKENS + TOKENS_PER_CHAR * len(text), until)
