"""Which texts of a translation memory are equal, and what a stored translation becomes for an equal text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.memory_slots import MAX_CHARS, MAX_SLOTS, Slot, abstract, normalise, substitute, text_id
from app.text.numbers import find_written_numbers
from app.text.placeholders import find_placeholders
from app.text.symbols import is_nesting

BLANKS = st.text(" \t\u00a0\u3000", max_size=3)
WORDS = st.text("abcdefgéß文字", min_size=1, max_size=6)


def reused(source: str, target: str, new: str, languages: tuple[str, str] = ("en", "fr")) -> str | None:
    """The translation of `new` that the pair gives; None if the texts are not equal."""
    one, other = languages
    stored, asked = abstract(source, one, other), abstract(new, one, other)
    return substitute(stored, abstract(target, other, one), asked) if stored.key == asked.key else None


@pytest.mark.parametrize(
    ("source", "target", "new", "expected"),
    [
        ("Open the file", "Ouvrir le fichier", "  Open\tthe \u00a0file ", "Ouvrir le fichier"),
        ("Wait 30 seconds.", "Attendez 30 secondes.", "Wait 45 seconds.", "Attendez 45 secondes."),
        ("{a} likes {b}", "{b} plaît à {a}", "{x} likes {y}", "{y} plaît à {x}"),
        ("From 10 to 20", "De 10 à 20", "From 20 to 10", "De 20 à 10"),
        ("Page 12 of 12", "Page 12 sur 12", "Page 15 of 15", "Page 15 sur 15"),
        ("On 12/05/2024", "Le 12/05/2024", "On 13/06/2025", "Le 13/06/2025"),
        ("%1$d of %2$d", "%1$d sur %2$d", "%d of %i", "%d sur %i"),
        ("Delete %(name)s", "Supprimer %(name)s", "Delete %(file)s", "Supprimer %(file)s"),
    ],
)
def test_equal_texts_take_the_stored_translation_with_their_own_values(
    source: str, target: str, new: str, expected: str
) -> None:
    assert reused(source, target, new) == expected


@pytest.mark.parametrize(
    ("source", "target", "new"),
    [
        ("Open the file", "Ouvrir le fichier", "open the file"),
        ("Open the file", "Ouvrir le fichier", "Open the file."),
        ("1 file", "1 fichier", "2 file"),
        ("Wait 30 seconds", "Attendez une demi-minute", "Wait 45 seconds"),
        ("It has 1,500 parts", "Il a 1 500 pièces", "It has 2,500 parts"),
        ("It has 12 parts", "Il a 12 pièces", "It has 1,234 parts"),
        ("12 or 12", "12 ou 12", "12 or 13"),
        ("12 and 13", "12 et 12", "14 and 13"),
        ("{name} is here", "{name} est ici, {name}", "{user} is here"),
        ("See {page}", "Voir {page}", "See https://example.org"),
        ("Version 07", "Version 07", "Version 12"),
        ("a\nb", "a\nb", "a b"),
        ("Sections 44 to 46", "Articles 44, 45 et 46", "Sections 127 to 132"),
        ("%s selected", "%s sélectionné", "%d selected"),
        ("%(oneUser)sleft", "%(oneUser)s est parti", "%(severalUsers)sleft"),
    ],
)
def test_texts_that_differ_in_anything_else_are_not_equal(source: str, target: str, new: str) -> None:
    assert reused(source, target, new) is None


def test_numbers_before_which_words_change_take_no_other_number() -> None:
    assert reused("22 files", "22 файла", "25 files", ("en", "ru")) is None
    assert reused("22 files", "22 файла", "32 files", ("en", "ru")) == "32 файла"
    assert reused("Wait 30 seconds", "请等待30秒", "Wait 45 seconds", ("en", "zh")) == "请等待45秒"
    assert reused("In 12 months", "12月后", "In 10 months", ("en", "zh")) is None


def test_a_text_with_noncharacters_equals_no_slot() -> None:
    kind = abstract("Wait 30 seconds", "en", "fr").slots[0].kind
    assert abstract(f"Wait \ufdd0{kind}\ufdd1 seconds", "en", "fr").key != abstract("Wait 30 seconds", "en", "fr").key


@given(st.text(max_size=40))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(BLANKS, min_size=7, max_size=7))
def test_white_space_in_a_line_counts_nothing(words: list[str], blanks: list[str]) -> None:
    spread = blanks[0] + "".join(word + " " + blank for word, blank in zip(words, blanks[1:], strict=False))
    assert abstract(spread, "en", "fr") == abstract(" ".join(words), "en", "fr")
    assert text_id(spread) == text_id(" ".join(words))


@given(
    st.lists(st.one_of(WORDS, st.integers(2, 99_999).map(str), WORDS.map("{{{}}}".format)), min_size=1, max_size=8),
    st.data(),
)
def test_values_put_in_and_taken_back_give_the_first_translation(parts: list[str], data: st.DataObject) -> None:
    source = abstract(" ".join(parts), "en", "fr")
    order = data.draw(st.permutations([slot.value for slot in source.slots]))
    translation = abstract(" mot ".join([*order, "fin"]), "fr", "en")
    values = list(dict.fromkeys(slot.value for slot in source.slots))
    new = {value: f"{{v{number}}}" if value[0] == "{" else f"{number + 200_000}" for number, value in enumerate(values)}
    asked = abstract(" ".join(new.get(part, part) for part in parts), "en", "fr")
    if asked.key != source.key:  # a word of the text may look like a placeholder
        return
    changed = substitute(source, translation, asked)
    if changed is not None:
        assert substitute(asked, abstract(changed, "fr", "en"), source) == translation.text


@given(st.lists(WORDS | st.integers(0, 10**12).map(str), max_size=8).map(" ".join))
def test_the_same_text_always_keeps_the_stored_translation(text: str) -> None:
    source = abstract(text, "en", "fr")
    assert substitute(source, abstract("n'importe quoi 5", "fr", "en"), source) == "n'importe quoi 5"


@pytest.mark.parametrize("text", ["1 a " * (MAX_SLOTS + 1), "{a} " * (MAX_SLOTS + 1), "1 " + "a " * (MAX_CHARS // 2)])
def test_a_text_with_very_many_slots_or_characters_equals_only_itself(text: str) -> None:
    assert abstract(text, "en", "fr").slots == ()
    assert reused(text, "Une fois 1", text.replace("1", "2").replace("{a}", "{b}")) is None
    assert reused(text, "Une fois 1", text) == "Une fois 1"


@given(st.lists(st.sampled_from(["{a}", "1", "12", "a_1", "{b 2}", "-", "3/4", "%1$d", "v1.2", " ", "x"]), max_size=12))
def test_slots_are_the_placeholders_and_the_numbers_that_touch_none(parts: list[str]) -> None:
    text = normalise("".join(parts))
    placeholders = [(one.start, one.end) for one in find_placeholders(text, "en") if not is_nesting(one.raw)]
    numbers = [found.span() for found in find_written_numbers(text, "fr")]
    free = [one for one in numbers if not any(start < one[1] and one[0] < end for start, end in placeholders)]
    slots: tuple[Slot, ...] = abstract(text, "en", "fr").slots
    assert [(slot.start, slot.end) for slot in slots] == sorted(placeholders + free)
