"""What Prometheus can ask for at /metrics. Of several processes of one server, any tells for all."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

TIMES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
METHODS = {"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"}  # a client may send any word
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "headway_requests", "Requests, by their answer", ["method", "endpoint", "status"], registry=registry
        )
        self.seconds = Histogram(
            "headway_request_seconds", "How long requests took", ["endpoint"], registry=registry, buckets=TIMES
        )
        self.running = Gauge(
            "headway_requests_running", "Requests without an answer yet", registry=registry, multiprocess_mode="livesum"
        )
        self.batches = Histogram("headway_batch_texts", "Texts translated together", registry=registry, buckets=SIZES)
        self.texts = Counter("headway_texts", "Texts translated", registry=registry)
        self.tokens = Counter("headway_source_tokens", "Tokens of them, about", registry=registry)
        self.busy = Counter("headway_translating_seconds", "Time spent translating", registry=registry)

    def request(self, method: str, endpoint: str, status: int, seconds: float) -> None:
        self.requests.labels(method if method in METHODS else "other", endpoint, str(status)).inc()
        self.seconds.labels(endpoint).observe(seconds)

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        self.batches.observe(texts)
        self.texts.inc(texts)
        self.tokens.inc(tokens)
        self.busy.inc(seconds)

    def shown(self) -> bytes:
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        everyone = CollectorRegistry()
        MultiProcessCollector(everyone)  # type: ignore[no-untyped-call]
        return generate_latest(everyone)
