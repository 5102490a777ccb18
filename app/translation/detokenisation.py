"""The text that each token of a translation adds, with what the model does not see of the source: capitals, rows of
marks, and the spaces around protected text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from app.engine.sequence import Decoded
from app.markup.passage import Passage, ProtectedSpan
from app.text.punctuation_marks import may_have_repeated_marks, restore_repeated_marks, without_stray_blanks
from app.text.symbols import is_nesting
from app.text.word_units import is_word_boundary
from app.translation.input_normalisation import (
    added_full_stop,
    is_all_caps,
    is_better_lowercased,
    source_tokens,
    split_at_protected,
    touches_next_word,
)
from app.translation.unknown_tokens import copied_text, target_texts
from model.bundle import Bundle
from model.normalisation import normalise_source
from model.tokenizer import SPACE

_LETTER_OR_DIGIT = re.compile(r"[0-9A-Za-z\u00c0-\u1fff]")
_WORD_OR_MARK = re.compile(r"[0-9A-Za-z\u00c0-\u1fff.,;:!?)»]")
"""Ends text that needs a space before protected text that stood alone; an apostrophe needs none."""
_FULL_STOP = re.compile(r"\s*[.!。！।]\s*$")


def without_full_stop(text: str) -> str:
    """`text` without the full stop that ends it, which translates one that `model_input` added."""
    return _FULL_STOP.sub("", text)


def protected_by_symbol(tokens: Sequence[int], passage: Passage, bundle: Bundle) -> dict[int, ProtectedSpan]:
    """The protected span of each symbol in `tokens`.

    Marks that nest, such as tags, take the places of their symbols in source order.
    """
    if not passage.protected:
        return {}
    protected = dict(zip(bundle.target_tokenizer.reserved_ids, passage.protected, strict=False))
    if len(protected) < 2:
        return protected
    marks = [token for token in tokens if token in protected and is_nesting(protected[token].raw)]
    return protected | dict(zip(marks, sorted(protected[token] for token in marks), strict=True))


def detokenised(decoded: Decoded, passage: Passage, bundle: Bundle, clean: Callable[[str], str]) -> list[str]:
    """The text that each token of the translation of `passage` adds; protected text follows that of its own symbol.

    `clean` removes from a text what the model cannot have translated.
    """

    def copies() -> list[str]:  # protected text comes by its own symbol
        return [copied_text(piece, passage.text) if piece.piece else "" for piece in source_tokens(passage, bundle)]

    tokens, texts = decoded.tokens, target_texts(decoded, bundle, copies)
    text = "".join(texts)
    if clean(text) != text:
        texts = list(map(clean, texts))
    if is_all_caps(passage, bundle.source_tokenizer):
        texts = [text.upper() for text in texts]
    if texts and is_better_lowercased(passage, bundle.source_tokenizer):
        first = next((number for number, text in enumerate(texts) if text.strip()), 0)
        texts[first] = _uppercase_first(texts[first])
    first = next((number for number, text in enumerate(texts) if text), 0)
    protected = protected_by_symbol(tokens, passage, bundle)
    if texts and not any(token in protected for token in tokens[:first]):
        texts[first] = texts[first].removeprefix(SPACE)
    if added_full_stop(passage.text, bundle):
        last = next((number + 1 for number in range(len(tokens) - 1, -1, -1) if tokens[number] in protected), 0)
        texts = [*texts[:last], *_without_added_stop(texts[last:])]
    if may_have_repeated_marks(passage.text):
        source = [part if isinstance(part, str) else "" for part in split_at_protected(passage)]
        texts = restore_repeated_marks(source, texts)
    for number, token in enumerate(tokens):
        if token in protected:
            _add_spaces_around(protected[token], passage, bundle, texts, number)
            before = protected.get(tokens[number - 1]) if number else None
            if before and not _touch(before, protected[token], passage):
                texts[number] = SPACE  # separate spans stay separate: "21" and "2024"
    spans = [number for number, token in enumerate(tokens) if token in protected]
    return without_stray_blanks(texts, spans, passage.text, bundle.source, bundle.target)


def _uppercase_first(text: str) -> str:
    """`text` with its first letter in upper case, if that is a single letter, too."""
    place = len(text) - len(text.lstrip())
    capital = text[place : place + 1].upper()
    return text[:place] + capital + text[place + 1 :] if len(capital) == 1 else text


def _without_added_stop(texts: Sequence[str]) -> list[str]:
    left, found = len(without_full_stop("".join(texts))), list[str]()
    for text in texts:
        found.append(text[: max(0, left)])
        left -= len(text)
    return found


def _touch(first: ProtectedSpan, second: ProtectedSpan, passage: Passage) -> bool:
    """Whether `second` follows `first` in the source with nothing between them that the model reads."""
    return first.end <= second.start and not normalise_source(passage.text[first.end : second.start])


def _add_spaces_around(
    protected: ProtectedSpan, passage: Passage, bundle: Bundle, texts: list[str], number: int
) -> None:
    """Adds a space between protected text and a word beside it, if the source separates them.

    Removes the space that `model_input` added. An ideograph always counts as separate: "用{name}登录" is "log in
    with {name}".
    """
    before, after = passage.text[: protected.start][-1:], passage.text[protected.end : protected.end + 1]
    if number and is_word_boundary(before) and _WORD_OR_MARK.match(texts[number - 1][-1:]):
        texts[number - 1] += SPACE
    if number + 1 < len(texts) and is_word_boundary(after) and _LETTER_OR_DIGIT.match(texts[number + 1]):
        texts[number + 1] = SPACE + texts[number + 1]
    touches = touches_next_word(protected, passage, bundle.source_tokenizer)
    if touches and is_word_boundary("".join(texts[: number + 1])[-1:]):
        texts[number + 1 : number + 2] = [text.removeprefix(SPACE) for text in texts[number + 1 : number + 2]]
