"""Displays a run's progress: a bar, lines above it, a CSV and a plot of the curves."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from model.atomic_files import write_atomically

COLUMNS = ("step", "epoch", "learning_rate", "train_loss", "dev_loss", "dev_bleu", "tokens_per_second", "seconds")


class Progress:
    """A bar on a terminal with loss, tokens per second and time left; elsewhere a line every `every` seconds.

    If it is not `shown`, as in all processes of a run but one, it only counts.
    """

    def __init__(self, total: int, done: int, every: float = 30.0, shown: bool = True) -> None:
        hidden = not (shown and sys.stderr.isatty())
        self._bar = tqdm(total=total, initial=done, unit="step", disable=hidden, dynamic_ncols=True)
        self._shown = shown
        self._total, self._every = total, every
        self._began = self._printed = time.monotonic()
        self._first, self._tokens = done, 0

    def advance(self, step: int, loss: float, tokens: int) -> None:
        """Advances to `step`, with a training loss of `loss` nats per token and `tokens` predicted."""
        self._tokens += tokens
        self._bar.set_postfix_str(f"loss {loss:.3f}, {self.tokens_per_second:,.0f} tokens/s", refresh=False)
        self._bar.update(1)
        now = time.monotonic()
        if self._bar.disable and (now - self._printed >= self._every or step == self._total):
            self._printed = now
            left = (now - self._began) / max(1, step - self._first) * (self._total - step)
            speed = f"{self.tokens_per_second:,.0f} tokens/s"
            self.say(f"step {step:,} of {self._total:,}, loss {loss:.3f}, {speed}, {duration(left)} left")

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second since the start, including evaluation and saving."""
        return self._tokens / max(1e-9, time.monotonic() - self._began)

    def say(self, line: str) -> None:
        """Prints a permanent line above the bar."""
        if self._shown:
            self._bar.write(line, file=sys.stderr)

    def close(self) -> None:
        self._bar.close()


def duration(seconds: float) -> str:
    """Seconds in readable form: "45 s", "12 min", "3 h 20 min"."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def write_curves(run: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Writes `log.csv` and `curves.png` in `run`: one row per evaluation, with the keys `COLUMNS`."""
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS)
    writer.writeheader()
    writer.writerows(history)
    write_atomically(run / "log.csv", table.getvalue().encode())
    write_atomically(run / "curves.png", _plot(history))


def _plot(history: Sequence[Mapping[str, float]]) -> bytes:
    from matplotlib.figure import Figure  # takes a second, and is only needed here

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    loss = figure.add_subplot()
    steps = [row["step"] for row in history]
    loss.plot(steps, [row["train_loss"] for row in history], label="training loss")
    loss.plot(steps, [row["dev_loss"] for row in history], label="development loss")
    loss.set(xlabel="step", ylabel="nats a token")
    bleu = loss.twinx()
    bleu.plot(steps, [row["dev_bleu"] for row in history], color="tab:green", label="development BLEU")
    bleu.set(ylabel="BLEU")
    figure.legend(loc="outside upper center", ncols=3)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    return image.getvalue()
