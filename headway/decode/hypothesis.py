"""What a search finds, and what it can tell of the way there. Nothing here imports torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hypothesis:
    """One output. What was forced is part of `ids` but not of the scores, as in Hugging Face and CTranslate2:

        ids          = forced prefix (the first `prefix` of them) + what was produced, without start and end
        token_logps  = one for each produced token, the end token last if `finished`
        logp         = their sum: log p(produced | source, prefix)
        score        = logp / penalty(number of produced tokens, the end token counted)

    Not `finished`: it was cut at the maximum length, or nothing was left that it might produce.
    """

    ids: list[int]
    logp: float
    score: float
    token_logps: list[float]
    finished: bool
    prefix: int = 0


Fate = Literal["runs", "ends", "cut", "pruned"]


@dataclass(frozen=True)
class Choice:
    """One row at one step: its candidates, best first, and what became of each.

    A candidate is the running hypothesis in slot `parents[i]` with `ids[i]` added; `logps[i]` is the sum so far.
    The first that "runs" is in slot 0 at the next step, the second in slot 1, and so on. "ends" and "cut" are
    hypotheses found; "pruned" ones were too many, or still running when the search of this row stopped.
    """

    row: int
    step: int
    parents: list[int]
    ids: list[int]
    logps: list[float]
    fates: list[Fate]
    copy: int = 0  # which of the n_best draws, when sampling


Recorder = Callable[[Choice], None]
