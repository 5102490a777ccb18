"""Compares a bundle's estimates of quality with two simpler ones: the mean log probability of a translation's tokens
alone, and the same with a temperature.

    python -m benchmarks.calibration --bundle bundles/en-fr --pairs dev.tsv --test test.tsv --plot en-fr.svg

All are fitted on `--pairs` and measured on `--test`, which the bundle was not trained on. docs/quality.md has results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from model.backends import prepare
from model.bundle_weights import load_bundle
from model.quality import LogisticModel, QualityModel
from training.evaluation.calibration import (
    Judged,
    auroc,
    calibration_error,
    fit,
    fit_logistic,
    judge,
    reliability,
    risk_coverage,
)
from training.evaluation.evaluate import TestSet

Array = NDArray[np.float64]
TEMPERATURES = np.geomspace(0.05, 20, 400)


class Estimates(NamedTuple):
    """What one way of estimating says about a test set."""

    name: str
    values: Array


def main(
    bundle: Annotated[Path, typer.Option(help="A bundle of one direction.")],
    pairs: Annotated[list[str], typer.Option(help="Sentence pairs to fit on; repeatable.")],
    test: Annotated[list[str], typer.Option(help="Sentence pairs to measure on; repeatable.")],
    plot: Annotated[Path | None, typer.Option(help="Write the calibration plots and risk-coverage curves.")] = None,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
) -> None:
    """Print the calibration error, the AUROC and points of the risk-coverage curve of each way to estimate quality."""
    torch.set_num_threads(threads)
    loaded = load_bundle(bundle, torch.device("cpu"))
    backend = prepare(loaded.model, "auto")
    sets = {text: TestSet.read(text, loaded.source, loaded.target) for text in [*pairs, *test]}
    judged = {text: [j for j in judge(backend, loaded, one.pairs) if j.log_probs] for text, one in sets.items()}
    ways = fitted_ways([one for text in pairs for one in judged[text]])
    print(f"{loaded.name}; temperature {ways.temperature:.2f}")
    heading = f"{'set':<32} {'good':>6}  {'estimate':<22} {'error':>6} {'AUROC':>6}"
    print(f"{heading} {'not good of the best tenth, half':>33} {'mean':>6}")
    shown = {sets[text].name: (ways.estimates(judged[text]), is_good(judged[text])) for text in test}
    for name, (estimates, good) in shown.items():
        for one in estimates:
            print(line(name, one, good))
    if plot:
        draw(plot, loaded.pair, shown)


@dataclass(frozen=True)
class Ways:
    """Three ways to estimate quality, fitted on the same translations."""

    quality: QualityModel
    logistic: LogisticModel
    """Of the mean log probability alone."""
    temperature: float

    def estimates(self, judged: Sequence[Judged]) -> list[Estimates]:
        """What each says about other translations."""
        means = np.array(list(map(mean, judged)))
        qualities = [self.quality.quality(one.log_probs, one.is_complete, one.ends_sentence) for one in judged]
        return [
            Estimates("quality", np.array(qualities)),
            Estimates("mean log probability", np.array([self.logistic.probability([value]) for value in means])),
            Estimates("temperature", np.exp(means / self.temperature)),
        ]


def fitted_ways(judged: Sequence[Judged]) -> Ways:
    """Raises CorpusError if there are too few."""
    logistic = fit_logistic([[mean(one)] for one in judged], [one.is_good for one in judged])
    return Ways(fit(judged), logistic, best_temperature(judged))


def is_good(judged: Sequence[Judged]) -> Array:
    return np.array([one.is_good for one in judged], float)


def line(name: str, estimates: Estimates, good: Array) -> str:
    """A line of the table. The last number is the area under the risk-coverage curve."""
    area, risks = auroc(estimates.values, good), risk_coverage(estimates.values, good)
    tenth, half = (risks[max(1, len(risks) * share // 10) - 1] for share in (1, 5))
    error = calibration_error(estimates.values, good)
    return (
        f"{name:<32} {good.mean():>6.1%}  {estimates.name:<22} {error:>6.3f} "
        f"{'-' if area is None else f'{area:.3f}':>6} {tenth:>26.1%} {half:>6.1%} {risks.mean():>6.3f}"
    )


def mean(judged: Judged) -> float:
    """The mean log probability of a translation's tokens."""
    return sum(judged.log_probs) / len(judged.log_probs)


def best_temperature(judged: Sequence[Judged]) -> float:
    """The temperature under which the mean probability of tokens, its root, is the likeliest estimate."""
    means, good = np.array(list(map(mean, judged))), is_good(judged)

    def loss(temperature: float) -> float:
        estimates = np.clip(np.exp(means / temperature), 1e-9, 1 - 1e-9)
        return float(-np.mean(good * np.log(estimates) + (1 - good) * np.log(1 - estimates)))

    return float(min(TEMPERATURES, key=loss))


def draw(path: Path, pair: str, shown: dict[str, tuple[list[Estimates], Array]]) -> None:
    """Draws the calibration plot of each set, and its risk-coverage curves: of the quality, and of the mean log
    probability (dotted), whose order a temperature does not change."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "interlinear"
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, (ways, good) in shown.items():
        bins = reliability(ways[0].values, good)
        left.plot([estimate for _, estimate, _ in bins], [share for *_, share in bins], marker="o", label=name)
        covered = np.arange(1, len(good) + 1) / len(good)
        [curve] = right.plot(covered, risk_coverage(ways[0].values, good), label=name)
        right.plot(covered, risk_coverage(ways[1].values, good), color=curve.get_color(), linestyle=":")
    left.set(xlabel="estimated quality", ylabel="share of good translations", xlim=(0, 1), ylim=(0, 1), title=pair)
    right.set(xlabel="share of translations kept, best rated first", ylabel="share not good", xlim=(0, 1), ylim=(0, 1))
    left.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    typer.run(main)
