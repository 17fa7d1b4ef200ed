"""Evaluate a TaskModel on labelled text: the metrics of its task, with confidence intervals."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.data.labelled_files import LabelledData, LabelledExample
from headway.errors import HeadwayError
from headway.retrieval.vector_search import rank_of
from headway.text.task_metrics import (
    BOOTSTRAP_SAMPLES,
    TaskScore,
    score_classes,
    score_numbers,
    score_ranks,
    score_tags,
)
from headway.translate.task_model import Prediction, TaskModel

TEXTS_PER_GROUP = 4096
MAX_LISTED_LABELS = 30
QUOTED_CHARACTERS = 80  # of a text that was labelled wrongly


@dataclass(frozen=True)
class TaskEvaluation:
    scores: list[TaskScore]  # the one to compare models by first
    predictions: list[Prediction]  # of each example; none of embed

    @property
    def main(self) -> TaskScore:
        return self.scores[0]


def evaluate_task(
    model: TaskModel, examples: Sequence[LabelledExample], samples: int = BOOTSTRAP_SAMPLES
) -> TaskEvaluation:
    """samples: of the bootstrap; 0 measures no intervals."""
    if not examples:
        raise HeadwayError("there are no examples to evaluate on.")
    if model.task == "embed":
        anchors, positives = (model.embed([e.texts[side] for e in examples]) for side in (0, 1))
        return TaskEvaluation(score_ranks(rank_positives(anchors, positives, examples), samples), [])
    predictions = []
    for start in range(0, len(examples), TEXTS_PER_GROUP):
        group = examples[start : start + TEXTS_PER_GROUP]
        given = [e.picture or (e.texts[0] if model.task == "classify" else e.texts) for e in group]
        predictions += model.predict(given)
    if model.task == "tag":
        gold = [e.labels for e in examples]
        return TaskEvaluation(score_tags(gold, [p.tags for p in predictions], samples), predictions)
    labels = [e.labels[0] for e in examples]
    if not model.labels:
        scores = [read_score(label) for label in labels]
        return TaskEvaluation(score_numbers(scores, [p.score or 0.0 for p in predictions], samples), predictions)
    return TaskEvaluation(score_classes(labels, [p.label for p in predictions], samples), predictions)


def read_score(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        raise HeadwayError(f'this model gives scores, and the data has the label "{label}". Give scores.') from None


def rank_positives(anchors: np.ndarray, positives: np.ndarray, examples: Sequence[LabelledExample]) -> list[int]:
    """For each anchor the rank of its positive among the different positives of all examples, from 1."""
    first: dict[str, int] = {}
    own = np.array([first.setdefault(e.texts[1], n) for n, e in enumerate(examples)])
    distinct = np.array(sorted(first.values()))
    return rank_of(anchors, positives[distinct], np.searchsorted(distinct, own))


def describe_errors(
    model: TaskModel, data: LabelledData, found: TaskEvaluation
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Precision, recall and F1 of each label, the most frequent first; and what was labelled wrongly, surest first."""
    if not model.labels or not found.predictions:
        return [], []
    gold = [label for example in data.examples for label in example.labels]
    predicted = [label for one in found.predictions for label in (one.tags if model.task == "tag" else [one.label])]
    counts, guesses = Counter(gold), Counter(predicted)
    hits = Counter(a for a, b in zip(gold, predicted) if a == b)
    names = sorted({*gold, *predicted}, key=lambda name: (-counts[name], name))
    rows = []
    for name in names[:MAX_LISTED_LABELS]:
        true, guess, both = counts[name], guesses[name], hits[name]
        shares = (both / max(guess, 1), both / max(true, 1), 2 * both / max(true + guess, 1))
        rows.append((name, *(f"{share:.3f}" for share in shares), f"{true:,}"))
    if model.task == "tag":
        return rows, []
    wrong = [(p, e) for p, e in zip(found.predictions, data.examples) if p.label != e.labels[0]]
    wrong.sort(key=lambda pair: -pair[0].probability)
    return rows, [
        f"wrong: {p.label} ({p.probability:.2f}), not {e.labels[0]}: {' | '.join(e.texts)[:QUOTED_CHARACTERS]}"
        for p, e in wrong
    ]
