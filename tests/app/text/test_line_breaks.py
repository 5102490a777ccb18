"""Hard-wrapped text: its paragraphs are joined and wrapped again; lists, verse and similar keep their lines."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats import Document, read
from app.text.line_breaks import logical_lines

PROSE = """The old man walked slowly down the street, looking at the houses on
both sides as if he had never seen them before. He had lived in this
town for more than fifty years and knew every stone of it.
"""
ONE_LINE = " ".join(PROSE.split()) + "\n"
OTHERS = {
    "list": ["- the first point of the list, which is quite long", "- the second point", "- the third one, long too"],
    "numbers": [
        "1. Open the box and take everything out of it now.",
        "2. Read the manual.",
        "10) Close the box again.",
    ],
    "verse": [
        "Shall I compare thee to a summer's day?",
        "Thou art more lovely and more temperate:",
        "Rough winds do shake the darling buds of May,",
        "And summer's lease hath all too short a date;",
    ],
    "small verse": ["the rose is red,", "the violet's blue,", "and sugar is sweet,", "and so are you."],
    "address": ["John Smith", "12 Main Street", "Springfield"],
    "table": [
        "Name      Age     City, and what else there is to tell",
        "John      12      Paris, and what else",
    ],
    "pipes": ["| a | some words that make this as wide as others are |", "| b | other words that make it as wide |"],
    "tabs": ["name\tsome words that make this as wide as the others are", "John\tsome words that make it as wide"],
    "code": ["int main(void) { int number = 0; return number + 1; }", "int other(void) { int number = 0; return 2; }"],
    "fence": [
        "```",
        "print all the words of the text that was given to it and",
        "then print all of them again",
        "```",
    ],
    "quotation": ["> You wrote on Monday that the whole thing is going to be", "> done by the end of the week."],
    "heading": ["A title of this text", "===================="],
    "sentences": [
        "The first sentence of them stands on a line alone.",
        "The second sentence of them stands on a line too.",
        "And the third one is the last of them, on its own.",
    ],
    "paragraphs": ["This is one.", "This paragraph is another line, and a longer one than the first.", "Short."],
    "mail": ["From: Ann", "To: Bob", "Subject: What we said on Monday about the whole thing"],
}
LIST = "\n".join([*OTHERS["list"], ""])
NARROW = textwrap.fill(ONE_LINE, 50) + "\n"
INDENTED = textwrap.indent(PROSE, "    ")
ITEM = textwrap.fill(ONE_LINE, 60, initial_indent="- ", subsequent_indent="  ") + "\n"
BOOK = textwrap.fill(ONE_LINE, 64, initial_indent="     ") + "\n"
CHINESE = (
    "老人慢慢地走在街上，看着两边的房子，好像他从来没有见过它们\n"
    "一样。他在这个城镇住了很多年，认识它的每一块石头，也认识那\n"
    "里的每一个人。\n"
)


def joined(text: str) -> list[str]:
    """The paragraphs that are joined."""
    return [line.text for line in logical_lines(text, "auto") if line.wrapping]


@pytest.mark.parametrize("text", [PROSE, NARROW, PROSE.replace("\n", "\r\n"), PROSE.rstrip("\n")])
def test_wrapped_paragraph_is_joined_to_one_line(text: str) -> None:
    assert [one.strip() for one in joined(text)] == [ONE_LINE.strip()]


def test_indentation_stays_before_the_paragraph() -> None:
    assert joined(INDENTED) == [f"    {ONE_LINE}"]
    assert joined(BOOK) == [f"     {ONE_LINE}"]
    assert joined(ITEM + ITEM) == [f"- {ONE_LINE}"] * 2
    assert joined(BOOK + BOOK) == [f"     {ONE_LINE}"] * 2


def test_no_space_is_inserted_between_ideographs() -> None:
    assert joined(CHINESE) == [CHINESE.replace("\n", "") + "\n"]


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("beside", ["", PROSE + "\n"])
def test_intended_line_breaks_are_kept(kind: str, beside: str) -> None:
    text = "\n".join([*OTHERS[kind], ""])
    assert joined(beside + text) == ([ONE_LINE] if beside else [])


def test_two_lines_are_a_paragraph_if_the_text_is_wrapped_or_a_sentence_is_broken() -> None:
    two = "He stopped in front of the house in which his brother had lived,\nand knocked.\n"
    assert joined(two) == [two.replace(",\n", ", ")]
    capital = two.replace("and knocked", "Tom knocked")
    assert joined(capital) == []
    assert joined(f"{PROSE}\n{capital}") == [ONE_LINE, capital.replace(",\n", ", ")]


@pytest.mark.parametrize("text", [PROSE, NARROW, INDENTED, ITEM, BOOK, CHINESE])
def test_wrapping_again_restores_the_text(text: str) -> None:
    [line] = logical_lines(text, "auto")
    assert line.wrapping
    assert line.wrapping.wrap(line.text.rstrip("\n")) + "\n" == text


def test_hyphenated_word_keeps_its_hyphen_and_gets_no_space() -> None:
    text = PROSE.replace("had never seen them before", "had never seen well-\nknown houses like them")
    assert "well-known" in logical_lines(text, "join")[0].text


@given(text=st.text(st.sampled_from("ab .-\n\r\t>你，")), line_breaks=st.sampled_from(["keep", "join", "auto"]))
def test_nothing_is_lost_and_no_line_is_too_wide(text: str, line_breaks: str) -> None:
    found = logical_lines(text, line_breaks)  # type: ignore[arg-type]
    assert "".join(text[one.start : one.end] for one in found) == text
    for one in found:
        raw = text[one.start : one.end]
        assert "".join(one.text.split()) == "".join(raw.split())
        if not one.wrapping:
            assert one.text == raw
        else:
            assert len(one.text.splitlines()) == 1
            assert "".join(one.wrapping.wrap(one.text).split()) == "".join(raw.split())


def shouted(document: Document) -> str:
    return document.write([passage.text.upper() for passage in document.passages]).decode()


def test_file_is_joined_and_wrapped_unless_lines_are_kept() -> None:
    content = (PROSE + "\n" + LIST).encode()
    assert [p.text for p in read("a.txt", content).passages] == [ONE_LINE + "\n" + LIST]
    assert [p.text for p in read("a.txt", content, line_breaks="keep").passages] == [content.decode()]
    assert shouted(read("a.txt", content)) == content.decode().upper()
    longer = read("a.txt", content).write([ONE_LINE.replace("old", "very old") + "\n" + LIST]).decode()
    *lines, _ = longer.split("\n\n")[0].splitlines()
    assert all(60 <= len(line) <= 68 for line in lines)
    assert longer.endswith("\n\n" + LIST)


def test_join_option_joins_lines_that_do_not_look_wrapped() -> None:
    text = "One two\nthree four five\nsix.\n\n- a\n- b\n"
    assert [p.text for p in read("a.txt", text.encode(), line_breaks="join").passages] == [
        "One two three four five six.\n\n- a\n- b\n"
    ]


def test_joined_lines_keep_their_line_numbers() -> None:
    content = f"{PROSE}\nThe end.\n".encode()
    [place] = read("a.txt", content).locations
    assert [place.at(offset).line for offset in (0, 5, len(ONE_LINE), len(ONE_LINE) + 3)] == [1, 1, 4, 5]
