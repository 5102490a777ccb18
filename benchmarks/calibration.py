"""Compares a bundle's estimates of quality with two simpler ones: the mean log probability of a translation's tokens
alone, and the same with a temperature.

    python -m benchmarks.calibration --bundle bundles/en-fr --pairs dev.tsv --test test.tsv --plot en-fr.svg

All are fitted on `--pairs` and measured on `--test`, which the bundle was not trained on. docs/text.md has results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from model.backends import prepare
from model.bundle_weights import load_bundle
from training.evaluation.calibration import Judged, auroc, calibration_error, fit, fit_logistic, judge, reliability
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
    """Print the calibration error, the AUROC and the risk at half coverage of each way to estimate quality."""
    torch.set_num_threads(threads)
    loaded = load_bundle(bundle, torch.device("cpu"))
    backend = prepare(loaded.model, "auto")
    sets = {text: TestSet.read(text, loaded.source, loaded.target) for text in [*pairs, *test]}
    judged = {text: [j for j in judge(backend, loaded, one.pairs) if j.log_probs] for text, one in sets.items()}
    fitted_on = [one for text in pairs for one in judged[text]]
    fitted = fit(fitted_on)
    logistic = fit_logistic([[mean(one)] for one in fitted_on], [one.is_good for one in fitted_on])
    temperature = best_temperature(fitted_on)
    print(f"{loaded.name}; temperature {temperature:.2f}")
    print(f"{'set':<32} {'good':>6}  {'estimate':<22} {'error':>6} {'AUROC':>6} {'risk of the better half':>24}")
    shown: dict[str, tuple[list[Estimates], Array]] = {}
    for text in test:
        ones = judged[text]
        good = np.array([one.is_good for one in ones], float)
        ways = [
            Estimates("quality", np.array([fitted.quality(one.log_probs, one.is_complete) for one in ones])),
            Estimates("mean log probability", np.array([logistic.probability([mean(one)]) for one in ones])),
            Estimates("temperature", np.exp(np.array(list(map(mean, ones))) / temperature)),
        ]
        shown[sets[text].name] = ways, good
        for way in ways:
            area = auroc(way.values, good)
            error = calibration_error(way.values, good)
            ranked = 1 - good[np.argsort(-way.values, kind="stable")]
            print(
                f"{sets[text].name:<32} {good.mean():>6.1%}  {way.name:<22} {error:>6.3f} "
                f"{'-' if area is None else f'{area:.3f}':>6} {ranked[: len(ranked) // 2].mean():>24.1%}"
            )
    if plot:
        draw(plot, loaded.pair, shown)


def mean(judged: Judged) -> float:
    """The mean log probability of a translation's tokens."""
    return sum(judged.log_probs) / len(judged.log_probs)


def best_temperature(judged: list[Judged]) -> float:
    """The temperature under which the mean probability of tokens, its root, is the likeliest estimate."""
    means, good = np.array(list(map(mean, judged))), np.array([one.is_good for one in judged], float)

    def loss(temperature: float) -> float:
        estimates = np.clip(np.exp(means / temperature), 1e-9, 1 - 1e-9)
        return float(-np.mean(good * np.log(estimates) + (1 - good) * np.log(1 - estimates)))

    return float(min(TEMPERATURES, key=loss))


def draw(path: Path, pair: str, shown: dict[str, tuple[list[Estimates], Array]]) -> None:
    """Draws the calibration plot and the risk-coverage curve of each set."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "interlinear"
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, (ways, good) in shown.items():
        bins = reliability(ways[0].values, good)
        left.plot([estimate for _, estimate, _ in bins], [share for *_, share in bins], marker="o", label=name)
        risk = np.cumsum(1 - good[np.argsort(-ways[0].values, kind="stable")]) / np.arange(1, len(good) + 1)
        right.plot(np.arange(1, len(good) + 1) / len(good), risk, label=name)
    left.set(xlabel="estimated quality", ylabel="share of good translations", xlim=(0, 1), ylim=(0, 1), title=pair)
    right.set(xlabel="share of translations kept, best rated first", ylabel="share not good", xlim=(0, 1), ylim=(0, 1))
    left.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    typer.run(main)
