"""Repairs of similar translations, with decoders whose answers are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from fakes import decoded
from msgspec import structs

from app.engine.sequence import Decoded
from app.engine.sequence import Sequence as EngineSequence
from app.markup.passage import Passage
from app.text.memory_index import MemoryIndex, MemorySnapshot, Pair
from app.translation.candidate import Candidate
from app.translation.memory import MemoryLookup
from app.translation.repair import Word, differing_words, repair
from app.translation.sentence import Sentence
from app.translation.text_plan import plan_text
from model.bundle import Bundle

WORDS = [Word(number, number + 1) for number in range(4)]
STORED = Pair("the red house is here", "das rote Haus ist hier")


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(4, 7, (1, 2)), (4, 13, (1, 3)), (4, 4, (1, 1)), (8, 8, (2, 2)), (14, 14, (3, 3)), (20, 20, (4, 4))],
)
def test_the_words_that_translate_a_span_are_those_that_attend_to_it(
    start: int, end: int, found: tuple[int, int]
) -> None:
    aligned = [(0, 3), (4, 7), (8, 13), (14, 16)]
    assert differing_words(WORDS, aligned, start, end) == found


def test_words_that_attend_to_the_end_of_the_sentence_translate_nothing() -> None:
    assert differing_words(WORDS, [(0, 3), (9, 9), (4, 9), (9, 9)], 4, 9) == (2, 3)


def planned(bundle: Bundle, text: str, tolerance: float = 0.0) -> Sentence:
    index = MemoryIndex("en", "de")
    index.put(STORED, 1)
    memory = MemoryLookup(MemorySnapshot(index, 1), "repair", None, tolerance)
    [planned] = plan_text(bundle, [Passage(text)], None, 1, 10_000, memory).sentences
    return planned.sentence


def test_numbers_stay_as_the_memory_has_them(bundle: Bundle) -> None:
    """Those of a sentence without a similar translation are written as the target writes them."""
    index = MemoryIndex("en", "fr")
    index.put(Pair("The red cat weighs 12.5 kg.", "Le chat rouge pèse 12.5 kg."), 1)
    memory = MemoryLookup(MemorySnapshot(index, 1), "repair", None)
    ids = bundle.target_tokenizer.encode("Le chat pèse 12.5 kg.")
    for lookup, expected in ((memory, "12.5"), (None, "12,5")):
        [planned] = plan_text(bundle, [Passage("The old cat weighs 12.5 kg.")], None, 1, 10_000, lookup).sentences
        assert (planned.sentence.similar is not None) == (lookup is not None)
        assert Candidate(planned.sentence, decoded(ids)).rendered == f"Le chat pèse {expected} kg."


class Scripted:
    """Continues every prefix with `own`, and scores forced translations with `score`, by their text. Target word n
    attends to the last token of source word n."""

    def __init__(self, bundle: Bundle, own: str, score: Callable[[str], float]) -> None:
        self.bundle, self.own, self.score = bundle, own, score
        self.asked: list[EngineSequence] = []

    async def __call__(self, sequences: Sequence[EngineSequence]) -> list[Decoded]:
        self.asked += sequences
        return list(map(self.answer, sequences))

    def answer(self, sequence: EngineSequence) -> Decoded:
        tokenizer = self.bundle.target_tokenizer
        tokens = sequence.forced if sequence.forced is not None else (*sequence.prefix, *tokenizer.encode(self.own))
        words = tokenizer.words(tokens, [0.0] * len(tokens), "de")
        source_words = tokenizer.words(sequence.source, [0.0] * len(sequence.source), "en")
        aligned = [
            source_words[min(n, len(source_words) - 1)][1] - 1 for n, word in enumerate(words) for _ in range(*word[:2])
        ]
        score = self.score(tokenizer.decode(tokens))
        scores = (score,) * (len(tokens) + 1)
        return Decoded((*tokens, tokenizer.eos_id), scores, "stop", (*aligned, 0), (1.0,) * (len(sequence.source) + 1))


def repaired(bundle: Bundle, text: str, own: str, score: Callable[[str], float], tolerance: float = 0.0) -> str | None:
    sentence = planned(bundle, text, tolerance)
    assert sentence.similar
    decode = Scripted(bundle, own, score)
    plain = decode.answer(sentence.sequence)
    found = asyncio.run(repair(sentence, plain, sentence.similar, decode))
    return None if found is None else found.plain_text


def test_what_differs_is_decoded_and_the_rest_is_the_stored_translation(bundle: Bundle) -> None:
    text = "the old house is here"
    assert repaired(bundle, text, "alte Haus ist dort", lambda made: -1.0) == "das alte Haus ist hier"


def test_a_repair_that_the_model_scores_lower_is_not_used(bundle: Bundle) -> None:
    def score(made: str) -> float:
        return -2.0 if made.endswith("ist hier") else -1.0

    text = "the old house is here"
    assert repaired(bundle, text, "alte Haus ist dort", score) is None
    assert repaired(bundle, text, "alte Haus ist dort", score, tolerance=1.0) == "das alte Haus ist hier"


def test_of_good_repairs_the_one_that_keeps_most_is_used(bundle: Bundle) -> None:
    def score(made: str) -> float:
        return -0.5 if made == "alte Haus ist hier" else -1.0

    assert repaired(bundle, "the old house is here", "alte Haus ist dort", score) == "das alte Haus ist hier"


def test_a_text_that_is_not_similar_enough_is_not_repaired(bundle: Bundle) -> None:
    assert planned(bundle, "the cat is here now").similar is None
    assert planned(bundle, "the OLD house is here").similar


def test_a_text_in_capitals_does_not_take_a_translation_in_small_letters(bundle: Bundle) -> None:
    written = planned(bundle, "the red house is here now")
    sentence = structs.replace(written, passage=Passage("THE RED HOUSE IS HERE NOW"))
    assert sentence.similar
    decode = Scripted(bundle, "jetzt", lambda made: -1.0)
    assert asyncio.run(repair(sentence, decode.answer(sentence.sequence), sentence.similar, decode)) is None
    assert not decode.asked
