"""Encode text to token ids on disk, on all cores, in memory that does not grow with the text."""

import itertools
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from headway.data.ragged import RaggedArray, RaggedWriter, ragged_from_lists
from headway.data.workers import tie_to_parent
from headway.device import available_cores
from headway.text.tokenizer.tokenizer import Tokenizer

LINES_PER_GROUP = 4096  # lines encoded together
MAX_SERIAL_GROUPS = 16  # up to here this process encodes: a second's work, and starting others takes two

TextTuple = tuple[str, ...]  # one text for each side


RowListener = Callable[[int], None]


def ignore_rows(count: int) -> None: ...


class EncodedSide(NamedTuple):
    """How one side is encoded: the name of its files, its tokenizer, and the ids before and behind each row."""

    name: str
    tokenizer: Tokenizer
    lead: Sequence[int] = ()
    tail: Sequence[int] = ()


def encode_lines(
    tokenizer: Tokenizer, lines: Sequence[str], dropout: float = 0.0, lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> RaggedArray:
    """The ids of each line, with the ids `lead` before and `tail` behind every one."""
    return ragged_from_lists(tokenizer.encode_batch(lines, dropout=dropout), lead, tail)


def encode_to_folder(
    folder: Path,
    texts: Iterable[TextTuple],
    sides: Sequence[EncodedSide],
    opening: Sequence[int] = (),
    on_rows: RowListener = ignore_rows,
) -> None:
    """Write the rows of every side to a folder, in order, after a row of `opening` if it is given. `on_rows` is told
    how many were written so far.

    Large texts are encoded by one process a core: the library's own threads would wait while Python turns their results
    into arrays."""
    groups = _group_texts(texts)
    first = list(itertools.islice(groups, MAX_SERIAL_GROUPS + 1))
    groups = itertools.chain(first, groups)
    serial = len(first) <= MAX_SERIAL_GROUPS or available_cores() == 1
    encoded = _encode_serially(groups, sides) if serial else _encode_in_parallel(groups, sides)
    before = [[ragged_from_lists([opening]) for _ in sides]] if opening else []
    _write(folder, sides, itertools.chain(before, encoded), on_rows)


def encode_in_process(
    folder: Path, texts: Iterable[TextTuple], sides: Sequence[EncodedSide], dropout: float = 0.0
) -> None:
    """The same in this process alone."""
    _write(folder, sides, _encode_serially(_group_texts(texts), sides, dropout))


def _write(
    folder: Path,
    sides: Sequence[EncodedSide],
    encoded: Iterable[list[RaggedArray]],
    on_rows: RowListener = ignore_rows,
) -> None:
    written = 0
    with ExitStack() as files:
        writers = [files.enter_context(RaggedWriter(folder, side.name, side.tokenizer.size)) for side in sides]
        for group in encoded:
            for writer, rows in zip(writers, group):
                writer.append(rows)
            written += len(group[0])
            on_rows(written)


def _group_texts(texts: Iterable[TextTuple]) -> Iterator[list[TextTuple]]:
    texts = iter(texts)
    while group := list(itertools.islice(texts, LINES_PER_GROUP)):
        yield group


def _encode_serially(
    groups: Iterable[list[TextTuple]], sides: Sequence[EncodedSide], dropout: float = 0.0
) -> Iterator[list[RaggedArray]]:
    for group in groups:
        columns = zip(*group)
        yield [
            encode_lines(side.tokenizer, lines, dropout, side.lead, side.tail) for side, lines in zip(sides, columns)
        ]


@contextmanager
def keep_workers() -> Iterator[None]:
    """Reuse worker processes for everything encoded in this block: starting them takes a second or two, and their word
    caches fill up."""
    _pools.append({})
    try:
        yield
    finally:
        for pool in _pools.pop().values():
            pool.shutdown(wait=False, cancel_futures=True)


_pools: list[dict[str, ProcessPoolExecutor]] = []  # of each keep_workers block, by their tokenizers


def _encode_in_parallel(groups: Iterable[list[TextTuple]], sides: Sequence[EncodedSide]) -> Iterator[list[RaggedArray]]:
    with keep_workers() if not _pools else nullcontext():
        pool = _get_pool([side.tokenizer for side in sides])
        affixes = [(side.lead, side.tail) for side in sides]
        waiting: deque[Future[list[RaggedArray]]] = deque()
        for group in groups:
            waiting.append(pool.submit(_encode_group, group, affixes))
            while len(waiting) > 3 * available_cores():  # reading further ahead would fill the memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _get_pool(tokenizers: Sequence[Tokenizer]) -> ProcessPoolExecutor:
    key = " ".join(tokenizer.fingerprint() for tokenizer in tokenizers)
    if key not in _pools[-1]:
        picklable = [tokenizer.to_json() for tokenizer in tokenizers]
        context = multiprocessing.get_context("spawn")
        _pools[-1][key] = ProcessPoolExecutor(
            available_cores(), context, initializer=_start_worker, initargs=(picklable,)
        )
    return _pools[-1][key]


_worker_tokenizers: list[Tokenizer] = []  # in a worker process


def _start_worker(tokenizers: Sequence[dict[str, Any]]) -> None:
    tie_to_parent()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # each process has its own core
    _worker_tokenizers.extend(Tokenizer(data) for data in tokenizers)


def _encode_group(group: list[TextTuple], affixes: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[RaggedArray]:
    sides = zip(_worker_tokenizers, affixes, zip(*group))
    return [encode_lines(tokenizer, lines, 0.0, lead, tail) for tokenizer, (lead, tail), lines in sides]
