"""Prepared weights: packed for the kernels once, in a file of the cache folder that all workers map.

Processes that map one file share its pages, and a second start finds it made. The file's name has the checksum of the
bundle's weights and a digest of all that decides how they are packed.
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model import positions
from model.bundle_files import ALIGNMENT, WEIGHTS, read_file
from model.int8 import weights as packing
from model.int8.backend import Int8Backend, layout_of
from model.int8.library import library
from model.int8.weights import Layout, Weights, check_widths, pack_into_memory, packed, read_weights
from model.machine import cache_folder
from model.model_spec import ModelSpec
from model.shared_file import map_file

log = logging.getLogger(__name__)


def load_prepared(spec: ModelSpec, isa: str = "auto") -> Int8Backend:
    """A backend whose weights are those of the prepared file, which is made if there is none.

    Where no file can be kept, the weights are packed into this process's memory. Raises KernelsUnavailable; BundleError
    if the bundle's folder no longer has the weights of `spec`.
    """
    check_widths(spec.architecture)
    kernels = library(isa)
    layout = layout_of(kernels)
    try:
        path = _path(spec, layout)
        mapped = map_file(path, lambda: packed(_read(spec), spec.architecture, layout, kernels))
        return Int8Backend(mapped.memory, spec.architecture, kernels, mapped)
    except (OSError, RuntimeError) as error:
        log.warning("%s: workers do not share these weights, which cannot be kept in a file: %s", spec.name, error)
        memory = pack_into_memory(_read(spec), spec.architecture, layout, kernels)
        return Int8Backend(memory, spec.architecture, kernels)


def _path(spec: ModelSpec, layout: Layout) -> Path:
    """Raises RuntimeError if there is no cache folder."""
    how = f"{_packing_digest()} {spec.architecture} {spec.alignment_checksum} {layout}".encode()
    name = f"{spec.checksum[:16]}-{hashlib.sha256(how).hexdigest()[:16]}.int8"
    return cache_folder() / "weights" / name


@cache
def _packing_digest() -> str:
    sources = Path(packing.__file__), Path(packing.__file__).with_name("layout.h"), Path(positions.__file__)
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def _read(spec: ModelSpec) -> Weights:
    """Raises BundleError."""
    weights: dict[str, NDArray[np.float32]] = {}
    for name, checksum in ((WEIGHTS, spec.checksum), (ALIGNMENT, spec.alignment_checksum)):
        if checksum:
            content = read_file(Path(spec.folder), name)
            found = hashlib.sha256(content).hexdigest()
            if found != checksum and name == ALIGNMENT:
                raise spec.realigned()
            if found != checksum:
                raise spec.replaced_by(f"{spec.name.partition('@')[0]}@{found[:12]}")
            weights |= read_weights(content)
    return weights
