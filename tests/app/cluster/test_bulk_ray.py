"""Bulk translation on a Ray cluster of two nodes, in the network namespace that `make scale-test` makes: killed, and
started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from servers import becomes

from benchmarks.ray_cluster import RayCluster, is_isolated, kill_tree, processes, raylet

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[3]
WORDS = ["the", "cat", "sleeps", "hello", "thank", "dog", "how", "are", "you"]
FILES, LINES = 40, 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Each node has room for one actor."""
    assert is_isolated(), "Ray listens on all interfaces: run this by make scale-test"
    cluster = RayCluster(cpus=1)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def texts(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the input, `in`, and what one machine makes of it without Ray, `here`."""
    folder = tmp_path_factory.mktemp("texts")
    draw = random.Random(3)
    (folder / "in").mkdir()
    for number in range(FILES):
        lines = [" ".join(draw.choices(WORDS, k=6)) + "." for _ in range(LINES)]
        (folder / f"in/{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    finish(translate(bundle_folder, folder, "here"))
    return folder


def translate(bundles: Path, folder: Path, target: str, *words: str) -> subprocess.Popen[bytes]:
    """The command."""
    environ = {**os.environ, "INTERLINEAR_BUNDLES": str(bundles), "INTERLINEAR_PRECISION": "float32"}
    common = [sys.executable, "-m", "app", "translate", "--source", "en", "--target", "fr", "--workers", "1", *words]
    places = ["--in", str(folder / "in"), "--out", str(folder / target)]
    return subprocess.Popen([*common, *places], cwd=ROOT, env=environ, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> str:
    """Waits until the command has succeeded; returns what it said."""
    said = process.communicate()[1].decode()
    assert process.returncode == 0, said
    return said


def content_of(folder: Path) -> dict[str, bytes]:
    """Every file, hidden ones as well."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def has_files(folder: Path, count: int) -> bool:
    return len(list(folder.glob("*.txt"))) >= count


def times_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.txt")}


def actors() -> list[int]:
    return processes("ray::ShardTranslator")


def test_cluster_writes_what_one_machine_does(cluster: RayCluster, bundle_folder: Path, texts: Path) -> None:
    said = finish(translate(bundle_folder, texts, "whole", "--ray", cluster.cluster.address))
    assert f"interlinear: {FILES} of {FILES} shards, {FILES * LINES:,} texts in " in said
    assert content_of(texts / "whole") == content_of(texts / "here")


def test_killed_and_restarted_command_leaves_what_an_undisturbed_one_does(
    cluster: RayCluster, bundle_folder: Path, texts: Path
) -> None:
    draw, times = random.Random(7), dict[str, int]()
    out = texts / "killed"
    for kill in range(3):
        process = translate(bundle_folder, texts, out.name, "--ray", cluster.cluster.address)
        assert becomes(partial(has_files, out, draw.randrange(1, 9) + 10 * kill))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert times.items() <= times_of(out).items()
        times = times_of(out)
    said = finish(translate(bundle_folder, texts, out.name, "--ray", cluster.cluster.address))
    assert "shards are there already" in said
    assert content_of(out) == content_of(texts / "here")
    assert times.items() <= times_of(out).items()
    assert becomes(lambda: not actors())


def test_shards_of_a_killed_actor_are_done_again(cluster: RayCluster, bundle_folder: Path, texts: Path) -> None:
    process = translate(bundle_folder, texts, "actor", "--ray", cluster.cluster.address)
    assert becomes(partial(has_files, texts / "actor", 3))
    os.kill(actors()[0], signal.SIGKILL)
    finish(process)
    assert content_of(texts / "actor") == content_of(texts / "here")


def test_other_actors_do_the_shards_of_a_node_that_is_gone(
    cluster: RayCluster, bundle_folder: Path, texts: Path
) -> None:
    process = translate(bundle_folder, texts, "node", "--ray", cluster.cluster.address)
    assert becomes(partial(has_files, texts / "node", 3))
    node = cluster.nodes.pop()
    kill_tree(raylet(node))
    try:
        finish(process)
        assert content_of(texts / "node") == content_of(texts / "here")
    finally:
        cluster.cluster.remove_node(node, allow_graceful=False)
        cluster.nodes.append(cluster.add_node())


def test_cluster_of_one_machine_is_started_and_stopped(bundle_folder: Path, texts: Path) -> None:
    finish(translate(bundle_folder, texts, "local", "--ray", "local"))
    assert content_of(texts / "local") == content_of(texts / "here")


def test_cluster_that_is_not_there_is_said_in_a_line(bundle_folder: Path, texts: Path) -> None:
    process = translate(bundle_folder, texts, "nowhere", "--ray", "127.0.0.1:1")
    said = process.communicate()[1].decode()
    assert said.splitlines()[-1].startswith("interlinear: no Ray cluster at 127.0.0.1:1: ")


def test_processor_adds_columns_to_a_dataset(
    cluster: RayCluster, bundle_folder: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from app.cluster.bulk_ray import processor

    monkeypatch.setenv("INTERLINEAR_PRECISION", "float32")
    environ = {"env_vars": {"INTERLINEAR_PRECISION": "float32"}}
    ray.init(address=cluster.cluster.address, runtime_env=environ, log_to_driver=False)
    try:
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        rows = [(n, line) for n in range(4) for line in (texts / f"in/{n}.txt").read_text().splitlines()]
        translate = processor(
            "en",
            "fr",
            text="body",
            bundles=str(bundle_folder),
            preprocess=lambda row: {**row, "n": row["n"] + 1},
            postprocess=lambda row: {"n": row["n"], "translation": row["translation"], "score": row["score"]},
        )
        done = translate(ray.data.from_items([{"n": n, "body": line} for n, line in rows])).take_all()
    finally:
        ray.shutdown()
    here = [line for n in range(4) for line in (texts / f"here/{n}.txt").read_text().splitlines()]
    assert [row["translation"] for row in done] == here
    assert [row["n"] for row in done] == [n + 1 for n, _ in rows]
    assert all(row["score"] < 0 for row in done)
