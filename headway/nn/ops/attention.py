"""Scaled dot-product attention: one function, `attend`, with several kernels. `naive` is the specification; the others
equal it.

    kernel   what it is                          where `auto` chooses it
    math     the naive form in plain PyTorch     a score_mod that no fused kernel can take
    sdpa     PyTorch's fused attention           almost everywhere
    flex     FlexAttention, block-sparse         long texts under a sparse mask, on a GPU
    blocks   SDPA for each block of queries      the same on a CPU
    varlen   our Triton kernel, packed texts     packed rows on a GPU
"""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args, overload

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from headway.errors import HeadwayError
from headway.nn.masks.block_plan import BlockPlan
from headway.nn.masks.masks import BoundMask
from headway.nn.ops.block_attention import attend_blocks
from headway.nn.ops.dropout import random_dropout
from headway.nn.ops.triton import HAS_TRITON
from headway.nn.ops.varlen_attention import MAX_HEAD_WIDTH, attend_varlen
from headway.nn.positions.score_mod import BoundScoreMod
from headway.nn.sequence import TokenPositions

Kernel = Literal["auto", "math", "sdpa", "flex", "blocks", "varlen"]
WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
MIN_FLEX_TOKENS = 1024  # queries, and keys: below that, skipping blocks does not pay
MIN_FLEX_SPARSITY = 4  # keys per key that a query sees
MIN_BLOCKS_TOKENS = 512  # likewise, for blocks on a CPU
MAX_BLOCKS_SHARE = 0.6  # of all pairs that blocks compute, or they are not worth it


class AttentionResult(NamedTuple):
    output: Tensor  # (B, H, T, D)
    scores: Tensor  # (B, H, T, S) after score_mod, before the mask
    weights: Tensor  # (B, H, T, S)
    lse: Tensor  # (B, H, T) logsumexp of the scores; -inf where everything is masked


def naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    score_mod: BoundScoreMod | None,
    scale: float,
    dropout: float = 0.0,
) -> AttentionResult:
    """softmax(score_mod(q·kᵀ·scale) where mask) · v, each step explicit."""
    k, v = _repeat_kv(k, q.shape[1]), _repeat_kv(v, q.shape[1])
    scores = q @ k.transpose(-1, -2) * scale  # (B, H, T, S)
    scores = scores if score_mod is None else score_mod(scores, q.shape[0])
    masked, empty = mask_scores(scores, mask)
    weights = masked.softmax(-1).masked_fill(empty, 0.0)
    lse = masked.logsumexp(-1).masked_fill(empty.squeeze(-1) if empty.dim() else empty, -torch.inf)
    dropped = F.dropout(weights, dropout)
    output = dropped @ v if score_mod is None else dropped @ v + score_mod.value_bias(dropped)
    return AttentionResult(output, scores, weights, lse)


def mask_scores(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores with -inf where the mask hides a key, and which queries see no key. A fully masked row keeps its scores,
    so that no gradient of a softmax is NaN: its weights are to be set to 0."""
    allowed = torch.ones((), dtype=torch.bool, device=scores.device) if mask is None else mask
    empty = ~allowed.any(-1, keepdim=True) if allowed.dim() else ~allowed
    return scores.masked_fill(~allowed & ~empty, -torch.inf), empty


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Attention weights; a query that sees no key has only zeros."""
    masked, empty = mask_scores(scores, mask)
    return masked.softmax(-1).masked_fill(empty, 0.0)


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    score_mod: BoundScoreMod | None,
    scale: float,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """PyTorch's fused kernel, with a dense mask, or with its own causal one."""
    if score_mod is not None:
        bias = score_mod(torch.zeros((), dtype=q.dtype, device=q.device), q.shape[0])
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    grouped = k.shape[1] != q.shape[1]
    with _without_cudnn() if q.is_cuda and q.shape[2] == 1 else contextlib.nullcontext():
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=grouped)


def cpu_dropout_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask_bias: Tensor | None,
    score_mod: BoundScoreMod | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """The naive form in as few steps as possible, for CPUs, where the fused kernel has no dropout. `mask_bias` is added
    to the scores: -inf where attention is not allowed, but never in a whole row."""
    k, v = _repeat_kv(k, q.shape[1]), _repeat_kv(v, q.shape[1])
    scores = (q * scale) @ k.transpose(-1, -2)  # (B, H, T, S)
    scores = scores if score_mod is None else score_mod(scores, q.shape[0])
    weights = (scores if mask_bias is None else scores + mask_bias).softmax(-1)
    return random_dropout(weights, dropout) @ v


def flex(
    q: Tensor, k: Tensor, v: Tensor, mask: BoundMask | None, score_mod: BoundScoreMod | None, scale: float
) -> Tensor:
    """FlexAttention: skips the blocks that the mask hides. No dropout; no gradients on a CPU."""
    block_mask = None if mask is None or mask.allows_all else mask.block_mask(q.shape[0])
    compiled = q.device.type == "cuda" or q.dtype != torch.float64  # the CPU compiles no float64
    function = _compiled_flex(q.device.type) if compiled else _flex()
    grouped = k.shape[1] != q.shape[1]
    at_index = None if score_mod is None else score_mod.at_index
    with _specialise_rules() if compiled else _ignore_slow_warning():
        output = function(q, k, v, score_mod=at_index, block_mask=block_mask, scale=scale, enable_gqa=grouped)
    assert isinstance(output, Tensor)
    return output


def blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: BoundMask | Tensor | None,
    score_mod: BoundScoreMod | None,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """Block by block of queries, each with the blocks of keys that it may see."""
    plan = _block_plan(mask, score_mod)
    if plan is None:
        raise ValueError(
            "kernel='blocks' is for self-attention of rows in order, with a mask as a rule (a BoundMask), and a "
            "score_mod without tables of the query: use 'auto'"
        )

    def attend_block(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        own = score_mod and score_mod.at_positions(TokenPositions(queries, None, 0), TokenPositions(keys, None, 0))
        if not dropout:
            return sdpa(q, k, v, allowed, own, scale)
        empty = ~allowed.any(-1, keepdim=True)  # such rows keep their scores through the softmax, as in `naive`
        bias = torch.zeros(allowed.shape, dtype=q.dtype, device=q.device).masked_fill_(~allowed & ~empty, -torch.inf)
        return cpu_dropout_attention(q, k, v, bias, own, scale, dropout).masked_fill(empty, 0.0)

    assert isinstance(mask, BoundMask)
    return attend_blocks(q, k, v, mask, plan, attend_block)


def _block_plan(mask: BoundMask | Tensor | None, score_mod: BoundScoreMod | None) -> BlockPlan | None:
    """None where blocks cannot be computed one by one."""
    plan = mask.block_plan() if isinstance(mask, BoundMask) else None
    if plan is None or score_mod is None:
        return plan
    simple = score_mod.additive and not score_mod.needs_weights and score_mod.score_mod.query_bias is None
    return plan if simple and plan.stride == 1 else None


@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: BoundMask | Tensor | None = None, score_mod: BoundScoreMod | None = None,
    scale: float | None = None, dropout: float = 0.0, kernel: Kernel = "auto",
) -> Tensor: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: BoundMask | Tensor | None = None, score_mod: BoundScoreMod | None = None,
    scale: float | None = None, dropout: float = 0.0, kernel: Kernel = "auto", also: str | tuple[str, ...],
) -> AttentionResult: ...  # fmt: skip
def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: BoundMask | Tensor | None = None, score_mod: BoundScoreMod | None = None,
    scale: float | None = None, dropout: float = 0.0, kernel: Kernel = "auto", also: str | tuple[str, ...] = (),
) -> Tensor | AttentionResult:  # fmt: skip
    """softmax(score_mod(q·kᵀ·scale) where mask) · v

    q (B, H, T, D); k (B, G, S, D) and v (B, G, S, E) with H a multiple of G. `scale` is 1/√D unless given.
    `mask` is a BoundMask or a dense bool tensor that broadcasts to (B, H, T, S), true where attention is allowed; a
    query that sees no key gets exactly 0. `also` names what to return beside the output, any of "scores", "weights",
    "lse", or "everything": then the naive form computes all of it.
    """
    _check_arguments(q, k, kernel, also)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if also:
        return naive(q, k, v, _dense(mask, q.shape[0]), score_mod, scale, dropout)
    if kernel == "auto":
        kernel = choose_kernel(q, k, v, mask, score_mod, dropout)
    if kernel != "math" and score_mod is not None and score_mod.needs_weights:
        raise ValueError(f"kernel={kernel!r} returns no weights, and {score_mod.name} needs them: use 'math'")
    if kernel == "flex":
        _check_flex(q, k, v, mask, dropout)
        assert not isinstance(mask, Tensor)
        return flex(q, k, v, mask, score_mod, scale)
    if kernel == "blocks":
        return blocks(q, k, v, mask, score_mod, scale, dropout)
    if kernel == "varlen":
        return _attend_varlen(q, k, v, mask, scale, dropout)
    if kernel == "sdpa" and dropout and _takes_cpu_dropout(q, mask, score_mod):
        bias = mask.bias(q.shape[0], q.dtype) if isinstance(mask, BoundMask) and not mask.allows_all else None
        return cpu_dropout_attention(q, k, v, bias, score_mod, scale, dropout)
    if kernel == "sdpa" and isinstance(mask, BoundMask) and mask.is_plain_causal and score_mod is None:
        return sdpa(q, k, v, None, None, scale, dropout, causal=True)
    dense = _dense(mask, q.shape[0])
    if kernel == "sdpa":
        if score_mod is not None and not score_mod.additive:
            raise ValueError(f"kernel='sdpa' can only add to scores, and {score_mod.name} does more: use 'math'")
        return sdpa(q, k, v, dense, score_mod, scale, dropout)
    return naive(q, k, v, dense, score_mod, scale, dropout).output


def _dense(mask: BoundMask | Tensor | None, batch: int) -> Tensor | None:
    if mask is None or isinstance(mask, Tensor):
        return mask
    return None if mask.allows_all else mask.dense(batch)


def _check_arguments(q: Tensor, k: Tensor, kernel: str, also: str | tuple[str, ...]) -> None:
    known = ("scores", "weights", "lse", "everything")
    unknown = [name for name in ((also,) if isinstance(also, str) else also) if name not in known]
    if unknown:
        raise ValueError(f"also={unknown[0]!r} is unknown: give any of {', '.join(known)}")
    if kernel not in get_args(Kernel):
        raise ValueError(f"kernel={kernel!r} is unknown: give one of {', '.join(get_args(Kernel))}")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} query heads are not a multiple of {k.shape[1]} key groups")


def choose_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: BoundMask | Tensor | None,
    score_mod: BoundScoreMod | None,
    dropout: float,
) -> Kernel:
    """Fused where possible; block-sparse where it skips enough to pay."""
    if score_mod is not None and (score_mod.needs_weights or not score_mod.additive):
        return "math"
    fits = q.is_cuda and q.dtype != torch.float64 and max(q.shape[3], v.shape[3]) <= MAX_HEAD_WIDTH and HAS_TRITON
    if fits and score_mod is None and isinstance(mask, BoundMask) and mask.intervals() is not None:
        return "varlen"
    queries, keys = q.shape[2], k.shape[2]
    if not q.is_cuda and not torch.compiler.is_compiling() and min(queries, keys) >= MIN_BLOCKS_TOKENS:
        has_flag = isinstance(mask, BoundMask) and mask.is_plain_causal and not dropout
        plan = None if has_flag else _block_plan(mask, score_mod)
        if plan is not None and plan.pairs <= MAX_BLOCKS_SHARE * queries * keys:
            return "blocks"
    long = queries >= MIN_FLEX_TOKENS and keys >= MIN_FLEX_TOKENS
    sparse = isinstance(mask, BoundMask) and (mask.mask.keys_per_query or keys) * MIN_FLEX_SPARSITY <= keys
    needs_grad = q.requires_grad or k.requires_grad or v.requires_grad
    if long and sparse and dropout == 0.0 and q.dtype != torch.float64 and (q.is_cuda or not needs_grad):
        return "flex"
    return "sdpa"


def _check_flex(q: Tensor, k: Tensor, v: Tensor, mask: BoundMask | Tensor | None, dropout: float) -> None:
    if isinstance(mask, Tensor):
        raise ValueError("kernel='flex' needs a mask as a rule (a BoundMask), not as a dense tensor")
    if dropout:
        raise ValueError(f"kernel='flex' has no dropout, and dropout={dropout}: use 'sdpa' or 'math'")
    if q.device.type == "cpu" and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise HeadwayError(
            'kernel = "flex" has no gradients on the CPU. Train on a GPU, or set the mixer\'s kernel = "auto".'
        )


def _attend_varlen(
    q: Tensor, k: Tensor, v: Tensor, mask: BoundMask | Tensor | None, scale: float, dropout: float
) -> Tensor:
    intervals = mask.intervals() if isinstance(mask, BoundMask) else None
    if intervals is None:
        raise ValueError("kernel='varlen' needs packed texts, and a mask by which each query sees one interval of keys")
    q, k, v = (x.squeeze(0).transpose(0, 1) for x in (q, k, v))  # (T, H, D) …
    return attend_varlen(q, k, v, intervals, scale, dropout).transpose(0, 1).unsqueeze(0)


def _takes_cpu_dropout(q: Tensor, mask: BoundMask | Tensor | None, score_mod: BoundScoreMod | None) -> bool:
    """Whether `cpu_dropout_attention` applies: on a CPU, where every query sees some key."""
    if q.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if isinstance(mask, Tensor) or not (score_mod is None or score_mod.additive):
        return False
    return mask is None or mask.allows_all or mask.bias(q.shape[0], q.dtype) is not None


def _repeat_kv(x: Tensor, heads: int) -> Tensor:
    """Give each query head the keys or values of its group."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _without_cudnn() -> contextlib.AbstractContextManager[None]:
    """cuDNN makes a plan for every number of keys: in decoding that is every step, and takes longer than the step."""
    return sdpa_kernel(WITHOUT_CUDNN)


def _flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention


def _specialise_rules() -> contextlib.AbstractContextManager[Any]:
    """Compile a kernel for each mask rule, with the rule's numbers as constants. By default torch.compile makes them
    variables once it has met two rules, and then fails on a CPU; and it gives up after eight."""
    if torch.compiler.is_compiling():
        return contextlib.nullcontext()
    return torch._dynamo.config.patch(specialize_int=True, recompile_limit=64)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _ignore_slow_warning() -> Iterator[None]:
    """PyTorch warns that FlexAttention is slow unless compiled; here that is intended."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        yield


@functools.cache
def _compiled_flex(device: str) -> Callable[..., Any]:
    """For sizes that vary, except on a CPU: there Inductor of torch 2.13 writes C++ that does not compile."""
    return torch.compile(_flex(), dynamic=False if device == "cpu" else None)
