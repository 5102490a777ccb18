"""Names and acronyms that a model spells wrongly: words that look like one, that the vocabulary hardly knows, and that
are not in the translation as they were.

A name that the model knows has another form in the target (London, Londres), and the model is sure of it.
"""

from __future__ import annotations

import math
import re

from app.markup.passage import ProtectedSpan
from app.translation.candidate import Candidate
from app.translation.sentence import Sentence
from model.languages import WITHOUT_SPACES, language_alone
from model.tokenizer import MARK

_LATIN = r"A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_WORD = re.compile(rf"[{_LATIN}]{{3,40}}+")
_CAPITALISED = re.compile(
    rf"[A-Z\u00c0-\u024f\u1e00-\u1eff](?<![{_LATIN}].)(?:[A-Z]{{1,5}}(?:/[A-Z]{{2,6}})++|[{_LATIN}]{{2,40}}+)(?![{_LATIN}])"
)
_LETTERS = {"de": "äöüß", "en": "", "es": "áéíóúüñ", "fr": "àâæçéèêëîïôœùûüÿ"}
"""Letters of a language beside a to z. Without an entry, no letter tells a name."""
_AT_START = re.compile(r"(?:\A|[¿¡:.!?\"“”„«»–-])\s*\Z")
_NOT_AFTER_NAME = {
    "de": r"der|die|das|de[mns]|(?:(?:[mdsk]?ein|ihr|unser)(?:e[mnrs]?)?|eure?[mnrs]?)|ich|du|er|sie|es|wir|mich|dich"
    "|uns|euch|ih[mn]|ihnen|mir|dir|bitte|nicht|mit|i[mn]|auf|für|von|zu[mr]?|aus|bei|nach",
    "en": "the|an?|th(?:is|at|ese|ose)|my|your|his|her|its|our|their|me|him|us|them|it|to|with|in|on|of|for|from|at|by"
    "|every|some|any|all|more",
    "es": "el|l[ao]s?|un[ao]?s?|(?:mi|tu|su)s?|nuestr[ao]s?|(?:est|es)[aeo]s?|aquel|al?|del?|en|con|por|para|sin|sobre"
    "|más|muy|tan|tanto|hasta|much[ao]s?|que|si|usted(?:es)?|aquí|así|tod[ao]s?|algo",
    "fr": "l[ae]s?|l|une?|d[ue]|des|d|à|aux?|dans|sur|sous|avec|sans|pour|par|(?:[mts]on|[mts]a|[mts]es)|[nv]o(?:tre|s)"
    "|leurs?|ce(?:t|tte|s)?|ça|plus|qu|que|si|[mt]oi|[nv]ous",
}
"""What follows the verb or the adjective that begins a sentence, but hardly ever a name, after which its verb comes.
Without an entry, the first word of a sentence is no name."""
_FOLLOWS = {language: re.compile(rf"[\s-]+(?:{words})\b", re.IGNORECASE) for language, words in _NOT_AFTER_NAME.items()}
_WORD_FOLLOWS, _MAY_FOLLOW_FIRST = re.compile(r"[\s-]+\w"), re.compile(r"[\s-]+\w|,")
_VERB = {"es": re.compile(r"(?:[áéíóú]\w+(?:[mts]e|l[aeo]s?|nos)|mos|[éó])\Z"), "fr": re.compile(r"ez\Z")}
"""How verbs at the beginning of a sentence end, as hardly a name does."""
_ADJECTIVE = re.compile(r"\w+e[nrs]?\s+[A-ZÄÖÜ]")
_NOUNS_HAVE_CAPITALS = {"de", "lb"}
_AFTER_NOUN = re.compile(r"\s(?!(?:Sie|Ihr(?:e[mnrs]?)?)\s)[A-ZÄÖÜ][\w-]*\s+\Z")
_NAME_FOLLOWS = re.compile(r"\b(?:von|mit|bei|für|und|oder|hei(?:ßt|ßest|ße)|sah|kennt?|kennst|kenne)\s+\Z")
_NAME_MAY_FOLLOW = re.compile(r"\b(?:ich|du|wir|ihr|er|sie|uns|euch|[md]ich|ihn)\s+\Z")
_NOUN_FOLLOWS = re.compile(r"\b(?:ist|bin|war|hab[et]|hat|haben)\s+\Z")
"""In German, after a noun and the first of these words, a name is likelier than a noun without an article. After the
second it is so within a sentence, and after the third both are common: Ich habe Durst."""
_BEFORE_NAME = {
    "de": re.compile(
        # not "die Frau", "meine Frau": she is no Mrs, and what follows is any noun
        r"\b(?:(?<!die )(?<!ine )(?<!hre )(?<!ere )(?<!ure )(?<!ese )(?<!ede )Frau"
        r"|Fräulein|Herrn?|Familie|Dr\.|Prof\.|(?:[mds]ein|ihr|unser|eue?r)(?:e[mnrs]?)?\s+(?:Freund(?:e|en|in)?"
        r"|(?:Nachbar|Lehrer|Partner)(?:n|in)?|Kolleg(?:e|en|in)|Chef(?:in)?|Cousin(?:e|en)?|Bruder|Schwester|Vater|Mutter"
        r"|Sohn|Tochter|Onkeln?|Tanten?|Opa|Oma))\s+\Z",
        re.IGNORECASE,
    )
}
"""A title, or what somebody is to the writer: where the name of a person follows, with hardly any other noun."""
_NOT_SURE, _UNSURE = -0.3, -0.5
"""Mean log probability of the tokens aligned to a word: below the first, its translation is often wrong, and below the
second, mostly."""
_MIN_PIECES, _MAX_PIECE_CHARS = 3, 2.7
"""The vocabulary spells a name with as many pieces, even without its capital, and no longer ones; a word of the
language has fewer, or longer ones."""
_NEARLY_SURE, _MIN_LIKENESS, _MIN_MISSPELT_PIECES = -0.18, 0.5, 4
"""What the translation has of a name resembles it, and is no word that the vocabulary knows; within a sentence, where
countries and peoples stand, it is one in many pieces. The model is not quite sure of it."""
_MIN_ATTENTION, _MIN_ATTENTION_SPACELESS = 0.3, 0.8
"""The attention that a token of a word gets at least, if the translation has the word."""
_SHORT_TEXT_WORDS, _MAX_ACRONYM_CHARS = 3, 6


def lost_names(candidate: Candidate) -> list[ProtectedSpan]:
    """The names of the sentence that its translation does not have as they were, but should; in order."""
    sentence, translation = candidate.sentence, candidate.plain_text
    text = sentence.passage.text
    words = (word for word in _CAPITALISED.finditer(text) if not _has_name(translation, word[0]))
    found = [word for word in words if word[0][0].isupper() and not _is_kept(sentence, word)]
    return [ProtectedSpan(*word.span(), word[0]) for word in found if _is_name(candidate, word, translation)]


def _has_name(translation: str, name: str) -> bool:
    """Whether the translation has the name as it was, and does not go on with its last letter, as a loop does, nor an
    acronym with more of one, which may be a word in it, as Unesco is."""
    _, found, after = translation.partition(name)
    if name.isupper():
        return name.capitalize() in translation or (bool(found) and not re.match("[A-Z/]", after))
    return bool(found) and after[:1] != name[-1]


def _is_kept(sentence: Sentence, word: re.Match[str]) -> bool:
    kept = (*sentence.passage.protected, *sentence.terms)
    return any(one.start < word.end() and word.start() < one.end for one in kept)


def _is_name(candidate: Candidate, word: re.Match[str], translation: str) -> bool:
    sentence = candidate.sentence
    text, tokenizer = sentence.passage.text, sentence.bundle.source_tokenizer
    language = language_alone(sentence.bundle.source)
    if language in WITHOUT_SPACES:
        return True  # in other letters than the text
    lowered, letters = word[0].lower(), _LETTERS.get(language)
    if word[0].isupper() and (text.isupper() or max(map(len, lowered.split("/"))) > _MAX_ACRONYM_CHARS):
        return False
    if letters is None and not all(map(tokenizer.has_piece, word[0])):
        return True
    if letters is not None and any(not (letter.isascii() or letter in letters) for letter in lowered):
        return True
    before_name = _BEFORE_NAME.get(language)
    if before_name and before_name.search(text, max(0, word.start() - 40), word.start()):
        return _score(candidate, word, is_name=True) < _NEARLY_SURE
    if tokenizer.has_piece(MARK + word[0]) or tokenizer.has_piece(MARK + lowered):
        return False  # as for most words
    if word[0].isupper():
        return _score(candidate, word) < _NEARLY_SURE or bool(_misspelling(lowered, translation))
    if text.istitle() or len(text.split()) < _SHORT_TEXT_WORDS:
        return False
    return _seems_name(sentence, _score(candidate, word), word, translation)


def _seems_name(sentence: Sentence, score: float, word: re.Match[str], translation: str) -> bool:
    """Whether a word in several pieces seems to be a name, by them, its place, and the `score` of its translation."""
    text, lowered, encode = sentence.passage.text, word[0].lower(), sentence.bundle.source_tokenizer.encode
    pieces, small = len(encode(word[0])), len(encode(lowered))
    is_odd = score < _NOT_SURE and len(lowered) <= _MAX_PIECE_CHARS * pieces
    language, before = language_alone(sentence.bundle.source), text[max(0, word.start() - 24) : word.start()]
    starts, has_nouns = _AT_START.search(before), language in _NOUNS_HAVE_CAPITALS
    if has_nouns and not starts and _NOUN_FOLLOWS.search(before):
        return is_odd and score < _UNSURE and small >= pieces
    if small < _MIN_PIECES:
        return False
    misspelling = _misspelling(lowered, translation) if score < _NEARLY_SURE else ""
    misspelt_pieces = len(sentence.bundle.target_tokenizer.encode(misspelling))
    if starts:
        is_odd &= score < _UNSURE or language_alone(sentence.bundle.target) in WITHOUT_SPACES
        return (is_odd or misspelt_pieces > 1) and _may_be_subject(text, word, language)
    is_odd |= misspelt_pieces >= _MIN_MISSPELT_PIECES
    if has_nouns:
        may_follow = _NAME_MAY_FOLLOW.search(before) and _WORD_FOLLOWS.match(text, word.end())
        return is_odd and bool(may_follow or _AFTER_NOUN.search(before) or _NAME_FOLLOWS.search(before))
    return is_odd or score < _UNSURE


def _may_be_subject(text: str, word: re.Match[str], language: str) -> bool:
    """Whether the first word of a sentence may be its subject, or the one spoken to, and no verb or adjective."""
    follows, is_verb = _FOLLOWS.get(language), _VERB.get(language)
    if follows is None or follows.match(text, word.end()) or (is_verb and is_verb.search(word[0])):
        return False
    if language in _NOUNS_HAVE_CAPITALS and _ADJECTIVE.match(text, word.start()):
        return False
    return _MAY_FOLLOW_FIRST.match(text, word.end()) is not None


def _score(candidate: Candidate, word: re.Match[str], is_name: bool = False) -> float:
    """Mean log probability of the tokens aligned to `word`. Low if there are none and the model hardly looked at it, or
    if it certainly `is_name`, which nothing can translate but a token of its own."""
    decoded, sentence = candidate.decoded, candidate.sentence
    aligned = {
        n
        for n, (start, end) in enumerate(sentence.source_spans)
        if start < word.end() and word.start() < end and start < end
    }
    scores = [score for score, at in zip(decoded.log_probs, decoded.aligned, strict=True) if at in aligned]
    if scores:
        return sum(scores) / len(scores)
    if is_name:
        return -math.inf
    least = _MIN_ATTENTION_SPACELESS if language_alone(sentence.bundle.target) in WITHOUT_SPACES else _MIN_ATTENTION
    attention = [decoded.coverage[at] for at in aligned if at < len(decoded.coverage)]
    return -math.inf if sum(attention) < least * len(attention) else 0.0


def _misspelling(name: str, translation: str) -> str:
    """The word of the translation that resembles `name`, in small letters, most; an empty string if none does.

    One with accents that the name lacks is no misspelling: the target writes África.
    """
    words = (word[0] for word in _WORD.finditer(translation) if word[0].isascii() or not name.isascii())
    likeness, word = max(((_likeness(name, word.lower()), word) for word in words), default=(0.0, ""))
    return word if likeness >= _MIN_LIKENESS else ""


def _likeness(one: str, other: str) -> float:
    """The share of their letters that two words have in common at their beginnings and their ends."""
    size = min(len(one), len(other))
    first = next((n for n in range(size) if one[n] != other[n]), size)
    last = next((n for n in range(size) if one[-1 - n] != other[-1 - n]), size)
    return (first + last) / max(len(one), len(other))
