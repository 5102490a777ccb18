"""Bundles are found at startup, or the service exits with a line that says what is wrong."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from shared_fixtures import make_bundle, with_processor_features

from app.engine.registry import Catalogue
from app.errors import PairNotServed
from app.main import create_app
from app.services.startup import (
    FRONT_GROWTH_BYTES,
    INT8_BYTES_PER_WEIGHT_BYTE,
    INT8_WORKER_BYTES,
    PREPARING_BYTES_PER_WEIGHT_BYTE,
    WORKER_BYTES,
    bundle_folders,
    load_catalogue,
    worker_config,
    worker_count,
)
from app.settings import Settings, SettingsError
from model.bundle import Bundle
from model.bundle_files import BundleError
from model.int8.library import library


def test_every_bundle_of_the_folder_is_loaded(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr", "en", "fr")
    make_bundle(tmp_path / "fr-en", "fr", "en", seed=1)
    (tmp_path / "README.md").write_text("not a bundle")
    (tmp_path / ".en-de.partial").mkdir()
    (tmp_path / "lost+found").mkdir()
    catalogue = load_catalogue(Settings(bundles=(tmp_path,)))
    assert [bundle.pair for bundle in catalogue] == ["en-fr", "fr-en"]
    assert catalogue.find("fr", "en").folder == tmp_path / "fr-en"


def test_folder_may_be_a_bundle_itself(bundle_folder: Path) -> None:
    assert bundle_folders([bundle_folder / "en-fr"]) == [[bundle_folder / "en-fr"]]


def test_two_bundles_for_one_pair_are_both_named(bundle_folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(bundle_folder / "en-fr", tmp_path / name)
    with pytest.raises(BundleError, match=r"one and .*two both translate en-fr"):
        load_catalogue(Settings(bundles=(tmp_path,)))


def test_later_folder_overrides_pair_by_pair_and_both_are_logged(bundle_folder: Path, tmp_path: Path) -> None:
    ours = tmp_path / "bundles"
    shutil.copytree(bundle_folder, ours)
    make_bundle(ours / "fr-en", "fr", "en", seed=1)
    mine = make_bundle(tmp_path / "mine" / "adapted", "en", "fr", seed=2)
    (tmp_path / "empty").mkdir()
    for places, place in (("bundles,mine", mine), ("mine,bundles", ours / "en-fr"), ("empty,bundles", ours / "en-fr")):
        settings = Settings(bundles=tuple(tmp_path / name for name in places.split(",")))
        catalogue = load_catalogue(settings)
        assert sorted(bundle.pair for bundle in catalogue) == ["en-fr", "fr-en"]
        assert catalogue.find("en", "fr").folder == place
        assert [new.folder for _, new in catalogue.replaced] == ([] if "empty" in places else [place])
    both = list(load_catalogue(Settings(bundles=(ours, mine))).descriptions())
    name = load_catalogue(Settings(bundles=(mine,))).find("en", "fr").name
    assert f"serving {name} from {mine}" in both
    assert any(line.startswith("not serving en-fr@") and f"from {ours}" in line for line in both)


def test_two_bundles_of_one_pair_in_one_folder_are_refused_even_if_overridden(
    bundle_folder: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        shutil.copytree(bundle_folder / "en-fr", tmp_path / "bundles" / name)
    with pytest.raises(BundleError, match=r"one and .*two both translate en-fr"):
        load_catalogue(Settings(bundles=(tmp_path / "bundles", bundle_folder)))


def test_missing_one_of_several_folders_is_named(bundle_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"there is no folder .*misspelt"):
        load_catalogue(Settings(bundles=(bundle_folder, tmp_path / "misspelt")))


def test_a_bundle_without_samples_is_not_served(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr", samples=[])
    with pytest.raises(BundleError, match=r"en-fr: config.json has no samples .* export it again"):
        load_catalogue(Settings(bundles=(tmp_path,)))


def on_machine(monkeypatch: pytest.MonkeyPatch, has_gpu: bool = False, memory_left: int | None = None) -> None:
    """A machine with three cores and int8 kernels."""
    facts = {"usable_cores": 3, "has_gpu": has_gpu, "memory_left": memory_left}
    for name, fact in facts.items():
        monkeypatch.setattr(f"app.services.startup.{name}", lambda fact=fact: fact)
    monkeypatch.setattr("app.services.startup.library", lambda isa: None)


@pytest.mark.parametrize("place", ["", "missing"])
def test_error_without_a_bundle_says_how_to_get_one(tmp_path: Path, place: str) -> None:
    with pytest.raises(BundleError, match=r"python -m training run.*INTERLINEAR_BUNDLES"):
        load_catalogue(Settings(bundles=(tmp_path / place,)))


def test_an_unreadable_folder_is_reported(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        with pytest.raises(BundleError, match=r"cannot be read \(Permission denied\)"):
            load_catalogue(Settings(bundles=(bundle_folder,)))


def test_a_changed_file_is_named(bundle_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle_folder, tmp_path / "bundles")
    weights = tmp_path / "bundles" / "en-fr" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    with pytest.raises(BundleError, match=r"model\.safetensors"):
        load_catalogue(Settings(bundles=(tmp_path / "bundles",)))


def test_pair_is_found_in_its_direction_only(bundle: Bundle) -> None:
    catalogue = Catalogue([bundle])
    assert catalogue.find("en", "fr") is bundle
    with pytest.raises(PairNotServed, match="from fr to en"):
        catalogue.find("fr", "en")


def test_a_missing_gpu_is_reported_at_startup(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    on_machine(monkeypatch, has_gpu=False)
    with pytest.raises(SettingsError, match="INTERLINEAR_DEVICE="):
        create_app(Settings(device="cuda"), Catalogue([bundle]))


def test_each_available_core_gets_a_worker(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_machine(monkeypatch)
    bundles = load_catalogue(Settings(bundles=(bundle_folder,)))
    assert worker_count(Settings(device="cpu"), bundles) == 3
    assert worker_count(Settings(device="cpu", workers=2), bundles) == 2
    on_machine(monkeypatch, has_gpu=True)
    assert worker_count(Settings(), bundles) == 1


@pytest.mark.parametrize(("precision", "worker_bytes"), [("float32", WORKER_BYTES), ("int8", INT8_WORKER_BYTES)])
def test_number_of_workers_is_limited_by_the_containers_memory(
    bundle_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: Literal["float32", "int8"],
    worker_bytes: int,
) -> None:
    bundles = load_catalogue(Settings(bundles=(bundle_folder,)))

    def workers(left: int, workers: int = 0) -> int:
        on_machine(monkeypatch, memory_left=left)
        return worker_count(Settings(device="cpu", precision=precision, cache_bytes=0, workers=workers), bundles)

    assert workers(10**10) == 3
    assert workers(FRONT_GROWTH_BYTES + int(2.5 * worker_bytes)) == 2
    with pytest.raises(SettingsError, match=r"^too little memory: 1 worker .* raise it by .*or serve fewer bundles$"):
        workers(FRONT_GROWTH_BYTES)
    with pytest.raises(SettingsError, match=r"or set INTERLINEAR_WORKERS=1$"):
        workers(FRONT_GROWTH_BYTES + int(1.5 * worker_bytes), workers=2)


def test_weights_shared_by_int8_workers_count_once(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "en-fr")
    bundles = load_catalogue(Settings(bundles=(folder,)))
    os.truncate(next(folder.rglob("model.safetensors")), 100_000_000)
    shared = int(100_000_000 * (INT8_BYTES_PER_WEIGHT_BYTE + PREPARING_BYTES_PER_WEIGHT_BYTE))
    left = FRONT_GROWTH_BYTES + shared + int(2.5 * INT8_WORKER_BYTES)
    on_machine(monkeypatch, memory_left=left)
    settings = Settings(device="cpu", precision="int8", cache_bytes=0)
    assert worker_count(settings, bundles) == 2
    # With half of them loaded at most, there is room for the third worker.
    assert worker_count(settings.model_copy(update={"memory_bytes": 42_500_000}), bundles) == 3


def test_workers_are_told_which_engine_decodes_on_a_gpu(bundle_folder: Path) -> None:
    bundles = load_catalogue(Settings(bundles=(bundle_folder,)))
    assert worker_config(Settings(device="cpu"), bundles).gpu_engine == "graph"
    assert worker_config(Settings(device="cpu", gpu_engine="triton"), bundles).gpu_engine == "triton"


def test_instruction_set_that_the_processor_lacks_is_refused_at_the_start(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundles = load_catalogue(Settings(bundles=(bundle_folder,)))
    assert worker_config(Settings(device="cpu", isa="generic"), bundles).isa == "generic"
    with_processor_features(monkeypatch, "sse2")
    assert worker_config(Settings(device="cpu", isa="dotprod", precision="float32"), bundles).precision == "float32"
    library.cache_clear()
    with pytest.raises(SettingsError, match=r"^INTERLINEAR_ISA=dotprod: this processor has no dotprod$"):
        worker_config(Settings(device="cpu", isa="dotprod"), bundles)
