"""Prometheus metrics, for /metrics. With several processes, each of them answers for all."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # texts
METHODS = {"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"}  # a client may send any other string


class Metrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "headway_requests", "Requests by status", ["method", "endpoint", "status"], registry=registry
        )
        self.seconds = Histogram(
            "headway_request_seconds", "Duration of requests", ["endpoint"], registry=registry, buckets=SECONDS_BUCKETS
        )
        self.running = Gauge(
            "headway_requests_running", "Requests in progress", registry=registry, multiprocess_mode="livesum"
        )
        self.batches = Histogram("headway_batch_texts", "Texts per batch", registry=registry, buckets=BATCH_BUCKETS)
        self.texts = Counter("headway_texts", "Texts translated", registry=registry)
        self.tokens = Counter("headway_source_tokens", "Source tokens translated, estimated", registry=registry)
        self.busy = Counter("headway_translating_seconds", "Time spent translating", registry=registry)

    def count_request(self, method: str, endpoint: str, status: int, seconds: float) -> None:
        self.requests.labels(method if method in METHODS else "other", endpoint, str(status)).inc()
        self.seconds.labels(endpoint).observe(seconds)

    def count_batch(self, texts: int, tokens: int, seconds: float) -> None:
        self.batches.observe(texts)
        self.texts.inc(texts)
        self.tokens.inc(tokens)
        self.busy.inc(seconds)

    def render(self) -> bytes:
        """In Prometheus' text format."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        combined = CollectorRegistry()
        MultiProcessCollector(combined)  # type: ignore[no-untyped-call]
        return generate_latest(combined)
