"""The service's metrics, in its own Prometheus registry. No label is a text, an address or a key.

Defines names and units; the code that measures is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from app.errors import Overloaded
from app.runtime.load import Load
from app.runtime.peers import Peers
from app.runtime.throughput import TokensPerSecond

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
_TENTHS = [tenth / 10 for tenth in range(1, 11)]
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=_SECONDS)
        self.requests = counter("interlinear_requests", "Requests answered", ["method", "route", "status"])
        self.request_seconds = histogram(
            "interlinear_request_seconds", "From a request's first byte to the end of its response", ["route"]
        )
        self.loop_lag = histogram(
            "interlinear_event_loop_lag_seconds",
            "Delay of a timer on the front process's event loop, sampled every tenth of a second",
        )
        self.load = Load()
        gauge(
            "interlinear_load",
            "Work asked of the workers, or of the event loop, by what they can do: 1 is saturated, above 1 refusing",
        ).set_function(self.load.current)
        self.refusals = counter("interlinear_refusals", "Error responses, by cause", ["cause"])
        self.sentences = counter("interlinear_sentences", "Sentences decoded", ["model"])
        self.quality = histogram(
            "interlinear_quality",
            "The probability that a sentence's translation is good enough to use as it is",
            ["model"],
            buckets=_TENTHS,
        )
        self.tokens = counter(
            "interlinear_tokens", "Tokens of decoded sentences, end symbols included", ["model", "side"]
        )
        self.queue_sentences = gauge("interlinear_queue_sentences", "Waiting sentences")
        self.queue_tokens = gauge("interlinear_queue_tokens", "Cost of the waiting sentences, in source tokens")
        self.queue_seconds = histogram(
            "interlinear_queue_wait_seconds", "From a sentence's arrival until a worker decodes it"
        )
        self.workers = gauge("interlinear_workers", "Running workers")
        self.workers_wanted = gauge("interlinear_workers_wanted", "Workers that should run")
        self.restarts = counter("interlinear_worker_restarts", "Workers restarted after one died")
        self.worker_memory = gauge("interlinear_worker_memory_bytes", "Proportional set size of a worker", ["worker"])
        self.models_loaded = gauge("interlinear_models_loaded", "Models loaded in workers")
        self.unloads = counter("interlinear_model_unloads", "Models unloaded to make room for others")
        self.rows = histogram("interlinear_batch_rows", "Sentences in one step", ["model"], buckets=_ROWS)
        self.step_seconds = histogram("interlinear_step_seconds", "One decoder step", ["model"])
        self.cache_sentences = counter(
            "interlinear_cache_sentences",
            "Sentence lookups: cached (hit), already being decoded for another request (joined), or decoded (miss)",
            ["result"],
        )
        self.cache_bytes = gauge("interlinear_cache_bytes", "Bytes that cached sentences take")

        self.llm_requests = counter(
            "interlinear_llm_requests",
            "Questions to the large model: answered, cached, failed, late, cancelled, or not asked (paused)",
            ["outcome"],
        )
        self.llm_seconds = histogram("interlinear_llm_seconds", "One question to the large model")

        self.installs = counter(
            "interlinear_model_installs", "Attempts to install a published model, by how they ended", ["state"]
        )
        self.install_bytes = gauge(
            "interlinear_model_install_bytes", "Bytes of the current download, and its size", ["of"]
        )
        self.models_missing = gauge(
            "interlinear_models_missing", "Published models that the settings name and that do not serve"
        )

        self.store_available = gauge(
            "interlinear_store_available", "1: the store answers, or none is set; 0: it does not"
        )
        self.store_available.set(1)

    def count_refusal(self, cause: str) -> None:
        """Counts an error response."""
        self.refusals.labels(cause).inc()
        if cause == Overloaded.slug:
            self.load.add_refused()

    def set_install_progress(self, arrived: int, total: int) -> None:
        """Records how far a download is; 0 and 0: there is none."""
        self.install_bytes.labels("arrived").set(arrived)
        self.install_bytes.labels("total").set(total)

    def observe_lag(self, lag_s: float) -> None:
        """Records how late the event loop is, which calls this."""
        self.loop_lag.observe(lag_s)
        self.load.sample_event_loop(lag_s)

    def forget(self, model: str) -> None:
        """Removes the series of a model that is no longer served."""
        for metric in (self.rows, self.step_seconds, self.sentences, self.quality):
            metric.remove(model)
        for side in ("source", "target"):
            self.tokens.remove(model, side)

    def families(self) -> bytes:
        """All metrics of this process, for another instance."""
        return _encode(
            [
                Family(one.name, one.documentation, one.type, [(s.name, dict(s.labels), s.value) for s in one.samples])
                for one in self.registry.collect()
            ]
        )


class Family(Struct, array_like=True):
    """A metric with its samples: name, labels, value."""

    name: str
    documentation: str
    type: str
    samples: list[tuple[str, dict[str, str], float]]


def exposition(metrics: Metrics, peers: Peers | None = None) -> bytes:
    """All metrics in Prometheus' text format: with `peers`, those of all instances, told apart by the label `instance`.

    Blocks while the peers answer. Those that do not are left out.
    """
    if peers is None:
        return generate_latest(metrics.registry)
    encoded = {peers.number: metrics.families(), **peers.ask_all("metrics")}
    merged: dict[str, Metric] = {}
    for number, families in sorted(encoded.items()):
        for family in _decode_families(families):
            metric = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for name, labels, value in family.samples:
                metric.add_sample(name, {"instance": str(number), **labels}, value)
    return generate_latest(_Collected(merged.values()))


class _Collected(Collector):
    """Metrics that have been collected."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class ModelSeries:
    """The series of one model, looked up once, since every step and sentence updates them."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.tokens_per_second = TokensPerSecond()
        self.rows = metrics.rows.labels(model)
        self.step_seconds = metrics.step_seconds.labels(model)
        self.sentences = metrics.sentences.labels(model)
        self.quality = metrics.quality.labels(model)
        self.source_tokens = metrics.tokens.labels(model, "source")
        self.target_tokens = metrics.tokens.labels(model, "target")

    def add_sentences(self, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """Counts decoded sentences and their tokens, end symbols included."""
        self.sentences.inc(sentences)
        self.source_tokens.inc(source_tokens)
        self.target_tokens.inc(target_tokens)
        self.tokens_per_second.add(target_tokens)


_encode = msgspec.msgpack.Encoder().encode
_decode_families = msgspec.msgpack.Decoder(list[Family]).decode
