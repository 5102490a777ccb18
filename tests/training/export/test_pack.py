"""`pack` and `unpack`: what travels trains, exports and adapts as what it was made of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from shared_fixtures import TRAINING_LIMITS, small_config
from typer.testing import CliRunner

from model.bundle_weights import load_bundle
from model.tokenizer import Tokenizer
from training.__main__ import cli
from training.data.batches import load_pairs
from training.data.token_shards import ShardWriter
from training.export.run_folder import TrainedRun
from training.optim.checkpoint import load_state, load_weights, saved_weights
from training.optim.loop import train
from training.optim.trainer import Recipe, TrainingError

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
REPORTS = {"report.json", "report.txt"}


def command(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result.stdout + result.stderr


def files_of(folder: Path, leave_out: Sequence[str] = ()) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in leave_out}


def test_data_comes_out_byte_for_byte_and_says_what_it_is(data: Path, tmp_path: Path) -> None:
    said = command("pack", data, "--out", tmp_path / "parts", "--part-mib", 0.01)
    assert f"{tmp_path / 'parts'} has 336 pairs of en and fr: " in said.replace("\n", " ")
    assert max(path.stat().st_size for path in (tmp_path / "parts").glob("part-*.bin")) <= 0.01 * 2**20
    said = command("unpack", tmp_path / "parts", "--out", tmp_path / "again")
    assert f"{tmp_path / 'again'} is a data folder again, with " in said
    assert files_of(tmp_path / "again") == files_of(data, list(REPORTS))


def test_data_with_left_out_pairs_and_several_token_files_comes_out_byte_for_byte(data: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(data, tmp_path / "data"))
    pairs = load_pairs(data)[0]
    ids, lengths = pairs.source.ids[np.arange(pairs.source.starts[-1])], np.load(data / "lengths.npy")[:-1]
    for path in folder.glob("tokens-*.bin"):
        path.unlink()
    writer = ShardWriter(folder, 360, shard_bytes=1000)
    ends = lengths.sum(1, dtype=np.int64).cumsum()
    for start in range(0, len(lengths), 20):
        some = slice(start, start + 20)
        first = ends[start - 1] if start else 0
        writer.add(ids[first : ends[some][-1]], lengths[some].astype(np.uint32))
    kept = np.arange(len(lengths)) % 7 != 0
    record = json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
    record["files"] = writer.finish(kept, np.zeros(kept.sum(), np.int16))
    (folder / "prepared.json").write_text(json.dumps(record), encoding="utf-8")
    assert len(list(folder.glob("tokens-*.bin"))) > 2
    command("pack", folder, "--out", tmp_path / "parts")
    command("unpack", tmp_path / "parts", "--out", tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(folder, list(REPORTS))


def test_training_on_unpacked_data_gives_the_same_bits(data: Path, tmp_path: Path) -> None:
    command("pack", data, "--out", tmp_path / "parts")
    command("unpack", tmp_path / "parts", "--out", tmp_path / "again")
    assert load_pairs(tmp_path / "again")[1] == load_pairs(data)[1]
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)
    recipe = Recipe(6, batch_tokens=400, warmup=2, evaluate_every=3)
    runs = []
    for name, folder in (("one", data), ("other", tmp_path / "again")):
        train(folder, tmp_path / name, config, recipe, CPU, TRAINING_LIMITS, save_every=3)
        runs.append({path.name: path.read_bytes() for path in (tmp_path / name).glob("*.safetensors")})
    assert len(runs[0]) == 3
    assert runs[0] == runs[1]


@pytest.fixture(scope="module")
def unpacked(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("travelled")
    said = command("pack", run_folder, "--out", folder / "parts", "--part-mib", 0.02)
    assert "a run of 120 steps, weights of its last evaluation in float16: " in said
    said = command("unpack", folder / "parts", "--out", folder / "run")
    assert "is a run folder again, with a run of 120 steps" in said
    return folder / "run"


def test_run_comes_out_with_its_record_and_final_weights(unpacked: Path, run_folder: Path) -> None:
    before, after = load_state(run_folder), load_state(unpacked)
    assert before is not None
    assert after is not None
    assert {**before, "model": {}, "optimizer": {}}.keys() == after.keys()
    assert (after["identity"], after["state"], after["model"]) == (before["identity"], before["state"], {})
    assert [path.name for path in saved_weights(unpacked)] == [saved_weights(run_folder)[-1].name]
    assert (unpacked / "log.csv").read_bytes() == (run_folder / "log.csv").read_bytes()
    for name in (saved_weights(unpacked)[0].name, "best.safetensors"):
        found, wanted = load_weights(unpacked / name), load_weights(run_folder / name)
        assert found.keys() == wanted.keys()
        for tensor in found:
            assert found[tensor].dtype == torch.float32
            assert torch.equal(found[tensor], wanted[tensor].half().float())


def test_bundle_of_an_unpacked_run_has_the_weights_of_the_run(
    unpacked: Path, run_folder: Path, data: Path, tmp_path: Path
) -> None:
    last = Path(shutil.copytree(run_folder, tmp_path / "last"))
    for path in saved_weights(last)[:-1]:
        path.unlink()
    for name, run in (("ours", unpacked), ("theirs", last)):
        command("export", "--run", run, "--data", data, "--out", tmp_path / name, "--device", "cpu", "--threads", 1)
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("ours", "theirs"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    records = [json.loads((tmp_path / name / "config.json").read_text(encoding="utf-8")) for name in ("ours", "theirs")]
    assert records[0]["training"] == records[1]["training"]
    assert load_bundle(tmp_path / "ours", CPU).pair == "en-fr"


def test_several_evaluations_travel_in_float32_unchanged(run_folder: Path, data: Path, tmp_path: Path) -> None:
    command("pack", run_folder, "--out", tmp_path / "parts", "--weights", 2, "--dtype", "float32")
    command("unpack", tmp_path / "parts", "--out", tmp_path / "run")
    ours, theirs = (list(TrainedRun.load(run, data).candidates()) for run in (tmp_path / "run", run_folder))
    assert [what for what, _ in ours] == [what for what, _ in theirs]
    for (_, found), (_, wanted) in zip(ours, theirs, strict=True):
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_unpacked_run_cannot_be_resumed_and_says_so(unpacked: Path, data: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(unpacked, tmp_path / "run"))
    snapshot = load_state(run)
    assert snapshot is not None
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size, d_model=32, d_ff=64)
    recipe = Recipe(**{**snapshot["identity"]["recipe"], "steps": 200})
    with pytest.raises(TrainingError, match="was packed, without what resuming needs"):
        train(data, run, config, recipe, CPU, TRAINING_LIMITS, save_every=40)


def test_what_cannot_be_packed_or_unpacked_is_one_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = command("pack", tmp_path / "empty", "--out", tmp_path / "parts", code=1)
    assert (
        said
        == f"error: {tmp_path / 'empty'} is neither a data folder nor a run folder: it has no prepared.json "
        + ("and no state.pt\n")
    )
    command("pack", data, "--out", tmp_path / "parts", "--part-mib", 0.01)
    assert "exists; --replace swaps it" in command("pack", data, "--out", tmp_path / "parts", code=1)
    command("pack", data, "--out", tmp_path / "parts", "--part-mib", 0.01, "--replace")
    (tmp_path / "parts" / "part-00001.bin").unlink()
    said = command("unpack", tmp_path / "parts", "--out", tmp_path / "again", code=1)
    assert said == f"error: {tmp_path / 'parts'}: part-00001.bin is missing; fetch these again\n"
    assert not (tmp_path / "again").exists()
    for option in (("--part-mib", 0), ("--dtype", "int8"), ("--weights", 0)):
        assert f"error: {option[0]} must be" in command("pack", data, "--out", tmp_path / "x", *option, code=1)
