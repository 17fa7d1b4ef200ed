"""Routing of mixture-of-experts layers: which experts each token visits, from a trace."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headway.errors import HeadwayError
from headway.inspect.trace import Trace

SHARES_SUFFIX = ".feedforward.shares"


@dataclass(frozen=True)
class ExpertRouting:
    """One layer: the weight of each expert for each token, 0 where it was not chosen."""

    shares: np.ndarray  # (tokens, experts)
    tokens: list[str]
    layer_name: str  # "encoder, layer 2", counted from 1


def read_expert_routing(trace: Trace, side: Literal["encoder", "decoder"] = "encoder") -> list[ExpertRouting]:
    """For every layer of this side that has experts."""
    tokens = (trace.source if side == "encoder" else trace.target).pieces
    found = []
    for name in trace.tensors:
        if name.startswith(f"{side}.") and name.endswith(SHARES_SUFFIX):
            layer = name.removesuffix(SHARES_SUFFIX)
            chosen = trace.tensors[f"{layer}.feedforward.chosen"].long().numpy()
            shares = np.zeros((len(tokens), trace.tensors[f"{layer}.feedforward.router"].shape[1]), np.float32)
            np.put_along_axis(shares, chosen, trace.tensors[name].numpy(), axis=1)
            found.append(ExpertRouting(shares, tokens, f"{side}, layer {int(layer.rpartition('.')[2]) + 1}"))
    if not found:
        raise HeadwayError(f'there are no experts in this {side}: no layer has the feed-forward "moe".')
    return found
