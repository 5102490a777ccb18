"""Protected text that came only after the end of a translation goes where the words around it are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fakes import decoded, sentence_of
from msgspec import structs

from app.markup.passage import Passage, ProtectedSpan
from app.translation.candidate import Candidate
from app.translation.symbol_places import retry_with_places
from model.bundle import Bundle

pytestmark = pytest.mark.slow


def made(
    bundle: Bundle, text: str, spans: list[str], parts: list[str | int], words: dict[str, str]
) -> tuple[Candidate, str | None]:
    """The translation of `parts`, text and numbers of symbols, of a text with these spans; and what a retry must begin
    with, symbols as ⟦0⟧. `words`: the word of the text that each word of the translation translates."""
    protected = tuple(ProtectedSpan(text.index(span), text.index(span) + len(span), span) for span in spans)
    tokenizer = bundle.source_tokenizer
    sentence = sentence_of(Passage(text, protected), bundle, [])
    tokens = [*tokenizer.encode_parts(parts), tokenizer.eos_id]
    aligned, end = [], len(sentence.source_spans) - 1
    ranges = tokenizer.words(tokens, [0.0] * len(tokens), "fr")
    for first, last, _ in ranges:
        word = tokenizer.decode(tokens[first:last]).strip()
        at = text.find(words[word]) if word in words else -1
        aligned += [_source_token(sentence.source_spans, at) if at >= 0 else end] * (last - first)
    found = structs.replace(decoded(tokens), aligned=tuple(aligned))
    again = retry_with_places(Candidate(sentence, found))
    if again is None:
        return Candidate(sentence, found), None
    shown = "".join(
        f"⟦{tokenizer.reserved_ids.index(token)}⟧"
        if token in tokenizer.reserved_ids
        else tokenizer.token_texts([token])[0]
        for token in again.sequence.prefix
    )
    return Candidate(sentence, found), shown.strip()


def _source_token(spans: Sequence[tuple[int, int]], at: int) -> int:
    return next(number for number, (start, end) in enumerate(spans) if start <= at + 1 and at < end)


WORDS = {"Bonjour": "Hello", "bienvenue": "welcome", "fichiers": "files", "supprimés": "deleted"}


@pytest.mark.parametrize(
    ("text", "spans", "parts", "prefix"),
    [
        ("Hello {a}, welcome.", ["{a}"], ["Bonjour, bienvenue.", 0], "Bonjour⟦0⟧"),
        ("Hello {a}, welcome.", ["{a}"], ["Bonjour, bienvenue", 0, "."], None),
        ("Hello {a}, welcome.", ["{a}"], ["Bonjour, ", 0, " bienvenue."], None),
        ("{a} files deleted.", ["{a}"], ["fichiers supprimés.", 0], "⟦0⟧"),
        ("Hello, welcome. {a}", ["{a}"], ["Bonjour, bienvenue.", 0], None),
        ("Hello {a}, welcome {b}.", ["{a}", "{b}"], ["Bonjour, bienvenue.", 1, 0], "Bonjour⟦0⟧"),
        ("Hello {a}, welcome.", ["{a}"], ["Bonjour, bienvenue.", 0, "."], "Bonjour⟦0⟧"),
        ("Hello {a}, welcome.", ["{a}"], ["Salut. ", 0], "Salut⟦0⟧"),
        ("Hello Mr {a} today.", ["{a}"], ["Bonjour M. ", 0, "."], None),
    ],
)
def test_late_symbol_follows_the_translation_of_the_word_before_it(
    bundle: Bundle, text: str, spans: list[str], parts: list[str | int], prefix: str | None
) -> None:
    assert made(bundle, text, spans, parts, WORDS)[1] == prefix


def test_it_is_done_once(bundle: Bundle) -> None:
    candidate, prefix = made(bundle, "Hello {a}, welcome.", ["{a}"], ["Bonjour, bienvenue.", 0], WORDS)
    assert prefix is not None
    again = retry_with_places(candidate)
    assert again is not None
    assert retry_with_places(Candidate(again, candidate.decoded)) is None
