"""CRATE's claim (Yu 2023): attention compresses the tokens towards the subspaces of its heads, and the feed-forward
makes them sparse, layer by layer.

    R(Z)     = ½ logdet(I + d/(N ε²) ZᵀZ)                coding rate of N tokens, the rows of Z (N, d), in nats
    Rᶜ(Z; U) = Σ_k R(Z U_k)                              the same towards K subspaces, U_k (d, p): p in place of d

with ε² = 0.5. Both fall as the tokens come to lie in fewer directions, and with their scale, which a norm undoes before
the next sub-layer sees it. So tokens are scaled to length 1 first: what is compared is directions, and R is at most
d/2 · log(1 + 1/ε²). Subspaces are orthonormal in the derivation, which learned projections are not: U_k is an
orthonormal basis of what head k projects onto.

R is that of the residual stream. Rᶜ, of layers with the mixer `crate`, is that of what the mixer reads of the stream,
after its norm, where there is one before it: of the stream before the sub-layer, and of the stream after it. The shares
of zeros are those of the stream after the feed-forward; numbers of at most 1e-3 of the root mean square of their token
are nearly 0.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.compare.probes import ProbeRow
from headway.compare.probes.windows import cut_windows, trace_windows
from headway.config.config import Config
from headway.nn.block import Block
from headway.nn.context import Trace
from headway.nn.layers.residual import Residual, streams
from headway.nn.mixers.crate import SubspaceAttention
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens

EPSILON_SQUARED = 0.5  # the distortion up to which tokens are coded
MEASURED_TOKENS = 4096
NEAR_ZERO = 1e-3  # of the root mean square of a token


def coding_rate(z: Tensor) -> float:
    """½ logdet(I + d/(N ε²) ZᵀZ) of N tokens (N, d), in float64."""
    tokens, width = z.shape
    z = z.double()
    moments = z.mT @ z if width <= tokens else z @ z.mT  # the determinant is the same
    identity = torch.eye(len(moments), dtype=z.dtype, device=z.device)
    return 0.5 * float(torch.logdet(identity + width / (tokens * EPSILON_SQUARED) * moments))


def subspace_coding_rate(z: Tensor, bases: Tensor) -> float:
    """Σ_k R(Z U_k) of tokens (N, d) and the bases of the subspaces (K, d, p)."""
    return sum(coding_rate(z.double() @ basis) for basis in bases.double())


def subspace_bases(mixer: SubspaceAttention, d_model: int) -> Tensor:
    """Orthonormal bases of the subspaces of all heads: (K, d, p)."""
    weight = next(mixer.parameters())
    projected = mixer.subspaces(torch.eye(d_model, dtype=weight.dtype, device=weight.device))  # (d, K·p)
    columns = projected.double().unflatten(1, (mixer.config.heads, -1)).transpose(0, 1)  # (K, d, p)
    bases: Tensor = torch.linalg.qr(columns)[0]
    return bases


def measure(model: Transformer, stream: np.ndarray, config: Config, special: SpecialTokens) -> list[ProbeRow]:
    (side,) = model.config.sides
    stack: Stack = model.stacks[side]  # type: ignore[assignment]
    windows = cut_windows(stream, config.train.max_tokens, MEASURED_TOKENS)
    parts: dict[str, list[Tensor]] = defaultdict(list)
    for trace in trace_windows(model, windows):
        for name, value in _read_streams(stack, trace).items():
            parts[name].append(value.flatten(0, 1))
    tokens = {name: torch.cat(values) for name, values in parts.items()}
    kinds = zip(getattr(model.config, side).tiled("mixer"), getattr(model.config, side).tiled("feedforward"))
    has_subspaces = any("read before" in name for name in tokens)
    rows: list[ProbeRow] = []
    for index, (block, (mixer, feedforward)) in enumerate(zip(stack.layer_blocks, kinds)):
        row: ProbeRow = {"layer": index + 1, "mixer": mixer.kind, "feedforward": feedforward.kind}
        for when in ("before", "after_mixer", "after_feedforward"):
            row[f"rate_{when}"] = coding_rate(F.normalize(tokens[f"{index} {when}"], dim=-1))
        if has_subspaces:
            row |= _subspace_rates(block, tokens, index, model.config.d_model)
        rows.append(row | _count_zeros(tokens[f"{index} after_feedforward"]))
    return rows


def _read_streams(stack: Stack, trace: Trace) -> dict[str, Tensor]:
    """Of each layer, by its number: the stream before it, after its mixer and after its feed-forward, and what a mixer
    with subspaces reads of the first two."""
    found: dict[str, Tensor] = {}
    s: Any = stack.ends.start(trace[f"{stack.name}.embedded"])
    for index, block in enumerate(stack.layer_blocks):
        path = f"{stack.name}.{index}"
        mixed = _stream_after(f"{path}.self", trace)
        end = _stream_after(f"{path}.feedforward", trace) if "feedforward" in block.sublayers else mixed
        for when, value in (("before", s), ("after_mixer", mixed), ("after_feedforward", end)):
            found[f"{index} {when}"] = streams(value)[0]
        if isinstance(block.sublayers["self"], SubspaceAttention):
            for when, value in (("before", s), ("after", mixed)):
                found[f"{index} read {when}"] = _read_by_mixer(block, value)
        s = end
    return found


def _stream_after(path: str, trace: Trace) -> Any:
    """As a residual has it: a tensor, or a tuple of them."""
    first, second = f"{path}.stream", f"{path}.stream2"
    return (trace[first], trace[second]) if second in trace else trace[first]


def _read_by_mixer(block: Block, s: Any) -> Tensor:
    """What its residual hands to the mixer, if this is the stream."""
    read: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        read.append(x)
        return torch.zeros_like(x)

    residual: Residual = block.residuals["self"]  # type: ignore[assignment]
    residual.wrap(s, keep)
    return read[0]


def _subspace_rates(block: Block, tokens: dict[str, Tensor], index: int, d_model: int) -> ProbeRow:
    mixer = block.sublayers["self"]
    if not isinstance(mixer, SubspaceAttention):
        return {"subspace_rate_before": "", "subspace_rate_after": ""}
    bases = subspace_bases(mixer, d_model)
    rates = {when: F.normalize(tokens[f"{index} read {when}"], dim=-1) for when in ("before", "after")}
    return {f"subspace_rate_{when}": subspace_coding_rate(z, bases) for when, z in rates.items()}


def _count_zeros(z: Tensor) -> ProbeRow:
    near = NEAR_ZERO * z.double().pow(2).mean(-1, keepdim=True).sqrt()
    return {"zeros": float((z == 0).double().mean()), "near_zeros": float((z.abs() <= near).double().mean())}
