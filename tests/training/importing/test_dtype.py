"""training/importing/: `import --dtype`: bundles of imported models in less space."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from imported_families import FAMILIES, Make, ctranslate2, firefox, import_model, limit_translations
from imported_models import opennmt_spec, opennmt_tokens, save_spec, unigram_pieces

from model.bundle_files import WEIGHTS
from model.bundle_weights import check_samples, load_bundle, restored, stored
from training.importing import placeholders
from training.importing.errors import ImportFault
from training.importing.weights import rounded

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(placeholders, "CARRIERS", 1)
    limit_translations(monkeypatch)


@pytest.mark.parametrize("make", FAMILIES)
def test_a_bundle_in_int8_has_the_rounded_weights_and_samples_of_its_own(make: Make) -> None:
    import_model(make)
    import_model(make, "--dtype", "int8", out="bundles/small")
    exact, small = (load_bundle(Path("bundles", name), CPU) for name in ("imported", "small"))
    check_samples(small)
    weights = dict(exact.model.named_parameters())
    for name, weight in small.model.named_parameters():
        assert torch.equal(weight, restored(stored({name: weights[name]}, "int8"))[name])
    assert small.config["training"]["form"] == {"dtype": "int8"}
    sizes = [Path("bundles", name, WEIGHTS).stat().st_size for name in ("imported", "small")]
    assert sizes[1] < 0.6 * sizes[0]  # of tiny models, positions and scales are a large part
    assert "Its weights are stored in int8." in Path("bundles/small/README.md").read_text()


def test_int8_weights_of_ctranslate2_stay_as_they_are() -> None:
    pieces = unigram_pieces()
    save_spec(opennmt_spec(opennmt_tokens(pieces)), Path("model"), pieces, "int8")
    import_model(ctranslate2)
    import_model(ctranslate2, "--dtype", "int8", out="bundles/small")
    exact, small = (load_bundle(Path("bundles", name), CPU).model for name in ("imported", "small"))
    weights = dict(exact.named_parameters())
    for name, weight in small.named_parameters():
        if weight.dim() == 2 and not name.endswith("positions"):
            torch.testing.assert_close(weight, weights[name], rtol=1e-6, atol=0)


def test_the_type_of_weights_is_one_of_those_that_bundles_have() -> None:
    with pytest.raises(AssertionError, match="--dtype must be one of float16, bfloat16, float32, int8, not 'int4'"):
        import_model(firefox, "--dtype", "int4")


def test_numbers_that_a_type_cannot_hold_are_refused() -> None:
    import_model(firefox)
    model = load_bundle(Path("bundles/imported"), CPU).model
    with torch.no_grad():
        dict(model.named_parameters())["encoder.1.feed_forward.inner.bias"][3] = 1e5
    with pytest.raises(ImportFault, match=r"numbers in encoder\.1\.feed_forward\.inner\.bias that float16 cannot hold"):
        rounded(model, "float16")
    assert torch.equal(rounded(model, "bfloat16").output.bias, model.output.bias.bfloat16().float())


def test_without_dtype_the_weights_are_exact() -> None:
    import_model(firefox)
    assert json.loads(Path("bundles/imported/config.json").read_text())["training"]["form"] == {"dtype": "float32"}
