"""Displays a run's progress: a bar, lines above it, a CSV and a plot of the curves."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from model.atomic_files import write_atomically

COLUMNS = ("step", "epoch", "learning_rate", "train_loss", "dev_loss", "dev_bleu", "tokens_per_second", "seconds")


class Progress:
    """A bar on a terminal with loss, tokens per second and time left; elsewhere a line every `every` seconds.

    A `total` of 0 is not known. `seconds_left`: where it returns None, the time left is guessed. If the progress is not
    `shown`, as in all processes of a run but one, it only counts.
    """

    def __init__(
        self,
        total: int,
        done: int,
        every: float = 30.0,
        shown: bool = True,
        seconds_left: Callable[[], float | None] = lambda: None,
    ) -> None:
        hidden = not (shown and sys.stderr.isatty())
        self._bar = tqdm(total=total or None, initial=done, unit="step", disable=hidden, dynamic_ncols=True)
        self._seconds_left = seconds_left
        self._shown = shown
        self._total, self._every = total, every
        self._began = self._printed = time.monotonic()
        self._first, self._tokens = done, 0

    def advance(self, step: int, loss: float, tokens: int) -> None:
        """Advances to `step`, with a training loss of `loss` nats per token and `tokens` predicted."""
        self._tokens += tokens
        speed, left = f"loss {loss:.3f}, {self.tokens_per_second:,.0f} tokens/s", self._seconds_left()
        self._bar.set_postfix_str(speed if left is None else f"{speed}, {duration(max(0, left))} left", refresh=False)
        self._bar.update(1)
        now = time.monotonic()
        if self._bar.disable and (now - self._printed >= self._every or step == self._total):
            self._printed = now
            if left is None:
                left = (now - self._began) / max(1, step - self._first) * (self._total - step)
            of = f" of {self._total:,}" if self._total else ""
            self.say(f"step {step:,}{of}, {speed}, {duration(max(0, left))} left")

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
    write_atomically(run / "curves.png", draw_curves(history))


def draw_curves(history: Sequence[Mapping[str, float]]) -> bytes:
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
