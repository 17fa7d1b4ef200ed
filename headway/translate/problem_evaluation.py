"""Evaluate a Solver on problems with known answers: the share that is exactly right, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.data.labelled_files import LabelledExample
from headway.errors import HeadwayError
from headway.text.problems import normalise_answer
from headway.text.task_metrics import BOOTSTRAP_SAMPLES, TaskScore, bootstrap
from headway.translate.solver import Answer, Solver

QUOTED_CHARACTERS = 80  # of a problem that was solved wrongly


@dataclass(frozen=True)
class ProblemEvaluation:
    scores: list[TaskScore]  # the one to compare models by first
    answers: list[Answer]
    right: list[bool]


def evaluate_problems(
    solver: Solver, examples: Sequence[LabelledExample], samples: int = BOOTSTRAP_SAMPLES
) -> ProblemEvaluation:
    """accuracy: of answers, which count only as a whole. node_accuracy: of graphs, all of whose nodes point and are
    marked as they should; it needs targets. samples: of the bootstrap; 0 measures no intervals."""
    if not examples:
        raise HeadwayError("there are no problems to evaluate on.")
    answers = solver.solve(examples)
    right = [answer.text == normalise_answer(e.texts[1]) for answer, e in zip(answers, examples)]
    scores = [_share("accuracy", right, samples)]
    nodes = [bool(answer.nodes_right) for answer in answers if answer.nodes_right is not None]
    if nodes:
        scores.append(_share("node_accuracy", nodes, samples))
    if not solver.config.train.objective.answers:  # only the reasoner was trained
        scores.reverse()
    return ProblemEvaluation(scores, answers, right)


def _share(name: str, values: Sequence[bool], samples: int) -> TaskScore:
    found = np.array(values, float)
    return bootstrap(name, lambda rows: float(found[rows].mean()), len(found), samples)


def describe_answers(
    examples: Sequence[LabelledExample], found: ProblemEvaluation
) -> tuple[list[tuple[str, ...]], list[str]]:
    """The share that is right of each kind of problem and each size of graph, and what was answered wrongly, surest
    first."""
    groups: dict[tuple[str, int], list[bool]] = {}
    for example, right in zip(examples, found.right):
        size = 0 if example.graph is None else len(example.graph.names)
        groups.setdefault((example.labels[0] if example.labels else "–", size), []).append(right)
    rows: list[tuple[str, ...]] = [
        (kind, str(size or "–"), f"{np.mean(own):.3f}", f"{len(own):,}") for (kind, size), own in sorted(groups.items())
    ]
    wrong = [(a, e) for a, e, right in zip(found.answers, examples, found.right) if not right]
    wrong.sort(key=lambda pair: -pair[0].probability)
    return rows, [
        f"wrong: {a.text} ({a.probability:.2f}), not {e.texts[1]}: {e.texts[0][:QUOTED_CHARACTERS]}" for a, e in wrong
    ]
