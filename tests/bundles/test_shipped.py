"""bundles/: the shipped bundles: complete, below the size limit, with our own samples as at export, and complete
cards."""

from __future__ import annotations

import hashlib

import pytest
import torch
from shared_fixtures import SHIPPED

from app.services.startup import load_catalogue
from app.settings import Settings
from model.backends import prepare
from model.bundle_files import CARD, SUMS
from model.bundle_weights import LoadedBundle, check_samples, load_bundle
from training.export.model_card import model_card
from training.export.samples import own_sentences

pytestmark = pytest.mark.bundle

PAIRS = ("en-fr", "fr-en", "en-de", "de-en", "en-zh", "zh-en", "en-es", "es-en")
"""Of the bundles that may ship. Others in the folder are whoever runs the service's."""
LARGEST_MIB = 24
"""Of each bundle, all its files together."""
THERE = [SHIPPED / pair for pair in PAIRS if (SHIPPED / pair).is_dir()]


@pytest.fixture(scope="module", params=THERE, ids=lambda folder: folder.name)
def shipped(request: pytest.FixtureRequest) -> LoadedBundle:
    return load_bundle(request.param, torch.device("cpu"))


def test_shipped_bundles_include_the_readmes_model() -> None:
    assert SHIPPED / "en-fr" in THERE


def test_all_shipped_bundles_can_be_served_at_once() -> None:
    served = {bundle.folder for bundle in load_catalogue(Settings(bundles=(SHIPPED,)))}
    assert served >= set(THERE)


def test_bundle_translates_the_pair_of_its_folder(shipped: LoadedBundle) -> None:
    assert shipped.pair == shipped.folder.name


def test_shipped_files_match_their_checksums(shipped: LoadedBundle) -> None:
    sums = dict(line.split("  ")[::-1] for line in (shipped.folder / SUMS).read_text().splitlines())
    assert {path.name for path in shipped.folder.iterdir()} == {*sums, SUMS, CARD}
    for name, digest in sums.items():
        assert hashlib.sha256((shipped.folder / name).read_bytes()).hexdigest() == digest


def test_shipped_bundle_is_within_its_size_limit(shipped: LoadedBundle) -> None:
    size = sum(path.stat().st_size for path in shipped.folder.iterdir())
    assert size <= LARGEST_MIB << 20


def test_shipped_samples_translate_correctly_in_float32_and_as_served(shipped: LoadedBundle) -> None:
    assert shipped.config["samples"]
    check_samples(shipped)
    check_samples(shipped, prepare(shipped.model, "auto"))


@pytest.mark.real_service
def test_shipped_samples_are_our_own_sentences(shipped: LoadedBundle) -> None:
    assert {sample["source"] for sample in shipped.config["samples"]} <= set(own_sentences(shipped.source))


def test_shipped_bundle_states_corpora_quality_and_limits_of_use(shipped: LoadedBundle) -> None:
    config = shipped.config
    assert config["licence"] and not config["licence"].startswith("Not stated")
    assert config["attribution"] and config["metrics"] and config["remarks"] and config["training"]["corpora"]
    assert {metric["metric"] for metric in config["metrics"]} >= {"BLEU", "chrF"}


def test_shipped_card_is_generated_from_its_record(shipped: LoadedBundle) -> None:
    assert (shipped.folder / CARD).read_text(encoding="utf-8") == model_card(shipped.config)
