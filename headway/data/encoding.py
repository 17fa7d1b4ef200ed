"""Text into ids on disk, on all cores, in memory that does not grow with the text."""

import itertools
import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from headway.data.ragged import Rows, RowsWriter, rows_of
from headway.data.workers import serve_parent
from headway.device import cores
from headway.text import Tokenizer

GROUP = 4096  # lines encoded together
FEW = 16  # groups that are not worth starting processes for: a second's work, and starting takes two

Texts = tuple[str, ...]  # one text a side


class Side(NamedTuple):
    """How one side becomes rows: the file's name, its tokenizer, and the ids before and behind each row."""

    name: str
    tokenizer: Tokenizer
    lead: Sequence[int] = ()
    tail: Sequence[int] = ()


def encode_rows(
    tokenizer: Tokenizer, lines: Sequence[str], dropout: float = 0.0, lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> Rows:
    """The ids of each line, with the same few before and behind every one."""
    return rows_of(tokenizer.encode_batch(lines, dropout=dropout), lead, tail)


def encode_to(folder: Path, texts: Iterable[Texts], sides: Sequence[Side], opening: Sequence[int] = ()) -> None:
    """Rows of every side into a folder, in order, behind a row of `opening` if there is one. Large texts are encoded by one process a core: the library's own
    threads would wait while Python turns their results into arrays."""
    groups = _grouped(texts)
    first = list(itertools.islice(groups, FEW + 1))
    groups = itertools.chain(first, groups)
    encoded = _here(groups, sides) if len(first) <= FEW or cores() == 1 else _by_processes(groups, sides)
    before = [[rows_of([opening]) for _ in sides]] if opening else []
    _write(folder, sides, itertools.chain(before, encoded))


def encode_here(folder: Path, texts: Iterable[Texts], sides: Sequence[Side], dropout: float = 0.0) -> None:
    """The same in this process alone."""
    _write(folder, sides, _here(_grouped(texts), sides, dropout))


def _write(folder: Path, sides: Sequence[Side], encoded: Iterable[list[Rows]]) -> None:
    with ExitStack() as files:
        writers = [files.enter_context(RowsWriter(folder, side.name, side.tokenizer.size)) for side in sides]
        for group in encoded:
            for writer, rows in zip(writers, group):
                writer.append(rows)


def _grouped(texts: Iterable[Texts]) -> Iterator[list[Texts]]:
    texts = iter(texts)
    while group := list(itertools.islice(texts, GROUP)):
        yield group


def _here(groups: Iterable[list[Texts]], sides: Sequence[Side], dropout: float = 0.0) -> Iterator[list[Rows]]:
    for group in groups:
        columns = zip(*group)
        yield [encode_rows(side.tokenizer, lines, dropout, side.lead, side.tail) for side, lines in zip(sides, columns)]


@contextmanager
def workers_kept() -> Iterator[None]:
    """Processes that were started to encode stay for what else is encoded in this block: starting them takes a
    second or two, and they know more words every time."""
    _kept.append({})
    try:
        yield
    finally:
        for pool in _kept.pop().values():
            pool.shutdown(wait=False, cancel_futures=True)


_kept: list[dict[str, ProcessPoolExecutor]] = []  # by their tokenizers


def _by_processes(groups: Iterable[list[Texts]], sides: Sequence[Side]) -> Iterator[list[Rows]]:
    with workers_kept() if not _kept else nullcontext():
        pool = _workers([side.tokenizer for side in sides])
        frames = [(side.lead, side.tail) for side in sides]
        waiting: deque[Future[list[Rows]]] = deque()
        for group in groups:
            waiting.append(pool.submit(_encode, group, frames))
            while len(waiting) > 3 * cores():  # reading ahead further would fill the memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _workers(tokenizers: Sequence[Tokenizer]) -> ProcessPoolExecutor:
    key = " ".join(tokenizer.fingerprint() for tokenizer in tokenizers)
    if key not in _kept[-1]:
        portable = [tokenizer.to_json() for tokenizer in tokenizers]
        context = multiprocessing.get_context("spawn")
        _kept[-1][key] = ProcessPoolExecutor(cores(), context, initializer=_begin, initargs=(portable,))
    return _kept[-1][key]


_work: list[Tokenizer] = []  # of a process that encodes


def _begin(tokenizers: Sequence[dict[str, Any]]) -> None:
    serve_parent()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # each process has a core of its own
    _work.extend(Tokenizer(data) for data in tokenizers)


def _encode(group: list[Texts], frames: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Rows]:
    sides = zip(_work, frames, zip(*group))
    return [encode_rows(tokenizer, lines, 0.0, lead, tail) for tokenizer, (lead, tail), lines in sides]
