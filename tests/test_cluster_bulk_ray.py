"""Bulk translation on a Ray cluster of this machine; `make scale-test` runs it."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest
from servers import becomes

from app.bulk.command import Bulk, run
from app.cli.offline_engine import Command

pytestmark = pytest.mark.ray
WORDS = ["the", "cat", "sleeps", "hello", "thank", "dog", "how", "are", "you"]


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLINEAR_PRECISION", "float32")
    draw = random.Random(3)
    (tmp_path / "in").mkdir()
    for number in range(16):
        lines = [" ".join(draw.choices(WORDS, k=6)) + "." for _ in range(20)]
        (tmp_path / f"in/{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def our_actors() -> list[int]:
    """The processes of actors that descend from this one."""
    parents, actors = dict[int, int](), list[int]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if (path / "cmdline").read_bytes().startswith(b"ray::ShardTranslator"):
                actors.append(int(path.name))
        except OSError:
            continue

    def is_ours(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return [process for process in actors if is_ours(process)]


def test_a_cluster_writes_what_one_machine_does_even_if_an_actor_is_killed(bundle_folder: Path, texts: Path) -> None:
    from app.cluster.bulk_ray import on_cluster

    command = Command("en", "fr", bundles=str(bundle_folder), workers=1, quiet=True)
    assert run(command, Bulk(str(texts / "in"), str(texts / "here"))) == 0
    killed = list[int]()

    def kill() -> None:
        assert becomes(lambda: len(list((texts / "out").glob("*.txt"))) > 2)
        for process in our_actors()[:1]:
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    killer = threading.Thread(target=kill)
    killer.start()
    assert run(command, Bulk(str(texts / "in"), str(texts / "out")), on_cluster("local")) == 0
    killer.join()
    assert killed
    assert content_of(texts / "out") == content_of(texts / "here")


def test_processor_adds_columns_to_a_dataset(bundle_folder: Path, texts: Path) -> None:
    import ray

    from app.cluster.bulk_ray import processor

    command = Command("en", "fr", bundles=str(bundle_folder), workers=1, quiet=True)
    assert run(command, Bulk(str(texts / "in"), str(texts / "here"))) == 0
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
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
