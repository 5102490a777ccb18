"""Word alignment: aligned words are words of both texts, with correct offsets."""

from __future__ import annotations

import random
import re

import pytest
from fakes import WORDS, CannedDecoder, RandomDecoder, translated
from msgspec import structs

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.translation.alignment import WordPair, word_pairs
from app.translation.types import TranslatedText
from model.bundle import Bundle

_WORD = re.compile(r"\{\w+\}|%s|\w+")


def pairs_of(item: TranslatedText) -> list[WordPair]:
    assert item.plan
    return word_pairs(item.plan)


def words(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in _WORD.finditer(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        "The cat sleeps.",
        "Hello. How are you?",
        "Hello.   The cat sleeps!\n\n\n  How are you?\tI am well.\n",
        "- The cat\n- I am well, thank you\n\n***\n12345\n",
        "The {name} sleeps. %s thank you, {a} and {b}.",
        "{a} sleeps {b}",
        "Thank you for naïve œufs, 我很好.",
        "The cat\tsleeps. \tHow are\t you?",
        "",
        "***",
    ],
)
def test_equal_texts_align_each_word_with_itself(bundle: Bundle, text: str) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle), [text])
    assert item.text == text
    pairs = pairs_of(item)
    assert all(pair.source == pair.target for pair in pairs)
    if "我" not in text:
        sent = [span for sentence in _sentences(item) for span in words(text) if sentence[0] <= span[0] < sentence[1]]
        assert [pair.source for pair in pairs] == sent


def _sentences(item: TranslatedText) -> list[tuple[int, int]]:
    assert item.plan
    sentences = [planned.sentence for planned in item.plan.sentences]
    return [(one.start, one.start + len(one.passage.text)) for one in sentences]


def test_reordered_words_are_listed_in_target_order(bundle: Bundle) -> None:
    class Backwards(CannedDecoder):
        """Each word is one token, and the order is reversed."""

        def answer(self, sequence: engine.Sequence) -> Decoded:
            tokens = (*sequence.source[::-1], bundle.source_tokenizer.eos_id)
            aligned = (*range(len(sequence.source))[::-1], 0)
            return structs.replace(super().answer(sequence), tokens=tokens, aligned=aligned)

    text = "are cat thank"
    assert len(bundle.source_tokenizer.encode(text)) == 3
    (item,) = translated(bundle, Backwards(bundle), [f"{text}\n{text}"])
    assert item.text == "thank cat are\nthank cat are"
    first = [WordPair((8, 13), (0, 5)), WordPair((4, 7), (6, 9)), WordPair((0, 3), (10, 13))]
    second = [WordPair((a + 14, b + 14), (c + 14, d + 14)) for (a, b), (c, d) in first]
    assert pairs_of(item) == first + second


def test_offsets_are_right_if_protected_text_changes_length(bundle: Bundle) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle), ["Hello {a}. The cat."], glossary={"hello": "bonjour bonjour"})
    assert item.text
    assert item.text.startswith("Bonjour bonjour")
    found = {(item.text[slice(*pair.target)], pair.source) for pair in pairs_of(item)}
    assert {("cat", (15, 18)), ("The", (11, 14))} <= found


@pytest.mark.slow
def test_spans_are_words_of_both_texts_in_target_order(bundle: Bundle) -> None:
    draw = random.Random(4)
    sent = [
        draw.choice(["", "\n", "  "]).join(
            " ".join([*draw.choices(WORDS, k=draw.randint(1, 5)), draw.choice(["{a}", "%s", "you"])]).capitalize()
            + ". "
            for _ in range(draw.randint(1, 3))
        )
        for _ in range(80)
    ]
    found = 0
    for text, item in zip(sent, translated(bundle, RandomDecoder(bundle), sent), strict=True):
        assert item.text is not None
        pairs = pairs_of(item)
        found += len(pairs)
        assert len(set(pairs)) == len(pairs)
        assert [pair.target for pair in pairs] == sorted(pair.target for pair in pairs)
        for source, target in pairs:
            assert source in words(text)
            assert 0 <= target[0] < target[1] <= len(item.text)
            said = item.text[slice(*target)]
            assert said == said.strip()
            assert said in ("{a}", "%s") or re.fullmatch(r"\w+(?:[-'’.,:]\w+)*['’]?", said), said
    assert found > 150
