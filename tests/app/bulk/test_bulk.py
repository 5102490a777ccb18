"""`interlinear translate --in PLACE --out PLACE`: shards, formats, resuming, and what is refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import becomes
from typer.testing import CliRunner

from app.__main__ import cli
from app.bulk import shards as shards_module
from app.bulk.command import Bulk, run
from app.bulk.pipeline import Finished, Job, translate_shards
from app.bulk.places import Folder
from app.bulk.shards import Shard, format_of, line_shards, row_group_shards
from app.cli.offline_engine import Command, Prepared, Session
from app.engine.launch import InProcessWorker
from app.errors import StepFailed
from app.translation.types import Item, TranslatedText

ROOT = Path(__file__).resolve().parents[3]


async def shout(items: Sequence[Item]) -> list[TranslatedText]:
    """Translates into capitals. "broken" cannot be translated, and "." causes a warning."""
    await asyncio.sleep(0)
    return [
        TranslatedText(error=StepFailed("Alas."))
        if text == "broken"
        else TranslatedText(
            text=str(text).upper(), score=-0.5, finish_reason="stop", warnings=["Mind."] if text == "." else []
        )
        for text in items
    ]


async def shout_shards(
    shards: list[Shard],
    job: Job,
    prepared: Prepared,
    finish: Callable[[Finished], None],
    advance: Callable[[int], None],
) -> None:
    await translate_shards(shards, job, Session(shout, 3), finish, advance)


@pytest.fixture
def bulk(bundle_folder: Path, tmp_path: Path) -> Callable[..., int]:
    """Translates tmp_path/in to tmp_path/out into capitals; returns the exit code."""
    (tmp_path / "in").mkdir()

    def translate(source: str = "", target: str = "", column: str = "text", **options: Any) -> int:
        command = Command("en", "fr", **{"bundles": str(bundle_folder), "quiet": True, **options})
        places = source or str(tmp_path / "in"), target or str(tmp_path / "out")
        return run(command, Bulk(*places, column), shout_shards)

    return translate


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.removeprefix("interlinear: ") for line in capsys.readouterr().err.splitlines()]


def content_of(folder: Path) -> dict[str, bytes]:
    """Every file, hidden ones as well."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", b"one\n\ntwo\r\nthree", b"ONE\n\nTWO\r\nTHREE"),
        ("a.txt", b"\xef\xbb\xbfa\0b\n", b"\xef\xbb\xbfA\0B\n"),
        ("a.txt", b"", b""),
        (
            "a.tsv",
            b"\xef\xbb\xbfid\ttext\r\n1\tone\r\n2\t.\r\n",
            b"\xef\xbb\xbfid\ttext\ttranslation\tscore\twarnings\r\n1\tone\tONE\t-0.5\t\r\n2\t.\t.\t-0.5\tMind.\r\n",
        ),
        ("a.tsv", b"text\tid\none\n\n", b"text\tid\ttranslation\tscore\twarnings\none\t\tONE\t-0.5\t\n\t\t\t\t\n"),
        ("a.tsv", b"", b""),
        (
            "a.jsonl",
            b'{"n": 1.50, "text": "o\\u006ee"}\n\n{"text":null}\r\n{"text":"\xc3\xa9"}',
            b'{"n": 1.50, "text": "o\\u006ee", "translation": "ONE", "score": -0.5, "warnings": []}\n\n'
            b'{"text":null, "translation": null, "score": null, "warnings": []}\r\n'
            b'{"text":"\xc3\xa9", "translation": "\xc3\x89", "score": -0.5, "warnings": []}',
        ),
        ("a.jsonl", b"", b""),
    ],
)
def test_rows_keep_their_order_and_every_other_byte(
    bulk: Callable[..., int], tmp_path: Path, name: str, content: bytes, expected: bytes
) -> None:
    write(tmp_path / "in" / name, content)
    assert bulk() == 0
    assert (tmp_path / "out" / name).read_bytes() == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", b"one\nbad \xe9\nbroken\n", b"ONE\nbad \xe9\nbroken\n"),
        (
            "a.tsv",
            b"id\ttext\n1\n2\tone\tmore\n\xe9\tone\n4\t\xe9\n",
            b"id\ttext\ttranslation\tscore\twarnings\n1\t\t\t\tnot translated: it has no field text\n"
            b"2\tone\tmore\tone\t\tnot translated: it has 3 fields, and the header 2\n"
            b"\xe9\tone\tONE\t-0.5\t\n4\t\xe9\t\xe9\t\tnot translated: it is not UTF-8\n",
        ),
        (
            "a.jsonl",
            b'{"text":"one"}\nnope\n{"text":7}\n{"text":"\xe9"}\n{"text":"a","score":1}\n{}\n',
            b'{"text":"one", "translation": "ONE", "score": -0.5, "warnings": []}\nnope\n'
            b'{"text":7, "translation": null, "score": null, "warnings": ["not translated: its text is not a string"]}'
            b'\n{"text":"\xe9"}\n{"text":"a","score":1}\n'
            b'{"translation": null, "score": null, "warnings": ["not translated: it has no field text"]}\n',
        ),
    ],
)
def test_untranslatable_rows_come_out_as_they_went_in_and_are_named(
    bulk: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    expected: bytes,
) -> None:
    write(tmp_path / "in" / name, content)
    assert bulk() == 3
    assert (tmp_path / "out" / name).read_bytes() == expected
    lines = said(capsys)
    assert all(re.match(rf"{name}:\d+ was not translated: ", line) for line in lines)
    assert (tmp_path / "out/_failures" / f"{name}.txt").read_text().splitlines() == lines


def test_failures_of_an_earlier_run_still_decide_the_exit_code(bulk: Callable[..., int], tmp_path: Path) -> None:
    write(tmp_path / "in/a.txt", b"broken\n")
    assert (bulk(), bulk()) == (3, 3)


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_compressed_files_stay_compressed(bulk: Callable[..., int], tmp_path: Path, compression: str) -> None:
    codec = {"gz": "gzip", "zst": "zstd"}[compression]
    with pa.CompressedOutputStream(str(tmp_path / f"in/a.txt.{compression}"), codec) as file:
        file.write(b"one\n" * 5_000)
    assert bulk() == 0
    with pa.CompressedInputStream(str(tmp_path / f"out/a.txt.{compression}"), codec) as file:
        assert file.read() == b"ONE\n" * 5_000


def test_truncated_file_is_named_and_the_others_are_translated(
    bulk: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in/a.txt.gz", gzip.compress(b"one\n" + random.Random(1).randbytes(50_000).hex().encode())[:-500])
    write(tmp_path / "in/b.txt", b"one")
    assert bulk() == 4
    assert said(capsys)[0].startswith("a.txt.gz: ")
    assert {name for name in content_of(tmp_path / "out") if not name.startswith("_")} == {"b.txt"}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_keeps_columns_and_gets_new_ones(bulk: Callable[..., int], tmp_path: Path, kind: pa.DataType) -> None:
    texts = ["one", None, "", "."] * 3
    table = pa.table({"id": list(range(12)), "text": pa.array(texts).cast(kind)})
    pq.write_table(table, tmp_path / "in/a.parquet", row_group_size=4)
    assert bulk() == 0
    written = pq.read_table(tmp_path / "out/a.parquet")
    assert written.select(["id", "text"]).equals(table)
    assert written["translation"].to_pylist() == ["ONE", None, "", "."] * 3
    assert written["score"].to_pylist() == [-0.5, None, -0.5, -0.5] * 3
    assert written["warnings"].to_pylist() == [[], [], [], ["Mind."]] * 3


def test_parquet_bytes_that_are_not_utf8_stay(bulk: Callable[..., int], tmp_path: Path) -> None:
    texts = pa.array([b"one", b"\xe9"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": texts}), tmp_path / "in/a.parquet")
    pq.write_table(pa.table({"text": texts[:0]}), tmp_path / "in/none.parquet")
    assert bulk() == 3
    written = pq.read_table(tmp_path / "out/a.parquet")["translation"]
    assert written.cast(pa.binary()).to_pylist() == [b"ONE", b"\xe9"]
    assert pq.read_table(tmp_path / "out/none.parquet").num_rows == 0


@pytest.mark.parametrize("size", [1, 5, 7, 50])
def test_stretches_of_lines_together_are_the_file(
    bulk: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(shards_module, "SHARD_BYTES", size)
    lines = ["", "a", "bcd", "é" * 9, "", "x" * 30, "end"]
    write(tmp_path / "in/a.txt", "\n".join(lines).encode())
    write(tmp_path / "in/b.tsv", "\n".join(["text", *lines]).encode())
    assert bulk() == 0
    texts = [path.read_text() for path in sorted((tmp_path / "out/a.txt").iterdir())]
    assert "".join(texts) == "\n".join(lines).upper()
    assert all(
        path.name == f"part-{number:05}-of-{len(texts):05}.txt"
        for number, path in enumerate(sorted((tmp_path / "out/a.txt").iterdir()))
    )
    tables = [path.read_text().splitlines() for path in sorted((tmp_path / "out/b.tsv").iterdir())]
    assert {table[0] for table in tables} == {"text\ttranslation\tscore\twarnings"}
    assert [row.split("\t")[1] for table in tables for row in table[1:]] == [line.upper() for line in lines]


def test_small_row_groups_go_together_and_large_ones_alone() -> None:
    shards = list(row_group_shards("a.parquet", [5_000, 5_000, 50_000, 1, 1], 1_000))
    assert [(shard.start, shard.end) for shard in shards] == [(0, 2), (2, 3), (3, 5)]
    assert sum(shard.size for shard in shards) == 1_000
    assert [shard.output for shard in line_shards("x/a.txt.gz", ".txt", ".gz", 1 << 30)] == ["x/a.txt.gz"]


@pytest.mark.parametrize(
    "name", [".a.txt", ".git/a.txt", "_a.txt", "a.txt.tmp", "a.txt~", "a.pdf", "a.parquet.gz", "a"]
)
def test_hidden_and_temporary_files_are_not_translated(name: str) -> None:
    assert format_of(name) is None
    assert format_of("x.y/A.b.TXT") == (".txt", "")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no file to translate"),
        ({"a.pdf": b""}, "has 1 files, but none to translate"),
        ({"a.tsv": b"id\tline\n"}, "a.tsv has no column text: its first line has id, line"),
        ({"a.tsv": b"text\tscore\n"}, "a.tsv already has a column score"),
        ({"a.jsonl": b'\n{"line": "one"}\n'}, "a.jsonl cannot be translated: line 1: it has no field text"),
        ({"a.jsonl": b"[1]\n"}, "a.jsonl cannot be translated: line 1: it is not a JSON object"),
        ({"a.txt": "one".encode("utf-16")}, "a.txt is UTF-16; convert it to UTF-8"),
        ({"a.txt.gz": b"one"}, "a.txt.gz: Not a gzipped file"),
        ({"a.parquet": b""}, "a.parquet is no Parquet file that can be read"),
    ],
)
def test_unsuitable_input_is_refused_in_a_line_before_anything_is_written(
    bulk: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, bytes],
    message: str,
) -> None:
    for name, content in files.items():
        write(tmp_path / "in" / name, content)
    assert bulk() in (2, 4)
    (line,) = said(capsys)
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "target"),
    [("in", "in"), ("in", "in/out"), ("in", "."), ("in/a.txt", "in"), ("in", "in/a.txt"), ("missing", "out")],
)
def test_places_that_contain_one_another_are_refused(
    bulk: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, target: str
) -> None:
    write(tmp_path / "in/a.txt", b"one")
    assert bulk(str(tmp_path / source), str(tmp_path / target)) in (2, 4)
    assert len(said(capsys)) == 1
    assert content_of(tmp_path) == {"in/a.txt": b"one"}


def test_a_single_file_is_an_input_too(bulk: Callable[..., int], tmp_path: Path) -> None:
    write(tmp_path / "in/a.txt", b"one")
    write(tmp_path / "in/b.txt", b"two")
    assert bulk(str(tmp_path / "in/a.txt")) == 0
    assert {name for name in content_of(tmp_path / "out") if name[0] != "_"} == {"a.txt"}


def test_finished_files_are_skipped_and_new_ones_added(bulk: Callable[..., int], tmp_path: Path) -> None:
    write(tmp_path / "in/a.txt", b"one")
    assert bulk() == 0
    write(tmp_path / "out/a.txt", b"mine")
    write(tmp_path / "out/.b.txt.0123456789abcdef0123456789abcdef.partial", b"of a killed run")
    write(tmp_path / "in/b.txt", b"two")
    assert bulk() == 0
    assert {k: v for k, v in content_of(tmp_path / "out").items() if k[0] != "_"} == {"a.txt": b"mine", "b.txt": b"TWO"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "line"}, "column text, not line"),
        ({"markup": True}, "format text, not html"),
        ({"glossary": "terms.tsv"}, "glossary none, not "),
        ({"memory": "terms.tsv"}, "memory none, not "),
    ],
)
def test_output_of_other_options_is_refused(
    bulk: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "terms.tsv", b"cat\tminou\n")
    write(tmp_path / "in/a.tsv", b"text\tline\none\ttwo\n")
    assert bulk() == 0
    before = content_of(tmp_path / "out")
    assert bulk(**options) == 2
    (line,) = said(capsys)
    assert message in line
    assert content_of(tmp_path / "out") == before


def test_output_of_another_bundle_or_precision_is_refused(
    bulk: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in/a.txt", b"one")
    assert bulk() == 0
    manifest = tmp_path / "out/_manifest.json"
    made = json.loads(manifest.read_text())
    monkeypatch.setenv("INTERLINEAR_PRECISION", "bfloat16")
    assert bulk() == 2
    monkeypatch.delenv("INTERLINEAR_PRECISION")
    manifest.write_text(json.dumps({**made, "bundles": {"en-fr": "0" * 64}}))
    assert bulk() == 2
    precision, bundle = said(capsys)
    assert "not bfloat16" in precision
    assert "with bundles en-fr@000000000000, not en-fr@" in bundle


def test_changed_input_and_foreign_output_are_refused(
    bulk: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in/a.txt", b"one")
    write(tmp_path / "other/a.txt", b"mine")
    assert bulk(target=str(tmp_path / "other")) == 4
    assert bulk() == 0
    write(tmp_path / "in/a.txt", b"one, two")
    assert bulk() == 2
    foreign, changed = said(capsys)
    assert "has no _manifest.json but a.txt: choose an empty --out" in foreign
    assert changed == "a.txt had 3 bytes and has 8: choose another --out"
    assert content_of(tmp_path / "other") == {"a.txt": b"mine"}


def test_a_manifest_that_changes_meanwhile_stops_the_run(
    bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in/a.txt", b"one")

    async def translate(shards: list[Shard], job: Job, *others: Any) -> None:
        write(tmp_path / "out/_manifest.json", b"{}")
        await shout_shards(shards, job, *others)

    command = Command("en", "fr", bundles=str(bundle_folder), quiet=True)
    assert run(command, Bulk(str(tmp_path / "in"), str(tmp_path / "out")), translate) == 2
    assert len(said(capsys)) == 1
    assert not (tmp_path / "out/a.txt").exists()


def test_two_runs_at_once_do_no_harm(bundle_folder: Path, tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path / f"in/{number}.txt", b"one\ntwo\n" * number)

    async def both(shards: list[Shard], job: Job, *others: Any) -> None:
        await asyncio.gather(shout_shards(shards, job, *others), shout_shards(shards[::-1], job, *others))

    command = Command("en", "fr", bundles=str(bundle_folder), quiet=True)
    assert run(command, Bulk(str(tmp_path / "in"), str(tmp_path / "out")), both) == 0
    written = {name: content for name, content in content_of(tmp_path / "out").items() if name[0] != "_"}
    assert written == {f"{number}.txt": b"ONE\nTWO\n" * number for number in range(40)}


def test_a_full_disk_is_said_and_leaves_no_half_file(
    bulk: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in/a.txt", b"one")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Folder, "publish", fail)
    monkeypatch.setattr(Folder, "create", lambda self, path, content: write(self.path / path, content))
    monkeypatch.setattr("app.bulk.manifest.check_inputs", lambda *arguments: None)
    assert bulk() == 4
    assert said(capsys) == [f"{tmp_path}/out cannot be written: No space left on device"]
    assert set(content_of(tmp_path / "out")) == {"_manifest.json"}


@pytest.mark.parametrize(
    "words", [["--in", "x"], ["--in", "x", "--out", "y", "--file", "z.txt"], ["--column", "line"], ["--ray", "auto"]]
)
def test_incompatible_options_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(cli, ["translate", "--source", "en", "--target", "fr", *words]).exit_code == 2


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The query of URIs of a local server with S3's API, which has a bucket "texts"."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
        client.create_bucket(Bucket="texts")
        yield f"?scheme=http&endpoint_override={host}:{port}&region=us-east-1"
    server.stop()


@pytest.mark.slow
def test_object_storage_gives_what_a_folder_gives(
    bulk: Callable[..., int],
    tmp_path: Path,
    s3: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(shards_module, "SHARD_BYTES", 1_000)
    write(tmp_path / "in/a.txt", b"".join(b"line %d\n" % number for number in range(900)))
    write(tmp_path / "in/x/b.tsv", b"text\none\n")
    write(tmp_path / "in/x/c.jsonl.gz", gzip.compress(b'{"text": "one"}\n'))
    write(tmp_path / "in/empty.txt", b"")
    pq.write_table(pa.table({"text": ["one"]}), tmp_path / "in/d.parquet")
    uri = f"s3://texts/in{s3}"
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(uri)
    fs.copy_files(str(tmp_path / "in"), path, destination_filesystem=system)
    assert bulk() == 0
    assert bulk(uri, f"s3://texts/out{s3}") == 0
    fs.copy_files("texts/out", str(tmp_path / "fetched"), source_filesystem=system)
    assert content_of(tmp_path / "fetched") == content_of(tmp_path / "out")
    # Resumes: what is there is left alone, what is missing is made again.
    system.delete_file("texts/out/x/b.tsv")
    with system.open_output_stream("texts/out/empty.txt") as file:
        file.write(b"mine")
    assert bulk(uri, f"s3://texts/out{s3}") == 0
    assert system.open_input_file("texts/out/x/b.tsv").read() == (tmp_path / "out/x/b.tsv").read_bytes()
    assert system.open_input_file("texts/out/empty.txt").read() == b"mine"
    said(capsys)
    assert bulk(uri, f"s3://texts/in/out{s3}") == 2
    assert bulk(uri, f"s3://texts/out{s3}", column="line") == 2
    assert bulk(uri, f"s3://absent/out{s3}") == 4
    assert bulk(f"s3://absent/in{s3}", str(tmp_path / "new")) == 4
    assert len(said(capsys)) == 4


def command(bundles: Path, source: Path, target: Path, *words: str) -> subprocess.Popen[bytes]:
    """The real command with the real engine."""
    environ = {**os.environ, "INTERLINEAR_BUNDLES": str(bundles), "INTERLINEAR_PRECISION": "auto"}
    common = [sys.executable, "-m", "app", "translate", "--source", "en", "--target", "fr", "--workers", "1", *words]
    places = ["--in", str(source), "--out", str(target)]
    return subprocess.Popen([*common, *places], cwd=ROOT, env=environ, stderr=subprocess.PIPE)


def has_files(folder: Path, count: int) -> bool:
    return len(list(folder.glob("*.txt"))) >= count


@pytest.mark.slow
def test_killed_and_restarted_command_leaves_what_an_undisturbed_one_does(
    bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(7)
    words = ["the", "cat", "sleeps", "hello", "thank", "dog", "how", "are", "you"]
    for number in range(30):
        lines = [" ".join(draw.choices(words, k=6)) + "." for _ in range(20)]
        write(tmp_path / f"in/{number}.txt", "\n".join(lines).encode())
    monkeypatch.setenv("INTERLINEAR_PRECISION", "auto")
    undisturbed = Command("en", "fr", bundles=str(bundle_folder), workers=1)
    places = Bulk(str(tmp_path / "in"), str(tmp_path / "whole"))
    assert run(undisturbed, places, launch=InProcessWorker) == 0
    assert any(line.startswith("30 of 30 shards, 600 texts in ") for line in said(capsys))
    process = command(bundle_folder, tmp_path / "in", tmp_path / "out")
    assert becomes(partial(has_files, tmp_path / "out", draw.randrange(1, 20)))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.txt")}
    process = command(bundle_folder, tmp_path / "in", tmp_path / "out")
    assert b"shards are there already" in process.communicate()[1]
    assert process.returncode == 0
    assert content_of(tmp_path / "out") == content_of(tmp_path / "whole")
    assert all((tmp_path / "out" / name).stat().st_mtime_ns == time for name, time in times.items())


@pytest.mark.slow
def test_a_folder_takes_translations_from_a_memory(
    bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "pairs.tsv", b"A house.\tUne demeure.\n")
    write(tmp_path / "in/a.txt", b"A house.\nThe cat sleeps.\nA house. The cat sleeps.\n")
    command = Command("en", "fr", bundles=str(bundle_folder), workers=1, memory=str(tmp_path / "pairs.tsv"))
    assert run(command, Bulk(str(tmp_path / "in"), str(tmp_path / "out")), launch=InProcessWorker) == 0
    first, second, third = (tmp_path / "out/a.txt").read_text().splitlines()
    assert (first, third) == ("Une demeure.", f"Une demeure. {second}")
    assert "2 texts or sentences are from the translation memory" in said(capsys)


@pytest.mark.slow
def test_translations_are_those_of_standard_input(bundle_folder: Path, tmp_path: Path) -> None:
    texts = [
        "Hello.",
        "",
        "  The cat  sleeps. How are you?",
        "Hello.\r",
        "the dog " * 4_000,
        "thank you\u2028hello",
        "é",
    ]
    content = "\n".join(texts).encode()
    environ = {**os.environ, "INTERLINEAR_BUNDLES": str(bundle_folder), "INTERLINEAR_PRECISION": "auto"}
    words = [sys.executable, "-m", "app", "translate", "--source", "en", "--target", "fr", "--workers", "1", "-q"]
    piped = subprocess.run(words, cwd=ROOT, env=environ, input=content, capture_output=True, check=True).stdout
    write(tmp_path / "in/a.txt", content)
    write(tmp_path / "in/b.jsonl", "\n".join(json.dumps({"text": text}) for text in texts).encode())
    process = command(bundle_folder, tmp_path / "in", tmp_path / "out", "-q")
    assert process.communicate()[1] == b""
    assert process.returncode == 0
    assert (tmp_path / "out/a.txt").read_bytes() == piped
    rows = [json.loads(line) for line in (tmp_path / "out/b.jsonl").read_bytes().splitlines()]
    assert [row["translation"].replace("\n", " ") for row in rows] == piped.decode().split("\n")
