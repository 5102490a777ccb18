"""A form of a plural is translated with a number of its category, which its placeholder replaces again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from babel import Locale
from fakes import RandomDecoder, translated

from app.markup.render import render_source
from app.text.plural_numbers import first_only, numbered_passage, sample_number
from model.bundle import Bundle


@pytest.mark.parametrize(
    ("text", "category", "shown"),
    [
        ("%d file", "one", "1 file"),
        ("%d files", "other", "25 files"),
        ("%1$d of your files", "few", "3 of your files"),
        ("Delete %(count)d files in %(folder)s?", "many", "Delete 25 files in %(folder)s?"),
        ("%lld new", "two", "2 new"),
        ("%arg files", "other", "25 files"),
    ],
)
def test_the_only_number_is_shown(text: str, category: str, shown: str) -> None:
    found = numbered_passage(text, category)
    assert found
    passage, placeholder = found
    assert passage.text == shown and placeholder in text
    [term] = passage.terms
    assert passage.text[term.start : term.end] == term.raw == sample_number(category)
    assert render_source(passage) == text
    loud = replace(passage, text=passage.text.upper())
    assert render_source(loud).count(placeholder) == 1


@pytest.mark.parametrize(
    "text",
    ["files", "%s files", "%d of %d files", "%dth file", "%d%% of files", "%d files of 7", "-%d files", "%@ files"],
)
def test_without_one_clear_number_the_text_stays(text: str) -> None:
    assert numbered_passage(text, "other") is None


def test_a_number_within_another_is_not_the_placeholder() -> None:
    found = numbered_passage("%d files", "one")
    assert found and found[0].write("1 file, 21 or 1") == "%d file, 21 or %d"
    assert first_only("%d", "%d file, 21 or %d") == "%d file, 21 or "


@pytest.mark.parametrize(
    ("language", "categories"),
    [
        ("ru", ["one", "few", "many"]),
        ("pl", ["one", "few", "many"]),
        ("cs", ["one", "few", "other"]),
        ("ro", ["one", "few", "other"]),
        ("hr", ["one", "few", "other"]),
        ("ar", ["one", "two", "few", "many"]),
        ("sl", ["one", "two", "few", "other"]),
        ("fr", ["one", "other"]),
    ],
)
def test_numbers_are_of_their_categories(language: str, categories: list[str]) -> None:
    for category in categories:
        assert Locale(language).plural_form(int(sample_number(category))) == category


def test_any_translation_has_the_placeholder(bundle: Bundle) -> None:
    texts = ["%d files were deleted.", "Delete %d files?", "%d files in %s", "All of the %d cats, and a dog"]
    passages = [found[0] for text in texts if (found := numbered_passage(text, "other"))]
    assert len(passages) == len(texts)
    for one in translated(bundle, RandomDecoder(bundle), [[passage] for passage in passages]):
        assert one.text and "%d" in one.text and "25" not in one.text
