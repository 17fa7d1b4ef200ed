"""Run the application with uvicorn: in one process, or in several that share a port."""

import contextlib
import errno
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from headway.device import available_cores
from headway.errors import HeadwayError
from headway.serve.addresses import RequestOrigin, is_loopback, parse_url_prefix
from headway.serve.api_keys import ApiKeys
from headway.serve.app import create_app
from headway.serve.connections import BACKLOG, raise_descriptor_limit
from headway.serve.downloads import SHARED_PREFIX, hold_folder, remove_leftovers
from headway.serve.metrics import render_shared_metrics
from headway.serve.metrics_port import serve_metrics
from headway.serve.model_pool import ModelPool
from headway.serve.settings import Log, ServerSettings

SETTINGS_VARIABLE = "HEADWAY_SERVE"  # the environment variable in which worker processes find their settings
SHUTDOWN_SECONDS = 30  # that running requests have to end, once the server is to stop


UVICORN_OPTIONS: dict[str, Any] = {
    "log_config": None,  # the application writes the log itself
    "log_level": "critical",
    "access_log": False,
    "server_header": False,
    "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
    "backlog": BACKLOG,
    "ws": "none",
    "http": "headway.serve.connections:GuardedProtocol",
    "loop": "headway.serve.connections:make_event_loop",
    "proxy_headers": False,  # serve/addresses.py reads them
}


def bind_socket(settings: ServerSettings) -> socket.socket:
    """Bind the port before anything is loaded, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise HeadwayError(_explain_bind_error(settings, error)) from None
    bound.set_inheritable(True)
    return bound


def _explain_bind_error(settings: ServerSettings, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
        return (
            f"{settings.host} is not an address of this machine: {reason}. Choose another --host: 127.0.0.1 for this "
            "machine alone, 0.0.0.0 for every machine that can reach it."
        )
    return f"cannot listen on {settings.host}:{settings.port}: {reason}. Choose another --port."


def serve(settings: ServerSettings, log: Log, workers: int, worker: str) -> None:
    """Serve until SIGTERM or SIGINT. worker: "module:function", which creates the application in each of several
    processes."""
    raise_descriptor_limit()
    if workers > 1:  # report errors of models, keys and addresses once, and not in every process
        ModelPool(settings, lambda message, level="info", **fields: None)
        ApiKeys(settings.api_keys)
        RequestOrigin(settings)
    metrics_keys = ApiKeys(settings.metrics_keys, option="--metrics-keys")
    _warn_of_open_doors(settings, log)
    with contextlib.ExitStack() as stack:
        bound = stack.enter_context(bind_socket(settings))
        host, port = bound.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}{parse_url_prefix(settings.url_prefix)}"
        if workers == 1:
            application = create_app(settings, log)
            metrics = application.state.server.metrics
            metrics_address = _open_metrics_port(stack, settings, metrics.render, metrics_keys)
            bound.listen(BACKLOG)  # before the line that says so
            log(f"serving {address}{metrics_address} (Ctrl-C ends)")
            _reread_keys_on_hangup(application.state.server.keys, log)
            uvicorn.Server(uvicorn.Config(application, **UVICORN_OPTIONS)).run(sockets=[bound])
            return
    with contextlib.ExitStack() as stack:
        shared = stack.enter_context(_shared_by_workers(settings, workers))
        metrics_address = _open_metrics_port(stack, settings, render_shared_metrics, metrics_keys)
        os.environ[SETTINGS_VARIABLE] = shared.to_json()
        log(f"serving {address} with {workers} processes{metrics_address} (Ctrl-C ends)")
        uvicorn.run(
            worker,
            factory=True,
            host=host,
            port=port,
            workers=workers,
            timeout_worker_healthcheck=120,
            **UVICORN_OPTIONS,
        )


def _warn_of_open_doors(settings: ServerSettings, log: Log) -> None:
    if is_loopback(settings.host):
        return
    if settings.api_keys is None:
        log(
            f"--host {settings.host} without --api-keys: everybody who can reach this machine can use the server. "
            "See docs/serving.md, On the internet.",
            "warning",
        )
    if settings.metrics_port is None and settings.metrics_keys is None:
        log("/metrics is open to everybody. Give it --metrics-port or --metrics-keys.", "warning")


def _open_metrics_port(
    stack: contextlib.ExitStack, settings: ServerSettings, render: Callable[[], bytes], keys: ApiKeys
) -> str:
    """What the log is to say of it."""
    if settings.metrics_port is None:
        return ""
    return f", {stack.enter_context(serve_metrics(settings.metrics_host, settings.metrics_port, render, keys))}"


def _reread_keys_on_hangup(keys: ApiKeys, log: Log) -> None:
    """Keys are read again anyway when the file has changed, but SIGHUP must not end the server."""

    def read_again(number: int, frame: Any) -> None:
        try:
            keys.read_again()
            log("keys read again")
        except HeadwayError as error:
            log(f"{error} The keys that were read before stay valid.", "warning")

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, read_again)


@contextlib.contextmanager
def _shared_by_workers(settings: ServerSettings, workers: int) -> Iterator[ServerSettings]:
    """Settings for each process: folders for translated files and metrics in common, and its share of cores, memory."""
    remove_leftovers()
    folder = tempfile.mkdtemp(prefix=SHARED_PREFIX)
    lock = hold_folder(Path(folder))
    try:
        files = os.path.join(folder, "files")
        counts = os.path.join(folder, "counts")
        os.mkdir(files)
        os.mkdir(counts)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counts
        yield replace(
            settings,
            files=files,
            threads=settings.threads or max(available_cores() // workers, 1),
            memory=None if settings.memory is None else settings.memory // workers,
            processes=workers,
            limits=replace(settings.limits, connections=-(-settings.limits.connections // workers)),
        )
    finally:
        lock.close()
        shutil.rmtree(folder, ignore_errors=True)
