"""The backend of each precision, with the C kernels and without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from shared_fixtures import with_processor_features

import model.int8.library as kernels
from model.backends import prepare
from model.bundle_weights import LoadedBundle, check_samples, load_bundle
from model.decoding.torch_backend import TorchBackend
from model.int8.backend import Int8Backend
from model.int8.isa import KernelsUnavailable

pytestmark = pytest.mark.bundle

SHIPPED = Path(__file__).parents[2] / "bundles" / "en-fr"


@pytest.fixture(scope="module")
def shipped() -> LoadedBundle:
    return load_bundle(SHIPPED, torch.device("cpu"))


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor without the instructions that the kernels need."""
    with_processor_features(monkeypatch, "fpu", "mmx")
    kernels.library.cache_clear()
    yield
    kernels.library.cache_clear()


@pytest.mark.usefixtures("no_kernels")
def test_without_the_kernels_auto_is_float32_and_int8_uses_pytorch(shipped: LoadedBundle) -> None:
    assert prepare(shipped.model, "auto").precision == "float32"
    backend = prepare(shipped.model, "int8")
    assert isinstance(backend, TorchBackend)
    assert backend.precision == "int8"
    check_samples(shipped, backend)


def test_auto_uses_the_kernels_where_they_run(shipped: LoadedBundle) -> None:
    try:
        kernels.library()
    except KernelsUnavailable as reason:
        pytest.skip(f"the int8 kernels: {reason}")
    backend = prepare(shipped.model, "auto")
    assert isinstance(backend, Int8Backend)
    check_samples(shipped, backend)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_backend_uses_its_precision_and_leaves_the_model_unchanged(shipped: LoadedBundle, precision: str) -> None:
    backend = prepare(shipped.model, precision)
    assert backend.precision == precision
    check_samples(shipped, backend)
    assert {parameter.dtype for parameter in shipped.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("precision", ["float16", "int4", ""])
def test_unavailable_precisions_are_refused_by_name(shipped: LoadedBundle, precision: str) -> None:
    with pytest.raises(ValueError, match="on cpu precision must be one of float32, bfloat16, int8"):
        prepare(shipped.model, precision)
