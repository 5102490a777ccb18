"""The trade-off of fine-tuning: compares gains in the user's field with losses elsewhere, at several points between the
initial and the fine-tuned weights, and chooses the one that ships.

The points are measured in `training.export.bundle`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.atomic_files import write_atomically
from training.optim.trainer import TrainingError

ACCEPTED = 2.0
"""BLEU that may be lost elsewhere by default."""
PLOT = "tradeoff.png"
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)
_STEP = 0.1
_LITTLE = 1.0
"""In BLEU; smaller gains are hardly noticeable."""


@dataclass(frozen=True)
class Point:
    """BLEU of the weights at `share` of the way from the bundle's to the fine-tuned ones: in the `own` field, and by
    name on the sets `elsewhere`."""

    share: float
    own: float
    elsewhere: Mapping[str, float]

    def loss(self, before: Point) -> float:
        """The BLEU lost since `before` on the set that lost most; negative if none did."""
        return max((score - self.elsewhere[name] for name, score in before.elsewhere.items()), default=0.0)

    def gain(self, before: Point) -> float:
        return self.own - before.own

    def record(self) -> dict[str, Any]:
        """In config.json's format."""
        elsewhere = {name: round(score, 2) for name, score in self.elsewhere.items()}
        return {"blend": self.share, "development_bleu": round(self.own, 2), "general_bleu": elsewhere}


@dataclass(frozen=True)
class Tradeoff:
    """The measured points, apart from the bundle `before`, and what may be lost elsewhere."""

    before: Point
    points: Sequence[Point]
    accepted: float

    @property
    def best(self) -> Point | None:
        """The point with the highest BLEU in the field among those within the accepted loss, the nearest to the bundle
        on ties; None if all lose more."""
        fitting = [point for point in self.points if point.loss(self.before) <= self.accepted]
        return max(fitting, key=lambda point: (point.own, -point.share), default=None)

    def record(self) -> dict[str, Any]:
        """In config.json's format."""
        points = sorted(self.points, key=lambda point: point.share)
        return {"accepted": self.accepted, "points": [point.record() for point in (self.before, *points)]}

    def advice(self, chosen: Point) -> str:
        """One sentence: what `chosen` gained and lost, and how to get more."""
        gain, loss, most = chosen.gain(self.before), chosen.loss(self.before), self._furthest()
        said = f"gained {gain:.1f} BLEU in your field for {max(0.0, loss):.1f} elsewhere"
        if gain < _LITTLE:
            said += ", too little to show: bring more pairs"
        if most.gain(self.before) >= gain + _LITTLE and most is not chosen:
            further = f"{most.gain(self.before):.1f} for {most.loss(self.before):.1f}"
            return f"{said}; --accept-general-loss {_above(most.loss(self.before))} --replace would gain {further}"
        return f"{said}: serve it for both" if gain >= _LITTLE else said

    def refusal(self) -> TrainingError:
        """Why nothing ships, and what to do."""
        least, most = min(point.loss(self.before) for point in self.points), self._furthest()
        said = (
            f"nothing is exported: elsewhere it would lose {least:.1f} BLEU at the least, and {self.accepted:g} are "
            "accepted; bring more pairs, a lower --learning-rate, or general pairs with --mix"
        )
        if (gain := most.gain(self.before)) > 0:
            loss = most.loss(self.before)
            said += f"; or lose {loss:.1f} to gain {gain:.1f} in your field: --accept-general-loss {_above(loss)}"
        return TrainingError(said)

    def _furthest(self) -> Point:
        return max(self.points, key=lambda point: point.own)

    def plot(self, folder: Path) -> Path:
        """Plots gain against loss, one dot per point, into `folder`; returns the file."""
        write_atomically(folder / PLOT, self._drawn())
        return folder / PLOT

    def _drawn(self) -> bytes:
        from matplotlib.figure import Figure  # takes a second, and is only needed here

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        points = sorted([self.before, *self.points], key=lambda point: point.share)
        lost, own = [max(0.0, point.loss(self.before)) for point in points], [point.own for point in points]
        axes.plot(lost, own, marker="o")
        for point, x, y in zip(points, lost, own, strict=True):
            axes.annotate(f" {point.share:.2g}", (x, y), ha="left", va="top")
        if self.best is not None:
            axes.plot([max(0.0, self.best.loss(self.before))], [self.best.own], "o", ms=12, mfc="none", label="ships")
        axes.axvline(self.accepted, ls="--", color="grey", label=f"accepted: {self.accepted:g}")
        axes.set(xlabel="BLEU lost elsewhere", ylabel="BLEU on your pairs, held out")
        axes.legend()
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=120)
        return image.getvalue()


def explore(before: Point, measured: Callable[[float], Point], accepted: float, given: float | None) -> Tradeoff:
    """Measures points on the way: only the one `given`, or SHARES, and one closer to the best of those."""
    if given is not None:
        return Tradeoff(before, [measured(given)], accepted)
    found = Tradeoff(before, [measured(share) for share in SHARES], accepted)
    best = found.best.share if found.best else 0.0
    more = [round(share, 2) for share in (best - _STEP, best + _STEP) if 0 < share < 1]
    return Tradeoff(before, [*found.points, *map(measured, more)], accepted)


def most_points(given: float | None) -> int:
    """The most points that `explore` measures."""
    return 1 if given is not None else len(SHARES) + 2


def _above(loss: float) -> str:
    """A number above `loss`, with one decimal digit."""
    return f"{loss + 0.1:.1f}"
