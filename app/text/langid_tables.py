"""The tables of py3langid and ELD, unpacked once into files that are mapped.

py3langid's take 83 MB in each process if they are unpacked in memory, and ELD's, a dictionary of dictionaries, 40 MB.
Where no file can be kept, both are in this process's memory.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import eld
import numpy as np
from eld.languageData import languageData
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier
from py3langid.modelio import load_model

from app.text.mapped_arrays import array_file, map_arrays

_ROOT = Path(__file__).parent.parent.parent
_ELD_TABLE = "eld.resources.ngrams.ngramsM60"
_KEY_BYTES = 8
_CACHED_NGRAMS = 4096
"""ELD looks each n-gram up three times, and most texts have the same ones: 1.5 MB at most."""
log = logging.getLogger(__name__)


def prepare_tables() -> None:
    """Makes the files in a process of its own if there are none: that takes 75 MB, most of which would stay a part of
    this process."""
    try:
        if _langid_file().exists() and _eld_file().exists():
            return
    except (OSError, RuntimeError):
        return  # whatever loads them warns
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    with suppress(OSError):
        subprocess.run(
            [sys.executable, "-m", "app.text.langid_tables"],
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.DEVNULL,
            check=False,
        )


def load_langid() -> LanguageIdentifier:
    """py3langid's detector, whose answers have probabilities."""
    try:
        table, prior, labels, transitions, rows, features = map_arrays(
            _langid_file(), lambda: map(np.asarray, load_model(MODEL_DIR / MODEL_FILE))
        )
    except (OSError, RuntimeError) as error:
        _warn("py3langid", 83, error)
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    # A memoryview is indexed as fast as a list, and ten times as fast as an array of NumPy.
    states = transitions.data, features.data
    found = LanguageIdentifier(table, prior, labels.tolist(), *states, norm_probs=True, tk_row=())
    found.tk_row, found._rowbase = rows.data, (rows.astype(np.int64) << 8).data  # the constructor would make a list
    return found


def load_eld() -> eld.LanguageDetector:
    """ELD's detector."""
    try:
        codes, *table = map_arrays(_eld_file(), _eld_arrays)
    except (OSError, RuntimeError) as error:
        _warn("ELD", 40, error)
        return eld.LanguageDetector()
    languages: list[str] = json.loads(codes.tobytes())

    def load_ngrams(subset_file: str = "") -> None:
        languageData.ngrams = NGrams(*(array.data for array in table))
        languageData.lang_score = [0] * len(languages)
        languageData.lang_codes = dict(enumerate(languages))

    languageData.load_ngrams = load_ngrams  # instead of the import of its table, a module
    return eld.LanguageDetector()


def _warn(library: str, megabytes: int, error: Exception) -> None:
    log.warning(
        "the tables by which %s detects languages cannot be kept in a file, and take %d MB: %s",
        library,
        megabytes,
        error,
    )


def _langid_file() -> Path:
    return array_file(MODEL_DIR / MODEL_FILE, "py3langid-2")


def _eld_file() -> Path:
    return array_file(Path(eld.__file__).parent / "resources" / "ngrams" / "ngramsM60.py", "eld-1")


def _eld_arrays() -> Iterator[np.ndarray]:
    """The codes of the languages as JSON, and what NGrams takes."""
    table = import_module(_ELD_TABLE).ngrams_data
    del sys.modules[_ELD_TABLE]
    languages: dict[int, str] = table["languages"]
    assert list(languages) == list(range(len(languages)))
    ngrams: dict[int, dict[int, int]] = {_key(ngram): found for ngram, found in table["ngrams"].items()}
    in_order = [ngrams[key] for key in sorted(ngrams)]
    yield np.frombuffer(json.dumps(list(languages.values())).encode(), np.uint8)
    yield np.array(sorted(ngrams), np.uint64)
    yield np.cumsum([0, *map(len, in_order)]).astype(np.uint32)
    yield np.array([language for found in in_order for language in found], np.uint8)
    yield np.array([count for found in in_order for count in found.values()], np.uint16)


def _key(ngram: bytes) -> int:
    """A number for an n-gram, which has no zero bytes."""
    assert len(ngram) <= _KEY_BYTES
    return int.from_bytes(ngram, "little")


class NGrams:
    """The frequency of each n-gram by language: ELD's dictionary of dictionaries, packed.

    `keys` are in order; those of number n have `languages` and `frequencies` from `starts[n]` to `starts[n + 1]`.
    """

    def __init__(
        self, keys: Sequence[int], starts: Sequence[int], languages: Sequence[int], frequencies: Sequence[int]
    ) -> None:
        self._keys, self._starts, self._languages, self._frequencies = keys, starts, languages, frequencies
        self._find = lru_cache(_CACHED_NGRAMS)(self._look_up)

    def __contains__(self, ngram: bytes) -> bool:
        return bool(self._find(ngram))

    def __getitem__(self, ngram: bytes) -> dict[int, int]:
        return self._find(ngram)

    def _look_up(self, ngram: bytes) -> dict[int, int]:
        key = int.from_bytes(ngram, "little")
        at = bisect_left(self._keys, key)
        if at == len(self._keys) or self._keys[at] != key:
            return {}
        start, end = self._starts[at], self._starts[at + 1]
        return dict(zip(self._languages[start:end], self._frequencies[start:end], strict=True))


if __name__ == "__main__":
    load_langid()
    load_eld()
