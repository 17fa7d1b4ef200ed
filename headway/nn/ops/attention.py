"""The one attention function, with several kernels. The naive form is the specification; the others equal it."""

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
from headway.nn.masks.masks import Pattern
from headway.nn.ops.dropout import drawn_dropout
from headway.nn.ops.triton import HAS_TRITON
from headway.nn.ops.varlen_attention import WIDEST, attend_spans
from headway.nn.positions.score_mod import Bend

Kernel = Literal["auto", "math", "sdpa", "flex", "spans"]
UNPLANNED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # all but cuDNN


class Attended(NamedTuple):
    output: Tensor  # (B, H, T, D)
    scores: Tensor  # (B, H, T, S) after bending, before the mask
    weights: Tensor  # (B, H, T, S)
    lse: Tensor  # (B, H, T) log of the summed exponentials; -inf where everything is masked


def naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bend: Bend | None,
    scale: float,
    dropout: float = 0.0,
) -> Attended:
    """softmax(bend(q·kᵀ·scale) where mask) · v, each step in sight."""
    k, v = _repeat(k, q.shape[1]), _repeat(v, q.shape[1])
    scores = q @ k.transpose(-1, -2) * scale  # (B, H, T, S)
    scores = scores if bend is None else bend(scores, q.shape[0])
    allowed = torch.ones((), dtype=torch.bool, device=q.device) if mask is None else mask
    empty = ~allowed.any(-1, keepdim=True) if allowed.dim() else ~allowed
    # A row that may look at nothing keeps its scores through the softmax, so that no gradient is NaN, and then gets 0.
    shown = scores.masked_fill(~allowed & ~empty, -torch.inf)
    weights = shown.softmax(-1).masked_fill(empty, 0.0)
    lse = shown.logsumexp(-1).masked_fill(empty.squeeze(-1) if empty.dim() else empty, -torch.inf)
    kept = F.dropout(weights, dropout)
    heard = kept @ v if bend is None else kept @ v + bend.heard(kept)
    return Attended(heard, scores, weights, lse)


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bend: Bend | None,
    scale: float,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """PyTorch's fused kernel, over a dense mask, or over a triangle that it knows without being shown."""
    if bend is not None:
        bias = bend(torch.zeros((), dtype=q.dtype, device=q.device), q.shape[0])
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    shared = k.shape[1] != q.shape[1]
    with _unplanned() if q.is_cuda and q.shape[2] == 1 else contextlib.nullcontext():
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=shared)


def dropping(
    q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None, bend: Bend | None, scale: float, dropout: float
) -> Tensor:
    """The naive form in as few steps as it takes, for a CPU, whose fused kernel cannot drop. `hidden` is added to scores:
    -inf where looking is not allowed, and never in a whole row."""
    k, v = _repeat(k, q.shape[1]), _repeat(v, q.shape[1])
    scores = (q * scale) @ k.transpose(-1, -2)  # (B, H, T, S)
    scores = scores if bend is None else bend(scores, q.shape[0])
    weights = (scores if hidden is None else scores + hidden).softmax(-1)
    return drawn_dropout(weights, dropout) @ v


def flex(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern | None, bend: Bend | None, scale: float) -> Tensor:
    """FlexAttention: skips the blocks that the mask hides. No dropout; no gradients on the CPU."""
    blocks = None if pattern is None or pattern.allows_all else pattern.blocks(q.shape[0])
    compiled = q.device.type == "cuda" or q.dtype != torch.float64  # the CPU compiles no float64
    function = _compiled_flex() if compiled else _flex()
    shared = k.shape[1] != q.shape[1]
    score = None if bend is None else bend.at_index
    with _one_kernel_a_rule() if compiled else _quiet():
        output = function(q, k, v, score_mod=score, block_mask=blocks, scale=scale, enable_gqa=shared)
    assert isinstance(output, Tensor)
    return output


@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Pattern | Tensor | None = None, score: Bend | None = None,
    scale: float | None = None, dropout: float = 0.0, kernel: Kernel = "auto",
) -> Tensor: ...  # fmt: skip
@overload
def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Pattern | Tensor | None = None, score: Bend | None = None,
    scale: float | None = None, dropout: float = 0.0, kernel: Kernel = "auto", also: str | tuple[str, ...],
) -> Attended: ...  # fmt: skip
def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Pattern | Tensor | None = None, score: Bend | None = None,
    scale: float | None = None, dropout: float = 0.0, kernel: Kernel = "auto", also: str | tuple[str, ...] = (),
) -> Tensor | Attended:  # fmt: skip
    """softmax(score(q·kᵀ·scale) where mask) · v

    q (B, H, T, D); k (B, G, S, D) and v (B, G, S, E) with H a multiple of G. `scale` is 1/√D unless given.
    `mask` is a Pattern or a dense bool tensor that broadcasts to (B, H, T, S), true where looking is allowed; a query
    that may look at nothing gets exactly 0. `also` names what should come beside the output, any of "scores",
    "weights", "lse", or "everything": then an explicit path computes all of it.
    """
    _check(q, k, kernel, also)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if not also and kernel == "auto":
        kernel = choose_kernel(q, k, v, mask, score, dropout)
    if not also and kernel != "math" and score is not None and score.hears:
        raise ValueError(f"kernel={kernel!r} shows no weights, and {score.score.name} listens to them: use 'math'")
    if not also and kernel == "flex":
        if isinstance(mask, Tensor):
            raise ValueError("kernel='flex' needs a mask as a rule (a Pattern), not as a dense tensor")
        if dropout:
            raise ValueError(f"kernel='flex' cannot drop weights, and dropout is {dropout}: use 'sdpa' or 'math'")
        if q.device.type == "cpu" and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
            raise HeadwayError(
                'kernel = "flex" has no gradients on the CPU. Train on a GPU, or set the mixer\'s kernel = "auto".'
            )
        return flex(q, k, v, mask, score, scale)
    if not also and kernel == "spans":
        return _spans(q, k, v, mask, scale, dropout)
    if not also and kernel == "sdpa" and dropout and _drops_plainly(q, mask, score):
        hidden = mask.added(q.shape[0], q.dtype) if isinstance(mask, Pattern) and not mask.allows_all else None
        return dropping(q, k, v, hidden, score, scale, dropout)
    if not also and kernel == "sdpa" and isinstance(mask, Pattern) and mask.plainly_causal and score is None:
        return sdpa(q, k, v, None, None, scale, dropout, causal=True)
    dense = mask if isinstance(mask, Tensor) else None if mask is None or mask.allows_all else mask.dense(q.shape[0])
    if not also and kernel == "sdpa":
        if score is not None and not score.adds:
            raise ValueError(f"kernel='sdpa' can only add to scores, and {score.score.name} does more: use 'math'")
        return sdpa(q, k, v, dense, score, scale, dropout)
    attended = naive(q, k, v, dense, score, scale, dropout)
    return attended if also else attended.output


def _check(q: Tensor, k: Tensor, kernel: str, also: str | tuple[str, ...]) -> None:
    known = ("scores", "weights", "lse", "everything")
    unknown = [name for name in ((also,) if isinstance(also, str) else also) if name not in known]
    if unknown:
        raise ValueError(f"also={unknown[0]!r} is not known: any of {', '.join(known)}")
    if kernel not in get_args(Kernel):
        raise ValueError(f"kernel={kernel!r} is not known: one of {', '.join(get_args(Kernel))}")
    if q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} groups of keys: give a number that divides"
        )


def choose_kernel(
    q: Tensor, k: Tensor, v: Tensor, mask: Pattern | Tensor | None, score: Bend | None, dropout: float
) -> Kernel:
    """Fused where it can be; blocks where they skip enough to pay for themselves."""
    if score is not None and (score.hears or not score.adds):
        return "math"
    fits = q.is_cuda and q.dtype != torch.float64 and max(q.shape[3], v.shape[3]) <= WIDEST and HAS_TRITON
    if fits and score is None and isinstance(mask, Pattern) and mask.spans() is not None:
        return "spans"
    long = q.shape[2] >= 1024 and k.shape[2] >= 1024
    sparse = isinstance(mask, Pattern) and (mask.mask.sees or k.shape[2]) * 4 <= k.shape[2]
    learns = q.requires_grad or k.requires_grad or v.requires_grad
    if long and sparse and dropout == 0.0 and q.dtype != torch.float64 and (q.is_cuda or not learns):
        return "flex"
    return "sdpa"


def _spans(q: Tensor, k: Tensor, v: Tensor, mask: Pattern | Tensor | None, scale: float, dropout: float) -> Tensor:
    spans = mask.spans() if isinstance(mask, Pattern) else None
    if spans is None:
        raise ValueError(
            "kernel='spans' needs texts in one line, and a mask by which a query sees one stretch of its own"
        )
    asked, known, said = (x.squeeze(0).transpose(0, 1) for x in (q, k, v))  # (T, H, D) …
    return attend_spans(asked, known, said, spans, scale, dropout).transpose(0, 1).unsqueeze(0)


def _drops_plainly(q: Tensor, mask: Pattern | Tensor | None, score: Bend | None) -> bool:
    """Whether this is the CPU, and every query may look at something."""
    if q.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if isinstance(mask, Tensor) or not (score is None or score.adds):
        return False
    return mask is None or mask.allows_all or mask.added(q.shape[0], q.dtype) is not None


def _repeat(x: Tensor, heads: int) -> Tensor:
    """Give each query head its group's keys."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _unplanned() -> contextlib.AbstractContextManager[None]:
    """Without cuDNN, which makes a plan for every number of keys: in decoding that is every step, and takes longer than
    the step itself."""
    return sdpa_kernel(UNPLANNED)


def _flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention


def _one_kernel_a_rule() -> contextlib.AbstractContextManager[Any]:
    """The numbers in a rule are constants of its kernel. Left to itself the compiler makes them variables once it has
    met two rules, and then fails on the CPU; and it gives up after eight."""
    if torch.compiler.is_compiling():
        return contextlib.nullcontext()
    return torch._dynamo.config.patch(specialize_int=True, recompile_limit=64)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch warns that FlexAttention is slow unless compiled; where it is not, that is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        yield


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    return torch.compile(_flex())
