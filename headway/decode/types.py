"""Inputs and outputs of decoding: hypotheses, recorded beam steps, and the Engine protocol. Nothing here imports torch.

Engines (`--engine`):
    native       models of common parts in int8, on a CPU with a C compiler: our own kernels, without torch
    ctranslate2  models of common parts in float32 or int8, on a CPU: CTranslate2's kernels, without torch
    torch        every model and setting, on a CPU or a GPU
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from headway.config.search import Search

if TYPE_CHECKING:
    from headway.decode.constraints import PhraseConstraints


@dataclass(frozen=True)
class Hypothesis:
    """One output. A forced prefix is part of `ids` but not of the scores, as in Hugging Face and CTranslate2:

        ids          = forced prefix (the first `prefix` of them) + what was produced, without start and end
        token_logps  = one for each produced token, the end token last if `finished`
        logp         = their sum: log p(produced | source, prefix)
        score        = logp / penalty(number of produced tokens, the end token counted; see SearchTask.length_penalty)

    Not `finished`: it was cut at the maximum length, or no token could follow.
    """

    ids: list[int]
    logp: float
    score: float
    token_logps: list[float]
    finished: bool
    prefix: int = 0


Fate = Literal["runs", "ends", "cut", "pruned"]


@dataclass(frozen=True)
class BeamStep:
    """One row at one step: its candidates, best first, and what became of each.

    A candidate is the running hypothesis in slot `parents[i]` with `ids[i]` added; `logps[i]` is the sum so far.
    The first that "runs" is in slot 0 at the next step, the second in slot 1, and so on. "ends" and "cut" are
    finished hypotheses; "pruned" ones did not fit the beam, or were still running when the search of this row stopped.
    """

    row: int
    step: int
    parents: list[int]
    ids: list[int]
    logps: list[float]
    fates: list[Fate]
    copy: int = 0  # which of the n_best draws, when sampling


Recorder = Callable[[BeamStep], None]

T = TypeVar("T")
EngineName = Literal["auto", "native", "ctranslate2", "torch"]
Precision = Literal["float32", "bfloat16", "int8"]
Compute = Literal["auto"] | Precision
ENGINES: tuple[EngineName, ...] = ("auto", "native", "ctranslate2", "torch")
COMPUTES: tuple[Compute, ...] = ("auto", "float32", "bfloat16", "int8")


class Engine(Protocol):
    """Searches for a translator: rows of ids in, hypotheses out."""

    @property
    def name(self) -> Literal["native", "ctranslate2", "torch"]: ...

    @property
    def compute(self) -> Precision: ...

    @property
    def device(self) -> str:
        """cpu or cuda"""

    @property
    def workers(self) -> int:
        """How many batches `run_batches` works on at a time."""

    def run_batches(self, function: Callable[[T], None], batches: Sequence[T]) -> None:
        """function(batch) for all of them, in any order."""

    def unsupported(self, search: Search, prefixes: bool, record: Recorder | None, constraints: bool = False) -> str:
        """Why it cannot run this search; "" if it can. prefixes, constraints: whether outputs have them."""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        search: Search,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        line_numbers: Sequence[int] | None = None,
        record: Recorder | None = None,
        constraints: "Sequence[PhraseConstraints] | None" = None,
    ) -> list[list[Hypothesis]]:
        """Up to n_best hypotheses for each row, best first, at least one. See headway.decode.dispatch.decode."""
