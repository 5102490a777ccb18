"""Asks a large model for the translation of a sentence, and makes its answer one of the sentence's candidates.

Protected text is sent as marks, `<x1/>`. An answer is fit to use if it keeps what a translation must keep: each mark
once, terms, numbers and signs, tags round words, a sane length, the target language, and nothing beside the
translation. What is wrong is told to the model, which gets a second chance. The sentence's own model reads the answer
by forced decoding: that aligns tags, and estimates the answer's quality.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.llm.client import LargeModel, NoAnswer
from app.markup.passage import Passage
from app.text.placeholders import find_placeholders
from app.text.symbols import is_nesting
from app.translation.candidate import Candidate
from app.translation.given_translation import given_pieces
from app.translation.input_normalisation import split_at_protected
from app.translation.kept_marks import has_marks
from app.translation.language_checks import LanguageChecks
from app.translation.quality_checks import count_copied_words, cut_loops, find_invented_symbols
from app.translation.sentence import Sentence, make_sequence
from app.translation.terminology import missing_terms
from model.languages import language_name
from model.normalisation import normalise_source
from model.tokenizer import Piece

MAX_TRIES = 2
MAX_NEIGHBOUR_CHARS = 300
"""How much of the sentence before, and of the one after, is sent along."""
TOKENS_PER_TOKEN = 4
"""A limit: a large model may need so many tokens for one of ours. What is longer is no translation."""
MIN_LENGTH_RATIO, LENGTH_MARGIN = 0.25, 8
"""Tokens of a translation for one of its source, less the margin: below, part of it is missing."""
MIN_SCORE = -7.0
"""The score that the sentence's own model gives an answer, from which that may be a translation. Of references,
Tatoeba's and FLORES-200's, 97 in 100 or more have it in each direction, and "HACKED" has less for en-fr and fr-en; the
weaker models are not as sure."""
MIN_COPIED_WORDS = 4
_THINKING = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
"""Models that reason aloud begin with this, if their server does not take it away."""
_CHATTER = re.compile(
    r"(?:sure|certainly|of course|okay|here (?:is|are)|the translation|translation|translated|output|answer|note"
    r"|voici|traduction|hier ist|übersetzung|aquí|traducción|翻译|译文|以下是)\b[^.!?。]{0,60}?[:：]",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"`|^\s*(?:[-*+>#•]|\d+[.)])\s")
_SENTENCE_END = re.compile(r"[.!?][\"'’”»)]*(?=\s|$)|[。！？]")
_ANY_PLACEHOLDER = re.compile(r"<(?:/?[a-z]\d+\s*/?|x\s*\d*\s*/)>", re.IGNORECASE)

T = TypeVar("T")
Decode = Callable[[list[engine.Sequence]], Awaitable[list[Decoded]]]


class Unfit(Exception):
    """An answer is not fit to use; the message completes "not used, because ..."."""


def prompt_values(source: str, target: str, text: str, terms: Sequence[str], letter: str) -> dict[str, str]:
    """Variables of the prompt for `text`, in which marks stand for what is protected."""
    return {
        "source": language_name(source),
        "target": language_name(target),
        "source_code": source,
        "target_code": target,
        "text": text,
        "mark": f"<{letter}1/>" if f"<{letter}1/>" in text else "",
        "terms": "; ".join(terms),
    }


def free_letter(text: str) -> str:
    """A letter with which the names of the marks may begin, since no tag in the text does."""
    return next((one for one in "xyzwvutsrq" if f"<{one}" not in text.lower()), "x")


async def ask(
    sentence: Sentence,
    before: str,
    after: str,
    large_model: LargeModel,
    checks: LanguageChecks,
    decode: Decode,
    until: float,
) -> Candidate:
    """The large model's translation of a sentence that is between two others. Raises NoAnswer, and what `decode`
    raises."""
    bundle, passage = sentence.bundle, sentence.passage
    letter = free_letter(passage.text)
    shown = (part if isinstance(part, str) else f"<{letter}{part + 1}/>" for part in split_at_protected(passage))
    places = {span.start for span in passage.protected}
    terms = [f"{passage.text[t.start : t.end]} = {t.raw}" for t in sentence.terms if t.start not in places]
    values = prompt_values(bundle.source, bundle.target, "".join(shown).strip(), terms, letter)
    values["before"] = normalise_source(before[-MAX_NEIGHBOUR_CHARS:]).replace("\n", " ")
    values["after"] = normalise_source(after[:MAX_NEIGHBOUR_CHARS]).replace("\n", " ")

    async def read(answer: str) -> Candidate:
        text, pieces = read_answer(sentence, answer, letter)
        forced = tuple(piece.id for piece in pieces)
        sequence = make_sequence(sentence.bundle, sentence.sequence.source, len(forced), forced=forced)
        [decoded] = await decode([sequence])
        candidate = _candidate(sentence, text, pieces, decoded)
        await asyncio.to_thread(check_candidate, candidate, checks)  # it may load the detector
        return candidate

    max_tokens = TOKENS_PER_TOKEN * sentence.bundle.limits.target(len(sentence.sequence.source))
    return await converse(large_model, values, read, max_tokens, until)


async def converse(
    large_model: LargeModel,
    values: Mapping[str, str],
    read: Callable[[str], Awaitable[T]],
    max_tokens: int,
    until: float,
) -> T:
    """What `read`, which may raise Unfit, makes of the large model's answer to the prompt with `values`. Raises
    NoAnswer."""
    fault = ""
    for _ in range(MAX_TRIES):
        messages = large_model.template.messages({**values, "fault": fault})
        answer = await large_model.complete(messages, max_tokens, until)
        try:
            made = await read(_THINKING.sub("", answer, count=1).strip())
        except Unfit as error:
            fault = str(error)
        else:
            large_model.keep(messages, answer)
            return made
    raise NoAnswer(f"was not used, because {fault}")


def read_answer(sentence: Sentence, answer: str, letter: str = "x") -> tuple[str, list[Piece]]:
    """The translation that an answer is, with protected text in the place of its marks, and its tokens. Raises
    Unfit."""
    passage, bundle = sentence.passage, sentence.bundle
    parts, found = split_at_placeholders(answer, passage.text, len(passage.protected), letter)
    text, places = parts[0], list[tuple[int, int]]()
    for number, part in zip(_in_order(passage, found), parts[1:], strict=True):
        places.append((len(text), number))
        text += passage.protected[number].raw + part
    pieces = given_pieces(bundle, passage, text, places)
    limit = bundle.limits.target(len(sentence.sequence.source))
    if not 0 < len(pieces) <= limit:
        raise Unfit("it was too long")
    if len(pieces) < MIN_LENGTH_RATIO * len(sentence.sequence.source) - LENGTH_MARGIN:
        raise Unfit("it was too short")
    return text, pieces


def split_at_placeholders(answer: str, source: str, count: int, letter: str) -> tuple[list[str], list[int]]:
    """The parts of an answer between its marks, and the numbers of these, from 1. Raises Unfit."""
    if not answer:
        raise Unfit("it was empty")
    if len(answer.splitlines()) > max(1, len(source.strip().splitlines())):
        raise Unfit("it had more lines than the text")
    if _CHATTER.match(answer) and not _CHATTER.match(source.strip()):
        raise Unfit("it had words beside the translation")
    parts = re.split(rf"<{letter}(\d{{1,3}})/>", answer)
    found = [int(number) for number in parts[1::2]]
    if sorted(found) != list(range(1, count + 1)):
        raise Unfit(f"the marks <{letter}1/> and the like were not all there exactly once")
    if (other := _ANY_PLACEHOLDER.search("".join(parts[::2]))) and other[0] not in source:
        raise Unfit(f"it had the mark {other[0]}")
    return parts[::2], found


def check_candidate(candidate: Candidate, checks: LanguageChecks) -> None:
    """Raises Unfit if an answer lacks what a translation must keep, or has what it must not have."""
    sentence, translation = candidate.sentence, candidate.plain_text
    bundle, source = sentence.bundle, sentence.passage.text
    if candidate.decoded.score < MIN_SCORE:
        raise Unfit("it was not a translation of the text")
    if terms := missing_terms(candidate):
        raise Unfit(f"the term “{terms[0].raw}” was missing")
    if not has_marks(candidate):
        raise Unfit("numbers, signs or quotation marks were not those of the text")
    given = "".join([source, *(term.raw for term in sentence.terms)])
    check_text(given, translation, bundle.target, checks)
    if sentence.passage.tags and candidate.empty_elements():
        raise Unfit("markup had no words")
    if cut_loops(candidate) is not candidate:
        raise Unfit("it repeated itself")
    words = "".join(part for part in split_at_protected(sentence.passage) if isinstance(part, str))
    if any(map(str.isalpha, translation)) != any(map(str.isalpha, words)):
        raise Unfit("it was not a translation of the text")


def check_text(source: str, translation: str, target: str, checks: LanguageChecks) -> None:
    """Raises Unfit if a translation has symbols, markup or sentences that the text has not, or is in another
    language. Both without what is protected."""
    invented = [span.raw for span in find_placeholders(translation, target)]
    invented += find_invented_symbols(source, translation)
    if others := [one for one in invented if one not in source]:
        raise Unfit(f"“{others[0]}” was not in the text")
    if (found := _MARKDOWN.search(translation)) and not _MARKDOWN.search(source):
        raise Unfit(f"it had “{found[0].strip()}”, which was not in the text")
    if len(_SENTENCE_END.findall(translation)) > max(1, len(_SENTENCE_END.findall(source))):
        raise Unfit("it had more sentences than the text")
    is_copy = count_copied_words(source, translation) >= MIN_COPIED_WORDS
    if is_copy or checks.other_language(translation, target):
        raise Unfit(f"it was not in {language_name(target)}")


def _candidate(sentence: Sentence, text: str, pieces: list[Piece], decoded: Decoded) -> Candidate:
    """The answer as a candidate, whose tokens have the texts that the large model wrote."""
    symbols = set(sentence.bundle.target_tokenizer.reserved_ids)
    texts, at = list[str](), 0
    for piece in pieces:
        end = max(at, piece.start if piece.id in symbols else piece.end)
        texts.append(text[at:end])
        at = max(end, piece.end)
    texts += [""] * (len(decoded.tokens) - len(texts))  # the end symbol
    texts[-1] += text[at:]
    return Candidate(sentence, decoded, texts)


def _in_order(passage: Passage, found: list[int]) -> list[int]:
    """The number of the protected span for each mark. Those that nest, such as tags, keep their order."""
    nesting = [is_nesting(passage.protected[number - 1].raw) for number in found]
    ordered = iter(sorted(number for number, is_one in zip(found, nesting, strict=True) if is_one))
    return [(next(ordered) if is_one else number) - 1 for number, is_one in zip(found, nesting, strict=True)]
