"""What searches for a translator: rows of ids in, hypotheses out. Nothing here imports torch.

torch        everything, on a CPU or a GPU
ctranslate2  on a CPU, models of common parts: there in a fraction of the time that importing torch takes
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from headway.config.search import Search
from headway.decode.hypothesis import Hypothesis, Recorder

if TYPE_CHECKING:
    from headway.decode.demands import Demands

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
        """Up to n_best hypotheses for each row, best first, at least one. See headway.decode.search.decode."""
