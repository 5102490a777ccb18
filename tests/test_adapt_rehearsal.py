"""Rehearsal: made once, from our sentences or the user's, with the bundle's own translations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import make_bundle

from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from training.adapt import rehearsal
from training.adapt.rehearsal import Rehearsal, translated
from training.corpora.corpus import Pair
from training.corpora.general import general_sentences


@pytest.fixture
def bundle(tmp_path: Path) -> LoadedBundle:
    return load_bundle(make_bundle(tmp_path / "bundle"), torch.device("cpu"))


def test_our_sentences_are_rehearsed_or_the_different_lines_of_a_text(bundle: LoadedBundle, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n\nTwo.\nOne.\n", encoding="utf-8")
    assert list(Rehearsal.of(bundle, (), tmp_path).sentences) == general_sentences("en")
    assert list(Rehearsal.of(bundle, (str(tmp_path / "a.txt"),), tmp_path).sentences) == ["One.", "Two."]


def test_it_is_made_once_and_anew_for_other_sentences_another_bundle_or_a_changed_file(
    bundle: LoadedBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "translated", lambda bundle, runner, texts: [Pair(text, "x") for text in texts])
    work = tmp_path / "work"
    ours = Rehearsal(bundle, ["One.", "Two."], work)
    assert not ours.is_made
    ours.make(lambda line: None)
    assert ours.is_made and not ours.is_empty
    assert ours.path.read_text(encoding="utf-8") == "One.\tx\nTwo.\tx\n"
    assert Rehearsal(bundle, ["One.", "Two."], work).is_made
    assert not Rehearsal(bundle, ["One."], work).is_made
    another = load_bundle(make_bundle(tmp_path / "another", seed=1), torch.device("cpu"))
    assert not Rehearsal(another, ["One.", "Two."], work).is_made
    ours.path.write_text("One.\tx\n", encoding="utf-8")
    assert not ours.is_made


def test_the_translations_are_the_bundle_s_and_what_is_no_translation_is_left_out(bundle: LoadedBundle) -> None:
    texts = ["Hello.", "How are you?", "", "The cat sleeps. " * 40]
    found = translated(bundle, prepare(bundle.model, "float32"), texts)
    assert {pair.source for pair in found} <= set(texts[:2])
    assert all(pair.target == pair.target.strip() != "" for pair in found)
