"""Retries take a share of the work and no more, and the same ones are made however lines are grouped."""

import threading
from pathlib import Path
from typing import Any

import pytest

from headway.translate import retry_budget
from headway.translate.options import TranslateOptions
from headway.translate.retry_budget import (
    LineOrder,
    RetryBudget,
    SentenceCost,
    count_skipped_retries,
    describe_skipped_retries,
)
from headway.translate.search import Fault, SentenceSearch, make_requests, translate_requests
from headway.translate.search_calls import SearchCall
from headway.translate.translator import Translator, load_translator


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return load_translator(translator_dir, device="cpu")


def test_a_poor_model_has_a_share_of_its_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_budget, "MIN_RETRY_COST", 100.0)
    budget = RetryBudget()
    admitted = budget.admit([SentenceCost(10.0, 40.0)] * 1000)
    assert admitted[:2] == [True, True], "the first ones always"
    assert 240 <= sum(admitted) <= 260
    assert budget.skipped == 1000 - sum(admitted)


def test_a_good_model_has_all_of_them() -> None:
    budget = RetryBudget()
    costs = [SentenceCost(100.0, 400.0 if n % 6 == 0 else 0.0) for n in range(10_000)]
    assert budget.admit(costs) == [bool(cost.retry) for cost in costs]
    assert budget.skipped == 0


def test_groups_do_not_matter() -> None:
    costs = [SentenceCost(100.0, 400.0 if n % 3 else 0.0) for n in range(3000)]
    expected = RetryBudget().admit(costs)
    budget = RetryBudget()
    assert [one for n in range(3000) for one in budget.admit(costs[n : n + 1])] == expected
    order = LineOrder()
    concurrent = RetryBudget(order)
    found: dict[int, list[bool]] = {}

    def run(first: int) -> None:
        found[first] = concurrent.admit(costs[first : first + 500], first)
        order.finish_lines(first + 500)

    threads = [threading.Thread(target=run, args=(first,)) for first in range(2500, -1, -500)]
    for thread in threads:  # the last lines first
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [one for first in sorted(found) for one in found[first]] == expected


def searched(monkeypatch: pytest.MonkeyPatch) -> set[tuple[bool, int]]:
    """Whether a search was a retry, and the number of its sentence."""
    calls: set[tuple[bool, int]] = set()

    def record(self: SearchCall, *given: Any, **more: Any) -> None:
        init(self, *given, **more)
        calls.update((self.is_retry, sentence.number) for sentence in self.sentences)

    init = SearchCall.__init__
    monkeypatch.setattr(SearchCall, "__init__", record)
    return calls


def test_faults_beyond_the_budget_are_told_and_left(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SentenceSearch, "_find_fault", lambda self, sentence, found: Fault("the output was strange"))
    monkeypatch.setattr(retry_budget, "MIN_RETRY_COST", 0.0)
    lines = ["The dog sleeps."] * 40
    results = translator.translate(lines, TranslateOptions(retry=True))
    skipped = count_skipped_retries(result.warnings for result in results)
    assert 25 <= skipped <= 35
    assert sum("nothing better was found" in " ".join(result.warnings) for result in results) == 40 - skipped
    assert str(skipped) in describe_skipped_retries(skipped)
    whole = RetryBudget()
    one_by_one = [
        translate_requests(translator, make_requests([line], n), TranslateOptions(), retries=whole)[0].warnings
        for n, line in enumerate(lines)
    ]
    assert one_by_one == [result.warnings for result in results]
    assert whole.skipped == skipped


def test_the_extra_work_is_bounded(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SentenceSearch, "_find_fault", lambda self, sentence, found: Fault("the output was strange"))
    monkeypatch.setattr(retry_budget, "MIN_RETRY_COST", 0.0)
    calls = searched(monkeypatch)
    translator.translate(["The dog sleeps."] * 100, TranslateOptions())
    assert 20 <= sum(is_retry for is_retry, _ in calls) <= 25
    assert len(calls) <= 125


def test_it_is_said_once(
    translator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from headway.cli.app import main

    monkeypatch.setattr(SentenceSearch, "_find_fault", lambda self, sentence, found: Fault("the output was strange"))
    monkeypatch.setattr(retry_budget, "MIN_RETRY_COST", 0.0)
    (tmp_path / "in").write_text("The dog sleeps.\n" * 12)
    given = ["--model", str(translator_dir), "--device", "cpu"]
    assert main(["translate", *given, "-i", str(tmp_path / "in"), "--output", str(tmp_path / "out")]) == 0
    told = [line for line in capfd.readouterr().err.splitlines() if "There were so many" in line]
    assert len(told) == 1
    files = ["--source", str(tmp_path / "in"), "--target", str(tmp_path / "out")]
    assert main(["evaluate", *given, *files]) == 0
    told = [line for line in capfd.readouterr().err.splitlines() if "There were so many" in line]
    assert len(told) == 1
