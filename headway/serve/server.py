"""Running the application: one process, or several that share a port."""

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

from headway.device import cores
from headway.errors import HeadwayError
from headway.serve.api_keys import Keys
from headway.serve.app import create_app
from headway.serve.model_pool import Shelf
from headway.serve.settings import Settings, Tell

SETTINGS = "HEADWAY_SERVE"  # where worker processes find what they are to do
BACKLOG = 2048  # connections that wait to be accepted
LAST_WORDS = 30  # seconds that running requests have to end, once the server is told to


OPTIONS: dict[str, Any] = {
    "log_config": None,  # what there is to say the application says itself
    "log_level": "critical",
    "access_log": False,
    "server_header": False,
    "timeout_keep_alive": 15,
    "timeout_graceful_shutdown": LAST_WORDS,
    "backlog": BACKLOG,
    "ws": "none",
}


def bound(settings: Settings) -> socket.socket:
    """The port, taken before anything is loaded, so that a wrong one is said at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    taken = socket.socket(family)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        taken.close()
        raise HeadwayError(why_not(settings, error)) from None
    taken.set_inheritable(True)
    return taken


def why_not(settings: Settings, error: Exception) -> str:
    why = getattr(error, "strerror", None) or str(error)
    if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
        return (
            f"{settings.host} is not an address of this machine: {why}. Choose another --host: 127.0.0.1 is for this "
            "machine alone, 0.0.0.0 for all who can reach it."
        )
    return f"{settings.host}:{settings.port} cannot be taken: {why}. Choose another --port."


def serve(settings: Settings, tell: Tell, workers: int, worker: str) -> None:
    """Until it is told to stop. worker: "module:function", which makes the application in each of several processes."""
    if workers > 1:  # whatever is wrong is said once, and not by each of them
        Shelf(settings, lambda message, level="info", **fields: None)
        Keys(settings.api_keys)
    with bound(settings) as taken:
        host, port = taken.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if workers == 1:
            application = create_app(settings, tell)
            taken.listen(BACKLOG)  # whoever reads the next line may come
            tell(f"serving {address} (Ctrl-C ends)")
            uvicorn.Server(uvicorn.Config(application, **OPTIONS)).run(sockets=[taken])
            return
    with _shared(settings, workers) as shared:
        os.environ[SETTINGS] = shared.to_json()
        tell(f"serving {address} with {workers} processes (Ctrl-C ends)")
        uvicorn.run(
            worker, factory=True, host=host, port=port, workers=workers, timeout_worker_healthcheck=120, **OPTIONS
        )  # fmt: skip


@contextlib.contextmanager
def _shared(settings: Settings, workers: int) -> Iterator[Settings]:
    """What the processes have in common: translated files, counts; and each its share of the cores and of the memory."""
    folder = tempfile.mkdtemp(prefix="headway-serve-")
    try:
        files, counts = os.path.join(folder, "files"), os.path.join(folder, "counts")
        os.mkdir(files)
        os.mkdir(counts)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counts
        yield replace(
            settings,
            files=files,
            threads=settings.threads or max(cores() // workers, 1),
            memory=None if settings.memory is None else settings.memory // workers,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
