"""Names that a model spells wrongly: words that look like a name, that the vocabulary hardly knows, and that are not in
the translation as they were.

A name that the model knows has another form in the target (London, Londres), and the model is sure of it.
"""

from __future__ import annotations

import math
import re

from app.markup.passage import ProtectedSpan
from app.translation.sentence import Candidate, Sentence
from model.languages import WITHOUT_SPACES, language_alone
from model.tokenizer import MARK

_LATIN = r"A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_WORD = re.compile(rf"[{_LATIN}]{{3,40}}+")
_CAPITALISED = re.compile(rf"[A-Z\u00c0-\u024f\u1e00-\u1eff](?<![{_LATIN}].)[{_LATIN}]{{2,40}}+(?![{_LATIN}])")
_LETTERS = {"de": "äöüß", "en": "", "es": "áéíóúüñ", "fr": "àâæçéèêëîïôœùûüÿ"}
"""Letters of a language beside a to z. Without an entry, no letter tells a name."""
_NOUNS_HAVE_CAPITALS = {"de", "lb"}
_AFTER_NOUN = re.compile(r"\s[A-ZÄÖÜ][\w-]*\s+\Z")
_NAME_FOLLOWS = re.compile(
    r"\b(?:von|mit|bei|für|und|oder|heiß[et]|ist|bin|war|hab[et]|hat|haben|sah|kennt?|kenne)\s+\Z"
)
"""In German, after a noun stands a name; after these words, a name or a noun without an article."""
_AT_START = re.compile(r"(?:\A|[¿¡:.!?\"“”„«»–-])\s*\Z")
_ENDINGS = {
    "es": re.compile(r"(?:[aeo]s?|[ae]n|[aei][dr]|[éíó]|mos)\Z"),
    "fr": re.compile(r"(?:[aeo]s?|e[rz]|[ai]r|ons|n?t|é)\Z"),
}
"""How verbs, and most words, end in French and Spanish, whose sentences often begin with a verb."""
_SURE, _NOT_SURE = -0.3, -0.5
"""Mean log probability of the tokens aligned to a word. Below the second, its translation is mostly wrong; above the
first, it is mostly right."""
_MIN_SMALL_PIECES = 3
"""A word that the vocabulary spells with fewer pieces, without its capital, is one that it knows."""
_MAX_PIECE_CHARS, _MAX_FIRST_PIECE_CHARS = 3.2, 2.7
"""Letters a piece; a word that is spelt with longer ones is one of the language."""
_MIN_LIKENESS = 0.5
_UNSURE_SPACELESS = -0.6
_MIN_ATTENTION, _MIN_ATTENTION_SPACELESS = 0.3, 0.8
"""The attention that a token of a word gets at least, if the translation has the word."""
_SHORT_TEXT_WORDS = 3


def lost_names(sentence: Sentence, candidate: Candidate) -> list[ProtectedSpan]:
    """The names of the sentence that its translation does not have as they were, but should; in order."""
    text, translation = sentence.passage.text, sentence.plain_text(candidate)
    words = (word for word in _CAPITALISED.finditer(text) if word[0] not in translation and word[0][0].isupper())
    found = [word for word in words if not (word[0].isupper() or _is_kept(sentence, word))]
    return [ProtectedSpan(*word.span(), word[0]) for word in found if _is_name(sentence, candidate, word, translation)]


def _is_kept(sentence: Sentence, word: re.Match[str]) -> bool:
    kept = (*sentence.passage.protected, *sentence.terms)
    return any(one.start < word.end() and word.start() < one.end for one in kept)


def _is_name(sentence: Sentence, candidate: Candidate, word: re.Match[str], translation: str) -> bool:
    text, tokenizer = sentence.passage.text, sentence.bundle.source_tokenizer
    language = language_alone(sentence.bundle.source)
    if language in WITHOUT_SPACES:
        return True  # in other letters than the text
    lowered = word[0].lower()
    if word[0].isascii() and (tokenizer.has_piece(MARK + word[0]) or tokenizer.has_piece(MARK + lowered)):
        return False  # as for most words
    letters = _LETTERS.get(language)
    if letters is None and not all(map(tokenizer.has_piece, word[0])):
        return True
    if letters is not None and any(not (letter.isascii() or letter in letters) for letter in lowered):
        return True
    if text.istitle() or len(text.split()) < _SHORT_TEXT_WORDS:
        return False
    pieces, small = len(tokenizer.encode(word[0])), len(tokenizer.encode(lowered))
    if pieces < 2:
        return False
    before = text[max(0, word.start() - 24) : word.start()]
    score = _score(sentence, candidate, word)
    piece_chars = len(lowered) / pieces
    is_spaceless = language_alone(sentence.bundle.target) in WITHOUT_SPACES
    is_odd = score < (_UNSURE_SPACELESS if is_spaceless else _NOT_SURE) and piece_chars <= (
        _MAX_PIECE_CHARS if is_spaceless else _MAX_FIRST_PIECE_CHARS
    )
    is_odd &= small >= (_MIN_SMALL_PIECES if is_spaceless else pieces)
    if _AT_START.search(before):
        if small < _MIN_SMALL_PIECES:
            return False
        is_like = score < _SURE and _likeness(word[0], translation) >= _MIN_LIKENESS
        is_word = language in _ENDINGS and _ENDINGS[language].search(lowered)
        return (is_like or is_odd) and not is_word
    if language in _NOUNS_HAVE_CAPITALS:
        if _AFTER_NOUN.search(before) or before.rstrip().endswith(("heißt", "heiße")):
            return score < _SURE
        return is_odd and _NAME_FOLLOWS.search(before) is not None
    return small >= _MIN_SMALL_PIECES and (
        score < _NOT_SURE or (score < _SURE and piece_chars <= _MAX_PIECE_CHARS and not is_spaceless)
    )


def _score(sentence: Sentence, candidate: Candidate, word: re.Match[str]) -> float:
    """Mean log probability of the tokens aligned to `word`; low if there are none."""
    decoded, spans = candidate.decoded, sentence.source_spans()
    aligned = {n for n, (start, end) in enumerate(spans) if start < word.end() and word.start() < end and start < end}
    scores = [score for score, at in zip(decoded.log_probs, decoded.aligned, strict=True) if at in aligned]
    if scores:
        return sum(scores) / len(scores)
    least = _MIN_ATTENTION_SPACELESS if language_alone(sentence.bundle.target) in WITHOUT_SPACES else _MIN_ATTENTION
    attention = [decoded.coverage[at] for at in aligned if at < len(decoded.coverage)]
    return -math.inf if sum(attention) < least * len(attention) else 0.0


def _likeness(name: str, translation: str) -> float:
    """The most of its letters that a word of the translation shares with `name` at its beginning and its end."""
    return max((_shared(name.lower(), word[0].lower()) for word in _WORD.finditer(translation)), default=0.0)


def _shared(one: str, other: str) -> float:
    size = min(len(one), len(other))
    first = next((n for n in range(size) if one[n] != other[n]), size)
    last = next((n for n in range(size) if one[-1 - n] != other[-1 - n]), size)
    return (first + last) / max(len(one), len(other))
