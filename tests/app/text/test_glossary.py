"""Terms match whole words, in any case, the longest first; invalid glossaries are reported in one line."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processor_time import least_seconds

from app.markup.passage import ProtectedSpan
from app.text.glossary import MAX_CHARS, MAX_TERMS, Glossary, GlossaryChain, merge_spans

pytestmark = pytest.mark.slow


def found(terms: dict[str, str], text: str, language: str = "en") -> list[tuple[str, str]]:
    """The terms found in `text`, and their translations."""
    return [(text[start:end], raw) for start, end, raw in Glossary(terms, language).find(text)]


def words(terms: str, text: str, language: str = "en") -> list[str]:
    return [word for word, _ in found(dict.fromkeys(terms.split("|"), "x"), text, language)]


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        ("cat", "The cat, a Cat. CAT!", ["cat", "Cat", "CAT"]),
        ("cat", "category, bobcat, cat_a, cat5, wildcat", []),
        ("cat", "(cat) “cat” cat's l'cat", ["cat", "cat", "cat", "cat"]),
        ("hard disk", "A hard  disk, a Hard\u00a0Disk, a hard\tdisk", ["hard  disk", "Hard\u00a0Disk", "hard\tdisk"]),
        ("hard disk", "a hard\ndisk, a harddisk", []),
        ("disk|hard disk|hard disk drive", "hard disk drives and hard disk drive", ["hard disk", "hard disk drive"]),
        ("a b|b c d", "a b c d", ["a b"]),
        ("élan|Straße", "E\u0301lan, ÉLAN, STRASSE", ["E\u0301lan", "ÉLAN", "STRASSE"]),
        ("C++|.NET", "C++ and .NET, c++", ["C++", ".NET", "c++"]),
        ("mail|vous", "e-mail, rendez-vous, mail-order, mail - vous", ["mail", "vous"]),
        ("Kubernetes", "Kubernetes-native, non-Kubernetes", ["Kubernetes", "Kubernetes"]),
        ("हिन्दी", "हिन्दी और हिन्दीभाषा", ["हिन्दी"]),
    ],
)
def test_term_matches_whole_words_in_any_case(terms: str, text: str, expected: list[str]) -> None:
    assert words(terms, text) == expected


@pytest.mark.parametrize(
    ("term", "text", "expected"),
    [
        ("IT", "it is IT, It", ["IT"]),
        ("US", "Tell us about the US.", ["US"]),
        ("iPhone", "an iPhone, an iphone", ["iPhone"]),
        ("IT department", "the it department, the IT department", ["IT department"]),
        ("New York", "new york, NEW YORK", ["new york", "NEW YORK"]),
    ],
)
def test_a_term_with_inner_capitals_matches_only_as_written(term: str, text: str, expected: list[str]) -> None:
    assert words(term, text) == expected


def test_term_in_several_spellings_has_the_translation_of_its_own_spelling() -> None:
    terms = {"us": "nous", "US": "États-Unis", "cat": "chat", "Cat": "Chat"}
    assert found(terms, "us US Us") == [("us", "nous"), ("US", "États-Unis"), ("Us", "nous")]
    assert found(terms, "Cat cat CAT") == [("Cat", "Chat"), ("cat", "chat"), ("CAT", "chat")]


@pytest.mark.parametrize(
    ("language", "term", "text"),
    [
        ("zh", "神经网络", "一个神经网络的"),
        ("ja", "翻訳", "機械翻訳です"),
        ("th", "แมว", "มีแมวอยู่"),
        ("ko", "서버", "서버는"),
    ],
)
def test_term_in_a_script_without_spaces_matches_anywhere(language: str, term: str, text: str) -> None:
    assert words(term, text, language) == [term]


def test_turkish_dotted_and_dotless_i_differ() -> None:
    assert words("ılık|İzmir", "Ilık izmir", "tr") == ["Ilık", "izmir"]
    assert words("ilik", "ILIK", "tr") == []


def test_surrounding_white_space_of_a_translation_is_removed() -> None:
    assert found({" cat ": " Le Chat "}, "The CAT") == [("CAT", "Le Chat")]


TEXT = st.text(st.sampled_from("ab AB-\n你好é\u0301İß'")) | st.text()
TERM = st.text(st.sampled_from("ab AB-你好é\u0301İß'"), min_size=1, max_size=9).filter(str.strip)


@given(st.dictionaries(TERM, TERM, max_size=6), TEXT, st.sampled_from(["en", "tr", "zh"]))
def test_found_terms_are_in_order(terms: dict[str, str], text: str, language: str) -> None:
    end = 0
    for protected in Glossary(terms, language).find(text):
        assert end <= protected.start < protected.end
        assert protected.raw in {translation.strip() for translation in terms.values()}
        assert "\n" not in text[protected.start : protected.end]
        end = protected.end


def test_every_term_of_a_large_glossary_is_found() -> None:
    random = Random(0)
    terms = {"".join(random.choices("abcdefgh", k=9)): str(number) for number in range(MAX_TERMS)}
    text = ", ".join(terms)
    assert found(terms, text) == list(terms.items())


def test_hostile_text_is_searched_in_time() -> None:
    assert words("a " * (MAX_CHARS // 2 - 1) + "b", "a " * 25_000) == []


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"": "x"}, "A term is empty."),
        ({" \n": "x"}, "A term is empty."),
        ({"cat": " "}, "The translation of 'cat' is empty."),
        ({"a\nb": "x"}, r"The term 'a\nb' contains a control character or a line end."),
        ({"cat": "a\x00b"}, r"The translation 'a\x00b' contains a control character or a line end."),
        ({"cat": "a\u2028b"}, r"The translation 'a\u2028b' contains a control character or a line end."),
        ({"a" * 201: "x"}, f"The term '{'a' * 40}'... has 201 characters, over the limit of 200."),
        ({str(number): "x" for number in range(10_001)}, "A glossary has at most 10,000 terms, not 10,001."),
    ],
)
def test_invalid_glossaries_are_reported_in_one_line(terms: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        Glossary(terms, "en")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAT", ["Matou"]),
        ("the cat", ["Matou"]),
        ("a black cat flap and a dog", ["Matou", "chien"]),
        ("a black dog and a black bird", ["chien", "oiseau noir"]),
    ],
)
def test_the_first_glossary_with_a_term_in_any_case_decides(text: str, expected: list[str]) -> None:
    terms: list[dict[str, str]] = [
        {"Cat": "Matou"},
        {"cat": "chat", "black cat": "chat noir", "dog": "chien"},
        {"black dog": "chien noir", "black bird": "oiseau noir"},
    ]
    terms[1].update({f"term {number}": "terme" for number in range(MAX_TERMS - 3)})
    found = GlossaryChain([Glossary(each, "en") for each in terms]).find(text)
    assert [protected.raw for protected in found] == expected


def protected(*ranges: tuple[int, int]) -> list[ProtectedSpan]:
    return [ProtectedSpan(start, end, "") for start, end in ranges]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (protected(), protected((1, 2)), protected((1, 2))),
        (protected((1, 2)), protected(), protected((1, 2))),
        (
            protected((2, 4), (8, 9)),
            protected((0, 2), (3, 5), (4, 8), (9, 10)),
            protected((0, 2), (2, 4), (4, 8), (8, 9), (9, 10)),
        ),
        (protected((2, 4)), protected((0, 9)), protected((2, 4))),
        (protected((0, 9)), protected((1, 2), (3, 4), (9, 10)), protected((0, 9), (9, 10))),
    ],
)
def test_ranges_that_overlap_the_first_ones_are_dropped(
    first: list[ProtectedSpan], second: list[ProtectedSpan], expected: list[ProtectedSpan]
) -> None:
    assert merge_spans(first, second) == expected


def test_searching_takes_time_in_proportion_to_the_text_whatever_its_terms_are() -> None:
    spellings = (
        "".join(letter.upper() if number >> place & 1 else letter for place, letter in enumerate("abcdefghijk"))
        for number in range(2_000)
    )
    prefixes = (" ".join(["a"] * length + ["aA"]) for length in range(98))
    glossary = Glossary(dict.fromkeys([*spellings, *prefixes], "x"), "en")

    def seconds(text: str) -> float:
        return least_seconds(lambda: glossary.find(text))

    # An entry for each spelling was compared with each word, and each prefix of a term was normalised.
    assert seconds("abcdefghijk " * 1_000) < 40 * seconds("other words " * 1_000)
    assert seconds("a " * 6_000) < 400 * seconds("other words " * 1_000)


def test_a_glossary_takes_memory_in_proportion_to_its_terms() -> None:
    terms = {f"{number} " + "a b c d e " * 19: "x" for number in range(500)}
    tracemalloc.start()
    try:
        glossary = Glossary(terms, "en")
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 40 * sum(map(len, terms))  # 500 bytes a word, before
    assert glossary.find("7 " + "a b c d e " * 20)
