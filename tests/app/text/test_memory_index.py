"""Equal and similar texts in an index, in this version and in former ones."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from app.text import memory_index
from app.text.memory_index import MIN_SIMILARITY, MemoryIndex, MemorySnapshot, Pair
from app.text.memory_slots import MAX_CHARS, text_id

pytestmark = pytest.mark.slow

VOCABULARY = st.sampled_from(["open", "close", "the", "a", "file", "folder", "now", ".", ",", "please"])
TEXTS = st.lists(VOCABULARY, min_size=1, max_size=9).map(" ".join)


def index_of(*pairs: tuple[str, str]) -> MemoryIndex:
    index = MemoryIndex("en", "fr")
    for version, (source, target) in enumerate(pairs, 1):
        index.put(Pair(source, target, float(version)), version)
    return index


def test_an_older_version_is_unaffected_by_later_changes() -> None:
    index = index_of(("Open", "Ouvrir"), ("Close", "Fermer"))
    before = MemorySnapshot(index, index.version)
    index.put(Pair("Open", "Ouvert"), 3)
    index.remove(text_id("Close"), 4)
    now = MemorySnapshot(index, index.version)
    assert (before.exact("Open"), before.exact("Close")) == ("Ouvrir", "Fermer")
    assert (now.exact("Open"), now.exact("Close"), now.memory.count) == ("Ouvert", None, 1)
    assert [match.pair.target for match in before.fuzzy("Close", 5)] == ["Fermer"]
    assert now.fuzzy("Close", 5) == []
    *_, compacted = index.compacted()
    assert compacted is not None
    assert (compacted.version, list(compacted.pairs())) == (4, list(index.pairs()))
    assert compacted.exact("Open", 4) == "Ouvert"


def test_the_same_text_comes_before_a_text_with_other_numbers() -> None:
    index = index_of(("Wait 30 seconds", "Attendez 30 s"), ("Wait 40 seconds", "Patientez 40 s"))
    assert index.exact("Wait 30 seconds", 2) == "Attendez 30 s"


def test_pairs_that_disagree_translate_no_text_with_other_values() -> None:
    index = index_of(("Wait 30 seconds", "Attendez 30 s"), ("Wait 40 seconds", "Patientez 40 s"))
    assert index.exact("Wait 50 seconds", 1) == "Attendez 50 s"
    assert index.exact("Wait 50 seconds", 2) is None
    index.put(Pair("Wait 30 seconds", "Patientez 30 s"), 3)
    assert index.exact("Wait 50 seconds", 3) == "Patientez 50 s"


def test_a_pair_whose_values_do_not_fit_has_no_say() -> None:
    index = index_of(("Wait 30 seconds", "Attendez 30 s"), ("Wait 60 seconds", "Attendez une minute"))
    assert index.exact("Wait 50 seconds", 2) == "Attendez 50 s"


def test_percentages_count_words_and_marks() -> None:
    index = index_of(("Open the file.", "Ouvrir le fichier."))
    assert [match.percentage for match in index.fuzzy("Open the folder.", 1, 5)] == [75]
    assert [match.percentage for match in index.fuzzy(" Open the  file.", 1, 5)] == [100]
    assert index.fuzzy("", 1, 5) == []
    chinese = MemoryIndex("zh", "en")
    chinese.put(Pair("打开文件", "Open file"), 1)
    assert [match.percentage for match in chinese.fuzzy("打开文档", 1, 5)] == [75]


def test_an_equal_text_with_other_values_is_not_a_full_match() -> None:
    index = index_of(("Wait 60 seconds", "Attendez une minute"))
    assert [match.percentage for match in index.fuzzy("Wait 50 seconds", 1, 5)] == [99]


@given(st.lists(TEXTS, min_size=1, max_size=30), TEXTS, st.sampled_from([0.5, 0.6, 0.75, 0.9]))
def test_a_search_finds_what_comparing_with_every_text_finds(texts: list[str], wanted: str, least: float) -> None:
    index = index_of(*((text, "x") for text in dict.fromkeys(texts)))
    found = {match.pair.source for match in index.fuzzy(wanted, index.version, 1_000, least)}
    similar = {
        text
        for text in texts
        if Levenshtein.normalized_similarity(text.split(), wanted.split()) >= max(least, MIN_SIMILARITY) - 1e-9
    }
    assert found == similar


def test_a_text_that_is_just_similar_enough_is_found() -> None:
    index = index_of(("open open open open open", "x"))
    assert [match.percentage for match in index.fuzzy("open open open", index.version, 1, 0.6)] == [60]


def test_equally_similar_pairs_come_in_the_same_order_whatever_was_first() -> None:
    pairs = [Pair("Open the file", "Ouvrir le fichier"), Pair("Open the folder", "Ouvrir le dossier")]
    found = []
    for order in (pairs, pairs[::-1]):
        index = MemoryIndex("en", "fr")
        for version, pair in enumerate(order, 1):
            index.put(pair, version)
        found.append(index.fuzzy("Open the book", 2, 5))
    assert found[0] == found[1]
    assert len(found[0]) == 2


def overwritten(index: MemoryIndex, text: str, times: int) -> MemoryIndex:
    """The index in which the text was translated anew that many times, as a service keeps it."""
    for version in range(index.version + 1, index.version + times + 1):
        index.put(Pair(text, f"x{version}"), version)
        if index.is_wasteful:
            *_, compacted = index.compacted()
            index = compacted or index
    return index


def test_a_pair_that_is_overwritten_again_and_again_takes_no_more_memory() -> None:
    text = "1 " * 20_000
    index = overwritten(MemoryIndex("en", "fr"), text, 200)
    assert index.size < 2_000_000
    assert (index.count, index.exact(text, index.version)) == (1, "x200")


@pytest.mark.parametrize("text", ["1 ", "word {n} ", "文", "é", "a\U0001f600", "\u0301\u0316"])
def test_an_index_takes_no_more_memory_than_it_says(text: str) -> None:
    MemoryIndex("en", "fr").put(Pair(f"w1 {text * 600}", text), 1)  # patterns are compiled when they are needed
    index = MemoryIndex("en", "fr")
    tracemalloc.start(5)  # frames: the index and what it calls for what it keeps; more make all of this slow
    try:
        for number in range(20):
            index.put(Pair(f"w{number} {text * (number * 31 % 400)}", f"{text * (number * 7 % 200)}."), number)
        for _ in index.prepare_fuzzy():
            pass
        # What other threads of the process allocate meanwhile is not the index's.
        own = tracemalloc.Filter(True, memory_index.__file__, all_frames=True)
        taken = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([own]).traces)
    finally:
        tracemalloc.stop()
    assert 0.5 * index.size < taken <= index.size


def test_a_text_of_very_many_characters_is_similar_to_none_and_equals_itself() -> None:
    long = "word " * (MAX_CHARS // 5 + 1)
    index = index_of((long, "Long"), ("word word", "Court"))
    assert index.fuzzy(long, 2, 5) == []
    assert index.exact(long, 2) == "Long"
    assert [match.pair.target for match in index.fuzzy("word word", 2, 5)] == ["Court"]


def test_of_too_many_candidates_the_newest_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(*((f"Open the file {letter}", letter) for letter in "abcdef"))
    monkeypatch.setattr(memory_index, "_MAX_COST", 2 * (memory_index.PAIR_COST + 8))
    assert {match.pair.target for match in index.fuzzy("Open the file", 6, 10)} == {"e", "f"}


def test_tokens_beyond_those_with_numbers_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_index, "_MAX_NUMBERED", 3)
    monkeypatch.setattr(memory_index, "_MAX_POSTINGS_LISTS", 2)
    index = index_of(("one two three four five", "x"), ("six seven eight nine ten", "y"))
    assert [(match.pair.target, match.percentage) for match in index.fuzzy("six seven eight nine one", 2, 5)] == [
        ("y", 80)
    ]


def test_a_pair_of_long_texts_translates_a_text_with_other_values() -> None:
    long = "शब्द " * 790
    index = MemoryIndex("hi", "ne")
    index.put(Pair(f"{long}47", f"{long}47"), 1)
    assert index.exact(f"{long}57", 1) == f"{long}57"


def test_a_compacted_index_has_its_pairs_in_the_same_order() -> None:
    index = index_of(("One", "Un"), ("Two", "Deux"), ("One", "Une"))
    *_, compacted = index.compacted()
    assert compacted is not None
    assert [pair.target for pair in index.pairs()] == [pair.target for pair in compacted.pairs()] == ["Deux", "Une"]


def test_a_search_makes_only_the_pairs_that_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(*((f"file {number}", "x") for number in range(30, 230)))
    made: list[str] = []

    def counted(source: str, *rest: object) -> Pair:
        made.append(source)
        return Pair(source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(memory_index, "Pair", counted)
    found = index.fuzzy("file 25", index.version, 5)
    assert [match.pair.source for match in found] == made == [f"file {number}" for number in range(229, 224, -1)]


def test_a_long_text_without_spaces_has_similar_ones() -> None:
    index = MemoryIndex("zh", "en")
    index.put(Pair("文件内容" * 290, "x"), 1)
    assert [match.percentage for match in index.fuzzy("文件内容" * 290 + "了", 1, 5)] == [99]


def test_a_text_of_many_numbers_takes_other_values() -> None:
    def text(first: int) -> str:
        return " ".join(str(number) for number in range(first, first + 900))

    index = index_of((text(1_000), f"{text(1_000)} !"))
    assert index.exact(text(3_000), 1) == f"{text(3_000)} !"


def test_compared_pairs_are_few_however_many_differ_only_in_values(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(*((f"Wait {number} seconds", f"{number} s, attendez") for number in range(10, 200)))
    asked: list[bytes] = []
    abstracted = memory_index.abstract_stored

    def counted(text: bytes, language: str, other: str) -> object:
        asked.append(text)
        return abstracted(text, language, other)

    monkeypatch.setattr(memory_index, "abstract_stored", counted)
    assert index.exact("Wait 500 seconds", index.version) == "500 s, attendez"
    assert len(asked) == 2 * memory_index.MAX_COMPARED
