"""Lines as they come: from a file, a pipe or a person, in groups that are worked on together."""

import os
import queue
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from headway.cli.terminal import is_watched

AT_ONCE = 512  # lines taken together where they wait


def waiting_lines(text: tuple[str, ...], input_file: str | None, most: int = AT_ONCE) -> Iterator[list[str]]:
    """Lines in groups: all that wait, so that a file goes fast and a person or a program gets each answer at once.

    most: of a file, whose lines all wait."""
    if text and text != ("-",):
        yield list(text)
        return
    from headway.files.text_files import read_lines

    path = input_file or "-"
    if path == "-" and is_watched(sys.stdin):
        yield from ([line] for line in read_lines("-"))
        return
    yield from filled(read_lines(path), most) if is_file(path) else grouped(read_lines(path))


def is_file(path: str) -> bool:
    """Whether all of it is there already: no pipe, no terminal."""
    if path != "-":
        return Path(path).is_file()
    try:
        return stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):  # it is no stream of the system
        return False


def counted(groups: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Each with the number of its first line."""
    first = 0
    for group in groups:
        yield first, group
        first += len(group)


def filled(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """Groups that are full. The first are smaller, so that something can begin while the others are being read."""
    source, size = iter(lines), min(AT_ONCE, most)
    error: Exception | None = None
    while error is None:
        group: list[str] = []
        try:
            group.extend(islice(source, size))
        except Exception as broken:  # what came before it is translated first
            error = broken
        if group:
            yield group
        if error is None and len(group) < size:
            return
        size = min(2 * size, most)
    raise error


def grouped(lines: Iterable[str]) -> Iterator[list[str]]:
    """What a reading thread has gathered so far, up to AT_ONCE."""
    gathered: queue.Queue[str | BaseException | None] = queue.Queue(4 * AT_ONCE)

    def read() -> None:
        try:
            for line in lines:
                gathered.put(line)
            gathered.put(None)
        except BaseException as error:
            gathered.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        group: list[str] = []
        item = gathered.get()
        while isinstance(item, str):
            group.append(item)
            if len(group) == AT_ONCE or gathered.empty():
                break
            item = gathered.get()
        if group:
            yield group
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return
