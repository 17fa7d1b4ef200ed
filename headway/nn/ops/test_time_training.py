"""Test-time training (TTT): the state is a small model, and every token is a step of its training.

    inner model    f(x; W) = xW + b, or two such layers with GELU between them
    inner loss     ℓ_s(W) = ½ ‖norm(f(k_s; W)) - (v_s - k_s)‖²
    W_t = W - c_t Σ_{s ≤ t} η_s ∇ℓ_s(W)            s in the mini-batch of t; W: before the mini-batch
    z_t = q_t + norm(f(q_t; W_t))

The W_t of a mini-batch's last token is the W of the next. All gradients of a mini-batch are taken at the same W, so the
matrices W_t need not be computed: q_t W_t = q_t W - c_t Σ_s η_s (q_t · k_s) g_s, where g_s is the gradient of ℓ_s with
respect to k_s W. That is a product with the triangular matrix of all pairs in the mini-batch (`dual`). `primal` is the
specification.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Layers = tuple[Tensor, ...]  # of the inner model: (B, H, inputs + 1, outputs) each, with the bias as the last row


class InnerNorm(NamedTuple):
    """The layer norm of each head."""

    gain: Tensor  # (H, 1, D)
    bias: Tensor  # (H, 1, D)
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """(B, H, L, D)"""
        return self.gain * self._standardise(x)[0] + self.bias

    def loss_gradient(self, x: Tensor, target: Tensor) -> Tensor:
        """Of ½ ‖norm(x) - target‖² with respect to x."""
        standard, rate = self._standardise(x)
        error = self.gain * (self.gain * standard + self.bias - target)
        along = standard * (error * standard).mean(-1, keepdim=True)
        return (error - error.mean(-1, keepdim=True) - along) * rate

    def _standardise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        rate = (variance + self.eps).rsqrt()
        return (x - mean) * rate, rate


class MiniBatches(NamedTuple):
    """N mini-batches of up to L tokens: earlier tokens may have begun the first, and the last may be incomplete."""

    q: Tensor  # (B, H, N, L, D)
    k: Tensor  # (B, H, N, L, D)
    v: Tensor  # (B, H, N, L, D)
    rates: Tensor  # (B, H, N, L, 1) η, 0 where there is no token
    steps: Tensor  # (B or 1, 1, L, 1) c, by a token's place in its mini-batch
    last_step: Tensor  # () c of the last place
    complete: Tensor  # (B or 1, N) whether each mini-batch ends among these tokens


class TTTState(NamedTuple):
    """The inner model, as trained by all tokens so far."""

    layers: Layers  # before the current mini-batch
    sums: Layers | None  # of η ∇ℓ over its tokens so far; None: there are none


def primal(batches: MiniBatches, state: TTTState, norm: InnerNorm) -> tuple[Tensor, TTTState]:
    """By the definition, token by token, with gradients by autograd."""
    q, k, v, rates, steps = batches[:5]
    layers, sums = state.layers, state.sums or tuple(map(torch.zeros_like, state.layers))
    outputs = []

    def loss(layers: Layers, x: Tensor, target: Tensor) -> Tensor:
        return (norm(apply_model(x, layers)) - target).square().sum() / 2

    for n in range(q.shape[2]):
        for t in range(q.shape[3]):
            query, key, value, rate = (x[:, :, n, t : t + 1] for x in (q, k, v, rates))  # (B, H, 1, D)
            gradients: Layers = torch.func.grad(loss)(layers, key, value - key)
            sums = tuple(total + rate * gradient for total, gradient in zip(sums, gradients))
            now = tuple(layer - steps[:, :, t : t + 1] * total for layer, total in zip(layers, sums))
            outputs.append(query + norm(apply_model(query, now)))
        layers, sums = _finish_batch(layers, sums, batches, n)
    return torch.cat(outputs, 2).view_as(q), TTTState(layers, sums)


def dual(batches: MiniBatches, state: TTTState, norm: InnerNorm, *, keep: bool = True) -> tuple[Tensor, TTTState]:
    """By products of all pairs in a mini-batch. Only the gradients go from one mini-batch to the next; the outputs of
    all of them are computed together. Without `keep` the last mini-batch leaves nothing behind."""
    q, k, v, rates, steps = batches[:5]
    layers, sums = state
    before: list[Layers] = []
    inputs: list[Layers] = []  # of each layer, with a one for its bias
    updates: list[Layers] = []  # η g of each layer
    parts = (
        x.unbind(2) for x in (_with_one(k), v - k, rates)
    )  # the gradient of each of N slices would be as large as the whole
    for n, (ones, target, rate) in enumerate(zip(*parts)):
        given, gradients = _backpropagate(ones, target, layers, norm)
        before.append(layers)
        inputs.append(given)
        updates.append(tuple(rate * gradient for gradient in gradients))
        if keep or n + 1 < q.shape[2]:
            added = tuple(x.mT @ update for x, update in zip(given, updates[n]))
            sums = added if sums is None else tuple(total + more for total, more in zip(sums, added))
            layers, sums = _finish_batch(layers, sums, batches, n)
    x, steps = q, steps[:, :, None]
    for number, (weights, known, update) in enumerate(zip(*(map(_stack, zip(*y)) for y in (before, inputs, updates)))):
        x = _with_one(x if number == 0 else gelu(x))
        change = (x @ known.mT).tril() @ update
        if state.sums is not None:  # of the first mini-batch: a row that does not end it has no tokens in others
            change = torch.cat([change[:, :, :1] + x[:, :, :1] @ state.sums[number][:, :, None], change[:, :, 1:]], 2)
        x = x @ weights - steps * change
    return q + _by_batch(norm, x), TTTState(layers, sums)


def apply_model(x: Tensor, layers: Layers) -> Tensor:
    """f(x; W): (B, H, L, D) -> (B, H, L, D)"""
    x = _with_one(x) @ layers[0]
    for layer in layers[1:]:
        x = _with_one(gelu(x)) @ layer
    return x


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def gelu_derivative(x: Tensor) -> Tensor:
    """Of x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))"""
    rate = math.sqrt(2 / math.pi)
    curve = torch.tanh(rate * (x + 0.044715 * x**3))
    return 0.5 * (1 + curve) + 0.5 * x * (1 - curve**2) * rate * (1 + 3 * 0.044715 * x**2)


def _backpropagate(ones: Tensor, target: Tensor, layers: Layers, norm: InnerNorm) -> tuple[Layers, Layers]:
    """The input of each layer, and the gradient of ℓ with respect to its output."""
    first = ones @ layers[0]
    if len(layers) == 1:
        return (ones,), (norm.loss_gradient(first, target),)
    hidden = _with_one(gelu(first))
    gradient = norm.loss_gradient(hidden @ layers[1], target)
    return (ones, hidden), (gradient @ layers[1][:, :, :-1].mT * gelu_derivative(first), gradient)


def _finish_batch(layers: Layers, sums: Layers, batches: MiniBatches, n: int) -> tuple[Layers, Layers]:
    """In rows whose mini-batch n is complete, its last W_t is the W of the next."""
    ends = batches.complete[:, n, None, None, None]
    trained = tuple(layer - batches.last_step * total for layer, total in zip(layers, sums))
    return (
        tuple(torch.where(ends, new, old) for new, old in zip(trained, layers)),
        tuple(torch.where(ends, 0.0, total) for total in sums),
    )


def _with_one(x: Tensor) -> Tensor:
    return F.pad(x, (0, 1), value=1.0)


def _stack(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.stack(parts, 2)


def _by_batch(norm: InnerNorm, x: Tensor) -> Tensor:
    """(B, H, N, L, D), as if the mini-batches were one."""
    return norm(x.flatten(2, 3)).view_as(x)
