"""Read input lines from a file, a pipe or a terminal, in groups that are translated together."""

import os
import queue
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from headway.cli.terminal import is_interactive

LINES_PER_GROUP = 512  # of a pipe at most, and of a file at first


def read_line_groups(
    text: tuple[str, ...], input_file: str | None, max_lines: int = LINES_PER_GROUP
) -> Iterator[list[str]]:
    """All lines that are available, in groups: large ones from a file; from a pipe or a terminal without waiting.

    max_lines: the largest group from a file, whose lines are all available."""
    if text and text != ("-",):
        yield list(text)
        return
    from headway.files.text_files import read_lines

    path = input_file or "-"
    if path == "-" and is_interactive(sys.stdin):
        yield from ([line] for line in read_lines("-"))
        return
    yield from fill_groups(read_lines(path), max_lines) if is_regular_file(path) else group_available(read_lines(path))


def is_regular_file(path: str) -> bool:
    """Whether all lines are available at once: not a pipe, not a terminal."""
    if path != "-":
        return Path(path).is_file()
    try:
        return stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):  # stdin has no file descriptor
        return False


def number_groups(groups: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Each group with the number of its first line."""
    first = 0
    for group in groups:
        yield first, group
        first += len(group)


def fill_groups(lines: Iterable[str], max_lines: int) -> Iterator[list[str]]:
    """Full groups. The first ones are smaller, so that translation can start while more lines are read."""
    source = iter(lines)
    size = min(LINES_PER_GROUP, max_lines)
    error: Exception | None = None
    while error is None:
        group: list[str] = []
        try:
            group.extend(islice(source, size))
        except Exception as raised:  # lines before the error are translated first
            error = raised
        if group:
            yield group
        if error is None and len(group) < size:
            return
        size = min(2 * size, max_lines)
    raise error


def group_available(lines: Iterable[str]) -> Iterator[list[str]]:
    """Groups of whatever a reader thread has received so far, up to LINES_PER_GROUP."""
    received: queue.Queue[str | BaseException | None] = queue.Queue(4 * LINES_PER_GROUP)

    def read() -> None:
        try:
            for line in lines:
                received.put(line)
            received.put(None)
        except BaseException as error:
            received.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        group: list[str] = []
        item = received.get()
        while isinstance(item, str):
            group.append(item)
            if len(group) == LINES_PER_GROUP or received.empty():
                break
            item = received.get()
        if group:
            yield group
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return
