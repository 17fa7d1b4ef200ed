"""Metrics of tasks against their definitions, and what their intervals contain."""

import numpy as np
import pytest

from headway.text.task_metrics import (
    TaskScore,
    bootstrap,
    find_spans,
    rank,
    score_classes,
    score_numbers,
    score_ranks,
    score_tags,
    uses_spans,
)


def values(scores: list[TaskScore]) -> dict[str, float]:
    return {score.name: pytest.approx(score.value) for score in scores}


def test_classes() -> None:
    gold, found = list("aaabbc"), list("aabbba")
    scores = score_classes(gold, found)
    # precision and recall of a: 2/3, 2/3; of b: 2/3, 1; of c: 0, 0
    assert values(scores) == {"accuracy": 4 / 6, "macro_f1": (2 / 3 + 0.8 + 0) / 3}
    assert scores[0].low < 4 / 6 < scores[0].high
    assert values(score_classes(["a"], ["unknown"])) == {"accuracy": 0, "macro_f1": 0}


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-P I-P O B-L", [(0, 2, "P"), (3, 4, "L")]),
        ("I-P I-P I-L", [(0, 2, "P"), (2, 3, "L")]),  # IOB: no B where a span follows none
        ("B-P B-P", [(0, 1, "P"), (1, 2, "P")]),
        ("B-P I-P E-P S-P", [(0, 3, "P"), (3, 4, "P")]),
        ("O O", []),
        ("", []),
    ],
)
def test_spans(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert find_spans(tags.split()) == spans


def test_tags_of_spans_and_others() -> None:
    gold, found = [["B-P", "I-P", "O"], ["B-L", "O"]], [["B-P", "O", "O"], ["B-L", "O"]]
    assert uses_spans(["B-P", "I-P", "O"]) and not uses_spans(["NOUN", "O"]) and not uses_spans(["B-P"])
    assert values(score_tags(gold, found)) == {"span_f1": 0.5, "accuracy": 0.8}
    plain = values(score_tags([["N", "V"], ["N"]], [["N", "N"], ["N"]]))
    assert plain == {"accuracy": 2 / 3, "macro_f1": (0.8 + 0) / 2}


def test_numbers() -> None:
    assert rank(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1, 3.5, 2]
    gold, found = [1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 6.0, 7.0, 8.0, 7.0]  # Spearman's textbook value for these: 0.8208
    scores = values(score_numbers(gold, found))
    assert scores["spearman"] == pytest.approx(0.8207826816681233)
    assert scores["pearson"] == pytest.approx(np.corrcoef(gold, found)[0, 1])
    assert values(score_numbers([1, 2], [3, 3])) == {"spearman": 0, "pearson": 0}


def test_ranks() -> None:
    assert values(score_ranks([1, 2, 11])) == {"recall@1": 1 / 3, "recall@10": 2 / 3, "mrr": (1 + 0.5 + 1 / 11) / 3}


def test_the_interval_holds_what_it_says() -> None:
    """Of 200 samples of a coin of 0.7, about 95 % of the intervals contain 0.7."""
    random = np.random.default_rng(3)
    inside = 0
    for _ in range(200):
        throws = random.random(150) < 0.7
        score = bootstrap("share", lambda rows, throws=throws: float(throws[rows].mean()), 150, samples=300)  # type: ignore[misc]
        inside += score.low <= 0.7 <= score.high
    assert 180 <= inside <= 198
    assert bootstrap("one", lambda rows: 1.0, 3, samples=0) == ("one", 1, 1, 1)
