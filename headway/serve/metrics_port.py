"""/metrics on a port of its own, which need not be reachable from where the clients are."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from headway.errors import HeadwayError
from headway.serve.admission import find_key
from headway.serve.api_keys import ApiKeys
from headway.serve.errors import ApiKeyError
from headway.serve.security_headers import API_HEADERS

METRICS_PATHS = ("/metrics", "/")
MAX_CONNECTIONS = 8
TIMEOUT_SECONDS = 10.0


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], render: Callable[[], bytes], keys: ApiKeys) -> None:
        self.render = render
        self.keys = keys
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, MetricsHandler)

    def process_request(self, request: object, client_address: object) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left."""


class MetricsHandler(BaseHTTPRequestHandler):
    timeout = TIMEOUT_SECONDS
    server: MetricsServer

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in self.headers.items()]
        scope = {"headers": headers, "query_string": query.encode("latin-1", "replace")}
        if path not in METRICS_PATHS:
            self._answer(404, b"there is nothing at this address: see /metrics\n")
            return
        if self.server.keys.required:
            try:
                self.server.keys.identify(find_key(scope))
            except ApiKeyError as error:
                self._answer(error.status, error.message.encode() + b"\n")
                return
        self._answer(200, self.server.render())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        for name, value in [*API_HEADERS, ("Content-Type", "text/plain; version=0.0.4; charset=utf-8")]:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: scrapes would fill the log."""


@contextmanager
def serve_metrics(host: str, port: int, render: Callable[[], bytes], keys: ApiKeys) -> Iterator[str]:
    """Its address, for as long as the context lasts."""
    try:
        server = MetricsServer((host, port), render, keys)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HeadwayError(
            f"cannot listen on {host}:{port} for metrics: {reason}. Choose another --metrics-port or --metrics-host."
        ) from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    try:
        bound = str(server.server_address[0])
        yield f"http://{f'[{bound}]' if ':' in bound else bound}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
