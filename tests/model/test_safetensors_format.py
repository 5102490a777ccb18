"""Our reader and writer of safetensors agree with the library."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import save

from model.safetensors_format import file_header, in_file_order, read_tensors

TENSORS = {
    "matrix": torch.arange(6.0).view(2, 3),
    "half": torch.ones(5, dtype=torch.float16),
    "ü": torch.zeros(3, dtype=torch.int8),
    "none": torch.zeros(0, 4),
}


def test_tensors_are_those_that_the_library_reads() -> None:
    content = save(TENSORS, {"format": "pt"})
    found = deserialize(content)  # type: ignore[no-untyped-call]
    theirs = {name: (entry["dtype"], tuple(entry["shape"]), entry["data"]) for name, entry in found}
    assert {name: (t.dtype, t.shape, bytes(t.data)) for name, t in read_tensors(content).items()} == theirs


def test_header_that_we_write_begins_the_librarys_file_with_its_data_at_a_multiple_of_eight() -> None:
    """The format asks for that, so that whoever maps the file finds numbers at their natural place."""
    content = save(TENSORS)
    stored = read_tensors(content)
    for names in (list(stored), ["matrix"], ["half", "ü"]):
        kinds = {name: (stored[name].dtype, stored[name].shape) for name in names}
        header = file_header(kinds)
        assert len(header) % 8 == 0
        ours = header + b"".join(bytes(stored[name].data) for name in in_file_order(kinds))
        found = {name: entry["data"] for name, entry in deserialize(ours)}  # type: ignore[no-untyped-call]
        assert found == {name: bytes(stored[name].data) for name in names}


def entry(name: str, **fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda header: header[name].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        entry("matrix", shape=[2, 4]),
        entry("matrix", shape=[-2, -3]),
        entry("matrix", shape=2),
        entry("matrix", shape=["2", 3]),
        entry("matrix", dtype="F99"),
        entry("matrix", dtype="F16"),
        entry("matrix", data_offsets=[0, 1 << 70]),
        entry("matrix", data_offsets=[4, 28]),
        entry("half", data_offsets=[0, 10]),
        entry("half", data_offsets=None),
        lambda header: header.update(other=[]),
        lambda header: header.pop("half"),
        lambda header: header.update(again=header["matrix"]),
    ],
)
def test_a_header_that_the_library_refuses_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    content = save(TENSORS)
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    change(header)
    made = json.dumps(header).encode()
    changed = len(made).to_bytes(8, "little") + made + content[8 + size :]
    with pytest.raises(SafetensorError):
        deserialize(changed)  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="safetensors"):
        read_tensors(changed)


@pytest.mark.parametrize("size", [0, 7, 8, 9, 100, -1])
def test_a_file_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="safetensors"):
        read_tensors(save(TENSORS)[:size])
