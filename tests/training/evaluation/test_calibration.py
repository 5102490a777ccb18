"""Tests of training/evaluation/calibration.py and calibrate.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from shared_fixtures import SHIPPED

from model.bundle import open_bundle
from model.bundle_weights import check_samples, load_bundle
from model.quality import QualityModel
from training.corpora.text_file import CorpusError
from training.evaluation.calibrate import CalibrateOptions, calibrate_bundle
from training.evaluation.calibration import Judged, auroc, calibration_error, fit, measure

pytestmark = pytest.mark.slow


def _judged(count: int, seed: int = 0) -> list[Judged]:
    """Translations that are good as often as their tokens' mean probability."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        mean = -random.exponential(0.7) - 0.01
        good = bool(random.random() < np.exp(mean))
        found.append(Judged([mean] * int(random.integers(1, 20)), True, good, [(mean, good)]))
    return found


def test_estimates_match_what_is_good_on_pairs_like_those_fitted_on() -> None:
    fitted = fit(_judged(4000))
    measured = measure(fitted, "other", _judged(4000, seed=1))
    assert measured.error < 0.03
    assert measured.auroc is not None and measured.auroc > 0.7
    assert measured.words[1] < 0.05


def test_labels_that_are_good_more_often_have_estimates_of_their_own() -> None:
    """With one estimate for both, it errs on labels."""
    random = np.random.default_rng(5)

    def labels(seed: int) -> list[Judged]:
        sentences = _judged(2000, seed)
        return [one._replace(ends_sentence=False, is_good=one.is_good or random.random() < 0.3) for one in sentences]

    fitted = fit(_judged(2000) + labels(2))
    assert measure(fitted, "sentences", _judged(2000, seed=3)).error < 0.04
    assert measure(fitted, "labels", labels(4)).error < 0.04
    alike = fit([one._replace(ends_sentence=True) for one in _judged(2000) + labels(2)])
    assert measure(alike, "labels", labels(4)).error > 0.07


def test_the_best_rated_translations_are_bad_more_rarely() -> None:
    risks = measure(fit(_judged(2000)), "set", _judged(2000, seed=1)).risks
    assert risks[0] < risks[4] < risks[9]
    assert risks[9] == pytest.approx(1 - np.mean([one.is_good for one in _judged(2000, seed=1)]))


def test_calibration_error_by_hand() -> None:
    # Two bins of two: estimated 0.2 and good half the time, and 0.9 and good always.
    estimates, good = np.array([0.2, 0.2, 0.9, 0.9]), np.array([1.0, 0.0, 1.0, 1.0])
    assert calibration_error(estimates, good) == pytest.approx(0.5 * 0.3 + 0.5 * 0.1)


def test_auroc_by_hand() -> None:
    assert auroc(np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, 1.0])) == 1
    assert auroc(np.array([0.2, 0.2]), np.array([0.0, 1.0])) == 0.5  # a tie counts half
    assert auroc(np.array([0.2, 0.3]), np.array([1.0, 1.0])) is None


def test_translations_without_a_word_are_refused() -> None:
    with pytest.raises(CorpusError, match="translations without a word"):
        fit([Judged([-1.0], True, False, []) for _ in range(100)])


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(CorpusError, match="10 usable pairs, too few"):
        fit(_judged(10), "dev.tsv")


def _mean_distance(one: QualityModel, other: QualityModel) -> float:
    """Between what they estimate."""
    judged = [each.log_probs for each in _judged(500, seed=9)]
    return float(np.mean([abs(one.quality(log_probs) - other.quality(log_probs)) for log_probs in judged]))


def test_the_fewer_pairs_there_are_the_nearer_estimates_stay_to_those_of_the_initial_bundle() -> None:
    prior = fit(_judged(4000))
    worse = [one._replace(is_good=False) if number % 2 else one for number, one in enumerate(_judged(8000, seed=1))]
    assert fit([], "corrections.tmx", prior) == prior
    distances = [_mean_distance(prior, fit(worse[:count], prior=prior)) for count in (20, 80, 400, 8000)]
    assert distances == sorted(distances)
    assert distances[1] < _mean_distance(prior, fit(worse[:80])) / 2
    assert _mean_distance(fit(worse, prior=prior), fit(worse)) < 0.01


def test_few_pairs_of_the_same_kind_do_no_harm() -> None:
    """As after fine-tuning on some corrections, of which 80 are held out."""
    prior, others = fit(_judged(4000)), _judged(4000, seed=1)
    errors = [
        [measure(fit(few, prior=start), "others", others).error for start in (None, prior)]
        for few in (_judged(80, seed) for seed in range(2, 12))
    ]
    plain, with_prior = np.mean(errors, axis=0)
    assert with_prior < plain / 1.5
    assert with_prior < 0.035


@pytest.mark.bundle
def test_calibrating_keeps_the_weights_and_is_done_once(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SHIPPED / "en-fr", tmp_path / "bundle"))
    before = open_bundle(folder)
    pairs = tmp_path / "dev.tsv"
    pairs.write_text("".join(f"The cat {n}.\tLe chat {n}.\n" for n in range(100)))
    said: list[str] = []
    calibrate_bundle(CalibrateOptions(folder, (str(pairs),), threads=1), said.append)
    calibrate_bundle(CalibrateOptions(folder, (str(pairs), str(pairs)), threads=1), said.append)
    after = load_bundle(folder, torch.device("cpu"))
    check_samples(after)
    assert after.checksum == before.checksum
    assert after.quality is not None
    [(pair, entry)] = json.loads((folder / "config.json").read_text())["quality"].items()
    assert pair == "en-fr"
    assert [(one["pairs"], one["times"]) for one in entry["fitted_on"]] == [(100, 2)]
    assert [one["set"] for one in entry["measured"]] == ["dev.tsv"]
    assert said[0].startswith("quality on dev.tsv: ")
    card = (folder / "README.md").read_text()
    assert card.count("## Quality estimates\n") == 1
    assert "fitted on dev.tsv (100 pairs, each counted 2 times)" in card
    assert card.index("## Quality estimates\n") < card.index("## Training\n")
