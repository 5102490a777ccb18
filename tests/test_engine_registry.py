"""Bundles are found at the start, or the start ends with a line that says what is wrong."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import make_bundle

from app.catalogue import Catalogue, bundle_folders, load_catalogue, worker_count
from app.errors import PairNotServed
from app.main import create_app
from app.settings import Settings, SettingsError
from model.bundle import Bundle, BundleError


def test_every_bundle_of_the_folder_is_loaded(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr", "en", "fr")
    make_bundle(tmp_path / "fr-en", "fr", "en", seed=1)
    (tmp_path / "README.md").write_text("not a bundle")
    (tmp_path / ".en-de.partial").mkdir()
    (tmp_path / "lost+found").mkdir()
    catalogue = load_catalogue(Settings(bundles=tmp_path))
    assert [bundle.pair for bundle in catalogue] == ["en-fr", "fr-en"]
    assert catalogue.find("fr", "en").folder == tmp_path / "fr-en"


def test_the_folder_may_be_a_bundle_itself(bundle_folder: Path) -> None:
    assert bundle_folders(bundle_folder / "en-fr") == [bundle_folder / "en-fr"]


def test_two_bundles_for_one_pair_are_both_named(bundle_folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(bundle_folder / "en-fr", tmp_path / name)
    with pytest.raises(BundleError, match=r"one and .*two both translate en-fr"):
        load_catalogue(Settings(bundles=tmp_path))


@pytest.mark.parametrize("place", ["", "missing"])
def test_without_a_bundle_the_error_says_how_to_get_one(tmp_path: Path, place: str) -> None:
    with pytest.raises(BundleError, match=r"python -m training run.*INTERLINEAR_BUNDLES"):
        load_catalogue(Settings(bundles=tmp_path / place))


def test_a_folder_that_may_not_be_read_is_said(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        with pytest.raises(BundleError, match=r"cannot be read \(Permission denied\)"):
            load_catalogue(Settings(bundles=bundle_folder))


def test_a_changed_file_is_named(bundle_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle_folder, tmp_path / "bundles")
    weights = tmp_path / "bundles" / "en-fr" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    with pytest.raises(BundleError, match=r"model\.safetensors"):
        load_catalogue(Settings(bundles=tmp_path / "bundles"))


def test_a_pair_is_found_in_its_direction_only(bundle: Bundle) -> None:
    catalogue = Catalogue([bundle])
    assert catalogue.find("en", "fr") is bundle
    with pytest.raises(PairNotServed, match="from fr to en"):
        catalogue.find("fr", "en")


def test_a_gpu_that_is_not_there_is_said_at_the_start(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="INTERLINEAR_DEVICE="):
        create_app(Settings(device="cuda"), Catalogue([bundle]))


def test_there_is_a_worker_for_each_core_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.catalogue.usable_cores", lambda: 3)
    assert worker_count(Settings(device="cpu")) == 3
    assert worker_count(Settings(device="cpu", workers=2)) == 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert worker_count(Settings()) == 1
