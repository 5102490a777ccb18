"""The files of a CTranslate2 model: of a folder, or of an Argos Translate package, a zip of it."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from training.importing.errors import ImportFault
from training.importing.model_files import MAX_TEXT_BYTES, check_unicode, opened_zip, read_content, read_json, read_text
from training.importing.weights import disk_folder

MODEL, CONFIG, METADATA = "model.bin", "config.json", "metadata.json"
VOCABULARIES = tuple(f"{side}_vocabulary.{kind}" for side in ("shared", "source", "target") for kind in ("json", "txt"))
SENTENCE_PIECES = ("sentencepiece.model", "source.spm", "spm.model")
TARGET_SENTENCE_PIECES = ("sentencepiece.target.model", "target.spm")


def is_ctranslate2(path: Path) -> bool:
    """Whether `path` has the form of this family."""
    if path.is_dir():
        return any((folder / MODEL).is_file() for folder in (path, path / "model"))
    return zipfile.is_zipfile(path)


@contextmanager
def unpacked(package: Path) -> Iterator[Path]:
    """A temporary folder with the files of a package that are needed, under our names for them."""
    with TemporaryDirectory(prefix="interlinear-", dir=disk_folder()) as place:
        try:
            with opened_zip(package) as archive:
                _unpack(archive, 20 * package.stat().st_size + MAX_TEXT_BYTES, Path(place))  # weights hardly compress
        except ImportFault as error:
            raise ImportFault(f"{package}: {error}") from None
        yield Path(place)


def _unpack(archive: zipfile.ZipFile, max_model_bytes: int, place: Path) -> None:
    """Writes the files that are needed to the folder `place`. Raises ImportFault."""
    limits = dict.fromkeys((CONFIG, METADATA, *VOCABULARIES, *SENTENCE_PIECES, *TARGET_SENTENCE_PIECES), MAX_TEXT_BYTES)
    limits[MODEL] = max_model_bytes
    for entry in archive.infolist():
        name = PurePosixPath(entry.filename).name
        if name == "bpe.model":
            raise ImportFault("its text is split by bpe.model, which is not supported")
        if name not in limits or (place / name).exists() or not _is_ours(entry.filename):
            continue
        if entry.file_size > limits[name]:
            raise ImportFault(f"{name} would take {entry.file_size:,} bytes")
        with archive.open(entry) as packed, open(place / name, "wb") as file:
            shutil.copyfileobj(packed, file)  # never more than `file_size`
    if not (place / MODEL).exists():
        raise ImportFault(f"a zip without {MODEL}")


def _is_ours(name: str) -> bool:
    """Whether a path in a package is `<package>/FILE` or `<package>/model/FILE`, or FILE itself."""
    folders = PurePosixPath(name).parts[:-1]
    return ".." not in folders and len(folders) <= 2 and (len(folders) < 2 or folders[1] == "model")


def read_tokens(base: Path) -> tuple[list[str], list[str]]:
    """The vocabularies of the source and of the target: one object if they are the same."""
    found = {}
    for name in VOCABULARIES:
        side = name.split("_")[0]
        if side not in found and (base / name).exists():
            found[side] = _read_vocabulary(base / name)
    if "shared" not in found and found.keys() != {"source", "target"}:
        raise ImportFault("has no vocabulary, such as shared_vocabulary.json")
    source = found.get("shared") or found["source"]
    return source, source if found.get("target", source) == source else found["target"]


def _read_vocabulary(path: Path) -> list[str]:
    tokens = read_json(path) if path.suffix == ".json" else read_text(path).removesuffix("\n").split("\n")
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise ImportFault(f"{path.name} is not a list of tokens")
    if len(set(tokens)) != len(tokens):
        raise ImportFault(f"{path.name} has a token twice")
    check_unicode(path.name, tokens)
    return tokens


def find_sentence_pieces(folder: Path, base: Path) -> tuple[bytes, bytes]:
    """The SentencePiece models of the source and of the target, which may be the same."""
    source, target = (
        next((place / name for place in (folder, base) for name in names if (place / name).exists()), None)
        for names in (SENTENCE_PIECES, TARGET_SENTENCE_PIECES)
    )
    if source is None:
        raise ImportFault(f"has no SentencePiece model beside it ({' or '.join(SENTENCE_PIECES)})")
    return read_content(source), read_content(target or source)
