"""Files are written completely or not at all."""

import errno
import os
from pathlib import Path

import pytest

from model.atomic_files import write_atomically


def fill_disk(patch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(os, "fsync", full)


def test_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", b"old")

    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_disk_full_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'file'}'"):
        write_atomically(tmp_path / "file", b"new")
