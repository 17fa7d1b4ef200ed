"""Positive orthogonal random features, by which a product of features is a softmax's exp(q·k) on average (FAVOR+,
Choromanski 2021).

    exp(q·k) = E_w [exp(w·q - |q|²/2) exp(w·k - |k|²/2)]         w normal

Rows w that are orthogonal to each other have the same mean and a smaller variance than independent ones. Factors that
all features of a query share cancel when weights are normalised: its features are divided by the largest of them.
"""

import math

import numpy as np
import torch
from torch import Tensor

MAX_EXPONENT = 70.0  # of a feature: sums of many larger ones would overflow float32


def draw_projection(features: int, width: int, seed: list[int]) -> Tensor:
    """Rows w (features, width), float64, orthogonal in blocks of `width`, each as long as a normal vector is. The same
    on every machine: numpy keeps this generator's numbers for ever."""
    generator = np.random.RandomState(seed)
    blocks = []
    for first in range(0, features, width):
        q, r = np.linalg.qr(generator.standard_normal((width, width)))
        blocks.append((q * np.sign(np.diag(r))).T[: features - first])  # whatever signs LAPACK chooses
    lengths = np.linalg.norm(generator.standard_normal((features, width)), axis=1)
    return torch.from_numpy(np.concatenate(blocks) * lengths[:, None])


def query_features(q: Tensor, projection: Tensor) -> Tensor:
    """(…, T, D) -> (…, T, F), for the softmax of q·k / √D."""
    exponents = _scale(q) @ projection.to(q.dtype).mT
    return (exponents - exponents.detach().amax(-1, keepdim=True)).exp()


def key_features(k: Tensor, projection: Tensor) -> Tensor:
    """(…, S, D) -> (…, S, F). Not divided by anything: that would change the weights of keys against each other, or
    depend on later ones."""
    k = _scale(k)
    exponents = k @ projection.to(k.dtype).mT - k.square().sum(-1, keepdim=True) / 2
    return exponents.clamp(max=MAX_EXPONENT).exp()


def _scale(x: Tensor) -> Tensor:
    """Half of the softmax's 1 / √D for the query, half for the key."""
    return x * math.pow(x.shape[-1], -0.25)
