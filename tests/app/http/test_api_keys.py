"""Keys are hashes in a file: generated, verified, and reloaded when the file changes, but never lost to an invalid
one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from servers import WAIT_S
from typer.testing import CliRunner

from app.__main__ import cli
from app.http import api_keys
from app.http.api_keys import Keys, new_key, parse_keys
from app.settings import SettingsError

HASH = "sha256:" + "0" * 64


def test_only_issued_keys_are_accepted(tmp_path: Path) -> None:
    made = {name: new_key(name) for name in ("alice", "bob")}
    file = tmp_path / "keys"
    file.write_text("# who may\n\n" + "\n".join(line for _, line in made.values()))
    found = Keys(file)
    assert all(key not in file.read_text() for key, _ in made.values())
    for name, (key, _) in made.items():
        known = found.find(key)
        assert known
        assert known.name == name
        assert found.find(key[:-1]) is None
        assert found.find(f"{key}x") is None
    assert found.find("") is None
    assert found.find("\udcff") is None


def test_keys_are_unique() -> None:
    assert len({new_key("a")[0] for _ in range(100)}) == 100


def test_key_may_have_its_own_rates() -> None:
    (key,) = parse_keys([f"alice {HASH} characters=1000/day requests=5/second"])
    assert (key.requests and key.requests.amount, key.characters and key.characters.amount) == (5, 1000)
    (key,) = parse_keys([f"alice {HASH} requests=10/second burst 100 characters=1000/day admin"])
    assert (key.requests and key.requests.amount, key.characters and key.characters.amount) == (100, 1000)
    assert key.admin


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([], "it contains no key"),
        (["# nobody"], "it contains no key"),
        (["alice"], "line 1: the name must be followed by"),
        ([f"al/ice {HASH}"], "line 1: a line must begin with a name"),
        (["# x", "alice my-secret"], "line 2: the name must be followed by"),
        ([f"alice {HASH} often"], "line 1: the hash may be followed by requests=RATE"),
        ([f"alice {HASH} my-secret"], "line 1: the hash may be followed by requests=RATE"),
        ([f"alice {HASH} requests=5"], "line 1: '5' is not a rate"),
        ([f"alice {HASH} requests=5/day burst my"], "line 1: '5/day burst my' is not a rate"),
        ([f"alice {HASH} requests=5/day requests=6/day"], "line 1: the hash may be followed by requests=RATE"),
        ([f"alice {HASH}", f"bob {HASH}"], "line 2: duplicate name or key"),
        ([f"alice {HASH}", f"alice sha256:{'1' * 64}"], "line 2: duplicate name or key"),
    ],
)
def test_errors_in_a_key_file_name_the_line_and_show_no_key(lines: list[str], fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}") as error:
        parse_keys(lines)
    assert "my-secret" not in str(error.value)


def test_missing_key_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"INTERLINEAR_API_KEYS_FILE=.*No such file"):
        Keys(tmp_path / "none")


def test_changed_key_file_is_read_again_and_an_invalid_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (first, first_line), (second, second_line) = new_key("first"), new_key("second")
    file = tmp_path / "keys"
    file.write_text(first_line)

    def put(text: str) -> None:
        """Replaces the file atomically: an emptied file would be read as one without keys."""
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(file)

    async def watched() -> None:
        found = Keys(file)
        watcher = asyncio.create_task(found.watch(interval_s=0.001))

        async def until(happened: Callable[[], object]) -> None:
            async with asyncio.timeout(WAIT_S):
                while not happened():  # noqa: ASYNC110  nobody tells of it
                    await asyncio.sleep(0.001)

        put(second_line)
        await until(lambda: found.find(second) and not found.find(first))
        put("what is this?")
        await until(lambda: caplog.records)
        file.unlink()
        await until(lambda: len(caplog.records) == 2)
        assert found.find(second)
        put(f"{first_line}\n")
        await until(lambda: found.find(first) and not found.find(second))
        watcher.cancel()

    with caplog.at_level("WARNING"):
        asyncio.run(watched())
    bad, gone = caplog.messages
    assert "line 1: " in bad
    assert "keeping the previous API keys" in gone


def put_folder(path: Path) -> None:
    path.mkdir()


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_large(path: Path) -> None:
    path.write_bytes(b"#" * (api_keys.MAX_FILE_BYTES + 1))


@pytest.mark.parametrize("put", [put_folder, put_pipe, put_large])
def test_anything_but_a_regular_key_file_neither_blocks_nor_changes_the_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, put: Callable[[Path], None]
) -> None:
    key, line = new_key("alice")
    file = tmp_path / "keys"
    file.write_text(line)
    found = Keys(file)
    file.unlink()
    put(file)

    async def watched() -> None:
        watcher = asyncio.create_task(found.watch(interval_s=0.001))
        async with asyncio.timeout(WAIT_S):
            while not caplog.records:  # noqa: ASYNC110  nobody tells of it
                await asyncio.sleep(0.001)
        watcher.cancel()

    with caplog.at_level("WARNING"):
        asyncio.run(watched())
    assert "keeping the previous API keys" in caplog.messages[0]
    assert found.find(key)
    with pytest.raises(SettingsError, match="INTERLINEAR_API_KEYS_FILE="):
        Keys(file)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 65, '"'])
def test_name_that_cannot_be_written_gets_no_key(name: str) -> None:
    with pytest.raises(ValueError, match=r"^A key's name"):
        new_key(name)


def test_command_prints_a_line_for_the_file_and_shows_the_key_once(tmp_path: Path) -> None:
    made = CliRunner().invoke(cli, ["key", "alice"])
    assert made.exit_code == 0
    file = tmp_path / "keys"
    file.write_text(made.stdout)
    key = made.stderr.split()[-1]
    assert Keys(file).find(key) == parse_keys([made.stdout])[0]
    assert key not in made.stdout
    assert CliRunner().invoke(cli, ["key", "a b"]).exit_code == 2
