"""The files of a CTranslate2 model: of a folder, or of an Argos Translate package, a zip of it."""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from training.importing.errors import ImportFault

MODEL, CONFIG, METADATA = "model.bin", "config.json", "metadata.json"
VOCABULARIES = tuple(f"{side}_vocabulary.{kind}" for side in ("shared", "source", "target") for kind in ("json", "txt"))
SENTENCE_PIECES = ("sentencepiece.model", "source.spm", "spm.model")
TARGET_SENTENCE_PIECES = ("sentencepiece.target.model", "target.spm")
MAX_TEXT_BYTES = 64 << 20
"""Maximum size of each file but the weights."""


def is_ctranslate2(path: Path) -> bool:
    """Whether `path` has the form of this family."""
    if path.is_dir():
        return any((folder / MODEL).is_file() for folder in (path, path / "model"))
    return zipfile.is_zipfile(path)


@contextmanager
def unpacked(package: Path) -> Iterator[Path]:
    """A temporary folder with the files of a package that are needed, under our names for them."""
    try:
        with zipfile.ZipFile(package) as archive, TemporaryDirectory(prefix="interlinear-") as place:
            pieces = (*SENTENCE_PIECES, *TARGET_SENTENCE_PIECES)
            limits = dict.fromkeys((CONFIG, METADATA, *VOCABULARIES, *pieces), MAX_TEXT_BYTES)
            limits[MODEL] = 20 * package.stat().st_size + MAX_TEXT_BYTES  # weights hardly compress
            for entry in archive.infolist():
                name = PurePosixPath(entry.filename).name
                if name == "bpe.model":
                    raise ImportFault(f"{package}: its text is split by bpe.model, which is not supported")
                if name not in limits or Path(place, name).exists() or not _is_ours(entry.filename):
                    continue
                if entry.file_size > limits[name]:
                    raise ImportFault(f"{package}: {name} would take {entry.file_size:,} bytes")
                with archive.open(entry) as packed, open(Path(place, name), "wb") as file:
                    shutil.copyfileobj(packed, file)  # never more than `file_size`
            if not Path(place, MODEL).exists():
                raise ImportFault(f"{package}: a zip without {MODEL}")
            yield Path(place)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OverflowError) as error:
        raise ImportFault(
            f"{package}: a damaged zip: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from None


def _is_ours(name: str) -> bool:
    """Whether a path in a package is `<package>/FILE` or `<package>/model/FILE`, or FILE itself."""
    folders = PurePosixPath(name).parts[:-1]
    return ".." not in folders and len(folders) <= 2 and (len(folders) < 2 or folders[1] == "model")


def _read_text_file(path: Path) -> bytes:
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise ImportFault(f"{path} has {path.stat().st_size:,} bytes, over {MAX_TEXT_BYTES:,}")
    return path.read_bytes()


def read_json(path: Path) -> Any:
    try:
        return json.loads(_read_text_file(path))
    except (ValueError, RecursionError) as error:
        raise ImportFault(f"{path} is not JSON: {error}") from None


def read_tokens(base: Path) -> tuple[list[str], list[str]]:
    """The vocabularies of the source and of the target: one object if they are the same."""
    found = {}
    for name in VOCABULARIES:
        side = name.split("_")[0]
        if side not in found and (base / name).exists():
            found[side] = _read_vocabulary(base / name)
    if "shared" not in found and found.keys() != {"source", "target"}:
        raise ImportFault(f"{base}: has no vocabulary, such as shared_vocabulary.json")
    source = found.get("shared") or found["source"]
    return source, source if found.get("target", source) == source else found["target"]


def _read_vocabulary(path: Path) -> list[str]:
    if path.suffix == ".json":
        tokens = read_json(path)
    else:
        try:
            tokens = _read_text_file(path).decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise ImportFault(f"{path} is not UTF-8: {error.reason}") from None
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise ImportFault(f"{path} is not a list of tokens")
    if len(set(tokens)) != len(tokens):
        raise ImportFault(f"{path} has a token twice")
    try:
        "".join(tokens).encode()
    except UnicodeEncodeError:
        raise ImportFault(f"{path} has a token that is not Unicode") from None
    return tokens


def find_sentence_pieces(folder: Path, base: Path) -> tuple[bytes, bytes]:
    """The SentencePiece models of the source and of the target, which may be the same."""
    source, target = (
        next((place / name for place in (folder, base) for name in names if (place / name).exists()), None)
        for names in (SENTENCE_PIECES, TARGET_SENTENCE_PIECES)
    )
    if source is None:
        raise ImportFault(f"has no SentencePiece model beside it ({' or '.join(SENTENCE_PIECES)})")
    return _read_text_file(source), _read_text_file(target or source)
