"""Processes that work for another one, as members of its pool."""

import multiprocessing
import os
import signal
import threading


def serve_parent() -> None:
    """At the start of such a process. Ctrl-C is for whoever waits for it, and ends it; and it ends with that one even
    where that was killed and could not say so: it would wait for work for ever, and keep its memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
