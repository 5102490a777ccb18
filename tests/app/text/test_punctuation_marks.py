"""Repeated punctuation: one mark for the model, all of them in the translation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processor_time import least_seconds

from app.text.punctuation_marks import collapse_repeated_marks, restore_repeated_marks, without_stray_blanks
from model.normalisation import normalise_source


@pytest.mark.parametrize(
    ("text", "to_the_model"),
    [
        ("Stop!!", "Stop!"),
        ("Really???", "Really?"),
        ("What!?!?", "What?"),
        ("Wait....", "Wait."),
        ("Wait...", "Wait."),
        ("等等。。", "等等。"),
        ("停！！", "停！"),
        ("¡¡Alto!!", "¡Alto!"),
        ('"No!!" he said.', '"No!" he said.'),
        ('He said "no..."', 'He said "no."'),
        ("Well... maybe.", "Well... maybe."),
        ("Stop!\u200b!", "Stop!"),
        ("Stop! ! a.b", "Stop! ! a.b"),
    ],
)
def test_model_reads_one_mark_of_a_repeated_run(text: str, to_the_model: str) -> None:
    [part] = collapse_repeated_marks([text])
    assert isinstance(part, str)
    assert normalise_source(part) == to_the_model
    assert len(part) == len(text)


def test_repeated_stops_before_protected_text_end_no_sentence() -> None:
    assert collapse_repeated_marks(["Wait...", 0, "!!"]) == ["Wait...", 0, "!\u200b"]


@given(st.lists(st.text("!?.。！ a\u200b\"'") | st.just(0), max_size=4))
def test_parts_keep_their_length(parts: list[str | int]) -> None:
    for before, after in zip(parts, collapse_repeated_marks(parts), strict=True):
        assert after == before if isinstance(before, int) else len(str(after)) == len(before)


@pytest.mark.parametrize(
    ("source", "translation", "with_row"),
    [
        ("Stop!!", "Arrête !", "Arrête !!"),
        ("Stop!!", "停！", "停！！"),
        ("停！！", "Stop!", "Stop!!"),
        ("Really?!", "Vraiment ?", "Vraiment ?!"),
        ("What!?!?", "Quoi", "Quoi!?!?"),
        ("Wait....", "Attends.", "Attends...."),
        ("Wait....", "Attends !", "Attends...."),
        ("Wait....", "等等。", "等等……"),
        ("等等。。", "Wait.", "Wait.."),
        ('"No!!" he said.', "« Non ! » dit-il.", "« Non !! » dit-il."),
        ('He said "no!!"', "Il dit « non. »", "Il dit « non!! »"),
        ("Stop! Stop!! Stop!", "Halte ! Halte ! Halte !", "Halte ! Halte !! Halte !"),
        ("Stop!! she said.", "« Halte ! Halte ! » dit-elle.", "« Halte ! Halte ! » dit-elle."),
        ("Stop.", "Arrête.", "Arrête."),
        ("Stop!!", "", ""),
        ("¡¿Qué?!", "¿Qué?", "¡¿Qué?!"),
        ("¡¿Qué?!", "What?", "What?!"),
        ("A¡¿", "A¿", "A¡¿"),
        ("A¡¿", "A!", "A!"),
    ],
)
def test_repeated_marks_of_the_source_are_in_the_translation(source: str, translation: str, with_row: str) -> None:
    assert restore_repeated_marks([source], [translation]) == [with_row]


@given(st.lists(st.text('!?. a»"'), min_size=1, max_size=4), st.lists(st.text('!?. é»"'), min_size=1, max_size=6))
def test_repeated_marks_are_restored_in_tokens_as_in_text(source: list[str], texts: list[str]) -> None:
    found = restore_repeated_marks(source, texts)
    assert len(found) == len(texts)
    assert "".join(found) == restore_repeated_marks(source, ["".join(texts)])[0]
    words = str.maketrans(dict.fromkeys("!?.。… ", ""))
    assert [text.translate(words) for text in found] == [text.translate(words) for text in texts]


@pytest.mark.parametrize("mark", ["!", ".", "?\u200b", "。", "! "])
def test_rows_of_marks_take_time_in_proportion_to_their_length(mark: str) -> None:
    def seconds(times: int) -> float:
        text = mark * times + "x"
        return least_seconds(lambda: (collapse_repeated_marks([text]), restore_repeated_marks([text], ["a", "b"])))

    # 32,000 marks before a letter took 40 seconds.
    assert seconds(16_000) < 24 * seconds(2_000)


def tidied(
    *texts: str, protected: tuple[int, ...] = (), source: str = "A {0} b.", to: str = "de", of: str = "en"
) -> list[str]:
    return without_stray_blanks(texts, protected, source, of, to)


def test_run_of_blanks_becomes_one() -> None:
    assert tidied("un ", " ", " nouveaux") == ["un", "", " nouveaux"]
    assert tidied("un", " ", " nouveaux", protected=(1,)) == ["un", " ", " nouveaux"]
    assert tidied("Quoi ", "\u00a0?", to="fr") == ["Quoi", "\u00a0?"]
    assert tidied(" a", " b ") == ["a", " b"]


@pytest.mark.parametrize("mark", [".", ",", "?", "!", ";", ":", "。", "，"])
def test_no_blank_is_left_before_a_mark(mark: str) -> None:
    assert tidied("Vorhang", " ", mark) == ["Vorhang", "", mark]
    assert tidied("Vorhang", " ", mark, protected=(0,)) == ["Vorhang", "", mark]


def test_french_has_blanks_before_some_marks_and_names_may_begin_with_a_mark() -> None:
    assert tidied("Quoi", " ?", to="fr") == ["Quoi", " ?"]
    assert tidied("Quoi", " .", to="fr") == ["Quoi", "."]
    assert tidied("mit .NET", " ...") == ["mit .NET", " ..."]


def test_no_blank_is_left_inside_brackets() -> None:
    assert tidied("a (", " b", " ", ")") == ["a (", "b", "", ")"]


@pytest.mark.parametrize("source", ["A {0} , b .", "A ( {0} ) b."])
def test_blanks_of_the_source_are_kept(source: str) -> None:
    assert tidied("a ( b ) ,  c .", source=source) == ["a ( b ) , c ."]


def test_ideographs_have_no_blanks_between_them_unless_the_source_has() -> None:
    assert tidied("一只风冷", " 美", "。", to="zh") == ["一只风冷", "美", "。"]
    assert tidied("北京 上海", of="ja", to="zh") == ["北京 上海"]
    assert tidied("用", " ", "登录", protected=(1,), to="zh") == ["用", " ", "登录"]
