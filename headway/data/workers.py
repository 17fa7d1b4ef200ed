"""Worker processes of a pool: they leave Ctrl-C to their parent, and end when it ends."""

import multiprocessing
import os
import signal
import threading


def tie_to_parent() -> None:
    """Call this first in a worker process. Ctrl-C is left to the parent, which ends its workers. If the parent is
    killed, the worker ends by itself instead of waiting for work and holding its memory for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
