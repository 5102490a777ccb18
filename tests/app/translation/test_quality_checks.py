"""Loops are cut unless the source repeats itself; copies and omissions cause warnings; nothing else does."""

from __future__ import annotations

import random

import pytest
from fakes import CannedDecoder, decoded, translated
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from msgspec import structs
from processor_time import least_seconds

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.text.glossary import Glossary
from app.translation.quality_checks import (
    MAX_LOOP_TOKENS,
    count_copied_words,
    find_invented_symbols,
    is_repetitive,
    quoted,
    repeats_unlike_source,
    without_loops,
)
from model.bundle import Bundle

LOOPS = "The model repeated itself; the repetitions were cut."
PLAIN = list(range(100, 130))
"""A source that says nothing twice."""


def left(tokens: list[int], source: list[int] = PLAIN) -> list[int]:
    return [tokens[index] for index in without_loops(tokens, source)]


# ---- Loops


def test_finding_loops_takes_time_in_proportion_to_the_tokens() -> None:
    def seconds(count: int) -> float:
        tokens, source = [1] * 5 + [2, 3] * count, [2, 3] * (count + 1)
        return least_seconds(lambda: without_loops(tokens, source))

    assert seconds(8_000) < 24 * seconds(1_000)


@pytest.mark.parametrize("size", range(1, MAX_LOOP_TOKENS + 1))
@pytest.mark.parametrize("times", [4, 9])
@pytest.mark.parametrize("rest", [[], [90, 91, 92]])
def test_loop_in_the_middle_or_at_the_end_is_reduced_to_one_occurrence(size: int, times: int, rest: list[int]) -> None:
    once = list(range(10, 10 + size))
    assert left([1, 2, 3, *once * times, *rest]) == [1, 2, 3, *once, *rest]


@pytest.mark.parametrize("size", [3, 5, 16])
def test_incomplete_repetition_is_cut_too(size: int) -> None:
    once = list(range(10, 10 + size))
    assert left([1, *once * 3, *once[: size - 1], 9]) == [1, *once, 9]


@pytest.mark.parametrize("size", [3, 16])
def test_longer_loop_is_one_from_the_third_time(size: int) -> None:
    once = list(range(10, 10 + size))
    assert left([1, *once * 3, 9]) == [1, *once, 9]


@pytest.mark.parametrize(("size", "times"), [(1, 3), (2, 3), (3, 2), (10, 2)])
def test_a_few_repetitions_are_allowed(size: int, times: int) -> None:
    tokens = [1, *list(range(10, 10 + size)) * times, 2]
    assert left(tokens) == tokens


@pytest.mark.parametrize("times", [4, 7])
def test_repetitions_of_the_source_are_not_loops(times: int) -> None:
    tokens, source = [1, *[5] * times, 2], [30, *[40, 41] * times]
    assert left(tokens, source) == tokens
    assert left([1, *[5] * (times + 1), 2], source) == [1, 5, 2]


@pytest.mark.slow
@draw_examples(400)
@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=20))
def test_cutting_loops_keeps_order_and_every_distinct_part(tokens: list[int], source: list[int]) -> None:
    """So no symbol, which occurs once, is ever lost."""
    kept = without_loops(tokens, source)
    assert kept == sorted(set(kept))
    assert {tokens[index] for index in kept} == set(tokens)
    once = [token for token in set(tokens) if tokens.count(token) == 1]
    assert all(tokens.index(token) in kept for token in once)


@draw_examples(200)
@given(st.lists(st.integers(0, 2), max_size=40))
def test_nothing_occurs_four_times_in_a_row_after_cutting(tokens: list[int]) -> None:
    said = left(tokens)
    for size in range(1, MAX_LOOP_TOKENS + 1):
        for start in range(len(said)):
            once = said[start : start + size]
            assert len(once) < size or said[start : start + 4 * size] != once * 4


@pytest.mark.slow
def test_cut_loop_causes_a_warning(bundle: Bundle) -> None:
    engine = CannedDecoder(bundle, lambda text: "le chat" + " va bien" * 6)
    (item,) = translated(bundle, engine, ["The cat sleeps."])
    assert item.text == "le chat va bien"
    assert item.warnings == [LOOPS]


def test_repetitions_of_the_source_are_kept_without_a_warning(bundle: Bundle) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle, lambda text: "va va va va va va"), ["how how how how how how"])
    assert (item.text, item.warnings) == ("va va va va va va", [])


def test_placeholders_in_a_loop_are_kept(bundle: Bundle) -> None:
    class Looping(CannedDecoder):
        def answer(self, sequence: engine.Sequence) -> Decoded:
            [word] = bundle.source_tokenizer.encode("va")[-1:]
            first, second = sequence.required
            return decoded([*[word] * 5, first, *[word] * 5, second], source=len(sequence.source))

    (item,) = translated(bundle, Looping(bundle), ["How {a} are %s you?"])
    assert item.text
    assert (item.text.count("va"), item.text.count("{a}"), item.text.count("%s")) == (2, 1, 1)
    assert item.warnings[0] == LOOPS


# ---- The same here and there


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 2, 1, 2, 3, 4, 5, 1, 2], True),  # "Two eggs": "Deux oeufs Deux oeufs sont en train de Deux oeufs"
        ([7, 1, 2, 8, 1, 2, 9, 1, 2], True),
        ([1, 2, 1, 2, 1, 2], True),
        ([1, 1, 1, 1, 1], False),  # two pairs that do not overlap
        ([1, 2, 3, 4, 1, 2, 5, 6], False),
        ([1, 2, *range(20, 40), 1, 2, *range(40, 60), 1, 2], False),  # "de la", "de la", "de la"
        ([], False),
        ([1], False),
    ],
)
def test_three_repetitions_are_reported_if_they_are_a_large_part(tokens: list[int], expected: bool) -> None:
    assert is_repetitive(tokens, PLAIN) is expected


def test_a_translation_may_repeat_what_the_source_repeats() -> None:
    tokens = [7, 1, 2, 8, 1, 2, 9, 1, 2]
    assert not is_repetitive(tokens, [30, 31, 40, 30, 31, 41, 30, 31])
    assert is_repetitive(tokens, [30, 31, 40, 30, 31, 41])


@pytest.mark.parametrize(
    ("tokens", "source", "expected"),
    [
        ([5, 6] * 5, [7] * 40, True),
        ([5] * 100, [7] * 40 + [8], True),
        ([5] * 30, [7] * 40, False),
        ([5], [7] * 7, False),
        ([5, 6, 9], [7] * 10 + list(range(10, 40)), False),
    ],
)
def test_repeated_words_are_expected_about_as_often(tokens: list[int], source: list[int], expected: bool) -> None:
    assert repeats_unlike_source(tokens, source) is expected


def test_scattered_repetitions_are_reported_but_not_cut(bundle: Bundle) -> None:
    made = "le chat le chat dort le chat"
    (item,) = translated(bundle, CannedDecoder(bundle, lambda text: made), ["The cat."])
    assert (item.text, item.warnings) == (made, ["The translation of “The cat.” says the same several times."])


# ---- Copies


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("The cat sleeps in the house.", "The cat sleeps in the house.", 6),
        ("The cat sleeps in the house.", "the CAT sleeps in the maison", 6),
        ("The cat sleeps in the house.", "Le chat dort dans la maison.", 0),
        ("Paris", "Paris", 1),
        ("Marie Curie, Paris", "Marie Curie, Paris", 3),
        ("我明天要去图书馆看书", "我明天要去图书馆看书", 10),
        ("北京", "北京", 1),
        ("", "", 0),
        ("1 2 3 4 5 6", "1 2 3 4 5 6", 0),
    ],
)
def test_copy_consists_mostly_of_source_words(source: str, translation: str, expected: int) -> None:
    assert count_copied_words(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Where is it?", "Où est-ce ?", []),
        ("Show (with line)", "Zeigt 1", ["1"]),
        ("Prices rise.", "Les prix montent de %.", ["%"]),
        ("Prices rise by 3 percent.", "Les prix montent de 3 %.", []),
        ("It costs 3 dollars.", "Ça coûte 3 $.", []),
        ("It costs much.", "Ça coûte $.", ["$"]),
        ("It costs $3.", "Ça coûte 3 €.", []),
        ("At 10:30.", "À 10 h 30.", []),
        ("He said “no”.", "Il a dit « non ».", []),
        ("He said 'no'.", "Il a dit « non ».", []),
        ("He said no.", "Il a dit « non ».", ["«", "»"]),
        ("Two (2)", "两个（2）", []),
        ("Two", "两个（）", ["（", "）"]),
        ("汤姆去学校。", "Tom goes to school.", []),
        ("Tom Cruise", "汤姆·克鲁斯", []),
        ("The server", "Le serveur www.serveur", ["www."]),
        ("see https://a.org", "voir https://a.org", []),
        ("Nothing", "Rien\ufffd", ["\ufffd"]),
        ("Set number", "Régler le n°", []),
        ("a_b", "a_b", []),
        ("a b", "a_b", ["_"]),
        ("３", "3", []),
        ("", "", []),
    ],
)
def test_numbers_and_symbols_without_a_reason_in_the_source_are_invented(
    source: str, translation: str, expected: list[str]
) -> None:
    assert find_invented_symbols(source, translation) == expected


def test_invented_symbols_are_reported(bundle: Bundle) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle, lambda text: "le chat www. dort"), ["The cat sleeps."])
    assert "Perhaps made up in the translation of “The cat sleeps.”: “www.”." in item.warnings


def test_inserted_terms_are_not_invented_symbols(bundle: Bundle) -> None:
    given = Glossary({"cat": "chat (n° 1)"}, "en")
    (item,) = translated(
        bundle, CannedDecoder(bundle, lambda text: "le chat dort"), ["The cat sleeps."], glossary=given
    )
    assert "(n° 1)" in (item.text or "")
    assert not [warning for warning in item.warnings if warning.startswith("Perhaps made up")]


def test_copied_sentence_causes_a_warning(bundle: Bundle) -> None:
    text = "The cat sleeps and how are you?"
    (item,) = translated(bundle, CannedDecoder(bundle), [text])
    assert (item.text, item.warnings) == (text, [f"Copied rather than translated: “{text}”."])


# ---- What was left out


class Careless(CannedDecoder):
    """Attends to no token of the `words`."""

    def __init__(self, bundle: Bundle, *words: str) -> None:
        super().__init__(bundle, lambda text: "le chat dort")
        self.unseen = {token for word in words for token in bundle.source_tokenizer.encode(word)}

    def answer(self, sequence: engine.Sequence) -> Decoded:
        coverage = (*(0.01 if token in self.unseen else 1.0 for token in sequence.source), 0.0)
        return structs.replace(super().answer(sequence), coverage=coverage)


def test_words_without_attention_are_named(bundle: Bundle) -> None:
    (item,) = translated(bundle, Careless(bundle, "well", "thank"), ["I am well, thank {a} you."])
    assert item.warnings == ["Perhaps not translated: “well”, “thank”."]


@pytest.mark.parametrize("text", ["The cat sleeps.", "The  cat \u00a0 sl\u00adeeps.", "The\tcat \u200b sleeps."])
def test_word_with_partial_attention_counts_as_translated(bundle: Bundle, text: str) -> None:
    (item,) = translated(bundle, Careless(bundle, "."), [text])
    assert item.warnings == []


def test_protected_spans_are_not_reported_as_missing_words(bundle: Bundle) -> None:
    class Blind(CannedDecoder):
        def answer(self, sequence: engine.Sequence) -> Decoded:
            symbols = bundle.target_tokenizer.reserved_ids
            coverage = (*(0.0 if token in symbols else 1.0 for token in sequence.source), 0.0)
            return structs.replace(super().answer(sequence), coverage=coverage)

    (item,) = translated(bundle, Blind(bundle, None), ["The {name} sleeps."])
    assert not [warning for warning in item.warnings if warning.startswith("Perhaps not translated")]


def test_only_the_first_of_many_words_are_named() -> None:
    assert quoted(["one"]) == "“one”"
    assert quoted(list("abcdefg")) == "“a”, “b”, “c”, “d”, “e” and 2 more"


def test_good_translation_has_no_warnings(bundle: Bundle) -> None:
    draw = random.Random(2)
    words = ["le", "chat", "dort", "il", "va", "bien"]
    for _ in range(50):
        made = " ".join(draw.sample(words, 5))
        (item,) = translated(bundle, CannedDecoder(bundle, lambda text, made=made: made), ["The cat sleeps."])  # type: ignore[misc]
        assert (item.text, item.warnings) == (made, [])


@pytest.mark.parametrize(
    ("text", "log_prob", "warned"),
    [("Cat", -1.0, True), ("The cat", -1.0, True), ("Cat", -0.8, False), ("The cat sleeps", -1.0, False)],
)
def test_low_score_of_a_short_text_causes_a_warning(bundle: Bundle, text: str, log_prob: float, warned: bool) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle, lambda _: "va bien", log_prob), [text])
    assert (f"The model is unsure of its translation of “{text}”." in item.warnings) is warned


@pytest.mark.parametrize(("log_prob", "warned"), [(-1.0, True), (-0.8, False)])
def test_protected_values_count_neither_as_words_nor_in_the_score(
    bundle: Bundle, log_prob: float, warned: bool
) -> None:
    class Certain(CannedDecoder):
        """Certain of the symbols, whose score would raise that of the whole above any threshold."""

        def answer(self, sequence: engine.Sequence) -> Decoded:
            symbols, tokenizer = bundle.target_tokenizer.reserved_ids, bundle.target_tokenizer
            first, last = (token for token in sequence.source if token in symbols)
            tokens = (first, *tokenizer.encode("va bien"), last, tokenizer.eos_id)
            scores = tuple(0.0 if token in symbols else log_prob for token in tokens)
            looked = (1.0,) * (len(sequence.source) + 1)
            return Decoded(tokens, scores, "stop", (0,) * len(tokens), looked)

    text = "{a}: the cat {b}"
    (item,) = translated(bundle, Certain(bundle), [text])
    assert (f"The model is unsure of its translation of “{text}”." in item.warnings) is warned
