"""Work done ahead of its turn comes out in order, as soon as it is done, and so do errors."""

import queue
import threading
from collections.abc import Iterator

import pytest

from headway.cli.pipelined import map_pipelined


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_order_is_kept(workers: int) -> None:
    assert list(map_pipelined(range(20), lambda n: n * n, workers)) == [n * n for n in range(20)]
    assert list(map_pipelined([], lambda n: n, workers)) == []


def test_two_work_at_a_time() -> None:
    meeting = threading.Barrier(2, timeout=300)

    def meet(n: int) -> int:
        meeting.wait()  # nobody passes alone
        return n

    assert list(map_pipelined(range(6), meet, 2)) == list(range(6))


def test_what_is_done_does_not_wait_for_what_comes() -> None:
    lines: queue.Queue[int | None] = queue.Queue()
    answers = map_pipelined(iter(lines.get, None), lambda n: -n, 2)
    for n in (1, 2, 3):
        lines.put(n)
        assert next(answers) == -n
    lines.put(None)
    assert list(answers) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_come_up_in_their_turn(workers: int) -> None:
    def source() -> Iterator[int]:
        yield from (1, 2)
        raise OSError("the file ends here")

    results = map_pipelined(source(), lambda n: n, workers)
    assert (next(results), next(results)) == (1, 2)
    with pytest.raises(OSError, match="ends here"):
        next(results)
    results = map_pipelined([1, 0, 1], lambda n: 1 // n, workers)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_whoever_stops_listening_stops_the_work() -> None:
    made: list[int] = []
    results = map_pipelined(iter(range(1000)), made.append, 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(made) <= 4
