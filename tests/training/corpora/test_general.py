"""Our own general text: pairs of two languages, and sentences of one."""

from __future__ import annotations

import pytest

from training.corpora.general import general_pairs, general_pairs_of, general_sentences
from training.export.samples import SENTENCES

LANGUAGES = sorted(SENTENCES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_exist_in_all_our_languages_once_each_and_are_no_samples(language: str) -> None:
    for other in set(LANGUAGES) - {language}:
        pairs = general_pairs(language, other)
        assert len(pairs) == 160
        assert all(side and side == side.strip() for pair in pairs for side in pair)
        assert len({pair.source for pair in pairs}) == 160
        assert [pair[::-1] for pair in pairs] == [tuple(pair) for pair in general_pairs(other, language)]


def test_region_is_ignored_and_unknown_language_has_no_pairs() -> None:
    assert general_pairs("en-GB", "pt") == general_pairs("sv", "en") == []
    assert general_pairs("en-GB", "zh-CN") == general_pairs("en", "zh")
    assert general_sentences("sv") == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_many_and_distinct(language: str) -> None:
    sentences = general_sentences(language)
    assert len(set(sentences)) == len(sentences) > 2000
    assert all(text and text == " ".join(text.split()) for text in sentences)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_to_rehearse_is_also_a_test_sentence(language: str) -> None:
    measured = {pair.source for other in LANGUAGES if other != language for pair in general_pairs(language, other)}
    assert not measured & set(general_sentences(language))


def test_bundle_carries_its_own_general_pairs_or_ours() -> None:
    languages = {"source": "en", "target": "fr"}
    assert general_pairs_of(languages | {"general": [["A", "B"]]}) == [("A", "B")]
    assert general_pairs_of(languages) == general_pairs("en", "fr")
    assert general_pairs_of(languages | {"general": []}) == []
    for wrong in ("text", [["one"]], [[1, 2]], [None]):
        with pytest.raises(ValueError, match="is not a list of text pairs"):
            general_pairs_of(languages | {"general": wrong})
