"""Text is split into sentences and the rest, and nothing is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.markup.passage import ProtectedSpan
from app.text.segmentation import MAX_WINDOW_CHARS, Segment, segments, split_to_fit

LANGUAGES = st.sampled_from(["en", "fr", "zh", "ja", "el", "am", "ar", "xx"])
PROSE = st.lists(
    st.sampled_from(
        list(" .?!\n\r\t\"'()[]«»“”*-1aAéM。！？…:;,\u0301\u200d\ufeff\x00\x85\xa0\u2028\u3000😀\ue000\ue003")
    )
    | st.sampled_from(["Mr.", "M. ", "[1]", "1) ", "i. ", "\n\n", "\r\n", "p.m. ", "U.S. ", "Hello. ", "你好。"])
    | st.sampled_from(["- ", "> ", "## ", "/* ", " */", "<!-- ", " -->", "</b>", "{a}", "{a. B}"])
    | st.characters(exclude_categories=["Cs"])
).map("".join)


@st.composite
def prose_with_protected_spans(draw: st.DrawFn) -> tuple[str, list[ProtectedSpan]]:
    text = draw(PROSE)
    edges = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    ranges = [(start, end) for start, end in pairwise(edges) if draw(st.booleans())]
    return text, [ProtectedSpan(start, end, text[start:end]) for start, end in ranges]


def sentences(text: str, language: str, protected: list[ProtectedSpan] | None = None) -> list[str]:
    return [text[start:end] for start, end, translate in segments(text, language, protected or []) if translate]


def parts(text: str, found: list[Segment]) -> list[str]:
    return [text[start:end] for start, end, _ in found]


def protected(text: str, *ranges: str) -> list[ProtectedSpan]:
    """The first occurrence of each of `ranges` in `text`."""
    return [ProtectedSpan(text.index(one), text.index(one) + len(one), one) for one in ranges]


def covers(found: list[Segment], start: int, end: int) -> bool:
    edges = [start, *(edge for segment in found for edge in segment[:2]), end]
    return all(one == two for one, two in zip(edges[::2], edges[1::2], strict=True)) and all(
        segment.start < segment.end for segment in found
    )


def cuts(found: list[Segment], ranges: list[ProtectedSpan]) -> bool:
    return any(one.start < segment.end < one.end for segment in found for one in ranges)


@given(prose_with_protected_spans(), LANGUAGES)
def test_whole_text_is_one_sentence_or_none(text: tuple[str, list[ProtectedSpan]], language: str) -> None:
    found = segments(text[0], language, text[1], whole=True)
    assert covers(found, 0, len(text[0]))
    assert sum(segment.translate for segment in found) == any(
        segment.translate for segment in segments(text[0], language, text[1])
    )


@given(prose_with_protected_spans(), LANGUAGES)
def test_segments_cover_the_text_and_split_no_protected_span(
    text: tuple[str, list[ProtectedSpan]], language: str
) -> None:
    found = segments(text[0], language, text[1])
    assert covers(found, 0, len(text[0]))
    assert not cuts(found, text[1])


@given(prose_with_protected_spans(), LANGUAGES)
def test_sentence_has_a_letter_outside_protected_spans(text: tuple[str, list[ProtectedSpan]], language: str) -> None:
    hidden = {index for one in text[1] for index in range(one.start, one.end)}
    for start, end, translate in segments(text[0], language, text[1]):
        letters = [text[0][i] for i in range(start, end) if i not in hidden and text[0][i].isalpha()]
        if translate:
            assert letters
            assert start in hidden or not text[0][start].isspace()
            assert end - 1 in hidden or not text[0][end - 1].isspace()


@given(PROSE, LANGUAGES)
def test_no_sentence_crosses_a_line(text: str, language: str) -> None:
    assert all(len(sentence.splitlines()) == 1 for sentence in sentences(text, language))


def test_lines_without_a_letter_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(language: str, text: str) -> list[str]:
        raise AssertionError(text)

    monkeypatch.setattr("sentencex.segment", refuse)
    text = "* * *\n---\r\n😀\n3.14\n" * 100
    assert segments(text, "en") == [(0, len(text), False)]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Mr. Smith met Dr. Jones at 3 p.m. in the U.S. Embassy."),
        ("en", "It weighs approx. 5 kg, says vol. 2."),
        ("fr", "M. Dupont et Mme. Martin ont vu le Dr. Durand."),
        ("fr", "Voir l'art. L. 3, no. 5, av. J.-C. Martin."),
    ],
)
def test_abbreviation_ends_no_sentence(language: str, text: str) -> None:
    assert sentences(text, language) == [text]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Hello.  How are you?\tFine!\r\n\r\n  Bye.", ["Hello.", "How are you?", "Fine!", "Bye."]),
        ("fr", "Il dort. M. Dupont arrive !", ["Il dort.", "M. Dupont arrive !"]),
        ("zh", "你好。我很好！", ["你好。", "我很好！"]),
        ("de", "1. Mai 2020\n1. Der Mai", ["1. Mai 2020", "Der Mai"]),
        ("en", "as it rains.) He sleeps.", ["as it rains.)", "He sleeps."]),
        ("en", "*** \n😀\n--\n?", []),
        ("en", "12345\n3.14\n2024-05-01, 10:30\n½ ①", []),
        ("en", "Room 5", ["Room 5"]),
        ("en", "4.1 The cat sleeps.\n4.1.2  Here.\n4.1 litres", ["The cat sleeps.", "Here.", "4.1 litres"]),
        ("en", " \u00a0 ", []),
        ("en", "", []),
    ],
)
def test_sentences_are_found(language: str, text: str, expected: list[str]) -> None:
    assert sentences(text, language) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("There are\tbooks on the table.", ["There are\tbooks on the table."]),
        ("I saw\tTom. He  slept.", ["I saw\tTom.", "He  slept."]),
        ("The cat    sleeps.", ["The cat    sleeps."]),
        ("There\tare\tbooks\ton the table.", ["There\tare\tbooks\ton the table."]),
        ("\tThe cat\tsleeps.\t", ["The cat\tsleeps."]),
        ("1.\tThe cat\tsleeps.", ["The cat\tsleeps."]),
        ("Où est le chat\t?", ["Où est le chat\t?"]),
        # columns
        ("Total\t5.", ["Total"]),
        ("Name\tAge", ["Name", "Age"]),
        ("Name\tBirth\tIs old.", ["Name", "Birth", "Is old."]),
        ("One\tIt is one.\nTwo\tIt is two.", ["One", "It is one.", "Two", "It is two."]),
        ("One   It is one.\n\nTwo    It is two.", ["One", "It is one.", "Two", "It is two."]),
        ("Note:\tThe cat sleeps.", ["Note:", "The cat sleeps."]),
        ("How are you?\tFine!", ["How are you?", "Fine!"]),
        ("1.\tThe cat", ["The cat"]),
        ("12\tThe cat sleeps.", ["The cat sleeps."]),
    ],
)
def test_gap_ends_a_column_but_not_a_sentence(text: str, expected: list[str]) -> None:
    assert sentences(text, "en") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("北京 上海", ["北京", "上海"]),
        ("姓名　年龄  地址\n你好", ["姓名", "年龄", "地址", "你好"]),
        ("今天 天气很好。", ["今天 天气很好。"]),
        ("我 喜欢 你", ["我 喜欢 你"]),
        ("北京 2024", ["北京 2024"]),
    ],
)
def test_space_between_ideographs_separates_them_in_a_line_without_marks(text: str, expected: list[str]) -> None:
    assert sentences(text, "zh") == expected


@pytest.mark.parametrize("noise", ["\u200b", "\ufeff", "\u00ad", "\u2060", "\u200e"])
def test_invisible_characters_are_inside_sentences_not_around_them(noise: str) -> None:
    text = f"{noise}The c{noise}at{noise} sleeps{noise}.{noise} Bye.{noise}"
    assert sentences(text, "en") == [f"The c{noise}at{noise} sleeps{noise}.", "Bye."]
    assert sentences(f"{noise}- The cat", "en") == ["The cat"]


@pytest.mark.parametrize(
    "marks",
    [
        "-",
        "  *",
        "•",
        ">",
        ">> >",
        "#",
        "###",
        "1.",
        "12)",
        "1.2.3.",
        "a)",
        "(iv)",
        "- [ ]",
        "1. [x]",
        "//",
        "/**",
        "--",
        "<!--",
    ],
)
def test_marks_at_the_start_of_a_line_are_copied(marks: str) -> None:
    text = f"{marks} Hello there. Bye.\n{marks}  one"
    assert sentences(text, "en") == ["Hello there.", "Bye.", "one"]


@pytest.mark.parametrize(
    "text",
    ["-5 degrees", "I am here", "a cat", "1.5 litres", "#1 of all", "A. Smith", "*one* two"],
)
def test_text_that_resembles_a_mark_is_translated(text: str) -> None:
    assert sentences(text, "en") == [text]


@pytest.mark.parametrize("text", ["/* Hello. */", "<!-- Hello. -->", "/** Hello. **/  "])
def test_end_of_a_comment_is_copied(text: str) -> None:
    assert sentences(text, "en") == ["Hello."]


def test_a_protected_span_counts_as_a_word_and_ends_no_sentence() -> None:
    text = "Call `a. B? C!\nD.` now. `x` is it."
    assert sentences(text, "en", protected(text, "`a. B? C!\nD.`", "`x`")) == ["Call `a. B? C!\nD.` now.", "`x` is it."]


def test_closing_tag_belongs_to_the_sentence_before_it() -> None:
    text = "<b>Hello there.</b> How are you?"
    assert sentences(text, "en", protected(text, "<b>", "</b>")) == ["<b>Hello there.</b>", "How are you?"]


def test_protected_span_alone_needs_no_translation() -> None:
    text = "{name}\n{a} 12 {b}.\nHello {c}"
    assert sentences(text, "en", protected(text, "{name}", "{a}", "{b}", "{c}")) == ["Hello {c}"]


def test_table_cells_are_translated_separately() -> None:
    assert sentences("| One | two |\n|-----|\n|three || four\n", "en") == ["One", "two", "three", "four"]


@pytest.mark.parametrize("text", ["\ufeffOne", "One\0two", "-v     One\n--version   two", "One    \t two\x1b"])
def test_control_characters_and_columns_end_a_sentence(text: str) -> None:
    flags = protected(text, *(flag for flag in ("-v", "--version") if flag in text))
    assert [sentence.lower() for sentence in sentences(text, "en", flags)] in (["one"], ["one", "two"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[The door slams]", ["The door slams"]),
        ("( It rains, [he] sleeps.) ", ["It rains, [he] sleeps."]),
        ("[(Two)]", ["Two"]),
        ("(One) or two (three)", ["(One) or two (three)"]),
        ("[1] It rains (now).", ["[1] It rains (now)."]),
        ("It rains (or it does not).", ["It rains (or it does not)."]),
    ],
)
def test_brackets_around_a_sentence_are_copied_and_those_inside_are_not(text: str, expected: list[str]) -> None:
    assert sentences(text, "en") == expected


def test_protected_sentence_is_a_segment_of_its_own() -> None:
    text = "Oui. 你好。 Non."
    assert sentences(text, "fr", protected(text, "你好。")) == ["Oui.", "Non."]


def test_emphasis_ends_with_its_sentence() -> None:
    text = "**Hello there.** How are you?"
    stars = [ProtectedSpan(0, 2, "**"), ProtectedSpan(14, 16, "**")]
    assert sentences(text, "en", stars) == ["**Hello there.**", "How are you?"]


def test_protected_symbols_around_a_sentence_are_copied_and_those_inside_are_not() -> None:
    text = "😀 Hello! 🎉🎉 I ♥ you ✨"
    assert sentences(text, "en", protected(text, "😀", "🎉🎉", "♥", "✨")) == ["Hello!", "I ♥ you"]


def test_empty_tags_around_a_sentence_are_copied_and_those_inside_are_not() -> None:
    text = "<5/>Read <br/> this. <x/>"
    assert sentences(text, "en", protected(text, "<5/>", "<br/>", "<x/>")) == ["Read <br/> this."]


def test_long_line_is_split_like_short_ones() -> None:
    text = "The cat sleeps here. Does it? " * 1_000
    assert sentences(text, "en") == ["The cat sleeps here.", "Does it?"] * 1_000


def test_endless_sentence_is_split_at_spaces() -> None:
    found = sentences("word " * MAX_WINDOW_CHARS, "en")
    assert len(found) > 1
    assert set(" ".join(found).split()) == {"word"}


def test_protected_span_may_exceed_the_window() -> None:
    text = f"See {'x ' * MAX_WINDOW_CHARS} there. Hello."
    assert sentences(text, "en", protected(text, "x " * MAX_WINDOW_CHARS)) == ["See", "there.", "Hello."]


@given(prose_with_protected_spans(), st.integers(1, 20))
def test_splitting_loses_nothing_and_keeps_the_limit(text: tuple[str, list[ProtectedSpan]], limit: int) -> None:
    def length(start: int, end: int) -> int:
        covered = sum(max(0, min(end, one.end) - max(start, one.start)) for one in text[1])
        return end - start - covered + sum(start <= one.start < end for one in text[1])

    for start, end, _ in segments(text[0], "en", text[1]):
        found = split_to_fit(text[0], start, end, text[1], length, limit)
        assert covers(found, start, end)
        assert not cuts(found, text[1])
        assert all(length(part.start, part.end) <= limit for part in found if part.translate)


def cut_by_characters(text: str, limit: int, *ranges: str) -> list[str]:
    return parts(
        text, split_to_fit(text, 0, len(text), protected(text, *ranges), lambda start, end: end - start, limit)
    )


def test_sentence_within_the_limit_is_not_split() -> None:
    assert cut_by_characters("one, two", 8) == ["one, two"]


def test_split_prefers_a_clause_mark_to_a_space_and_a_space_to_the_middle_of_a_word() -> None:
    assert cut_by_characters("one two three, four five", 20) == ["one two three,", " ", "four five"]
    assert cut_by_characters("one two three four", 12) == ["one two", " ", "three four"]
    assert cut_by_characters("abcdefgh", 4) == ["abcd", "efgh"]


def test_split_avoids_protected_spans() -> None:
    assert cut_by_characters("ab{one, two}cdefghi", 17, "{one, two}") == ["ab{one, two}", "cdefghi"]
    assert cut_by_characters("abcd{one, two}", 13, "{one, two}") == ["abcd", "{one, two}"]


def test_sentence_with_too_many_protected_spans_is_split() -> None:
    text = " and ".join(f"{{{n}}}" for n in range(80))
    ranges = protected(text, *(f"{{{n}}}" for n in range(80)))

    def length(start: int, end: int) -> int:
        return sum(start <= one.start < end for one in ranges)

    found = split_to_fit(text, 0, len(text), ranges, length, 32)
    assert [length(s.start, s.end) for s in found if s.translate] == [21, 19, 20, 20]


def test_endless_letters_are_copied_if_the_language_uses_spaces() -> None:
    assert not any(
        segment.translate for segment in split_to_fit("ab,+/" * 100, 0, 500, [], lambda start, end: end - start, 256)
    )
    assert all(
        segment.translate for segment in split_to_fit("你好" * 250, 0, 500, [], lambda start, end: end - start, 256)
    )
    assert cut_by_characters("word " * 100, 499)[1].isspace()


def test_character_that_exceeds_the_limit_alone_is_copied() -> None:
    assert split_to_fit("ab", 0, 2, [], lambda start, end: 4 * (end - start), 3) == [(0, 2, False)]


@pytest.mark.parametrize(
    "unit", ["a/", "a.", "{", "- ", "1.", "* ", "a) ", " ", "\u3000", "?", "]", "-->", "。", "\n- "]
)
def test_segments_cover_hostile_text_too(unit: str) -> None:
    text = unit * (50_000 // len(unit))
    assert covers(segments(text, "en"), 0, len(text))


@given(
    st.from_regex(r"[A-Za-z]([a-zA-Z0-9_,']| (?! )){0,98}[.!?]?", fullmatch=True).filter(
        lambda text: text == text.rstrip()
    )
)
def test_fast_path_splits_like_the_slow_one(text: str) -> None:
    long_way = segments(f"{text}\n", "en")  # nothing with a line end is a plain sentence
    assert long_way == [Segment(0, len(text), True), Segment(len(text), len(text) + 1, False)]
    assert segments(text, "en") == long_way[:1]
