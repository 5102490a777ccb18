"""Waves: many requests at once, each from a client that waits for its answer and does not ask again. How many are
answered, and when? And what does a single short request of another client take beside a flood of paragraphs?

`benchmarks.serving` prints both.
"""

from __future__ import annotations

import http.client
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.load import Figures, Generator, Load, figures, medians
from benchmarks.sentences import Workload
from benchmarks.servers import Server

SIZES = (8, 64, 256)
"""Requests of a wave."""
FLOOD_CLIENTS = 30
"""As many paragraphs as a browser extension sends of a page at once."""
OTHER_ADDRESS = "127.0.0.2"
"""Of the other client: the load comes from 127.0.0.1."""
PROBE_INTERVAL_S = 0.1
_TIMEOUT_S = 120.0


@dataclass
class Alone:
    """The single short requests of a client: the latencies of those answered, in milliseconds, and the refused ones."""

    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    def __str__(self) -> str:
        answered = len(self.latencies)
        share = answered / max(1, answered + self.refused)
        return f"{share:.0%} answered, p50 {self._quantile(0.5):.0f} ms, p99 {self._quantile(0.99):.0f} ms"

    def _quantile(self, share: float) -> float:
        """The nearest rank."""
        ordered = sorted(self.latencies)
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.nan


def waves(
    server: Server, generator: Generator, workloads: Sequence[Workload], rounds: int, sizes: Sequence[int] = SIZES
) -> Iterator[tuple[str, int, list[Figures]]]:
    """The figures of each round's wave, by workload and size. The server is idle before each."""
    for workload in workloads:
        probe = workload.bodies.read_bytes().splitlines()[0]
        for size in sizes:
            found = []
            for number in range(rounds):
                server.wait_until_ready(probe)
                printed = generator.run(server.port, workload.bodies, Load("wave", size), seed=number + 1)
                found.append(figures(printed))
            yield workload.name, size, found


def single_requests(port: int, bodies: Sequence[bytes], is_over: Callable[[int], bool]) -> Alone:
    """Sends one short request after the other from another address, until it `is_over` after so many."""
    found, number = Alone(), 0
    while not is_over(number):
        connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=_TIMEOUT_S, source_address=(OTHER_ADDRESS, 0)
        )
        began = time.perf_counter()
        connection.request("POST", "/translate", bodies[number % len(bodies)], {"Content-Type": "application/json"})
        if connection.getresponse().status == 200:
            found.latencies.append(1000 * (time.perf_counter() - began))
        else:
            found.refused += 1
        connection.close()
        number += 1
        time.sleep(PROBE_INTERVAL_S)
    return found


def beside_flood(
    server: Server, generator: Generator, short: Workload, paragraphs: Workload, requests: int = 50
) -> tuple[Alone, Alone]:
    """A client's single requests alone, and beside another one with `FLOOD_CLIENTS` paragraphs at a time."""
    bodies = short.bodies.read_bytes().splitlines()
    server.wait_until_ready(bodies[0])
    alone = single_requests(server.port, bodies, lambda number: number >= requests)
    flood = threading.Thread(target=generator.run, args=(server.port, paragraphs.bodies, Load("closed", FLOOD_CLIENTS)))
    flood.start()
    beside = single_requests(server.port, bodies, lambda number: not flood.is_alive())
    flood.join()
    return alone, beside


def rows(found: Iterator[tuple[str, int, list[Figures]]]) -> Iterator[str]:
    """The lines of a server's table: the median of the rounds, and the smallest share answered."""
    yield f"    {'':<24}{'answered':>10}{'at least':>10}{'p50 ms':>10}{'p99 ms':>10}"
    for name, size, rounds in found:
        median, shares = medians(rounds), [1 - each["refused"] - each["failed"] for each in rounds]
        answered = 1 - median["refused"] - median["failed"]
        yield (
            f"    {f'{size} {name}':<24}{answered:>10.0%}{min(shares):>10.0%}"
            f"{median['p50']:>10,.0f}{median['p99']:>10,.0f}"
        )
