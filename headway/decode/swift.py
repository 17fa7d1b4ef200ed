"""Parts of a step by kernels of our own, where there is a GPU. What they equal stands in folded.py, and on the CPU that is
what runs."""

import functools
import importlib.util
import os
import shutil

import torch
from torch import Tensor

from headway.decode.tables import Step, View
from headway.nn.kernels import USED
from headway.nn.norms import LayerNorm

WIDEST = 256  # of a head


def able(kind: str, like: Tensor) -> bool:
    """For tensors like this one. Kernels reckon in float32."""
    return kind in USED and like.is_cuda and like.dtype != torch.float64 and _triton()


@functools.cache
def _triton() -> bool:
    """It compiles what calls a kernel by a C compiler."""
    compiler = os.environ.get("CC") or any(map(shutil.which, ("cc", "gcc", "clang")))
    return bool(compiler) and importlib.util.find_spec("triton") is not None


def listen(joined: Tensor, past: Tensor, step: Step, view: View) -> Tensor:
    """joined (B, H + 2G, K, D), written into past (2, B, G, L, K, D) -> (B, K, H · D). Each sees all of its past."""
    from headway.nn.kernels import steps

    rows, _, beam, width = joined.shape
    out = joined.new_empty(rows, beam, view.heads * width)
    steps.listen[(rows, view.heads)](
        joined, past, step.owners, step.now, out, joined.stride(0), joined.stride(2), joined.stride(1), past.shape[3],
        view.scale, H=view.heads, G=past.shape[2], K=beam, D=width, BEAMS=power(beam), WIDTH=power(width),
        BLOCK=max(2, 64 // power(beam)), num_warps=4,
    )  # fmt: skip
    return out


def listen_across(asking: Tensor, source: Tensor, heard: Tensor, heads: int, scale: float) -> Tensor:
    """asking (B, K, H · D), source (2, B, G, S, D), heard (B, 1, 1, S) -> (B, K, H · D)."""
    from headway.nn.kernels import steps

    rows, beam = asking.shape[:2]
    groups, length, width = source.shape[2:]
    out = torch.empty_like(asking)
    steps.listen_across[(rows, heads)](
        asking, source, heard, out, length, scale, H=heads, G=groups, K=beam, D=width, BEAMS=power(beam),
        WIDTH=power(width), BLOCK=max(2, 64 // power(beam)), num_warps=4,
    )  # fmt: skip
    return out


def add_norm(s: Tensor, y: Tensor, norm: LayerNorm) -> Tensor:
    """norm(s + y), both (…, d)"""
    from headway.nn.kernels import steps

    out, width = torch.empty_like(s), s.shape[-1]
    steps.add_norm[(s.numel() // width,)](
        s, y, norm.gain, norm.bias, out, norm.eps, WIDTH=width, BLOCK=power(width), num_warps=2 if width <= 512 else 4
    )
    return out


def power(size: int) -> int:
    """Up to a power of two, 2 at least."""
    return 1 << max(1, (size - 1).bit_length())
