"""The memory that control groups leave to a process, in folders that look like theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.runtime.memory_limit import memory_left


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"memory.{name}").write_text(text)


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own"
    path.write_text(text)
    return path


def test_memory_left_is_the_limit_minus_usage_without_cached_files(tmp_path: Path) -> None:
    stat = "anon 60\ninactive_file 20\nactive_file 10\n"
    group(tmp_path / "a" / "b", max="200\n", current="90\n", stat=stat)
    assert memory_left(tmp_path, own(tmp_path, "0::/a/b\n")) == 200 - 90 + 30


def test_cgroup_version_1_is_read(tmp_path: Path) -> None:
    stat = "rss 60\ntotal_inactive_file 5\ntotal_active_file 5\n"
    group(tmp_path / "memory" / "a", limit_in_bytes="100", usage_in_bytes="70", stat=stat)
    group(tmp_path / "memory", limit_in_bytes="9223372036854771712", usage_in_bytes="70", stat=stat)
    assert memory_left(tmp_path, own(tmp_path, "5:cpu,cpuacct:/a\n4:memory:/a\n")) == 40


def test_lowest_limit_among_parent_groups_counts(tmp_path: Path) -> None:
    group(tmp_path / "a", max="100", current="80", stat="")
    group(tmp_path / "a" / "b", max="max", current="10", stat="")
    assert memory_left(tmp_path, own(tmp_path, "0::/a/b")) == 20


def test_container_sees_its_own_group_at_the_root(tmp_path: Path) -> None:
    group(tmp_path, max="100", current="40", stat="")
    assert memory_left(tmp_path, own(tmp_path, "0::/docker/of-the-host")) == 60


@pytest.mark.parametrize("text", ["", "0::/nowhere\n"])
def test_without_a_limit_there_is_none(tmp_path: Path, text: str) -> None:
    assert memory_left(tmp_path, own(tmp_path, text)) is None
    assert memory_left(tmp_path, tmp_path / "absent") is None
