"""py3langid's tables: the same answers from a mapped file, which is made once and checked when opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from app.text.langid_tables import load_langid

TEXTS = (
    "",
    "OK",
    "Le bus pour l'aéroport part toutes les vingt minutes.",
    "Der Bus zum Flughafen fährt alle zwanzig Minuten ab.",
    "开往机场的巴士每二十分钟一班。",
    "Автобус в аэропорт отправляется каждые двадцать минут.",
    "😀 \ud800",
)


@pytest.fixture(scope="module")
def expected() -> list[object]:
    """The answers of the library by itself."""
    return answers(LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is kept, of a user without any."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "interlinear" / "detection"


def answers(identifier: LanguageIdentifier) -> list[object]:
    return [identifier.rank(text) for text in TEXTS]


def test_answers_from_the_mapped_file_are_the_librarys(expected: list[object], folder: Path) -> None:
    assert answers(load_langid()) == expected
    [made] = folder.glob("*.npy")
    inode = made.stat().st_ino
    assert answers(load_langid()) == expected
    assert made.stat().st_ino == inode
    mappings = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(made) in line]
    assert {(access, int(number)) for _, access, _, _, number, _ in mappings} <= {("r--s", inode)}


def test_damaged_file_is_made_again(expected: list[object], folder: Path) -> None:
    load_langid()
    [made] = folder.glob("*.npy")
    content = made.read_bytes()
    made.unlink()  # a change in place would show in the arrays that are mapped
    made.write_bytes(content[:-1000])
    assert answers(load_langid()) == expected
    assert made.read_bytes() == content


def test_without_a_writable_folder_the_answers_are_the_same(
    expected: list[object], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.parent.parent.write_text("a file where the folder would be")
    assert answers(load_langid()) == expected
    assert "cannot be kept in a file" in caplog.text
