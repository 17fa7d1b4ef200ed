"""Run the application with uvicorn: in one process, or in several that share a port."""

import contextlib
import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import uvicorn

from headway.device import available_cores
from headway.errors import HeadwayError
from headway.serve.api_keys import ApiKeys
from headway.serve.app import create_app
from headway.serve.model_pool import ModelPool
from headway.serve.settings import Log, ServerSettings

SETTINGS_VARIABLE = "HEADWAY_SERVE"  # the environment variable in which worker processes find their settings
BACKLOG = 2048  # connections that wait to be accepted
SHUTDOWN_SECONDS = 30  # that running requests have to end, once the server is to stop


UVICORN_OPTIONS: dict[str, Any] = {
    "log_config": None,  # the application writes the log itself
    "log_level": "critical",
    "access_log": False,
    "server_header": False,
    "timeout_keep_alive": 15,
    "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
    "backlog": BACKLOG,
    "ws": "none",
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
    if workers > 1:  # report errors of models and keys once, and not in every process
        ModelPool(settings, lambda message, level="info", **fields: None)
        ApiKeys(settings.api_keys)
    with bind_socket(settings) as bound:
        host, port = bound.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if workers == 1:
            application = create_app(settings, log)
            bound.listen(BACKLOG)  # before the line that says so
            log(f"serving {address} (Ctrl-C ends)")
            uvicorn.Server(uvicorn.Config(application, **UVICORN_OPTIONS)).run(sockets=[bound])
            return
    with _shared_by_workers(settings, workers) as shared:
        os.environ[SETTINGS_VARIABLE] = shared.to_json()
        log(f"serving {address} with {workers} processes (Ctrl-C ends)")
        uvicorn.run(
            worker,
            factory=True,
            host=host,
            port=port,
            workers=workers,
            timeout_worker_healthcheck=120,
            **UVICORN_OPTIONS,
        )


@contextlib.contextmanager
def _shared_by_workers(settings: ServerSettings, workers: int) -> Iterator[ServerSettings]:
    """Settings for each process: folders for translated files and metrics in common, and its share of cores, memory."""
    folder = tempfile.mkdtemp(prefix="headway-serve-")
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
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
