"""What a search finds, and what it can tell of the way there. Nothing here imports torch.

What searches for a translator: rows of ids in, hypotheses out. Nothing here imports torch.

torch        everything, on a CPU or a GPU
ctranslate2  on a CPU, models of common parts: there in a fraction of the time that importing torch takes
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from headway.config.search import Search

if TYPE_CHECKING:
    from headway.decode.constraints import Demands


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

T = TypeVar("T")
EngineName = Literal["auto", "torch", "ctranslate2"]
Precision = Literal["float32", "bfloat16", "int8"]
Compute = Literal["auto"] | Precision
ENGINES: tuple[EngineName, ...] = ("auto", "torch", "ctranslate2")
COMPUTES: tuple[Compute, ...] = ("auto", "float32", "bfloat16", "int8")

FEW = 128  # sentences: with more, in eight bits, torch is faster (benchmarks/translate_cpu.py)


class Engine(Protocol):
    @property
    def name(self) -> Literal["torch", "ctranslate2"]: ...

    @property
    def compute(self) -> Precision: ...

    @property
    def device(self) -> str:
        """cpu or cuda"""

    @property
    def workers(self) -> int:
        """How many batches `each` works on at a time."""

    def each(self, act: Callable[[T], None], batches: Sequence[T]) -> None:
        """act(batch) for all of them, in no certain order."""

    def why_not(self, search: Search, prefixes: bool, record: Recorder | None, demands: bool = False) -> str:
        """Why this search is not for it; nothing if it is. prefixes: whether outputs begin with something given.
        demands: whether they must say something given."""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        search: Search,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        lines: Sequence[int] | None = None,
        record: Recorder | None = None,
        demands: "Sequence[Demands] | None" = None,
    ) -> list[list[Hypothesis]]:
        """Up to n_best hypotheses for each row, best first, at least one. See headway.decode.dispatch.decode."""
