"""Prepared weights: made once, mapped by all, checked when opened, and never in the way of serving."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
from pathlib import Path
from time import time

import pytest
import torch

from app.engine.executor import BundleExecutor, DecodingTask
from app.engine.waiting_queue import FURTHER
from model import shared_file
from model.backends import prepare
from model.bundle import open_bundle
from model.bundle_files import ALIGNMENT, BundleError
from model.bundle_weights import LoadedBundle, check_samples, load_bundle, save_bundle
from model.decoding import decode_all
from model.hypothesis import Hypothesis
from model.int8.backend import Int8Backend
from model.int8.isa import KernelsUnavailable
from model.int8.library import library
from model.int8.prepared import load_prepared
from model.model_spec import ModelSpec
from model.shared_file import MAX_UNUSED_S
from model.transformer import AlignmentHead
from training.align.head import with_alignment_head

pytestmark = pytest.mark.slow

SOURCES = [[4 + (7 * length + place) % 200 for place in range(length)] for length in range(1, 9)]
Results = list[tuple[list[int], list[float]]]


@pytest.fixture(autouse=True)
def weights_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of prepared weights of a user without any."""
    try:
        library("auto"), library("generic")  # which are compiled once, and found in the user's folder later
    except KernelsUnavailable as reason:
        pytest.skip(f"the int8 kernels: {reason}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "interlinear" / "weights"


@pytest.fixture
def spec(bundle: LoadedBundle, tmp_path: Path) -> ModelSpec:
    """A copy of a bundle, which a test may damage."""
    folder = shutil.copytree(bundle.folder, tmp_path / "en-fr")
    return dataclasses.replace(bundle.spec, folder=str(folder))


def decoded(backend: Int8Backend, spec: ModelSpec) -> Results:
    hypotheses = [Hypothesis(source, spec.limits.target(len(source))) for source in SOURCES]
    decode_all(backend.new_batch(8, spec.limits), hypotheses)
    return [(list(hypothesis.tokens), list(hypothesis.log_probs)) for hypothesis in hypotheses]


@pytest.fixture
def expected(bundle: LoadedBundle, spec: ModelSpec) -> Results:
    return decoded(Int8Backend.of(bundle.model), spec)


def test_a_prepared_file_decodes_to_the_same_bits(spec: ModelSpec, expected: Results) -> None:
    assert decoded(load_prepared(spec), spec) == expected
    assert decoded(load_prepared(spec), spec) == expected


def test_second_load_maps_the_file_of_the_first(spec: ModelSpec, expected: Results, weights_folder: Path) -> None:
    load_prepared(spec)
    [made] = weights_folder.glob("*.int8")
    inode = made.stat().st_ino
    shutil.rmtree(spec.folder)  # nothing of the bundle is read again
    second = load_prepared(spec)
    assert made.stat().st_ino == inode
    assert decoded(second, spec) == expected
    mappings = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if made.name in line]
    assert {(access, int(inode)) for _, access, _, _, inode, _ in mappings} == {("r--s", made.stat().st_ino)}


def test_another_alignment_head_has_another_file(bundle: LoadedBundle, tmp_path: Path, weights_folder: Path) -> None:
    record = {name: bundle.config[name] for name in ("source", "target", "samples")}
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        aligned = with_alignment_head(bundle.model, AlignmentHead(bundle.architecture.d_model, 16))
        save_bundle(tmp_path / "en-fr", aligned, bundle.source_tokenizer, bundle.limits, record, "", replace=seed > 1)
        spec = open_bundle(tmp_path / "en-fr").spec
        hypotheses = [Hypothesis(source, spec.limits.target(len(source))) for source in SOURCES]
        decode_all(load_prepared(spec).new_batch(8, spec.limits), hypotheses)
        found.append([list(hypothesis.aligned) for hypothesis in hypotheses])
    assert found[0] != found[1]
    assert len(list(weights_folder.glob("*.int8"))) == 2
    (tmp_path / "en-fr" / ALIGNMENT).write_bytes(b"")
    shutil.rmtree(weights_folder)
    with pytest.raises(BundleError, match=r"aligns by another alignment\.safetensors now"):
        load_prepared(spec)


@pytest.mark.parametrize("damage", ["a changed byte", "a short file", "an empty file"])
def test_damaged_file_is_made_again(spec: ModelSpec, expected: Results, weights_folder: Path, damage: str) -> None:
    load_prepared(spec)
    [made] = weights_folder.glob("*.int8")
    content = bytearray(made.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = {"a changed byte": content, "a short file": content[:-40], "an empty file": bytearray()}
    made.write_bytes(damaged[damage])
    assert decoded(load_prepared(spec), spec) == expected
    assert len(list(weights_folder.iterdir())) == 2  # and the lock


def finished(executor: BundleExecutor) -> list[DecodingTask]:
    """The tasks of the steps until none is left."""
    found = []
    while executor.busy:
        found += executor.step()[0]
    return found


def test_file_changed_while_it_is_used_ends_the_worker_before_its_next_answer(
    spec: ModelSpec, expected: Results, weights_folder: Path
) -> None:
    """Whatever the worker decoded since then may be wrong, and would stay in the front's cache."""
    sample = spec.samples[0]

    def task(number: int) -> DecodingTask:
        return DecodingTask(number, sample.hypothesis(spec.limits), FURTHER)

    executor = BundleExecutor(load_prepared(spec), spec, rows=2)
    executor.add(task(0))
    assert [list(each.hypothesis.tokens) for each in finished(executor)] == [list(sample.target_ids)]
    [made] = weights_folder.glob("*.int8")
    load_prepared(spec)  # another worker's use changes nothing
    executor.backend.check_weights()
    made.touch()  # nor does a service of an earlier version, or an administrator
    executor.backend.check_weights()
    with made.open("r+b") as file:
        file.seek(made.stat().st_size // 2)
        file.write(bytes(64))
    executor.add(task(1))
    with pytest.raises(BundleError, match="changed while in use"):
        finished(executor)
    assert decoded(load_prepared(spec), spec) == expected


def test_workers_that_start_together_make_one_file(spec: ModelSpec, expected: Results, weights_folder: Path) -> None:
    backends: list[Int8Backend] = []
    threads = [threading.Thread(target=lambda: backends.append(load_prepared(spec))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [decoded(backend, spec) for backend in backends] == [expected] * 4
    maps = Path("/proc/self/maps").read_text().splitlines()
    inodes = {line.split()[4] for line in maps if str(weights_folder) in line}  # a service has others
    assert inodes == {str(file.stat().st_ino) for file in weights_folder.glob("*.int8")}


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_bundle_in_another_storage_type_is_served_with_the_weights_that_it_restores(
    bundle: LoadedBundle, tmp_path: Path, dtype: str
) -> None:
    record = {name: bundle.config[name] for name in ("source", "target", "samples")}
    save_bundle(tmp_path / dtype, bundle.model, bundle.source_tokenizer, bundle.limits, record, "", dtype=dtype)
    stored = load_bundle(tmp_path / dtype, torch.device("cpu"))
    for precision in ("float32", "int8"):
        check_samples(stored, prepare(stored.model, precision))
    assert decoded(load_prepared(stored.spec), stored.spec) == decoded(Int8Backend.of(stored.model), stored.spec)


def test_instruction_set_with_another_layout_has_its_own_file(spec: ModelSpec, expected: Results) -> None:
    load_prepared(spec)
    assert decoded(load_prepared(spec, "generic"), spec) == expected


def test_replaced_bundle_is_refused_by_name(spec: ModelSpec) -> None:
    with open(Path(spec.folder) / "model.safetensors", "ab") as weights:
        weights.write(b"\0")
    with pytest.raises(BundleError, match=rf"is en-fr@[0-9a-f]{{12}} now, and was {spec.name} when the service read"):
        load_prepared(spec)


def test_worker_without_a_writable_folder_keeps_the_weights_in_memory(
    spec: ModelSpec, expected: Results, weights_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weights_folder.parent.parent.write_text("a file where the folder would be")
    assert decoded(load_prepared(spec), spec) == expected
    assert f"{spec.name}: workers do not share these weights" in caplog.text


def test_files_unused_for_long_are_deleted_and_others_kept(spec: ModelSpec, weights_folder: Path) -> None:
    load_prepared(spec)
    [first] = weights_folder.glob("*.int8")
    recent, unused, leftover = (weights_folder / name for name in ("recent.int8", "unused.int8", ".tmp123"))
    for path, days in ((recent, 29), (unused, 31), (leftover, 31), (first, 31)):
        path.touch()
        os.utime(path, (time() - days * 24 * 3600,) * 2)
    load_prepared(spec)  # uses the first
    shared_file.delete_unused(weights_folder)
    assert MAX_UNUSED_S == 30 * 24 * 3600
    assert {path.name for path in weights_folder.iterdir()} == {first.name, recent.name, ".lock"}
