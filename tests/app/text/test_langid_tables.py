"""py3langid's and ELD's tables: the same answers from mapped files, which are made once and checked when opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from eld import LanguageDetector
from eld.languageData import LanguageData, languageData
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from app.text.langid_tables import load_eld, load_langid, prepare_tables

pytestmark = pytest.mark.slow

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


# ---- ELD


@pytest.fixture
def library_data() -> LanguageData:
    """ELD's data as the library itself loads them."""
    data = LanguageData()
    data.load_ngrams()
    return data


def eld_answers(detector: LanguageDetector) -> list[object]:
    return [detector.detect(text.replace("\ud800", "")).scores() for text in TEXTS]


def test_elds_table_is_the_librarys(library_data: LanguageData, folder: Path) -> None:
    load_eld()
    table = languageData.ngrams
    assert all(ngram in table and table[ngram] == found for ngram, found in library_data.ngrams.items())
    absent = {ngram[::-1] for ngram in library_data.ngrams} - library_data.ngrams.keys()
    assert absent and not any(ngram in table for ngram in absent)
    assert languageData.lang_codes == library_data.lang_codes
    assert languageData.lang_score == library_data.lang_score
    [made] = folder.glob("eld*.npy")
    assert made.stat().st_size < 2_000_000
    assert str(made) in Path("/proc/self/maps").read_text()


def test_elds_answers_are_the_librarys(
    library_data: LanguageData, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = load_eld()
    found = eld_answers(detector)
    assert found[2] and found[3] and folder.is_dir()
    monkeypatch.setattr(languageData, "ngrams", library_data.ngrams)
    assert eld_answers(detector) == found


def test_without_a_writable_folder_eld_is_the_librarys(
    library_data: LanguageData, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(languageData, "load_ngrams", LanguageData.load_ngrams.__get__(languageData))
    folder.parent.parent.write_text("a file where the folder would be")
    load_eld()
    assert languageData.ngrams == library_data.ngrams
    assert "cannot be kept in a file" in caplog.text


def test_files_are_made_by_another_process(folder: Path) -> None:
    """Making them takes memory that would stay this process's."""
    prepare_tables()
    made = {path.name: path.stat().st_ino for path in folder.glob("*.npy")}
    assert len(made) == 2
    assert not any(name in Path("/proc/self/maps").read_text() for name in map(str, folder.glob("*.npy")))
    load_langid()
    load_eld()
    assert {path.name: path.stat().st_ino for path in folder.glob("*.npy")} == made
    prepare_tables()
    assert {path.name: path.stat().st_ino for path in folder.glob("*.npy")} == made
