"""app/cli/translate.py: `python -m app translate`: one line out per line in, in order, at once; and its exit codes."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import named_bundle
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from msgspec import structs
from servers import WAIT_S, becomes
from typer.testing import CliRunner

from app import formats
from app.__main__ import cli
from app.cli.documents import output_path, read_document, translate_document, write_file
from app.cli.exit_codes import EXIT_CODES
from app.cli.lines import translate_lines
from app.cli.offline_engine import (
    WINDOW_CHARS,
    WINDOW_TEXTS,
    Command,
    CommandError,
    Report,
    Session,
    load_command_settings,
    load_glossary,
    load_memory,
    needed_bundles,
    split_windows,
)
from app.cli.translate import progress
from app.engine.registry import Catalogue
from app.errors import StepFailed
from app.settings import Settings
from app.storage.memory_sqlite import SQLiteLog
from app.storage.protocols import MemorySize, Scope
from app.text.glossary import Glossaries, Glossary
from app.text.memory_index import Pair
from app.text.memory_slots import text_id
from app.translation.types import Item, TranslatedText

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
TEXTS = st.lists(st.text(st.sampled_from("aé你\r .?"), max_size=9), max_size=200)


async def shout(items: Sequence[Item]) -> list[TranslatedText]:
    """Translates into capitals, longer text faster. "?" and "broken" cannot be translated, and "." causes a warning."""
    texts = [
        item if isinstance(item, str) else "".join(p if isinstance(p, str) else p.text for p in item) for item in items
    ]
    await asyncio.sleep(0.01 / (1 + sum(map(len, texts))))
    return [
        TranslatedText(error=StepFailed("Alas."))
        if text in ("?", "broken")
        else TranslatedText(
            text=text.upper(), score=0.0, finish_reason="stop", warnings=["Mind."] if text == "." else []
        )
        for text in texts
    ]


def translated(content: bytes, session: Session | None = None, report: Report | None = None, size: int = 50) -> bytes:
    """The output when `content` is read in chunks of `size` bytes."""
    pieces = iter([content[start : start + size] for start in range(0, len(content), size)])
    written: list[str] = []
    work = translate_lines(
        lambda _: next(pieces, b""), written.extend, session or Session(shout, 3), report or Report(quiet=False)
    )
    asyncio.run(work)
    return "".join(written).encode()


@given(texts=TEXTS, end=st.sampled_from(["", "\n"]))
@draw_examples(25)
def test_each_input_line_gives_one_output_line_in_order(texts: list[str], end: str) -> None:
    content = "\n".join(texts) + end
    assert translated(content.encode()) == content.upper().encode()


def test_line_break_in_a_translation_does_not_make_two_lines() -> None:
    async def breaking(items: Sequence[Item]) -> list[TranslatedText]:
        return [TranslatedText(text="a\nb\n", score=0.0, finish_reason="stop") for _ in items]

    assert translated(b"x\ny", Session(breaking, 3)) == b"a b \na b "


def test_untranslatable_lines_are_copied_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(quiet=False)
    assert translated(b"a\n?\nb\n?", report=report) == b"A\n?\nB\n?"
    assert report.close() == 3
    assert capsys.readouterr().err.splitlines() == [
        "interlinear: line 2 was not translated: Alas.",
        "interlinear: line 4 was not translated: Alas.",
    ]


def test_thousands_of_failures_are_only_counted(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(quiet=True)
    translated(b"?\n" * 1_000, report=report)
    assert report.close() == 3
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 21
    assert said[-1] == "interlinear: 1,000 of 1,000 texts are not translated"


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_listed_by_line_at_the_end(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(quiet)
    translated(b"a\n.\n.\n", report=report)
    assert capsys.readouterr().err == ""
    assert report.close() == 0
    said = ["2 of 3 texts have warnings:", "line 2: Mind.", "line 3: Mind."]
    assert capsys.readouterr().err.splitlines() == ([] if quiet else [f"interlinear: {line}" for line in said])


def test_thousands_of_warnings_are_only_counted(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(quiet=False)
    translated(b".\n" * 1_000, report=report)
    assert report.close() == 0
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "interlinear: line 1: Mind."
    assert said[-2:] == ["interlinear: line 20: Mind.", "interlinear: and 980 more"]


def test_line_is_translated_before_the_next_is_read() -> None:
    written: list[str] = []
    answered = threading.Event()

    def write(texts: Iterable[str]) -> None:
        written.extend(texts)
        answered.set()

    pieces = iter([b"one\n", b"two\n", b""])

    def read(size: int) -> bytes:
        piece = next(pieces)
        if piece != b"one\n":
            assert answered.wait(WAIT_S)
            assert written[0] == "ONE\n"
        return piece

    asyncio.run(translate_lines(read, write, Session(shout, 3), Report(quiet=False)))
    assert written == ["ONE\n", "TWO\n"]


def test_few_windows_are_translated_at_once_for_any_input() -> None:
    now = most = 0
    are_five = asyncio.Event()

    async def counted(texts: Sequence[Item]) -> list[TranslatedText]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 5:
            are_five.set()
        await are_five.wait()
        done = await shout(texts)
        now -= 1
        return done

    assert len(translated(b"line\n" * 20_000, Session(counted, 5), size=1 << 16)) == 5 * 20_000
    assert 5 <= most <= 7  # one is being written, one waits for its place


@given(lengths=st.lists(st.integers(0, 2 * WINDOW_CHARS), max_size=300))
def test_windows_have_few_texts_and_few_characters(lengths: list[int]) -> None:
    windows = list(split_windows(lengths, lambda length: length))
    assert [length for window in windows for length in window] == lengths
    assert all(0 < len(window) <= WINDOW_TEXTS for window in windows)
    assert all(len(window) == 1 or sum(window) <= WINDOW_CHARS for window in windows)


def test_lines_before_an_error_are_written() -> None:
    written: list[str] = []
    pieces = iter([b"one\ntwo\nthr\xe9e\n", b""])
    work = translate_lines(lambda size: next(pieces), written.extend, Session(shout, 3), Report(quiet=False))
    with pytest.raises(CommandError, match="line 3 of the input is not UTF-8") as caught:
        asyncio.run(work)
    assert caught.value.status == 4
    assert written == ["ONE\n", "TWO\n"]


def test_a_closed_output_ends_the_command() -> None:
    def write(texts: Iterable[str]) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        asyncio.run(translate_lines(lambda size: b"line\n" * 999, write, Session(shout, 3), Report(quiet=False)))


def translated_file(path: Path, report: Report) -> bytes:
    document = read_document(path, "fr")
    return asyncio.run(translate_document(document, Session(shout, 3), report, lambda size: None))


def test_translated_document_has_its_passages_in_place(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("".join(f"<p class=x>Line {number}</p>\n" for number in range(500)), encoding="utf-8")
    report = Report(quiet=False)
    expected = "".join(f"<p class=x>LINE {number}</p>\n" for number in range(500))
    assert translated_file(path, report).decode() == expected
    assert (report.texts, report.close()) == (500, 0)


def test_an_untranslatable_passage_is_copied_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "strings.json"
    path.write_text('{"a": "yes", "b": "broken", "c": "no"}', encoding="utf-8")
    report = Report(quiet=False)
    assert translated_file(path, report) == b'{"a": "YES", "b": "broken", "c": "NO"}'
    assert report.close() == 3
    assert capsys.readouterr().err == "interlinear: line 1, $.b was not translated: Alas.\n"


def test_output_is_written_beside_the_document_and_overwrites_nothing_by_default(tmp_path: Path) -> None:
    path = tmp_path / "report.docx"
    assert output_path(path, None, "fr", replace=False) == tmp_path / "report.fr.docx"
    (tmp_path / "report.fr.docx").touch()
    (tmp_path / "there").touch()
    for out in (None, tmp_path / "there", tmp_path / "no-folder" / "report.docx"):
        with pytest.raises(CommandError) as caught:
            output_path(path, out, "fr", replace=False)
        assert caught.value.status == 4
    assert output_path(path, tmp_path / "there", "fr", replace=True) == tmp_path / "there"


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [("a.exe", b"", 2), ("a.docx", b"no archive", 4), ("missing.txt", None, 4), ("folder.txt", "folder", 4)],
)
def test_an_unreadable_document_has_its_own_exit_code(
    tmp_path: Path, name: str, content: bytes | str | None, status: int
) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content:
        (tmp_path / name).mkdir()
    with pytest.raises(CommandError) as caught:
        read_document(tmp_path / name, "fr")
    assert caught.value.status == status
    assert "\n" not in str(caught.value)


def test_file_is_written_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "out.txt"
    write_file(place, b"one")
    write_file(place, b"two")
    assert place.read_bytes() == b"two"
    assert place.stat().st_mode & 0o400

    def fail(*places: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(CommandError, match="No space left") as caught:
        write_file(place, b"three")
    assert caught.value.status == 4
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.txt", b"two")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.po", 'msgid "A"\nmsgstr ""\n\n# c\nmsgctxt "m"\nmsgid "."\nmsgid_plural "x."\nmsgstr[0] ""\n', ""),
        ("a.po", 'msgid "A"\nmsgstr ""\n\n# c\nmsgid "Mind"\nmsgstr ""\n', "line 5"),
        ("a.json", '{"a": [1, {"b c": "Mind"}]}', 'line 1, $.a[1]["b c"]'),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nA\n\n2\n00:00:03,000 --> 00:00:04,000\nMind\n", "line 7, cue 2"),
        ("a.html", "<p>A</p>\r\n<p>\r\nMind</p>", "line 3"),
    ],
)
def test_warnings_about_a_document_give_their_location(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, said: str
) -> None:
    async def mind(items: Sequence[Item]) -> list[TranslatedText]:
        return [structs.replace(d, warnings=["Mind."] if d.text == "MIND" else []) for d in await shout(items)]

    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    report = Report(quiet=False)
    asyncio.run(translate_document(read_document(tmp_path / name, "fr"), Session(mind, 3), report, lambda size: None))
    report.close()
    told = capsys.readouterr().err.splitlines()
    assert told[1:] == ([f"interlinear: {said}: Mind."] if said else [])


@pytest.mark.parametrize(
    "words",
    [
        ["--out", "x"],
        ["--file", "x.txt", "--format", "html"],
        ["--format", "xml"],
        ["--redo-fuzzy"],
        ["--sheet-names"],
        ["--paths", "$.a"],
        ["--columns", "a"],
        ["--line-breaks", "join"],
        ["--file", "x.txt", "--line-breaks", "cut"],
    ],
)
def test_incompatible_options_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(cli, ["translate", "--source", "en", "--target", "fr", *words]).exit_code == 2


def test_help_names_the_readable_formats() -> None:
    shown = CliRunner().invoke(cli, ["translate", "--help"], env={"COLUMNS": "200"}).stdout
    named = set(re.findall(r" (\.[a-z]+)\b", shown))
    assert {".docx", ".html", ".md", ".po", ".srt"} <= named <= formats.MEDIA_TYPES.keys()


def test_limits_of_the_service_do_not_apply(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTERLINEAR_MAX_TEXT_CHARS", "5")
    monkeypatch.setenv("INTERLINEAR_PRECISION", "float32")
    chosen = load_command_settings(Command("en", "fr", bundles=f"{tmp_path},mine"))
    assert chosen.max_text_chars > 1 << 40
    assert (chosen.precision, chosen.bundles, chosen.workers) == ("float32", (tmp_path, Path("mine")), 0)
    assert load_command_settings(Command("en", "fr", workers=3)).workers == 3
    assert load_command_settings(Command("en", "fr")).bundles == Settings().bundles


def test_glossary_may_be_a_file_or_a_name(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("cat\tminou\n", encoding="utf-8")
    (tmp_path / "wrong.tsv").write_text("cat\n", encoding="utf-8")
    served = Glossaries({("legal", "en", "fr"): Glossary({"cat": "chat"}, "en")})
    assert load_glossary(Command("en", "fr"), served) is None
    assert load_glossary(Command("en", "fr", "legal"), served) == "legal"
    assert load_glossary(Command("auto", "fr", str(tmp_path / "terms.tsv")), served) == {"cat": "minou"}
    made = load_glossary(Command("en", "fr", str(tmp_path / "terms.tsv")), served)
    assert isinstance(made, Glossary)
    assert [kept.raw for kept in made.find("A cat.")] == ["minou"]
    (tmp_path / "terms.csv").write_text('"cat, tame",minou,en,fr\n', encoding="utf-8")
    assert load_glossary(Command("auto", "fr", str(tmp_path / "terms.csv")), served) == {"cat, tame": "minou"}
    for name, status in ((str(tmp_path / "wrong.tsv"), 4), ("missing.tsv", 4), ("medical", 2)):
        with pytest.raises(CommandError) as caught:
            load_glossary(Command("en", "fr", name), served)
        assert caught.value.status == status


def test_a_memory_is_a_file_of_pairs_or_of_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pairs.tsv").write_text("A house.\tUne demeure.\nA  house.\tUne maison.\n", encoding="utf-8")
    of_service = tmp_path / "memory.sqlite"
    log = SQLiteLog(of_service, MemorySize(10, 10_000))
    for owner, target, translation in (("", "fr", "Un."), ("alice", "fr", "Une."), ("alice", "de", "Eine.")):
        asyncio.run(log.put(Scope(owner, "en", target), [(text_id("One."), Pair("One.", translation))]))
    asyncio.run(log.put(Scope("", "en", "fr"), [(text_id("Two."), Pair("Two.", "Deux."))]))
    asyncio.run(log.remove(Scope("", "en", "fr"), [text_id("Two.")]))
    settings = Settings()

    def found(text: str, source: str = "en", memory: str = "", key: str = "") -> str | None:
        option = load_memory(Command(source, "fr", memory=memory, memory_key=key), settings)
        return option.snapshots["en", "fr"].exact(text) if option else None

    assert found("A house.", memory=str(tmp_path / "pairs.tsv")) == "Une maison."
    assert found("One.") is None
    assert (found("One.", memory=str(of_service)), found("Two.", memory=str(of_service))) == ("Un.", None)
    assert found("One.", "auto", memory=str(of_service), key="alice") == "Une."  # while the service has it open
    asyncio.run(log.stop())
    settings = Settings(translation_memory=str(of_service))
    assert (found("One."), found("One.", memory="off")) == ("Un.", None)
    settings = Settings(translation_memory="store")
    assert found("One.") is None
    settings = Settings(translation_memory=str(tmp_path / "later.sqlite"))
    assert found("One.") is None
    assert not (tmp_path / "later.sqlite").exists()


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"memory": "missing.tmx"}, 4),
        ({"memory": "missing.sqlite"}, 4),
        ({"memory": "other.sqlite"}, 4),
        ({"memory": "wrong.tsv"}, 4),
        ({"memory": "odd.tsv"}, 4),
        ({"memory": "pairs.tsv", "source": "auto"}, 2),
        ({"memory": "memory.sqlite", "memory_key": "bob"}, 2),
    ],
)
def test_a_memory_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("wrong", "one"), ("odd", "\ufdd0\tUn"), ("pairs", "One\tUn")):
        Path(f"{name}.tsv").write_text(content, encoding="utf-8")
    asyncio.run(SQLiteLog(Path("memory.sqlite"), MemorySize(1, 1)).stop())
    with closing(sqlite3.connect("other.sqlite")) as other:
        other.execute("CREATE TABLE pairs (a)")
    with pytest.raises(CommandError) as caught:
        load_memory(replace(Command("en", "fr"), **options), Settings())
    assert caught.value.status == status


def test_a_summary_counts_what_came_from_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    report, other = Report(quiet=False), Report(quiet=False, collect=True)
    location = formats.TextLocation(1)
    report.add(location, TranslatedText(text="Un. Un.", memory="exact", from_memory=2))
    report.add(location, TranslatedText(text="Deux."))
    other.add(location, TranslatedText(text="Trois.", memory="exact", from_memory=1))
    report.merge(other)
    assert report.close() == 0
    assert capsys.readouterr().err == ("interlinear: 3 texts or sentences are from the translation memory\n")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--source", "auto", "--target", "xx"], 2, "No bundle translates from auto to xx. Served: en-fr."),
        (["--source", "en", "--target", "xx"], 2, "No bundle translates from en to xx. Served: en-fr."),
        (["--source", "en", "--target", "fr", "--bundles", "nowhere"], 1, "there is no folder nowhere"),
    ],
)
def test_invalid_requests_are_reported_in_one_line(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int, said: str
) -> None:
    monkeypatch.setenv("INTERLINEAR_BUNDLES", str(bundle_folder))
    result = CliRunner().invoke(cli, ["translate", *arguments])
    assert result.exit_code == status
    assert result.stderr.startswith(f"interlinear: {said}")
    assert result.stderr.count("\n") == 1


def test_wrong_settings_and_wrong_usage_have_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(cli, ["translate", "--source", "en"]).exit_code == 2
    monkeypatch.setenv("INTERLINEAR_PRECISION", "int7")
    assert CliRunner().invoke(cli, ["translate", "--source", "en", "--target", "fr"]).exit_code == 1


def test_help_lists_every_exit_code() -> None:
    shown = CliRunner().invoke(cli, ["translate", "--help"]).stdout
    assert all(line.split()[0] in shown for line in EXIT_CODES.splitlines())


def command(bundles: Path, words: Sequence[str] = (), **options: Any) -> subprocess.Popen[bytes]:
    """The real command."""
    environ = {**os.environ, "INTERLINEAR_BUNDLES": str(bundles), "INTERLINEAR_PRECISION": "int8"}  # without PyTorch
    command = [
        sys.executable,
        "-m",
        "app",
        "translate",
        "--source",
        "en",
        "--target",
        "fr",
        "--workers",
        "1",
        "-q",
        *words,
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environ, **{**pipes, **options})


def test_pipe_is_translated_line_by_line_without_messages_and_from_a_memory(
    bundle_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "pairs.tsv").write_text("A house.\tUne demeure.\n", encoding="utf-8")
    # The codes of languages are accepted in any spelling.
    process = command(bundle_folder, ["--memory", str(tmp_path / "pairs.tsv"), "--source", "EN", "--target", "fr_FR"])
    assert process.stdin and process.stdout
    process.stdin.write(b"Hello.\n")
    process.stdin.flush()
    first = process.stdout.readline()  # though more may come
    rest, said = process.communicate(b"\n  \nHello.\nA house.\nThe cat sleeps.", timeout=WAIT_S)
    assert process.returncode == 0, said
    assert said == b""
    lines = rest.split(b"\n")
    assert first.strip()
    assert [lines[0], lines[1], lines[2] + b"\n", lines[3]] == [b"", b"  ", first, b"Une demeure."]
    assert len(lines) == 5
    assert lines[4].strip() and b"demeure" not in lines[4]


def test_document_is_translated_by_the_engine_and_from_a_memory(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pairs.tsv").write_text("A house.\tUne demeure.\n", encoding="utf-8")
    (tmp_path / "page.html").write_text("<h1>A house.</h1><p lang=x>The <b>cat</b> sleeps.", encoding="utf-8")
    words = ["--file", str(tmp_path / "page.html"), "--memory", str(tmp_path / "pairs.tsv")]
    process = command(bundle_folder, words)
    assert process.communicate(timeout=WAIT_S) == (b"", b"")
    assert process.returncode == 0
    written = (tmp_path / "page.fr.html").read_text(encoding="utf-8")
    assert re.fullmatch(r"<h1>Une demeure\.</h1><p lang=x>.*<b>.*</b>.*", written, re.DOTALL)
    monkeypatch.setenv("INTERLINEAR_BUNDLES", str(bundle_folder))
    again = CliRunner().invoke(cli, ["translate", "--source", "en", "--target", "fr", *words])
    assert "already exists" in again.stderr
    assert again.exit_code == 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "is_shown"), [(Terminal(), True), (Terminal(), False), (io.StringIO(), True)])
def test_progress_is_shown_on_a_terminal_unless_the_command_is_quiet(
    stream: io.StringIO, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress(10, is_shown) as advance:
        advance(5)
    assert bool(stream.getvalue()) == (is_shown and stream.isatty())


def test_closed_output_pipe_ends_the_command_silently(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"Hello.\n" * 20_000)
    with open(tmp_path / "in.txt", "rb") as file, command(bundle_folder, stdin=file) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def is_a_group(number: int) -> bool:
    """Whether any process is in the process group with that number."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_interrupt_ends_the_command_and_its_workers(bundle_folder: Path) -> None:
    process = command(bundle_folder, start_new_session=True)
    assert process.stdin and process.stdout
    process.stdin.write(b"Hello.\n")
    process.stdin.flush()
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers too
    process.wait(timeout=WAIT_S)  # before its input ends, which would be an end of its own
    _, said = process.communicate(timeout=WAIT_S)
    assert (process.returncode, said) == (130, b"")
    assert becomes(lambda: not is_a_group(process.pid))


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        ("en", "fr", {"en-fr"}),
        ("auto", "fr", {"en-fr", "de-fr"}),
        ("fr", "en", {"fr-en"}),
        ("de", "en", {"de-fr", "fr-en"}),
        ("auto", "en", {"de-fr", "fr-en"}),
        ("fr", "de", set()),
    ],
)
def test_workers_load_only_the_bundles_of_the_languages(source: str, target: str, pairs: set[str]) -> None:
    served = [tuple(pair.split("-")) for pair in ("en-fr", "fr-en", "de-fr")]
    bundles = Catalogue(named_bundle(*pair) for pair in served)
    assert {f"{each.source}-{each.target}" for each in needed_bundles(bundles, source, target)} == pairs
