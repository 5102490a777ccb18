"""benchmarks.importing_fuzz, which mutates the files of models, in what it leaves behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.importing_fuzz import fuzz


def test_file_that_ends_a_fuzzing_run_is_left_in_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, model = tmp_path / "here", tmp_path / "config.json"
    here.mkdir()
    model.write_text('{"layers": 2}')
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def check(path: Path) -> None:
        if path.read_bytes() != b'{"layers": 2}':
            raise RuntimeError("a fault of the importer")

    with pytest.raises(RuntimeError, match="a fault of the importer") as failure:
        fuzz("sidecars", model, [model], 100, 0, check)
    assert not list(here.iterdir())
    [note] = failure.value.__notes__
    [left] = re.findall(r"with (\S+) in place", note)
    assert Path(left).is_relative_to(tmp_path)
    assert Path(left).read_bytes() == model.read_bytes()
