"""The state of a decoder with memory tokens: caches of the current segment, and the memory that came before it."""

import torch
from torch import Tensor

from headway.nn.cache.kv import DecoderState, LayerCache, check_truncation
from headway.nn.sequence import TokenPositions

KEPT = 1 << 40  # more tokens than any cache holds


class MemoryState:
    """One cache for all layers. It cannot be truncated: what earlier segments left behind does not say what it was
    before."""

    def __init__(self, layers: list[dict[str, LayerCache]], batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.segment = DecoderState(layers, None, batch, device)  # of memory tokens and tokens of the current segment
        self.vectors: Tensor | None = None  # (B, M, d) the memory of the current segment; None: the first

    def advance(self, tokens: TokenPositions, vectors: Tensor | None) -> None:
        """These tokens were processed, and this is the memory now."""
        self.lengths = self.lengths + (tokens.length if tokens.valid is None else tokens.valid.sum(1))
        self.vectors = vectors

    def end_segment(self, ends: Tensor) -> None:
        """Empty the caches of these rows (B,), but for those of cross-attention: the source stays."""
        for layer in self.segment.layers:
            for name, cache in layer.items():
                if name != "cross":
                    cache.truncate(torch.where(ends, 0, KEPT))

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self.segment.select(rows)
        self.vectors = None if self.vectors is None else self.vectors.index_select(0, rows)

    @property
    def min_length(self) -> Tensor:
        return self.lengths

    def truncate(self, lengths: Tensor) -> None:
        check_truncation(self, lengths)

    def snapshot(self) -> "MemoryState":
        saved = MemoryState([], 0, self.lengths.device)
        saved.lengths, saved.segment, saved.vectors = self.lengths.clone(), self.segment.snapshot(), self.vectors
        return saved

    def restore(self, saved: "MemoryState") -> None:
        self.lengths, self.vectors = saved.lengths.clone(), saved.vectors
        self.segment.restore(saved.segment)

    def detach(self) -> None:
        self.segment.detach()
        self.vectors = None if self.vectors is None else self.vectors.detach()

    def tensors(self) -> dict[str, Tensor]:
        named = {f"segment.{name}": tensor for name, tensor in self.segment.tensors().items()}
        return {"lengths": self.lengths, **named} | ({} if self.vectors is None else {"vectors": self.vectors})

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths, self.vectors = tensors["lengths"], tensors.get("vectors")
        prefix = "segment."
        self.segment.load({name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)})

    @property
    def bytes(self) -> int:
        return self.segment.bytes + (0 if self.vectors is None else self.vectors.nbytes)
