"""The batch queue: texts of many jobs in one batch, in turn; an error reaches only the job that caused it."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from headway.serve.batch_queue import BatchQueue, QueueBudget, estimate_tokens
from headway.serve.errors import ApiError

Translate = Callable[[list[str], Any], Sequence[str]]


class Slow:
    """Upper-cases; waits at `gate` first; notes every batch."""

    def __init__(self) -> None:
        self.gate, self.batches, self.begun = threading.Event(), list[list[str]](), threading.Event()

    def __call__(self, texts: list[str], options: Any) -> list[str]:
        self.begun.set()
        assert self.gate.wait(10)
        self.batches.append(list(texts))
        if any("bad" in text for text in texts):
            raise ValueError("bad")
        return [f"{options}{text.upper()}" for text in texts]


def make_queue(translate: Any, budget: QueueBudget | None = None, **settings: Any) -> BatchQueue[str]:
    return BatchQueue(translate, budget or QueueBudget(10**6), **{"batch_tokens": 10**6, "max_delay": 0.0, **settings})


def occupied(**settings: Any) -> tuple[Slow, BatchQueue[str], "Future[list[str]]"]:
    """A queue whose thread is busy, so that what is submitted now waits."""
    slow = Slow()
    made = make_queue(slow, **settings)
    first = made.submit(["first"], "")
    assert slow.begun.wait(10)
    return slow, made, first


def test_what_waits_goes_together_and_comes_back_in_order() -> None:
    slow, made, first = occupied()
    answers = [made.submit([f"{n}", f"{n}x"], "") for n in range(5)]
    slow.gate.set()
    assert first.result(10) == ["FIRST"]
    assert [answer.result(10) for answer in answers] == [[f"{n}", f"{n}X"] for n in range(5)]
    assert [len(batch) for batch in slow.batches] == [1, 10]


def test_what_is_wanted_otherwise_goes_apart() -> None:
    slow, made, _ = occupied()
    one, other = made.submit(["a"], "1"), made.submit(["b"], "2")
    slow.gate.set()
    assert (one.result(10), other.result(10)) == (["1A"], ["2B"])
    assert slow.batches[1:] == [["a"], ["b"]]


def test_a_long_list_does_not_keep_others_waiting() -> None:
    slow, made, _ = occupied(batch_tokens=4 * estimate_tokens("long"))
    long, short = made.submit(["long"] * 100, ""), made.submit(["word"], "")
    slow.gate.set()
    assert short.result(10) == ["WORD"]
    assert len(long.result(10)) == 100
    assert "word" in slow.batches[1]
    assert max(map(len, slow.batches)) == 4


def test_a_text_larger_than_a_batch_is_translated_all_the_same() -> None:
    slow = Slow()
    slow.gate.set()
    assert make_queue(slow, batch_tokens=1).submit(["x" * 1000], "").result(10) == ["X" * 1000]


def test_only_the_guilty_one_is_told() -> None:
    slow, made, _ = occupied()
    answers = [made.submit([text], "") for text in ("a", "bad", "b")]
    slow.gate.set()
    assert answers[0].result(10) == ["A"]
    assert answers[2].result(10) == ["B"]
    with pytest.raises(ValueError, match="bad"):
        answers[1].result(10)
    assert made.submit(["later"], "").result(10) == ["LATER"]


def test_what_ends_a_batch_does_not_end_the_queue() -> None:
    def interrupted(texts: list[str], options: Any) -> list[str]:
        if texts == ["stop"]:
            raise KeyboardInterrupt
        return texts

    made = make_queue(interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.submit(["stop"], "").result(10)
    assert made.submit(["on"], "").result(10) == ["on"]


def test_what_nobody_waits_for_is_not_begun() -> None:
    slow, made, _ = occupied()
    gone, stays = made.submit(["gone"] * 3, ""), made.submit(["stays"], "")
    assert gone.cancel()
    slow.gate.set()
    assert stays.result(10) == ["STAYS"]
    assert slow.batches[1:] == [["stays"]]
    with pytest.raises(CancelledError):
        gone.result()


def test_one_that_goes_while_it_is_translated() -> None:
    slow, made, first = occupied()
    assert first.cancel()
    slow.gate.set()
    assert made.submit(["next"], "").result(10) == ["NEXT"]


def test_too_much_is_refused_until_there_is_room_again() -> None:
    budget = QueueBudget(10 * estimate_tokens("text"))
    slow, made, first = occupied(budget=budget)
    many = made.submit(["text"] * 8, "")
    with pytest.raises(ApiError, match="Slowdown") as refused:
        made.submit(["text"] * 8, "")
    assert refused.value.status == 429
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    slow.gate.set()
    assert len(many.result(10)) == 8
    assert first.result(10)
    assert budget.used_tokens == 0
    assert len(made.submit(["text"] * 100, "").result(10)) == 100  # alone it may be more


def test_patience_lets_others_catch_up() -> None:
    slow = Slow()
    slow.gate.set()
    made = make_queue(slow, max_delay=0.5)
    answers = []
    for n in range(4):
        answers.append(made.submit([str(n)], ""))
        time.sleep(0.01)
    for answer in answers:
        answer.result(10)
    assert len(slow.batches) == 1


def test_who_comes_back_after_a_batch_goes_with_those_who_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "headway.serve.batch_queue.RETURN_WAIT", 10.0
    )  # in earnest a tenth: here the machine may be busy
    slow, made, first = occupied()
    waiting = made.submit(["waited"], "")
    time.sleep(0.5)
    slow.gate.set()
    first.result(10)
    back = made.submit(["back"], "")
    assert (waiting.result(10), back.result(10)) == (["WAITED"], ["BACK"])
    assert slow.batches[1:] == [["waited", "back"]]


def test_a_full_batch_does_not_wait() -> None:
    slow = Slow()
    slow.gate.set()
    began = time.monotonic()
    make_queue(slow, max_delay=20.0, batch_tokens=1).submit(["x"], "").result(10)
    assert time.monotonic() - began < 5


def test_closing_finishes_what_waits() -> None:
    slow, made, first = occupied(max_delay=20.0, batch_tokens=1)
    later = made.submit(["later"], "")
    made.close()
    assert made.threads[0].is_alive()
    slow.gate.set()
    assert (first.result(10), later.result(10)) == (["FIRST"], ["LATER"])
    made.close(timeout=10)
    assert not made.threads[0].is_alive()


def test_closing_can_wait_for_what_nobody_waits_for() -> None:
    slow, made, first = occupied()
    first.cancel()
    threading.Timer(0.2, slow.gate.set).start()
    made.close(timeout=10)
    assert not made.threads[0].is_alive()
    assert slow.batches == [["first"]]


def test_several_threads_share_what_waits() -> None:
    slow = Slow()
    made = make_queue(slow, threads=2, max_delay=0.05)
    answers = [made.submit(["a text of some length"], "") for _ in range(64)]
    until_two = time.monotonic() + 10
    while made._idle_threads and time.monotonic() < until_two:
        time.sleep(0.01)
    assert made._idle_threads == 0
    slow.gate.set()
    assert all(answer.result(10) == ["A TEXT OF SOME LENGTH"] for answer in answers)
    assert sorted(map(len, slow.batches)) == [32, 32]
    many = made.submit([str(n) for n in range(1000)], "")
    assert many.result(10) == [str(n) for n in range(1000)]


def test_nothing_is_answered_at_once() -> None:
    assert make_queue(Slow()).submit([], "").result(1) == []
