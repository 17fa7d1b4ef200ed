"""The batch queue: sentences of many jobs in one slice, in turn; an error reaches only the job that caused it."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

import pytest

from headway.decode.stop import SearchStopped, check_stop
from headway.serve.batch_queue import BatchQueue
from headway.serve.errors import ApiError
from headway.serve.queue_budget import MAX_SLICE_SECONDS, SLICE_SECONDS, CallSpeed, QueueBudget
from headway.serve.queued_job import estimate_tokens

WORD_COST = 10.0


@dataclass(eq=False)
class WordCall:
    """Wants a word in capitals."""

    word: str
    key: str
    result: str = ""
    kind: str = "search"
    rows: int = 1
    steps: float = WORD_COST

    def estimate_cost(self) -> float:
        return self.steps

    estimate_max_cost = measure_cost = estimate_cost


class Words:
    """Stages: a text's words are its sentences. "again" is searched for twice."""

    def __init__(self, texts: Sequence[str], options: str) -> None:
        if options == "unknown":
            raise ValueError("unknown options")
        self.texts, self.options = texts, options
        self.calls: dict[int, list[WordCall]] = {}

    def read(self, index: int) -> list[Any]:
        self.calls[index] = []
        return [self._search(index, word) for word in self.texts[index].split()]

    def _search(self, index: int, word: str) -> Iterator[WordCall]:
        call = WordCall(word, self.options)
        self.calls[index].append(call)
        yield call
        if word.startswith("again"):
            call.key = f"{self.options} retry"
            yield call
        if word == "faulty":
            raise ValueError("faulty")

    def join(self, index: int) -> str:
        return self.options + " ".join(call.result for call in self.calls[index])


class Slow:
    """Upper-cases; waits at `gate` first; notes every slice."""

    def __init__(self) -> None:
        self.gate, self.slices, self.begun = threading.Event(), list[list[str]](), threading.Event()

    def __call__(self, calls: Sequence[Any]) -> None:
        assert len({call.key for call in calls}) == 1
        self.begun.set()
        while not self.gate.wait(0.005):
            check_stop()
        self.slices.append([call.word for call in calls])
        if any("bad" in call.word for call in calls):
            raise ValueError("bad")
        for call in calls:
            call.result = call.word.upper()


def make_queue(compute: Any, budget: QueueBudget | None = None, **settings: Any) -> BatchQueue[str]:
    return BatchQueue(Words, compute, budget or QueueBudget(10**6), **{"max_delay": 0.0, **settings})


def occupied(**settings: Any) -> tuple[Slow, BatchQueue[str], "Future[list[str]]"]:
    """A queue whose thread is busy, so that what is submitted now waits."""
    slow = Slow()
    made = make_queue(slow, **settings)
    first = made.submit(["first"], "")
    assert slow.begun.wait(10)
    return slow, made, first


@pytest.fixture
def four_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice takes four words."""
    monkeypatch.setattr(CallSpeed, "fits_slice", lambda self, kind, cost, max_cost: max_cost <= 4 * WORD_COST)


def test_what_waits_goes_together_and_comes_back_in_order() -> None:
    slow, made, first = occupied()
    answers = [made.submit([f"{n}", f"{n}x"], "") for n in range(5)]
    slow.gate.set()
    assert first.result(10) == ["FIRST"]
    assert [answer.result(10) for answer in answers] == [[f"{n}", f"{n}X"] for n in range(5)]
    assert [len(batch) for batch in slow.slices] == [1, 10]


def test_calls_with_other_settings_go_apart() -> None:
    slow, made, _ = occupied()
    one, other = made.submit(["a"], "1"), made.submit(["b"], "2")
    slow.gate.set()
    assert (one.result(10), other.result(10)) == (["1A"], ["2B"])
    assert slow.slices[1:] == [["a"], ["b"]]


@pytest.mark.usefixtures("four_words")
@pytest.mark.parametrize("texts", [["long"] * 100, ["long " * 100]])
def test_a_long_text_does_not_keep_others_waiting(texts: list[str]) -> None:
    """Neither one of many texts, nor one text of many sentences."""
    slow, made, _ = occupied()
    long, short = made.submit(texts, ""), made.submit(["word"], "")
    slow.gate.set()
    assert short.result(10) == ["WORD"]
    assert " ".join(long.result(10)).count("LONG") == 100
    assert "word" in slow.slices[1]
    assert max(map(len, slow.slices)) == 4


@pytest.mark.usefixtures("four_words")
def test_jobs_with_other_settings_take_turns() -> None:
    """A new client waits for a slice of each kind that is there, and not until a long text has ended."""
    slow, made, _ = occupied()
    long, short = made.submit(["long " * 100], "1"), made.submit(["word " * 6], "2")
    slow.gate.set()
    assert short.result(10) == ["2" + " ".join(["WORD"] * 6)]
    assert long.result(10)
    assert [batch[0] for batch in slow.slices[1:5]] == ["long", "word", "long", "word"]


@pytest.mark.usefixtures("four_words")
def test_a_retry_is_queued_like_anything_else() -> None:
    slow, made, _ = occupied()
    long, short = made.submit(["again " * 100], ""), made.submit(["word again-too"], "")
    slow.gate.set()
    assert short.result(10) == ["WORD AGAIN-TOO"]
    assert long.result(10)
    assert max(n for n, words in enumerate(slow.slices) if "again-too" in words) < 5, "it waited for 200 calls"
    assert sum(map(len, slow.slices)) == 1 + 200 + 3


def test_a_sentence_that_costs_more_than_a_slice_is_translated_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallSpeed, "fits_slice", lambda self, kind, cost, max_cost: False)
    slow = Slow()
    slow.gate.set()
    assert make_queue(slow).submit(["one two"], "").result(10) == ["ONE TWO"]
    assert slow.slices == [["one"], ["two"]]


def test_a_slice_is_limited_by_what_is_expected_and_by_the_worst() -> None:
    speed = CallSpeed()
    speed.record("search", cost=1000.0, rows=100, seconds=0.1)  # 10,000 a second
    expected, worst = 10_000 * SLICE_SECONDS, 10_000 * MAX_SLICE_SECONDS
    assert speed.fits_slice("search", expected - 1, worst - 1)
    assert not speed.fits_slice("search", expected + 1, expected + 1)
    assert not speed.fits_slice("search", expected - 1, worst + 1)
    assert speed.fits_slice("align", expected - 1, worst - 1), "as fast as a search, until it is known"
    speed.record("search", cost=1.0, rows=1, seconds=0.1)
    assert speed.known() == 10_000.0, "one sentence says nothing about many"
    for _ in range(30):
        speed.record("search", cost=100.0, rows=100, seconds=0.1)
    assert speed.known() == pytest.approx(1000.0, rel=0.1)


def test_only_the_guilty_one_is_told() -> None:
    slow, made, _ = occupied()
    answers = [made.submit([text], "") for text in ("a", "bad", "b", "faulty")]
    unknown = made.submit(["c"], "unknown")
    slow.gate.set()
    assert answers[0].result(10) == ["A"]
    assert answers[2].result(10) == ["B"]
    for guilty, message in ((answers[1], "bad"), (answers[3], "faulty"), (unknown, "unknown options")):
        with pytest.raises(ValueError, match=message):
            guilty.result(10)
    assert made.submit(["later"], "").result(10) == ["LATER"]


def test_what_ends_a_slice_does_not_end_the_queue() -> None:
    def interrupted(calls: Sequence[Any]) -> None:
        if calls[0].word == "stop":
            raise KeyboardInterrupt
        calls[0].result = calls[0].word

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
    assert slow.slices[1:] == [["stays"]]
    with pytest.raises(CancelledError):
        gone.result()


def test_a_search_ends_when_nobody_waits_for_it() -> None:
    """The gate stays closed: the slice ends by its own check."""
    slow, made, first = occupied()
    waiting = made.submit(["next"], "other")
    assert first.cancel()
    until = time.monotonic() + 10
    while not slow.slices and time.monotonic() < until:
        slow.begun.clear()
        if slow.begun.wait(0.1):  # the next slice has begun
            slow.gate.set()
    assert waiting.result(10) == ["otherNEXT"]
    assert slow.slices == [["next"]]


def test_a_slice_goes_on_while_one_client_waits() -> None:
    slow, made, _ = occupied()
    gone, stays = made.submit(["gone"], ""), made.submit(["stays"], "")
    slow.begun.clear()
    slow.gate.set()
    assert slow.begun.wait(10)
    gone.cancel()
    assert stays.result(10) == ["STAYS"]


def test_too_much_is_refused_until_there_is_room_again() -> None:
    budget = QueueBudget(10 * estimate_tokens("text"))
    slow, made, first = occupied(budget=budget)
    many = made.submit(["text"] * 8, "")
    with pytest.raises(ApiError, match="Slowdown") as refused:
        made.submit(["text"] * 8, "")
    assert refused.value.status == 429
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    with pytest.raises(ApiError, match="Slowdown"):
        made.submit(["text"], "", width=100.0)  # many alternatives of few characters
    slow.gate.set()
    assert len(many.result(10)) == 8
    assert first.result(10)
    assert len(made.submit(["text"] * 100, "").result(10)) == 100  # alone it may be more
    assert made.submit(["", "  "], "").result(10) == ["", ""]
    assert budget.used_tokens == pytest.approx(0)


def test_what_cannot_be_done_in_time_is_refused_before_it_is_begun() -> None:
    slow = Slow()
    slow.gate.set()
    made = make_queue(slow, max_seconds=10.0)
    characters = "x " * 30_000  # as many calls, 300,000 steps
    made.speed.record("search", cost=1000.0, rows=100, seconds=0.1)  # 10,000 a second
    with pytest.raises(ApiError, match="this would take about 30 s, and a request may take 10 s") as refused:
        made.submit([characters], "").result(10)
    assert refused.value.status == 413
    with pytest.raises(ApiError, match=r"this would take about \d\d s"):  # by its length, before it is read
        made.submit(["x" * 90_000], "", width=10.0)
    assert slow.slices == []
    assert made.submit(["x"], "").result(10) == ["X"]


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
    assert len(slow.slices) == 1


def test_who_comes_back_after_a_slice_goes_with_those_who_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    # in earnest a tenth: here the machine may be busy
    monkeypatch.setattr("headway.serve.batch_queue.RETURN_WAIT", 10.0)
    slow, made, first = occupied()
    waiting = made.submit(["waited"], "")
    time.sleep(0.5)
    slow.gate.set()
    first.result(10)
    back = made.submit(["back"], "")
    assert (waiting.result(10), back.result(10)) == (["WAITED"], ["BACK"])
    assert slow.slices[1:] == [["waited", "back"]]


@pytest.mark.usefixtures("four_words")
def test_a_full_slice_does_not_wait() -> None:
    slow = Slow()
    slow.gate.set()
    made = make_queue(slow, max_delay=60.0)
    answer = made.submit(["x x x x x"], "")
    assert slow.begun.wait(20)
    made.close(timeout=20)  # the fifth would wait for others
    assert answer.result(0) == ["X X X X X"]
    assert list(map(len, slow.slices)) == [4, 1]


def test_closing_finishes_what_waits() -> None:
    slow, made, first = occupied()
    later = made.submit(["later"], "")
    made.close()
    assert made.threads[0].is_alive()
    slow.gate.set()
    assert (first.result(10), later.result(10)) == (["FIRST"], ["LATER"])
    made.close(timeout=10)
    assert not made.threads[0].is_alive()


def test_closing_stops_what_does_not_end_in_time() -> None:
    """The gate stays closed; what waits is told."""
    slow, made, first = occupied()
    later = made.submit(["later"], "other")
    made.close(timeout=0.1)
    assert not made.threads[0].is_alive()
    for stopped in (first, later):
        with pytest.raises(SearchStopped):
            stopped.result(10)
    assert slow.slices == []


def test_what_would_outlast_the_server_is_stopped_at_once() -> None:
    slow, made, first = occupied()
    made.speed.record("search", cost=1000.0, rows=100, seconds=0.1)  # 10,000 a second
    long, short = made.submit(["x " * 9000], ""), made.submit(["short"], "")
    made.stop_long_jobs(1.0)
    with pytest.raises(SearchStopped):
        long.result(10)
    slow.gate.set()
    assert (first.result(10), short.result(10)) == (["FIRST"], ["SHORT"])


def test_closing_can_wait_for_what_nobody_waits_for() -> None:
    _, made, first = occupied()
    first.cancel()
    made.close(timeout=10)
    assert not made.threads[0].is_alive()


def test_several_threads_share_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.serve.batch_queue.MIN_COST_PER_THREAD", WORD_COST)
    slow = Slow()
    made = make_queue(slow, threads=2, max_delay=0.05)
    answers = [made.submit(["text"], "") for _ in range(64)]
    until_two = time.monotonic() + 10
    while made._idle_threads and time.monotonic() < until_two:
        time.sleep(0.01)
    assert made._idle_threads == 0
    slow.gate.set()
    assert all(answer.result(10) == ["TEXT"] for answer in answers)
    assert sum(map(len, slow.slices)) == 64
    assert len(slow.slices) >= 2
    many = made.submit([str(n) for n in range(1000)], "")
    assert many.result(30) == [str(n) for n in range(1000)]
    words = made.submit([" ".join(str(n) for n in range(1000))], "")
    assert words.result(30) == [" ".join(str(n) for n in range(1000))]


def test_nothing_is_answered_at_once() -> None:
    assert make_queue(Slow()).submit([], "").result(1) == []
    slow, made, _ = occupied()
    slow.gate.set()
    assert made.submit(["", "x"], "").result(10) == ["", "X"]
