"""py3langid's tables, unpacked once into a file of the cache folder that is mapped.

The library keeps them compressed. Unpacked in memory they take 75 MB in each process; of a mapped file, only the pages
in use count, and processes share them. The file has the arrays one after the other in NumPy's format.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
from collections.abc import Iterator
from io import BytesIO

import numpy as np
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier
from py3langid.modelio import load_model

from model.machine import cache_folder
from model.shared_file import map_file

_ALIGNMENT = 64
_ARRAYS = 6
"""The number of arrays that `load_model` returns."""
_FORMAT = "1"
"""Part of the file's name: change it with the content."""
log = logging.getLogger(__name__)


def load_langid() -> LanguageIdentifier:
    """py3langid's detector, whose answers have probabilities.

    Where no file can be kept, its tables are in this process's memory.
    """
    packed = MODEL_DIR / MODEL_FILE
    try:
        digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:16]
        memory = map_file(cache_folder() / "detection" / f"py3langid-{digest}-{_FORMAT}.npy", _unpack)
        table, prior, labels, transitions, rows, features = _arrays(memory)
    except (OSError, RuntimeError) as error:
        log.warning("the tables that detect languages cannot be kept in a file, and take 75 MB: %s", error)
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    # A memoryview is indexed as fast as a list, and ten times as fast as an array of NumPy.
    states = transitions.data, features.data
    return LanguageIdentifier(table, prior, labels.tolist(), *states, norm_probs=True, tk_row=rows.tolist())


def _unpack() -> Iterator[bytes]:
    """The file's content, array by array. Raises OSError."""
    for array in map(np.asarray, load_model(MODEL_DIR / MODEL_FILE)):
        with BytesIO() as file:
            np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
            file.write(bytes(-file.tell() % _ALIGNMENT))
            yield file.getvalue()


def _arrays(memory: mmap.mmap) -> Iterator[np.ndarray]:
    """The arrays in the file, which are not copied."""
    for _ in range(_ARRAYS):
        np.lib.format.read_magic(memory)
        shape, _, dtype = np.lib.format.read_array_header_1_0(memory)
        array = np.ndarray(shape, dtype, memory, memory.tell())
        memory.seek(memory.tell() + array.nbytes + -array.nbytes % _ALIGNMENT)
        yield array
