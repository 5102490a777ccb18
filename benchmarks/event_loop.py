"""Measures how much work the event loop does in a millisecond: the rate in app/runtime/event_loop.py.

    python -m benchmarks.event_loop [--bundle bundles/en-fr] [--rounds 30]

Prints characters a millisecond for ordinary work on English prose of 500 to 8,000 characters, and what a switch to a
thread costs. It loads no weights.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from urllib.parse import parse_qsl, quote_plus

from app.markup.passage import Passage
from app.services.startup import load_catalogue
from app.settings import Settings
from app.text.glossary import Glossary
from app.text.line_breaks import ReflowedText
from app.translation.text_plan import plan_text
from benchmarks.cores import processor

PROSE = "The cat sleeps on the old table near the window. When it rains, 3 dogs wait behind the door of the house! "
SIZES = (500, 2_000, 8_000)


def ordinary_work(bundle: Path, text: str) -> dict[str, Callable[[], object]]:
    """By name, what a request with `text` may do on the event loop."""
    (served,) = load_catalogue(Settings(bundles=(bundle,)))
    body = json.dumps({"text": text})
    form = "q=" + quote_plus(text)
    terms = {f"{word}{number}": word for number, word in enumerate(text.split())}
    return {
        "plan": lambda: plan_text(served, [Passage(text)], None, 1, 1 << 30),
        "JSON": lambda: json.loads(body),
        "form": lambda: parse_qsl(form),
        "line breaks": lambda: ReflowedText.of(text, "join"),
        "glossary": lambda: Glossary(terms, "en"),
    }


def milliseconds(work: Callable[[], object], rounds: int) -> float:
    """The median processor time of `work`, which other processes on the machine change least."""
    took = []
    for _ in range(rounds):
        began = thread_time()
        work()
        took.append(1000 * (thread_time() - began))
    return median(took)


async def switch_ms(rounds: int) -> float:
    """The median time to run nothing in a thread."""
    took = []
    for _ in range(10 * rounds):
        began = perf_counter()
        await asyncio.to_thread(int)
        took.append(1000 * (perf_counter() - began))
    return median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=Path("bundles/en-fr"))
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print(f"{processor()}; a switch to a thread takes {asyncio.run(switch_ms(options.rounds)):.3f} ms")
    for size in SIZES:
        text = (PROSE * (size // len(PROSE) + 1))[:size]
        for name, work in ordinary_work(options.bundle, text).items():
            print(f"{size:>6,} characters, {name}: {size / milliseconds(work, options.rounds):,.0f} a millisecond")


if __name__ == "__main__":
    main()
