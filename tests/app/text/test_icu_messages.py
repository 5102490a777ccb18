"""ICU messages: the words in their branches are passages, and their syntax is preserved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import RandomDecoder, translated
from hypothesis import given
from hypothesis import strategies as st

from app.markup.extract import markup_pieces
from app.markup.passage import Passage
from app.markup.render import render_source
from app.text.icu_messages import has_branches, message_pieces
from model.bundle import Bundle

FILES = "{n, plural, one {# file} other {# files}}"


def passages(text: str) -> list[str]:
    return [piece.text for piece in message_pieces(text) or [] if isinstance(piece, Passage)]


def shouted(text: str) -> str:
    """The message with its passages in capitals, and the rest unchanged."""
    loud = (
        p if isinstance(p, str) else render_source(replace(p, text=p.text.upper())) for p in message_pieces(text) or []
    )
    return "".join(loud)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FILES, ["1 file", "25 files"]),
        ("{count, plural, =0{No items} =1{1 item} other{{count} items}}", ["No items", "1 item", "{count} items"]),
        ("{n,selectordinal,one{#st} two{#nd} few{#rd} other{#th}}", ["#st", "#nd", "#rd", "#th"]),
        ("{n, plural, offset:1 one {it''s '{'a'}'} other {# of}}", ["it's '{'a'}'", "25 of"]),
        (
            "{g, select, male {He} other {They}} {n, plural, one {saw #} other {saw #s}}.",
            ["He", "They", "saw 1", "saw #s"],
        ),
        (f"({FILES})", ["1 file", "25 files"]),
        (f"{FILES} in {{m, plural, other {{# folders}}}}", ["1 file", "25 files", "in", "25 folders"]),
    ],
)
def test_each_branch_is_translated_separately(text: str, expected: list[str]) -> None:
    assert passages(text) == expected


def test_words_around_the_only_choice_move_into_its_branches() -> None:
    assert shouted("Move {n, plural, one {# file} other {# files}} to {folder}, please.") == (
        "{n, plural, one {MOVE # FILE TO {folder}, PLEASE.} other {MOVE # FILES TO {folder}, PLEASE.}}"
    )


def shouted_in(text: str, target: str) -> str:
    """The message with its passages in capitals, for another language."""
    pieces = message_pieces(text, target) or []
    return "".join(p if isinstance(p, str) else render_source(replace(p, text=p.text.upper())) for p in pieces)


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        (FILES, "de", "{n, plural, one {# FILE} other {# FILES}}"),
        (FILES, "fr", "{n, plural, one {# FILE} many {# FILES} other {# FILES}}"),
        (FILES, "zh", "{n, plural, other {# FILES}}"),
        (FILES, "ru", "{n, plural, one {# FILE} few {# FILES} many {# FILES} other {# FILES}}"),
        (FILES, "xx", "{n, plural, one {# FILE} other {# FILES}}"),
        (
            "{n,plural,=0{None}one{A file}other{# files}}",
            "fr",
            "{n,plural,=0{NONE}one{A FILE}many{# FILES}other{# FILES}}",
        ),
        ("{n,plural,=0{None}one{A file}other{# files}}", "zh", "{n,plural,=0{NONE}other{# FILES}}"),
        ("{n,plural,one{A file}other{# files}}", "hr", "{n,plural,one{# FILES}few{# FILES}other{# FILES}}"),
        (f"Open {FILES}.", "zh", "{n, plural, other {OPEN # FILES.}}"),
        ("{n,selectordinal,one{#st} two{#nd} few{#rd} other{#th}}", "fr", "{n,selectordinal,one{#ST} other{#TH}}"),
        ("{n,selectordinal,one{#st} two{#nd} few{#rd} other{#th}}", "de", "{n,selectordinal, other{#TH}}"),
        ("{g, select, one {He} other {They}}", "zh", "{g, select, one {HE} other {THEY}}"),
        (
            f"{{g, select, male {{{FILES}}} other {{x}}}}",
            "zh",
            "{g, select, male {{n, plural, other {# FILES}}} other {X}}",
        ),
        ("{n, plural, offset:1 one {# x} other {y}}", "zh", "{n, plural, offset:1 other {Y}}"),
    ],
)
def test_plurals_have_the_categories_of_the_target(text: str, target: str, expected: str) -> None:
    assert shouted_in(text, target) == expected
    assert message_pieces(shouted_in(text, target)) is not None


def test_number_sign_keeps_its_meaning() -> None:
    inner = "{n, plural, one {# file in {m, plural, other {# folders}}} other {x}}"
    assert shouted(inner) == "{n, plural, one {# FILE IN {m, plural, other {# FOLDERS}}} other {X}}"
    assert shouted(f"Room #1 has {FILES}") == "ROOM #1 HAS {n, plural, one {# FILE} other {# FILES}}"


@pytest.mark.parametrize(
    "text",
    [
        "{name}",
        "{price, number, currency} a",
        "{n, plural, one {# file}",
        "{n, plural, one {# file} other {# files}",
        "{n, plural, one {# file}}",
        "{n, plural, single {# file} other {# files}}",
        "{n, plural, one {a} one {b} other {c}}",
        FILES + "}",
        FILES + " {",
        "{n, plural, one {a '{ b} other {c}}",
        "{n, plural, other {{a b c}}}",
        "{n, plural, other {" * 10 + "}}" * 10,
    ],
)
def test_doubtful_texts_are_not_messages(text: str) -> None:
    assert message_pieces(text) is None


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("l'", "{n, plural, other {l’{name}}}"),
        ("d'un '", "{n, plural, other {d'un ’{name}}}"),
        ("a {b} # ", "{n, plural, other {a (b) '#' {name}}}"),
    ],
)
def test_translation_adds_no_message_syntax(translation: str, expected: str) -> None:
    pieces = message_pieces("{n, plural, other {x {name}}}")
    assert pieces
    written = (p if isinstance(p, str) else p.write(translation) + p.protected[0].raw for p in pieces)
    assert "".join(written) == expected
    [passage] = [p for p in message_pieces("{n, plural, other {it''s}}") or [] if isinstance(p, Passage)]
    assert passage.write("l'a") == "l''a"


MESSAGES = st.recursive(
    st.text(st.sampled_from("ab #'’\n."), max_size=5).map(lambda text: text.replace("'", "''"))
    | st.sampled_from(["{name}", "{n, number}", "'{'", "'{a}'"]),
    lambda inner: (
        st.lists(inner, max_size=3).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"{{n, plural, =0 {{{two[0]}}} other {{{two[1]}}}}}")
        | st.tuples(inner, inner).map(lambda two: f"{{g,select,a-b{{{two[0]}}}other{{{two[1]}}}}}")
    ),
    max_leaves=8,
)


@given(MESSAGES)
def test_a_written_message_has_the_same_branches(text: str) -> None:
    pieces = message_pieces(text)
    if pieces is None:
        return
    written = shouted(text)
    again = message_pieces(written)
    assert again is not None
    assert shouted(written) == written
    for sign in ("plural, =0 {", "select,a-b{", "other {", "other{"):
        assert written.count(sign) == text.count(sign)


@given(st.text(st.sampled_from("{}',# plura other=0n")) | MESSAGES)
def test_any_text_is_read_without_an_error(text: str) -> None:
    if message_pieces(text) is not None:
        assert has_branches(text)


def test_long_messages_are_not_multiplied_without_limit() -> None:
    beside = "word " * 2_000
    text = beside + "{n, plural, " + " ".join(f"={number} {{a}}" for number in range(100)) + " other {b}}"
    assert sum(map(len, passages(text))) < 2 * len(text)


def test_messages_of_any_length_take_bounded_memory() -> None:
    assert message_pieces("{n,plural,one{a}other{b}} " * 1_500, "ar") is None  # six branches each
    assert message_pieces("{n,plural,one{a}other{b}} " * 5_000) is None
    assert message_pieces("{n,plural,one{a}other{b}} " * 100, "ar") is not None


def test_plain_text_may_be_a_message(bundle: Bundle) -> None:
    [one] = translated(bundle, RandomDecoder(bundle), ["{n, plural, one {Hello # cat} other {Hello # cats}}"])
    assert one.text and one.text.startswith("{n, plural, one {") and one.text.count("#") == 3  # many, too
    assert one.text != "{n, plural, one {Hello # cat} other {Hello # cats}}"


def nested(inner: str, depth: int) -> str:
    return "{n,plural,other{" * depth + inner + "}}" * depth


@pytest.mark.parametrize(
    "text",
    [
        nested("a", 8),
        nested("word " * 3_000, 5),
        f"{'word ' * 1_900}{nested('a', 5)}",
        f"word '{{{'x' * 40_000}}}' {nested('a', 5)}",
        f"word{'{n}' * 5_000}{{s,select,other{{}}{' '.join(f'b{n}{{x}}' for n in range(3_000))}}}",
        *(
            nested(f"{'word ' * 20}{{s,select,{' '.join(f'b{n}{{x}}' for n in range(9))} other{{}}}}", n)
            for n in (2, 3)
        ),
    ],
)
def test_branches_in_branches_are_written_in_proportion_to_the_message(text: str) -> None:
    pieces = message_pieces(text, "ar") or []
    size = sum(len(piece.text if isinstance(piece, Passage) else piece) for piece in pieces)
    assert size <= max(64 * len(text), 200_000) and len(pieces) <= 30 * len(text)


def test_three_plurals_in_each_other_are_a_message_in_any_language() -> None:
    text = "{c, plural, one {is here} other {are here}}"
    for name in ("folder", "file"):
        text = f"{{{name}, plural, one {{# {name} {text}}} other {{# {name}s {text}}}}}"
    pieces = message_pieces(f"Now {text}.", "ar")
    assert pieces is not None
    assert sum(isinstance(piece, Passage) for piece in pieces) >= 6**3


def leaves(markup: str) -> list[str]:
    """The pieces of a message in HTML, as written."""
    [passage] = [piece for piece in markup_pieces(markup) if isinstance(piece, Passage)]
    pieces = message_pieces(passage) or []
    return [render_source(piece) for piece in pieces if isinstance(piece, Passage)]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("{n, plural, one {a <b>dog</b>} other {<i>{n}</i> dogs}}", ["a <b>dog</b>", "<i>{n}</i> dogs"]),
        (
            "<p>See {n, plural,\n =0 {no dog}\n other {{{n}} dogs}}&nbsp;now.</p>",
            ["See no dog now.", "See {{n}} dogs now."],
        ),
        ("{g, select, a {x &amp; <code>{</code>} other {y}}", ["x &amp; <code>{</code>", "y"]),
        ("<div>{n, plural, =0 {No<br>dog} other {<p>{n} dogs</p>}}</div>", ["No<br>dog", "<p>{n} dogs</p>"]),
        ("{n, plural, one {<b>one} other {two</b>}}", ["<b>one", "two</b>"]),
        ('{n, plural, other {see <a title="a dog">it</a>}}', ['see <a title="a dog">it</a>']),
    ],
)
def test_branches_keep_their_tags(markup: str, expected: list[str]) -> None:
    assert [leaf.replace("&nbsp;", " ") for leaf in leaves(markup)] == expected


PARTS = ["{n, plural,", " one {", "other {", "}", "}", "<b>", "</b>", "<i>", "</i>", " cat", "#", "\n ", "{x}", "&amp;"]


@given(st.lists(st.sampled_from(PARTS)))
def test_message_in_markup_has_all_its_tags_and_text(parts: list[str]) -> None:
    for piece in markup_pieces("{n, plural, one {" + "".join(parts) + "} other {a cat}}"):
        if isinstance(piece, Passage) and (pieces := message_pieces(piece)) is not None:
            written = "".join(one if isinstance(one, str) else render_source(one) for one in pieces)
            assert written == render_source(piece)
