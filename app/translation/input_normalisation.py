"""Prepares a sentence's text for the model: characters that the vocabulary lacks, capitals, missing full stops."""

from __future__ import annotations

import re
from weakref import WeakKeyDictionary

from app.markup.passage import OBJECT, Passage, ProtectedSpan, masked
from app.text.optional_endings import join_endings
from app.text.punctuation_marks import collapse_repeated_marks, may_have_repeated_marks
from app.text.word_units import is_word_boundary
from model.bundle import Bundle
from model.languages import ends_sentence, full_stop
from model.normalisation import normalise_source
from model.tokenizer import RESERVED_SYMBOLS, SPACE, Piece, Tokenizer

_CLOSING = "\"'»”’)]}>」』）`"
MIN_ALL_CAPS_LETTERS, MIN_ALL_CAPS_WORD_LETTERS, MIN_WORD_LETTERS = 6, 4, 4
"""Minimum for several words to count as a text in capitals, rather than as a name or two; for a single one, rather than
as an acronym; and for letters after protected text to count as a word, rather than as a suffix."""
_UNITS = {"min", "sec", "seg", "sek", "std"}
"""Suffixes that are also words, or the beginnings of words."""
_LETTERS = re.compile(r"[^\W\d_]+")
_SUBSTITUTES = dict(zip("“”„‟‚–—‒―…『』【】｡", '""""\'----.""[]。', strict=True))
_SUBSTITUTES |= {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # Unicode's full-width forms
_LACKING = WeakKeyDictionary[Tokenizer, dict[int, str]]()
"""`mark_substitutes` of the tokenizers that are in use: each has some megabytes."""
_SYMBOLS = re.compile(r"°[CF]?\b|[&§¶†‡€£¥¢₹₽₩×÷±≤≥≠≈→←↑↓•°²³½¼¾‰′″™®©℃℉￥￡\u2460-\u2473]")


def max_protected_spans(bundle: Bundle) -> int:
    """Maximum number of protected spans in a sentence."""
    return min(RESERVED_SYMBOLS, bundle.limits.max_target)


def split_at_protected(passage: Passage, end: str = "") -> list[str | int]:
    """The text, with each protected span replaced by its number, as `Tokenizer.encode_parts` takes it."""
    parts, done = list[str | int](), 0
    for number, protected in enumerate(passage.protected):
        parts += [passage.text[done : protected.start], number]
        done = protected.end
    return [part for part in (*parts, passage.text[done:] + end) if part != ""]


def touches_next_word(protected: ProtectedSpan, passage: Passage, tokenizer: Tokenizer) -> bool:
    """Whether `protected` touches the word after it, but not one before it: the model reads a space between them.

    A suffix, such as "s" or "px", stays attached, unless it follows a picture.
    """
    text = passage.text
    before, word = text[: protected.start][-1:], _LETTERS.match(text, protected.end)
    touches_code = any(other.start == protected.end for other in passage.protected)  # "{0}www.example.org"
    if touches_code or not word or not is_word_boundary(before) or is_word_boundary(word[0][0]):
        return False
    shown, letters = text[protected.start : protected.end], word[0]
    if shown == OBJECT or _SYMBOLS.fullmatch(shown):  # "°Celsius" is one word
        return shown == OBJECT
    if len(letters) >= MIN_WORD_LETTERS:
        return True
    # A word rather than a suffix has fewer pieces after a space.
    attached = len(tokenizer.encode_parts([0, letters])) - len(tokenizer.encode_parts([0]))
    return letters.lower() not in _UNITS and len(tokenizer.encode(letters)) < attached


def mark_substitutes(tokenizer: Tokenizer) -> dict[int, str]:
    """A table for `str.translate`: marks that the vocabulary can only spell in bytes, and the marks that replace them.

    A mark that a model has never seen turns the whole sentence into nonsense. Each has one character as its substitute,
    so that offsets stay valid.
    """
    if tokenizer not in _LACKING:
        _LACKING[tokenizer] = {ord(odd): plain for odd, plain in _SUBSTITUTES.items() if not tokenizer.has_piece(odd)}
    return _LACKING[tokenizer]


def added_full_stop(sentence: str, bundle: Bundle) -> str:
    """The full stop to add to a sentence that has no end mark, if the model expects one; else an empty string. It is
    removed from the translation again."""
    if not bundle.expects_end_marks or sentence[-1:] in ".!?":
        return ""
    if not (sentence := normalise_source(sentence)) or ends_sentence(sentence):
        return ""
    return full_stop(bundle.source) if sentence[-1].isalnum() or sentence[-1] in _CLOSING else ""


def model_input(passage: Passage, bundle: Bundle) -> list[str | int]:
    """The parts of a sentence to tokenise, in characters that the vocabulary has.

    Offsets stay valid, but for a space at the start of a part; see `touches_next_word`.
    """
    text, stop = passage.text, added_full_stop(passage.text, bundle)
    may_differ = passage.protected or not text.isascii() or text.isupper() or text.istitle() or "(" in text
    if not may_differ and not may_have_repeated_marks(text):  # as for most texts
        return [text + stop] if text else []
    tokenizer, substitutes = bundle.source_tokenizer, mark_substitutes(bundle.source_tokenizer)
    parts = join_endings(split_at_protected(passage, stop), bundle.source)
    for number, part in enumerate(parts[:-1]):
        if isinstance(part, int) and touches_next_word(passage.protected[part], passage, tokenizer):
            parts[number + 1] = f"{SPACE}{parts[number + 1]}"
    capitals = is_all_caps(passage, tokenizer)
    is_lowered = capitals or is_better_lowercased(passage, tokenizer)
    for number, part in enumerate(parts):
        if isinstance(part, str):
            if is_lowered:
                part = truecased(part, tokenizer, not number) if capitals else lowercased(part)
            parts[number] = part.translate(substitutes)
    return collapse_repeated_marks(parts)


def source_tokens(passage: Passage, bundle: Bundle) -> list[Piece]:
    """The tokens of `model_input` without the end symbol, with the characters of the passage that each covers. Symbols
    of protected spans are no pieces: theirs are empty."""
    found: list[Piece] = []
    at, before = 0, SPACE
    tokenizer, length = bundle.source_tokenizer, len(passage.text)
    for part in model_input(passage, bundle):
        if isinstance(part, int):
            protected = passage.protected[part]
            if before:
                found += [Piece(id, "", at, at) for id in tokenizer.encode_parts([part])[:-1]]
            found.append(Piece(tokenizer.reserved_ids[part], "", protected.start, protected.end))
            at = protected.end
        else:
            if part.startswith(SPACE) and not passage.text.startswith(SPACE, at):  # `model_input` added it
                part, before = part.removeprefix(SPACE), SPACE
            pieces = tokenizer.source_pieces(part, before)
            found += [Piece(id, piece, min(at + a, length), min(at + b, length)) for id, piece, a, b in pieces]
            at += len(part)
        before = ""
    return found


def is_all_caps(passage: Passage, tokenizer: Tokenizer) -> bool:
    """Whether all words are in capitals. They are translated in the usual case, and the translation is put in capitals.

    A single word that is a piece of the vocabulary, such as HTML, is a name that the model knows.
    """
    words = masked(passage.text, passage.protected, "")
    letters = "".join(filter(str.isalpha, words)) if words.isupper() else ""
    if len(letters) < MIN_ALL_CAPS_WORD_LETTERS or not all(map(str.isupper, letters)):  # "用 USB" has a name in it
        return False
    if sum(any(map(str.isalpha, word)) for word in words.split()) > 1:
        return len(letters) >= MIN_ALL_CAPS_LETTERS
    return letters in words and len(tokenizer.encode(letters)) > 1


def is_better_lowercased(passage: Passage, tokenizer: Tokenizer) -> bool:
    """Whether the sentence is one capitalised word that has fewer pieces in small letters, as many labels have.

    It is translated in small letters, and its translation is capitalised (truecasing; Lita et al. 2003).
    """
    text, lowered = passage.text, passage.text.lower()
    is_word = text.isalpha() and text[0].isupper() and text[1:].islower() and not passage.protected
    return is_word and len(lowered) == len(text) and len(tokenizer.encode(lowered)) < len(tokenizer.encode(text))


def truecased(text: str, tokenizer: Tokenizer, begins: bool) -> str:
    """`text`, which is in capitals, in the usual case: names and German nouns are those words that take fewer pieces of
    the vocabulary with a capital. `begins`: whether the first word begins a sentence."""
    found = ""
    for word in _LETTERS.finditer(text):
        lowered = lowercased(word[0])
        capitalised = word[0][:1] + lowered[1:]
        is_first = begins and not any(map(str.isalpha, found))
        usual = min(lowered, capitalised, key=lambda form: len(tokenizer.encode(form)))
        found += text[len(found) : word.start()] + (capitalised if is_first else usual)
    return found + text[len(found) :]


def lowercased(text: str) -> str:
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text  # offsets must hold
