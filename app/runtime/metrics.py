"""What the service counts, in a Prometheus registry of its own. No label is a text, an address or a key.

Knows names and units; who counts what is said where it happens.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.runtime.throughput import Speed

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """One service's metrics."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self.requests = Counter(
            "interlinear_requests", "Requests answered", ["method", "route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "interlinear_request_seconds",
            "From a request's first byte to the end of its answer",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.loop_lag = Histogram(
            "interlinear_event_loop_lag_seconds",
            "By how much a timer of the front's event loop is late, every tenth of a second",
            buckets=_SECONDS,
            registry=registry,
        )
        self.refusals = Counter("interlinear_refusals", "Errors answered, by cause", ["cause"], registry=registry)
        self.sentences = Counter("interlinear_sentences", "Sentences decoded", ["model"], registry=registry)
        self.tokens = Counter(
            "interlinear_tokens",
            "Tokens of decoded sentences, end symbols included",
            ["model", "side"],
            registry=registry,
        )
        self.queue_sentences = Gauge("interlinear_queue_sentences", "Sentences that wait", registry=registry)
        self.queue_tokens = Gauge("interlinear_queue_tokens", "What they cost, in source tokens", registry=registry)
        self.queue_seconds = Histogram(
            "interlinear_queue_wait_seconds",
            "From a sentence's arrival to its place",
            buckets=_SECONDS,
            registry=registry,
        )
        self.workers = Gauge("interlinear_workers", "Workers that work", registry=registry)
        self.restarts = Counter(
            "interlinear_worker_restarts", "Workers started in place of one that died", registry=registry
        )
        self.rows = Histogram(
            "interlinear_batch_rows", "Sentences in one step", ["model"], buckets=_ROWS, registry=registry
        )
        self.step_seconds = Histogram(
            "interlinear_step_seconds", "One decoder step", ["model"], buckets=_SECONDS, registry=registry
        )
        self.cache_sentences = Counter(
            "interlinear_cache_sentences",
            "Sentences asked for: found (hit), waited for while being decoded for another (joined), or decoded (miss)",
            ["result"],
            registry=registry,
        )
        self.cache_bytes = Gauge("interlinear_cache_bytes", "What the kept sentences take", registry=registry)

    def refused(self, cause: str) -> None:
        """Counts an error that was answered."""
        self.refusals.labels(cause).inc()

    def forget(self, model: str) -> None:
        """Of a model that is served no more, nothing is shown any more."""
        for metric in (self.rows, self.step_seconds, self.sentences):
            metric.remove(model)
        for side in ("source", "target"):
            self.tokens.remove(model, side)

    def exposition(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self.registry)


class ModelSeries:
    """The series of one model, looked up once: they are added to at every step and sentence."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.speed = Speed()
        self.rows = metrics.rows.labels(model)
        self.step_seconds = metrics.step_seconds.labels(model)
        self.sentences = metrics.sentences.labels(model)
        self.source_tokens = metrics.tokens.labels(model, "source")
        self.target_tokens = metrics.tokens.labels(model, "target")
