"""Scan a corpus on all cores, in the order of its lines, without reading far ahead."""

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

from headway.data.check.raw_lines import LineGroup, read_groups
from headway.data.check.scan import CorpusModel, ScannedLines, scan_group
from headway.data.check.settings import CheckSettings
from headway.data.parallel_files import ParallelFiles
from headway.data.workers import tie_to_parent
from headway.device import available_cores

MIN_PARALLEL_LINES = 50_000  # for fewer, starting processes is not worth it


def scan_corpora(
    corpora: Sequence[ParallelFiles], lines: int, model: CorpusModel, settings: CheckSettings
) -> Iterator[ScannedLines]:
    workers = settings.workers or (1 if lines < MIN_PARALLEL_LINES else available_cores())
    if workers == 1:
        return (scan_group(model, settings, corpora[group.corpus], group) for group in read_groups(corpora))
    return _scan_in_parallel(corpora, model, settings, workers)


def _scan_in_parallel(
    corpora: Sequence[ParallelFiles], model: CorpusModel, settings: CheckSettings, workers: int
) -> Iterator[ScannedLines]:
    context = multiprocessing.get_context("spawn")
    shared = (list(corpora), model, settings)
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=shared) as pool:
        waiting: deque[Future[ScannedLines]] = deque()
        try:
            for group in read_groups(corpora):
                waiting.append(pool.submit(_scan_in_worker, group))
                while len(waiting) > 3 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_worker_state: list[tuple[list[ParallelFiles], CorpusModel, CheckSettings]] = []


def _start_worker(corpora: list[ParallelFiles], model: CorpusModel, settings: CheckSettings) -> None:
    tie_to_parent()
    _worker_state.append((corpora, model, settings))


def _scan_in_worker(group: LineGroup) -> ScannedLines:
    corpora, model, settings = _worker_state[0]
    return scan_group(model, settings, corpora[group.corpus], group)
