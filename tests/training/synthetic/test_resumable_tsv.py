"""Resumable files of pairs: a file that is started over has none of the old content."""

from __future__ import annotations

from pathlib import Path

from training.corpora.corpus import Pair
from training.synthetic.resumable_tsv import ResumableTsv


def test_deleted_file_is_not_resumed_after_a_stop_before_the_first_pair(tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    first = ResumableTsv(out, {"beam": 5})
    first.add([Pair("old", "vieux")], [(2, "too long")], last_line=2)
    first.close()
    first.path.unlink()  # as the message of another beam advises, which does not name the record beside it
    ResumableTsv(out, {"beam": 5}).close()
    again = ResumableTsv(out, {"beam": 5})
    assert (again.last_line, again.pairs, again.failed.counts.total()) == (0, 0, 0)
    again.add([Pair("new", "neuf")], [], last_line=1)
    again.finish()
    assert out.read_bytes() == b"new\tneuf\n"
    assert list(tmp_path.iterdir()) == [out]
