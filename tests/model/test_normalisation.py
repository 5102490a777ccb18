"""Normalisation of source text: the rule, and the offsets of its characters in the original."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from processor_time import least_seconds

from model.normalisation import compose, normalise_source, source_offsets

MARKS = st.text("\u0301\u0316\u0345\u0334\u05b0\u0327\u0344\u0f73\u0f75\u0f71\U0001d165\u3099a é각\uff9e", max_size=40)
NOISE = st.text(" \t\n\u00a0\u2009\u202f\u3000\u200b\u200c\u200d\u00ad\ufeff\u2060\u1680\u061c’'‘ab.é你مक👩\ufe0f")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("There are  books.", "There are books."),
        ("There\tare \u00a0 books\u202f!", "There are books !"),
        ("10\u00a0000\u2009€", "10 000 €"),
        ("one\ntwo", "one two"),
        ("我 喜\u3000欢\u200b你 。", "我喜欢你。"),
        ("用 USB 登录", "用 USB 登录"),
        ("カ メラ", "カメラ"),
        ("가 나", "가 나"),
        ("a \u200b b", "a b"),
        ("in\u00advis\u200bible\ufeff", "invisible"),
        ("l’homme, l'homme", "l'homme, l'homme"),
        ("‘yes’", "'yes'"),
    ],
)
def test_white_space_collapses_and_invisible_characters_are_removed(text: str, plain: str) -> None:
    assert normalise_source(text) == plain


@pytest.mark.parametrize("text", ["می\u200cخواهم", "क्\u200dष", "👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "10 000 “—”…"])
def test_joiners_needed_by_scripts_and_emoji_are_kept(text: str) -> None:
    assert normalise_source(text) == text


def test_other_joiners_are_removed() -> None:
    assert normalise_source("Auf\u200clage \u200dund 你\u200d好\u200c") == "Auflage und 你好"


@given(NOISE)
@example("\u061c\u200d")
def test_normalisation_is_idempotent(text: str) -> None:
    assert normalise_source(normalise_source(text)) == normalise_source(text)


@given(NOISE | st.text())
def test_normalised_characters_map_to_the_text_in_order(text: str) -> None:
    plain, offsets = source_offsets(text)
    assert plain == normalise_source(text)
    assert len(offsets) == len(plain) + 1
    assert offsets[-1] == len(text)
    assert not plain or offsets[0] == 0
    for number, character in enumerate(plain):
        stands_for = text[offsets[number] : offsets[number + 1]]
        if not stands_for:  # a further letter of a ligature
            stands_for = text[offsets[number] - 1]
            assert character in normalise_source(stands_for)
            continue
        shown = normalise_source(stands_for)
        assert character in (shown[-1:], shown[:1]) or character in "\u200c\u200d"


@given(st.lists(MARKS, min_size=1).map("".join), st.integers(1, 20))
def test_composing_long_runs_of_marks_gives_nfc(text: str, times: int) -> None:
    text *= times
    assert compose(text) == unicodedata.normalize("NFC", text)
    assert compose("\u0301\u0316" * 200 + text) == unicodedata.normalize("NFC", "\u0301\u0316" * 200 + text)


@pytest.mark.slow
@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73", "\u0344\u0334"])
def test_composing_takes_time_in_proportion_to_the_marks(marks: str) -> None:
    def seconds(times: int) -> float:
        return least_seconds(lambda: compose("a" + marks * times))

    assert seconds(80_000) < 20 * seconds(10_000)
