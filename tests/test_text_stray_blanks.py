"""A translation has no stray blanks; those of the source's own spacing stay."""

from __future__ import annotations

import pytest

from app.text.stray_blanks import without_stray_blanks


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
