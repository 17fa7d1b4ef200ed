"""What follows from the scores of a step, by two kernels where there is a GPU; Frame.settle in plain operations, some
sixty of them, is the definition."""

import functools
import os
import shutil
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headway.nn.ops.triton import HAS_TRITON

if TYPE_CHECKING:
    from headway.decode.frame import Frame

PART = 64  # words of which only the highest is compared at first
BLOCK = 16_384  # words that a program holds at a time


def able(frame: "Frame") -> bool:
    """There must be parts enough for all candidates, and an index must fit into 31 bits."""
    beam, vocabulary = frame.plan.beam, frame.model.model.config.vocabulary or 0
    fits = vocabulary >= 4 * PART and beam * vocabulary < 2**31 and beam <= 64
    return fits and frame.sums.is_cuda and frame.sums.dtype != torch.float64 and HAS_TRITON and _has_compiler()


@functools.cache
def _has_compiler() -> bool:
    """Triton compiles what launches a kernel with a C compiler."""
    return bool(os.environ.get("CC") or any(map(shutil.which, ("cc", "gcc", "clang"))))


def round_to_power(size: int) -> int:
    """Up to a power of two, 2 at least."""
    return 1 << max(1, (size - 1).bit_length())


class Fused:
    def __init__(self, frame: "Frame") -> None:
        lines, vocabulary = frame.ids.numel(), frame.model.model.config.vocabulary or 0
        self.frame, self.parts = frame, -(-vocabulary // PART)
        self.banned = torch.zeros(vocabulary, device=frame.ids.device).index_fill_(0, frame.suppress, -torch.inf)
        self.norms = torch.zeros(lines, device=frame.ids.device)
        self.peaks = torch.zeros(lines, self.parts, device=frame.ids.device)

    def __call__(self, logits: Tensor) -> None:
        """logits (B · K, V)"""
        from headway.nn.ops.triton import beam_step

        f, plan, size = self.frame, self.frame.plan, logits.shape[1]
        block = min(BLOCK, round_to_power(size))
        read = (logits, self.banned, f.early, f.past.now, self.norms, self.peaks)
        beam_step.survey[(len(logits),)](
            *read, f.left, logits.stride(0), size, self.parts,
            END=plan.end, PART=PART, BLOCK=block, num_warps=max(4, block // 2048),
        )  # fmt: skip
        beam_step.advance[(f.size.rows,)](
            *read, f.forced, f.limit, f.ids, f.sums, f.past.owners, f.trellis, f.ended, f.active.view(torch.uint8), f.left,
            logits.stride(0), size, self.parts, f.size.length,
            K=plan.beam, C=plan.candidates, BEAMS=round_to_power(plan.beam), PICKS=round_to_power(plan.candidates),
            PARTS=round_to_power(self.parts), END=plan.end, PART=PART, FORCED=plan.forced, SPAN=32,
            num_warps=1 if plan.beam * self.parts <= 2048 else 4,
        )  # fmt: skip
        f.past.now.add_(1)
