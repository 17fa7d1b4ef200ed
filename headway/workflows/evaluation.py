"""Measuring a translator on held-out text, alone or beside others."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway.text.metrics import Comparison, Scores, paired_bootstrap, score
from headway.translate.results import one_line
from headway.translate.translator import Translator


@dataclass(frozen=True)
class Evaluation:
    scores: Scores
    hypotheses: list[str]
    warnings: int
    seconds: float
    sentences_per_second: float
    tokens_per_second: float


def evaluate(
    translator: Translator, source: Sequence[str], target: Sequence[str], *, search: Any = None, to: str = "",
    split: bool = True, lowercase: bool = False, tokenize: str = "13a",
) -> Evaluation:  # fmt: skip
    """Translate everything, then score it."""
    began = time.perf_counter()
    results = translator.translate(list(source), search, to=to, split=split)
    seconds = time.perf_counter() - began
    hypotheses = [one_line(result.text) for result in results]
    tokens = sum(len(result.guesses[0].tokens) + 1 for result in results)
    return Evaluation(
        score(hypotheses, list(target), lowercase=lowercase, tokenize=tokenize),
        hypotheses,
        sum(bool(result.warnings) for result in results),
        seconds,
        len(results) / seconds,
        tokens / seconds,
    )


def against(
    first: Evaluation, other: Evaluation, target: Sequence[str], *, lowercase: bool, tokenize: str
) -> Comparison:
    """Whether the other's BLEU really differs from the first's."""
    return paired_bootstrap(first.hypotheses, other.hypotheses, list(target), lowercase=lowercase, tokenize=tokenize)
