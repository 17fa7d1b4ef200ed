"""The best continuations of all beams of a row at once: what choose.beam finds line by line, in a third of the kernels.

B rows    K beams    C candidates    V vocabulary    N blocks of a line
"""

import torch
from torch import Tensor

from headway.decode import choose

BLOCK = 64
LOW = 2**29  # a float32 has so many numbers less than a float64 has between each two
LEAST, MOST = -3e38, -1e-37  # stand for -inf, whose neighbours are no numbers, and for 0, whose are above it


class Joint:
    """What it takes for one number of beams and one vocabulary, on the device."""

    def __init__(self, beam: int, vocabulary: int, device: torch.device) -> None:
        self.beam, self.vocabulary = beam, vocabulary
        blocks = vocabulary // BLOCK
        lines = torch.arange(beam, device=device)[:, None] * vocabulary  # where each begins, all of them laid in one
        self.blocks = torch.arange(beam * blocks, device=device)
        self.starts = (lines + torch.arange(blocks, device=device) * BLOCK).flatten()  # (K · N,)
        self.inside = torch.arange(BLOCK, device=device)
        self.rest = (lines + torch.arange(blocks * BLOCK, vocabulary, device=device)).flatten()  # in no block

    @property
    def able(self) -> bool:
        """Whether there are blocks enough, and an index fits between two numbers."""
        return self.beam > 1 and self.vocabulary >= 4 * BLOCK and self.beam * self.vocabulary < LOW

    def __call__(self, logps: Tensor, sums: Tensor) -> choose.Picks:
        """logps (B · K, V), sums (B, K), none above 0. Equal sums rank by parent, then by id. Those are rounded sums:
        of two tokens that differ by less, choose.beam prefers the likelier."""
        rows, count = len(sums), 2 * self.beam
        whole = len(self.blocks) // self.beam * BLOCK
        peaks = logps[:, :whole].reshape(rows, self.beam, -1, BLOCK).amax(3) + sums[:, :, None]  # (B, K, N)
        blocks = _keys(peaks.flatten(1), self.blocks).topk(count, sorted=False).indices  # (B, C)
        places = (self.starts[blocks][:, :, None] + self.inside).flatten(1)  # (B, C · BLOCK)
        if len(self.rest):
            places = torch.cat([places, self.rest.expand(rows, -1)], dim=1)
        values = logps.view(rows, -1).gather(1, places)
        total = values + sums.gather(1, places // self.vocabulary)
        order = _keys(total, places).topk(count).indices
        values, total, places = (part.gather(1, order) for part in (values, total, places))
        return choose.Picks(total, values, places % self.vocabulary, places // self.vocabulary)


def _keys(scores: Tensor, index: Tensor) -> Tensor:
    """Numbers in the same order, equal ones by index, so that none are equal and any topk is the same. Below 0 a larger
    bit pattern is a smaller number."""
    return (scores.clamp(LEAST, MOST).double().view(torch.int64) + index).view(torch.float64)
