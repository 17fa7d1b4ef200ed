"""Expected utilities are those of a naive loop over sacreBLEU's sentence scores."""

import random
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from headway.errors import ConfigError, HeadwayError
from headway.text.utilities import CandidateGroup, check_candidates, expected_utilities, pairwise_scores
from text.test_metric_scores import StandIn, comet_package

__all__ = ["comet_package"]
NAIVE: dict[str, Any] = {
    "chrf": CHRF(),
    "chrf++": CHRF(word_order=2),
    "bleu": BLEU(effective_order=True),
    "ter": TER(),
}


def some_candidates(count: int, seed: int = 1) -> list[str]:
    """Sentences that differ in some words; empty, tiny, odd ones and repetitions among them."""
    rng = random.Random(seed)
    words = ["the", "a", "dog", "sees", "runs", "(red)", "house,", "3.5", "no!", "ünïcode", "猫", "don't"]
    base = [rng.choice(words) for _ in range(12)]
    found = ["", "x", "x y", "!!", base[0]]
    while len(found) < count:
        changed = [rng.choice(words) if rng.random() < 0.3 else word for word in base]
        found.append(" ".join(changed[: rng.randint(1, 12)]))
    return [*found[: count - 2], found[-1], found[-1]]


@pytest.mark.parametrize("metric", NAIVE)
def test_they_are_those_of_a_naive_loop(metric: str) -> None:
    texts = some_candidates(24)
    sign = -1 if metric == "ter" else 1
    naive = [np.mean([sign * NAIVE[metric].sentence_score(a, [b]).score for b in texts]) for a in texts]
    [ours] = expected_utilities(metric, [CandidateGroup(texts)])
    np.testing.assert_allclose(ours, naive, rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", ["chrf", "chrf++", "bleu"])
def test_every_pair_is_that_of_sacrebleu(metric: str) -> None:
    texts = list(dict.fromkeys(some_candidates(16, seed=4)))
    expected = [[NAIVE[metric].sentence_score(a, [b]).score for b in texts] for a in texts]
    np.testing.assert_allclose(pairwise_scores(metric, texts), expected, rtol=0, atol=1e-9)


def test_groups_are_independent() -> None:
    groups = [CandidateGroup(some_candidates(9, seed)) for seed in (1, 2)]
    together = expected_utilities("chrf", groups)
    for group, own in zip(groups, together):
        np.testing.assert_array_equal(expected_utilities("chrf", [group])[0], own)
    assert expected_utilities("chrf", []) == []


def test_many_candidates_take_bounded_memory_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.text.utilities.PAIRS_AT_ONCE", 1 << 14)
    texts = some_candidates(40)
    np.testing.assert_allclose(
        pairwise_scores("chrf", texts),
        [[NAIVE["chrf"].sentence_score(a, [b]).score for b in texts] for a in texts],
        atol=1e-9,
    )
    monkeypatch.undo()
    started = time.perf_counter()
    expected_utilities("chrf", [CandidateGroup(some_candidates(300))])
    assert time.perf_counter() - started < 60, "it hangs"


def test_comet_scores_all_pairs_of_all_groups_in_one_call(comet_package: dict[str, StandIn]) -> None:
    groups = [CandidateGroup(["a b", "a c", "a b"], "s"), CandidateGroup(["x"], "t"), CandidateGroup([], "u")]
    first, second, third = expected_utilities("comet", groups)
    np.testing.assert_allclose(first, [(1 + 0.5 + 1) / 3, (0.5 + 1 + 0.5) / 3, (1 + 0.5 + 1) / 3])
    assert second == [1.0] and len(third) == 0
    [model] = comet_package.values()
    assert [len(call["samples"]) for call in model.calls] == [5], "equal candidates once"
    assert model.calls[0]["samples"][1] == {"src": "s", "mt": "a b", "ref": "a c"}


def test_quality_estimation_is_its_own_utility(comet_package: dict[str, StandIn]) -> None:
    [found] = expected_utilities("comet-kiwi", [CandidateGroup(["a b", "a c", "d"], "a b")])
    np.testing.assert_allclose(found, [1.0, 0.5, 0.0])
    assert len(expected_utilities("comet-kiwi", [CandidateGroup([])])[0]) == 0


@pytest.mark.parametrize(
    ("metric", "count", "says"),
    [
        ("chrf", 1025, "1,025 candidates are 1,050,625 pairs to compare: at most 1,024"),
        ("ter", 65, "at most 64 candidates are allowed with ter"),
        ("chrf", 1, "chooses among several candidates: give --samples 32"),
        ("nist", 4, 'there is no metric "nist"'),
    ],
)
def test_absurd_numbers_are_refused(metric: str, count: int, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_candidates(metric, count)
    assert says in str(caught.value)


def test_a_missing_package_is_said_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HeadwayError, match="pip install unbabel-comet"):
        check_candidates("comet", 4)
    module = ModuleType("comet")
    module.__spec__ = SimpleNamespace(name="comet")  # type: ignore[assignment]
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "comet", module)
    check_candidates("comet", 4)
