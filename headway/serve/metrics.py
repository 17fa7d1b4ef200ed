"""Prometheus metrics, for /metrics. With several processes, each of them answers for all."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # texts
ANONYMOUS = "-"  # clients without a key: their addresses would be too many
MAX_CLIENTS = 1000  # names of keys that are counted; further ones together
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
        self.connections = Gauge(
            "headway_connections", "Open connections", registry=registry, multiprocess_mode="livesum"
        )
        self.closed_connections = Counter(
            "headway_connections_closed", "Connections closed by the server", ["reason"], registry=registry
        )
        self.client_requests = Counter(
            "headway_client_requests", "Requests by name of API key", ["client", "status"], registry=registry
        )
        self.client_characters = Counter(
            "headway_client_characters", "Characters by name of API key", ["client"], registry=registry
        )
        self.client_quota = Gauge(
            "headway_client_quota_characters", "Characters that a key may translate a day", ["client"],
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self.client_quota_used = Gauge(
            "headway_client_quota_used_characters", "Characters that a key has translated today (UTC)", ["client"],
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self._clients: set[str] = set()

    def count_request(self, method: str, endpoint: str, status: int, seconds: float) -> None:
        self.requests.labels(method if method in METHODS else "other", endpoint, str(status)).inc()
        self.seconds.labels(endpoint).observe(seconds)

    def count_client(self, client: str, status: int) -> None:
        self.client_requests.labels(self._label(client), str(status)).inc()

    def count_characters(self, client: str, count: int, used_today: int, quota: int | None) -> None:
        label = self._label(client)
        self.client_characters.labels(label).inc(count)
        if quota and client == label != ANONYMOUS:
            self.client_quota.labels(label).set(quota)
            self.client_quota_used.labels(label).set(used_today)

    def _label(self, client: str) -> str:
        if client not in self._clients and len(self._clients) >= MAX_CLIENTS:
            return "other"
        self._clients.add(client)
        return client

    def count_batch(self, texts: int, tokens: int, seconds: float) -> None:
        self.batches.observe(texts)
        self.texts.inc(texts)
        self.tokens.inc(tokens)
        self.busy.inc(seconds)

    def render(self) -> bytes:
        """In Prometheus' text format."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        return render_shared_metrics()


def render_shared_metrics() -> bytes:
    """Those of all processes of a server."""
    combined = CollectorRegistry()
    MultiProcessCollector(combined)  # type: ignore[no-untyped-call]
    return generate_latest(combined)
