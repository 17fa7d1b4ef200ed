"""RetrievalStepper: a model that looks up the neighbours of each chunk as soon as its last token is known."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headway.decode.reference.model import ModelStepper
from headway.nn.cache.kv import DecoderState
from headway.nn.sequence import Neighbours

Retrieve = Callable[[Tensor], Neighbours | None]  # chunks (n, m) of ids -> neighbours (n, 1, K, R), or none at all


class RetrievalSearchState:
    """The state of the decoder, and the ids of the chunk that each hypothesis is in."""

    def __init__(self, decoder: DecoderState, rows: int, chunk: int, device: torch.device) -> None:
        self.decoder = decoder
        self.pending = torch.zeros(rows, chunk, dtype=torch.long, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)

    def select(self, rows: Tensor) -> None:
        self.decoder.select(rows)
        self.pending, self.lengths = self.pending[rows], self.lengths[rows]


class RetrievalStepper:
    """A Stepper around another one, whose model retrieves. Its rows are those of the search: a beam retrieves for each
    of its hypotheses."""

    def __init__(self, stepper: ModelStepper, retrieve: Retrieve) -> None:
        self.stepper = stepper
        self.retrieve = retrieve
        self.retrieval: Any = stepper.model.config.decoder.retrieval

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stepper, name)

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    @property
    def device(self) -> torch.device:
        return self.stepper.device

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> RetrievalSearchState:
        decoder = self.stepper.start(source, valid, rows)
        return RetrievalSearchState(decoder, rows, self.retrieval.chunk, self.device)

    def step(self, state: RetrievalSearchState, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        neighbours = self.look_up(state, ids, valid)
        model = self.stepper.reference_model
        hidden = model.decode(ids, valid, state=state.decoder, last=True, neighbours=neighbours)[:, 0]  # (N, d)
        return model.logits(hidden).float().log_softmax(-1)  # (N, V)

    def look_up(self, state: RetrievalSearchState, ids: Tensor, valid: Tensor | None) -> Neighbours | None:
        """Of all chunks that are complete with these ids; None if there are none."""
        size = self.retrieval.chunk
        rows = torch.arange(len(ids), device=ids.device)
        chunks: list[Tensor] = []
        owners: list[Tensor] = []
        for column in range(ids.shape[1]):
            real = rows if valid is None else rows[valid[:, column]]
            slots = state.lengths[real] % size
            state.pending[real, slots] = ids[real, column]
            state.lengths[real] += 1
            complete = real[slots == size - 1]
            if len(complete):
                chunks.append(state.pending[complete].clone())
                owners.append(complete)
        found = self.retrieve(torch.cat(chunks)) if chunks else None
        return None if found is None else self._arrange(found, torch.cat(owners), len(ids))

    @staticmethod
    def _arrange(found: Neighbours, owners: Tensor, rows: int) -> Neighbours:
        """(n, 1, K, R), each of one row and in the order of its text -> (rows, C, K, R), padded"""
        number = torch.stack([(owners[:place] == owner).sum() for place, owner in enumerate(owners)])
        shape = (rows, int(number.max()) + 1, *found.ids.shape[2:])
        ids, valid = found.ids.new_zeros(shape), found.valid.new_zeros(shape)
        ids[owners, number], valid[owners, number] = found.ids[:, 0], found.valid[:, 0]
        return Neighbours(ids, valid)
