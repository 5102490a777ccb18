"""Parts that travel: what goes in comes out, and what is missing or damaged is named."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from training.data import parts as parts_module
from training.data.parts import MANIFEST, PackedFile, Parts, PartsError, describe, pack_files

pytestmark = pytest.mark.slow


def contents(seed: int) -> dict[str, bytes]:
    chooser = random.Random(seed)
    return {
        "empty": b"",
        "odd": chooser.randbytes(1001),
        "repeated": b"the same again and again. " * 300,
        "numbers": np.arange(900, dtype="<u2").tobytes(),
        "exactly-a-block": chooser.randbytes(512),
    }


def packed(folder: Path, files: dict[str, bytes], part_bytes: int) -> Parts:
    layouts = [(1, False), (2, True), (4, True), (2, False), (8, True)]
    made = (
        PackedFile(name, np.frombuffer(content, np.uint8), *layout)
        for (name, content), layout in zip(files.items(), layouts, strict=True)
    )
    return pack_files(folder / "parts", "test", made, {"note": "é"}, part_bytes)


@pytest.mark.parametrize("part_bytes", [1, 100, 1 << 20])
def test_files_come_out_as_they_went_in_for_any_size_of_part(
    part_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "BLOCK_BYTES", 512)
    files = contents(part_bytes)
    if part_bytes == 1:
        files = {name: content[:40] for name, content in files.items()}
    made = packed(tmp_path, files, part_bytes)
    sizes = [path.stat().st_size for path in sorted((tmp_path / "parts").glob("part-*.bin"))]
    assert set(sizes[:-1]) <= {part_bytes}
    assert sizes[-1] <= part_bytes
    found = Parts.open(tmp_path / "parts")
    assert found == made
    assert (found.kind, found.record) == ("test", {"note": "é"})
    (tmp_path / "out").mkdir()
    found.unpack(tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == files


def test_missing_truncated_and_damaged_parts_are_all_named(tmp_path: Path) -> None:
    made = packed(tmp_path, contents(1), 500)
    assert len(made.parts) >= 4
    assert describe(made).startswith(f"{len(made.parts)} parts, ")
    folder = tmp_path / "parts"
    (folder / "part-00000.bin").unlink()
    content = (folder / "part-00001.bin").read_bytes()
    (folder / "part-00001.bin").write_bytes(content[:-1])
    content = (folder / "part-00002.bin").read_bytes()
    (folder / "part-00002.bin").write_bytes(content[:7] + bytes([content[7] ^ 4]) + content[8:])
    with pytest.raises(PartsError) as caught:
        Parts.open(folder)
    faults = "part-00000.bin is missing, part-00001.bin has 499 bytes instead of 500, part-00002.bin is damaged"
    assert str(caught.value) == f"{folder}: {faults}; fetch these again"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format_version": 1}', '{"format_version": 1, "sha256": ""}'])
def test_damaged_list_of_parts_is_an_error_of_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(PartsError, match=rf"^{tmp_path}/{MANIFEST} is damaged: fetch it again$"):
        Parts.open(tmp_path)


def test_one_changed_digit_of_the_list_is_noticed(tmp_path: Path) -> None:
    made = packed(tmp_path, contents(1), 500)
    path = made.folder / MANIFEST
    path.write_text(path.read_text().replace('"bytes": 1001', '"bytes": 1007'))
    with pytest.raises(PartsError, match=r"parts\.json is damaged: fetch it again$"):
        Parts.open(made.folder)


def test_folder_without_parts_and_other_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PartsError, match=r"has no parts\.json"):
        Parts.open(tmp_path)
    (tmp_path / MANIFEST).write_text('{"format_version": 2}')
    with pytest.raises(PartsError, match="has format 2, not 1"):
        Parts.open(tmp_path)


def rewrite(folder: Path, kind: str, field: str, value: object) -> None:
    """Changes the list of the parts, and its checksum with it."""
    fields = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    fields["content"][kind][0][field] = value
    fields["sha256"] = parts_module.digest_of(fields["content"])
    (folder / MANIFEST).write_text(json.dumps(fields))


@pytest.mark.parametrize("kind", ["files", "parts"])
@pytest.mark.parametrize("name", ["../elsewhere", "/tmp/elsewhere", "a/b", "", "..", "."])
def test_file_name_that_leads_elsewhere_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    folder = packed(tmp_path, contents(1), 500).folder
    rewrite(folder, kind, "name", name)
    with pytest.raises(PartsError, match="is no file's name"):
        Parts.open(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [("sha256", "0" * 64), ("bytes", 5), ("blocks", [10**6]), ("blocks", [3]), ("planes", True)],
)
def test_list_that_does_not_fit_the_parts_is_an_error(field: str, value: object, tmp_path: Path) -> None:
    made = {"only": contents(1)["odd"]}
    pack = (PackedFile(name, np.frombuffer(content, np.uint8), 2) for name, content in made.items())
    folder = pack_files(tmp_path / "parts", "test", pack, {}, 500).folder
    rewrite(folder, "files", field, value)
    (tmp_path / "out").mkdir()
    with pytest.raises(PartsError, match=r"pack (it|them) again$"):
        Parts.open(folder).unpack(tmp_path / "out")
