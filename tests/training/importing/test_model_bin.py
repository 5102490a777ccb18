"""The reader of `model.bin`: hostile files are refused in one line, or give finite numbers."""

from __future__ import annotations

import os
import random
import resource
import struct
from pathlib import Path

import numpy as np
import pytest
from imported_models import opennmt_spec, opennmt_tokens, save_spec, unigram_pieces

from training.importing.errors import ImportFault
from training.importing.families import build_model, read_model
from training.importing.model_bin import read_model_bin
from training.importing.options import ImportOptions

pytestmark = pytest.mark.slow

MUTATIONS = int(os.environ.get("MUTATIONS", "500"))


def _string(text: bytes) -> bytes:
    return struct.pack("<H", len(text) + 1) + text + b"\0"


def _file(*variables: bytes, version: int = 6, aliases: bytes = struct.pack("<I", 0)) -> bytes:
    head = struct.pack("<I", version) + _string(b"TransformerSpec") + struct.pack("<II", 7, len(variables))
    return head + b"".join(variables) + aliases


def _variable(name: bytes, shape: tuple[int, ...], dtype: int, content: bytes, size: int | None = None) -> bytes:
    dims = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    return _string(name) + dims + struct.pack("<BI", dtype, len(content) if size is None else size) + content


A = _variable(b"a", (2,), 0, struct.pack("<2f", 1.5, -2))


def test_every_type_is_read() -> None:
    numbers = {
        0: struct.pack("<2f", 1.5, -2),
        1: struct.pack("<2b", 1, -2),
        2: struct.pack("<2h", 1, -2),
        3: struct.pack("<2i", 1, -2),
        4: struct.pack("<2e", 1.5, -2),
        5: b"\xc0\x3f\x00\xc0",
    }
    content = _file(*(_variable(b"v%d" % number, (2,), number, value) for number, value in numbers.items()))
    found = read_model_bin(memoryview(content))
    assert found.spec == "TransformerSpec"
    for number in numbers:
        assert found.variables[f"v{number}"].numbers().tolist() == [1.5 if number in (0, 4, 5) else 1, -2]


def test_an_alias_is_the_variable_and_has_its_scale() -> None:
    scale = _variable(b"a_scale", (2,), 0, struct.pack("<2f", 1, 2))
    aliases = struct.pack("<I", 1) + _string(b"b") + _string(b"a")
    variables = read_model_bin(memoryview(_file(A, scale, aliases=aliases))).variables
    assert variables["b"] is variables["a"]
    assert variables["b_scale"] is variables["a_scale"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends in the middle"),
        (_file(A, version=3), "version 3 of CTranslate2's format"),
        (_file(A, A), "two variables called 'a'"),
        (_file(A)[:-6], "ends in the middle: 8 bytes are announced, 6 are left"),
        (_file(A) + b"x", "goes on for 1 bytes after its end"),
        (_file(_variable(b"a", (2**31, 2**31), 0, b"", 0)), "which is not the size"),
        (_file(_variable(b"a", (2**30,), 0, b"", 2**32 - 1)), "which is not the size"),
        (_file(_variable(b"a", (2**29,), 0, b"", 2**31)), "2,147,483,648 bytes are announced"),
        (_file(_variable(b"a", (2,), 9, b"12")), "unknown type 9"),
        (_file(_variable(b"a", (1,) * 5, 1, b"1")), "5 dimensions"),
        (_file(_variable(b"\xff", (1,), 1, b"1")), "not UTF-8"),
        (_file(A, aliases=struct.pack("<I", 1) + _string(b"b") + _string(b"c")), "'b' for 'c', which is not there"),
        (_file(A, aliases=struct.pack("<I", 1) + _string(b"a") + _string(b"a")), "two variables called 'a'"),
        (_file(A)[:4] + struct.pack("<H", 3) + b"abc" + bytes(20), "a name without an end"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(content: bytes, message: str) -> None:
    with pytest.raises(ImportFault, match=message) as caught:
        read_model_bin(memoryview(content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("number", "dtype"), [(0, "<f4"), (4, "<f2"), (5, None)])
def test_a_value_that_is_not_finite_is_refused(value: float, number: int, dtype: str | None) -> None:
    content = np.array([value], dtype).tobytes() if dtype else np.array([value], "<f4").tobytes()[2:]
    variables = read_model_bin(memoryview(_file(_variable(b"a", (1,), number, content)))).variables
    with pytest.raises(ImportFault, match="not finite"):
        variables["a"].numbers()


def mutated(content: bytes, draw: random.Random) -> bytes:
    """`content` with a few bytes changed, removed or repeated; half of the time near its structure, the start."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(min(len(changed), draw.choice([64, 4096, len(changed)])))
        kind = draw.random()
        if kind < 0.5:
            changed[at] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        elif kind < 0.7:
            changed[at : at + 4] = struct.pack("<I", draw.choice([0, 1, 2**31, 2**32 - 1, draw.randrange(2**32)]))
        elif kind < 0.85:
            del changed[at : at + draw.randint(1, 64)]
        else:
            changed[at:at] = changed[at : at + draw.randint(1, 64)]
    return bytes(changed)


def test_mutated_files_are_refused_in_one_line_or_give_finite_weights(tmp_path: Path) -> None:
    pieces = unigram_pieces()
    folder = save_spec(opennmt_spec(opennmt_tokens(pieces)), tmp_path / "model", pieces, "int8")
    names = ("model.bin", "model.bin", "sentencepiece.model", "shared_vocabulary.json", "config.json")
    originals = {name: (folder / name).read_bytes() for name in names}
    options, draw = ImportOptions(folder, "en", "fr", tmp_path / "out"), random.Random(5)
    refused = 0
    build_model(read_model(options))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(MUTATIONS):
        name = names[number % len(names)]
        (folder / name).write_bytes(mutated(originals[name], draw))
        fault = None
        try:
            model, tokenizers = build_model(read_model(options))
        except ImportFault as error:
            fault = str(error)
        if fault is None:
            assert all(parameter.isfinite().all() for parameter in model.parameters())
            tokenizers.target.decode(tokenizers.source.encode("Hello, 木村."))
        else:
            refused += 1
            assert "\n" not in fault
        (folder / name).write_bytes(originals[name])
    assert MUTATIONS // 4 < refused < MUTATIONS
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 2 * sum(map(len, originals.values())) + (100 << 20)
