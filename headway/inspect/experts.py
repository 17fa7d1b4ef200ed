"""Which experts the tokens of a text visit, out of a trace."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headway.errors import HeadwayError
from headway.inspect.trace import Trace

NAME = ".feedforward.shares"


@dataclass(frozen=True)
class Visits:
    """One layer: how much each expert counts for each token, 0 where it was not chosen."""

    shares: np.ndarray  # (tokens, experts)
    tokens: list[str]
    where: str  # "encoder, layer 2", counted from 1


def visits(trace: Trace, side: Literal["encoder", "decoder"] = "encoder") -> list[Visits]:
    """Of every layer of this side that has experts."""
    tokens = (trace.source if side == "encoder" else trace.target).pieces
    found = []
    for name in trace.tensors:
        if name.startswith(f"{side}.") and name.endswith(NAME):
            layer = name.removesuffix(NAME)
            chosen = trace.tensors[f"{layer}.feedforward.chosen"].long().numpy()
            shares = np.zeros((len(tokens), trace.tensors[f"{layer}.feedforward.router"].shape[1]), np.float32)
            np.put_along_axis(shares, chosen, trace.tensors[name].numpy(), axis=1)
            found.append(Visits(shares, tokens, f"{side}, layer {int(layer.rpartition('.')[2]) + 1}"))
    if not found:
        raise HeadwayError(f'there are no experts in this {side}: no layer has the feed-forward "moe".')
    return found
