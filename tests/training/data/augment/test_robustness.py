"""Copies in other case and punctuation: both sides change alike, and copies that would make no sense are not made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Tokenizer, Tokenizers
from training.corpora.corpus import Pair, write_pairs
from training.data.augment.name_swaps import NameSwapper
from training.data.augment.robustness import Augmenter, LanguageCasing, augmented_copies, text_copies
from training.data.batches import load_pairs
from training.data.dataset import PreparedSummary
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora
from training.data.vocabulary import train_vocabulary

ENGLISH = ["Yes, the dog saw Tom.", "He said it is late, but he said it.", "Oh, where is Tom when I do it?"]
FRENCH = ["Oui, le chien a vu Tom.", "Tom dit où il est, que j'ai tort.", "Le soir, il dit où."]
GERMAN = ["Ja, das Haus ist alt, und das Haus ist groß.", "Er sagt, dass Tom ist, wo er ist."]
SPANISH = ["Tom dice dónde está, sí, dónde.", "Ella dice, hola Tom."]
CHINESE = ["汤姆在这里。", "我看着你。"]
OF = {
    "en": LanguageCasing.of(ENGLISH, "en"),
    "fr": LanguageCasing.of(FRENCH, "fr"),
    "de": LanguageCasing.of(GERMAN, "de-AT"),
    "es": LanguageCasing.of(SPANISH, "es"),
    "zh": LanguageCasing.of(CHINESE, "zh"),
    "tr": LanguageCasing.of(["Evet, iyi ısı var."], "tr"),
}


def augmenter(source: str, target: str) -> Augmenter:
    return Augmenter(OF[source], OF[target], NameSwapper([]))


def known(character: str) -> bool:
    return True


@pytest.mark.parametrize(
    "text", ["Hi, {name}.", "See a.com now.", "Use get_value.", "100% of it.", "A <b>word</b>.", "An mp3."]
)
def test_copied_parts_are_not_lowercased(text: str) -> None:
    assert augmenter("en", "fr").lower_case(Pair(f"It is Tom. {text}", "Oui.")) is None


@pytest.mark.parametrize(
    ("languages", "pair", "expected"),
    [
        (("en", "fr"), ("Where is Tom?", "Où est Tom ?"), ("where is Tom?", "où est Tom ?")),
        (("en", "fr"), ("Tom is late.", "Tom dit."), None),  # a name on both sides
        (("en", "fr"), ("The dog.", "Tom."), None),  # on one
        (("en", "fr"), ("I do it.", "Il dit."), None),  # I is never lower case
        (("fr", "en"), ("J'ai tort.", "He said it."), ("j'ai tort.", "he said it.")),
        (("en", "de"), ("The house.", "Das Haus."), ("the house.", "das Haus.")),
        (("en", "de"), ("It is old.", "Haus ist alt."), None),  # a noun
        (("en", "de"), ("HE is.", "Er ist."), None),
        (("en", "zh"), ("He said.", "他说。"), ("he said.", "他说。")),
        (("es", "en"), ("¿Dónde está Tom?", "Where is Tom?"), ("¿dónde está Tom?", "where is Tom?")),
    ],
)
def test_first_word_is_lowercased_if_it_is_lowercase_elsewhere(
    languages: tuple[str, str], pair: tuple[str, str], expected: tuple[str, str] | None
) -> None:
    assert augmenter(*languages).lower_first(Pair(*pair)) == expected


@pytest.mark.parametrize(
    ("languages", "pair", "expected"),
    [
        (("en", "fr"), ("Is it?", "Où ?"), ("Is it", "Où")),
        (("en", "zh"), ("It is.", "是。"), ("It is", "是")),
        (("zh", "en"), ("是吗？", "Is it?"), ("是吗", "Is it")),
        (("en", "es"), ("Where is it?", "¿Dónde está?"), ("Where is it", "Dónde está")),
        (("en", "es"), ("Tom, where is it?", "Tom, ¿dónde está?"), None),  # the other mark is inside
        (("en", "fr"), ("It is.", "Où ?"), None),  # not of one kind
        (("en", "fr"), ("It is", "Il dit."), None),
        (("en", "fr"), ("It is...", "Il dit..."), None),
        (("en", "fr"), ("At 9 p.m.", "Le soir."), None),
        (("en", "fr"), ("?", "?"), None),
    ],
)
def test_end_marks_are_removed_from_both_sides_or_from_none(
    languages: tuple[str, str], pair: tuple[str, str], expected: tuple[str, str] | None
) -> None:
    assert augmenter(*languages).drop_final_mark(Pair(*pair)) == expected


def test_only_the_source_is_lowercased() -> None:
    ours = augmenter("en", "fr")
    assert ours.lower_case(Pair("Where is Tom?", "Où est Tom ?")) == ("where is tom?", "où est Tom ?")
    assert ours.lower_case(Pair("Tom and I.", "Tom et moi.")) == ("Tom and i.", "Tom et moi.")
    assert ours.lower_case(Pair("He said it.", "Il dit.")) is None
    assert augmenter("tr", "en").lower_case(Pair("Bu İYİ ISI.", "It is.")) == ("Bu iyi ısı.", "It is.")


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("en", 'It\'s "late".', {"It’s “late”.", 'It\'s "late".'}),
        ("en", "It’s “late”.", {'It\'s "late".', "It’s “late”."}),
        ("fr", "Où est-il ?", {"Où est-il?", "Où est-il ?"}),
        ("zh", "“我看着你”，好！", {"「我看着你」，好！", "“我看着你”,好!", "“我看著你”，好！", "“我看着你”，好！"}),
    ],
)
def test_only_the_source_gets_typographic_variants(source: str, text: str, expected: set[str]) -> None:
    ours = augmenter(source, "de")
    found = {ours.rewrite_punctuation(Pair(text, "Das „Haus“."), Random(seed)) for seed in range(30)}
    assert found == {Pair(changed, "Das „Haus“.") for changed in expected}


def test_caseless_source_has_no_lowercased_copies() -> None:
    assert len(augmenter("en", "zh").changes) == len(augmenter("zh", "en").changes) + 3
    english, french = ["He says he is there.", "Yes, he is."], ["Il dit qu'il est là.", "Oui, il est là."]

    def has_small(source: str, sources: list[str]) -> bool:
        made = text_copies(list(map(Pair, sources, french)), (source, "fr"), Random(1), known)
        return any(target[0].islower() for _, _, target in made)

    assert has_small("en", english)
    assert not has_small("zh", ["他说他在那里。", "是的，他在。"])


SENTENCES = st.text(st.sampled_from("AbtTİßǆé我。.?¿!'’\" \u0301{1"), min_size=1, max_size=12)


@given(
    st.lists(st.builds(Pair, SENTENCES, SENTENCES), min_size=1, max_size=6), st.sampled_from(["en", "tr", "zh", "fr"])
)
def test_every_copy_has_a_different_source_and_no_empty_side(pairs: list[Pair], language: str) -> None:
    for index, source, target in text_copies(pairs, (language, "es"), Random(1), known):
        assert source != pairs[index].source
        assert source.strip() or not pairs[index].source.strip()
        assert target.strip() or not pairs[index].target.strip()


PAIRS = [
    Pair(f"He said it is {word}, Tom.", f"Il dit que c'est {word}, Tom.")
    for word in ("late", "small", "old", "red", "new")
] * 5


def copies(
    pairs: list[Pair] = PAIRS, seed: int = 1, knows: Callable[[str], bool] = known
) -> list[tuple[int, str, str]]:
    return list(text_copies(pairs, ("en", "fr"), Random(seed), knows))


def test_seed_determines_the_copies() -> None:
    assert copies() == copies()
    assert copies() != copies(seed=2)


def test_no_copy_contains_a_character_that_the_vocabulary_lacks() -> None:
    pairs = [Pair("It's late.", "Il est tard.")]
    assert any("’" in source for _, source, _ in copies(pairs))
    assert not any("’" in source for _, source, _ in copies(pairs, knows=lambda character: character != "’"))


def test_number_of_copies_is_as_requested_and_none_is_too_long() -> None:
    tokenizer = Tokenizer(train_vocabulary([side for pair in PAIRS for side in pair], 360, ["en", "fr"]))
    both = Tokenizers.joint(tokenizer)
    found = list(augmented_copies(PAIRS, 30, both, ("en", "fr"), 40, Random(1)))
    assert len(found) == 30
    assert all(0 < len(side) <= 40 for copy in found for side in (copy.source, copy.target))
    assert not list(augmented_copies(PAIRS, 30, both, ("en", "fr"), 2, Random(1)))


def test_no_copy_has_a_sentence_of_the_development_set(tmp_path: Path) -> None:
    """Of eighty numbers that may replace another, half are in the development set."""
    pages = [Pair(f"On page {number}.", f"À la page {number}.") for number in range(20, 100)]
    write_pairs(tmp_path / "pairs.tsv", pages[:40])
    write_pairs(tmp_path / "dev.tsv", pages[40:])
    asked = PrepareOptions(
        (str(tmp_path / "pairs.tsv"),),
        "en",
        "fr",
        tmp_path / "data",
        dev=str(tmp_path / "dev.tsv"),
        vocab_size=340,
        reserved_share=0.0,
        augment_share=1.0,
    )
    assert prepare_corpora(asked, list[str]().append).augmented_copies == 40
    tokenizer, (pairs, _) = Tokenizer.load(tmp_path / "data/sentencepiece.model"), load_pairs(tmp_path / "data")
    trained = {tokenizer.decode(ids).rstrip(".") for ids in pairs.source.sequences(np.arange(len(pairs)))}
    assert trained == {pair.source.rstrip(".") for pair in pages[:40]}


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_data_folder_records_its_number_of_copies(tmp_path: Path, share: float) -> None:
    write_pairs(tmp_path / "pairs.tsv", [Pair(f"{en} {n}!", f"{fr} {n} !") for n, (en, fr) in enumerate(PAIRS)])
    out, said = tmp_path / "data", list[str]()
    asked = PrepareOptions((str(tmp_path / "pairs.tsv"),), "en", "fr", out, vocab_size=360, augment_share=share)
    summary = prepare_corpora(asked, said.append)
    assert PreparedSummary.load(out) == summary
    kept = summary.pairs - summary.copies
    assert summary.augmented_copies == round(share * kept)
    assert len(load_pairs(out)[0]) == summary.pairs
    assert any(f"{summary.augmented_copies} copies with different case" in line for line in said)
