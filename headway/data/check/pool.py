"""Scanning on all cores, in the order of the lines, without reading far ahead."""

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

from headway.data.check.raw_lines import Group, groups
from headway.data.check.scan import Knowledge, Scanned, scan
from headway.data.check.settings import Settings
from headway.data.parallel_files import ParallelFiles
from headway.data.workers import serve_parent
from headway.device import cores

FEW = 50_000  # lines that are not worth starting processes for


def scan_all(
    corpora: Sequence[ParallelFiles], lines: int, knowledge: Knowledge, settings: Settings
) -> Iterator[Scanned]:
    workers = settings.workers or (1 if lines < FEW else cores())
    if workers == 1:
        return (scan(knowledge, settings, corpora[group.corpus], group) for group in groups(corpora))
    return _by_processes(corpora, knowledge, settings, workers)


def _by_processes(
    corpora: Sequence[ParallelFiles], knowledge: Knowledge, settings: Settings, workers: int
) -> Iterator[Scanned]:
    context = multiprocessing.get_context("spawn")
    given = (list(corpora), knowledge, settings)
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=given) as pool:
        waiting: deque[Future[Scanned]] = deque()
        try:
            for group in groups(corpora):
                waiting.append(pool.submit(_scan, group))
                while len(waiting) > 3 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_given: list[tuple[list[ParallelFiles], Knowledge, Settings]] = []


def _begin(corpora: list[ParallelFiles], knowledge: Knowledge, settings: Settings) -> None:
    serve_parent()
    _given.append((corpora, knowledge, settings))


def _scan(group: Group) -> Scanned:
    corpora, knowledge, settings = _given[0]
    return scan(knowledge, settings, corpora[group.corpus], group)
