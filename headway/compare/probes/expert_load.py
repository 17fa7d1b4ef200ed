"""The claim of mixtures of experts: all experts are used, and a token visits few of the parameters.

Of each layer with experts, the share of all visits that go to each of its experts, the busiest first: which expert it
is differs from seed to seed, so ranks are what can be compared. `visited_parameters` of the whole model's `parameters`
are those that a token visits, at most where layers share their weights.
"""

from collections import Counter, defaultdict

import numpy as np
import torch

from headway.compare.probes import ProbeRow
from headway.compare.probes.windows import cut_windows, trace_windows
from headway.config.config import Config
from headway.errors import HeadwayError
from headway.inspect.experts import SHARES_SUFFIX
from headway.nn.layers.moe import MixtureOfExperts
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens

MEASURED_TOKENS = 16384


def measure(model: Transformer, stream: np.ndarray, config: Config, special: SpecialTokens) -> list[ProbeRow]:
    visits: dict[str, torch.Tensor] = defaultdict(lambda: torch.zeros(()))
    for trace in trace_windows(model, cut_windows(stream, config.train.max_tokens, MEASURED_TOKENS)):
        for name in trace:
            if name.endswith(SHARES_SUFFIX):
                path = name.removesuffix(".shares")
                experts = trace[f"{path}.router"].shape[-1]
                counts = trace[f"{path}.chosen"].flatten().bincount(minlength=experts).cpu()
                visits[path] = visits[path] + counts
    if not visits:
        raise HeadwayError(
            'the probe expert_load needs layers with the feed-forward "moe", and this model has none. Leave it out.'
        )
    sizes: ProbeRow = {"visited_parameters": count_visited(model), "parameters": count_parameters(model)}
    rows: list[ProbeRow] = []
    for path, counts in visits.items():
        layer = int(path.split(".")[1]) + 1
        shares = (counts.double() / counts.sum()).sort(descending=True).values.tolist()
        for rank, share in enumerate(shares, start=1):
            rows.append({"layer": layer, "rank": rank, "share": share, "even_share": 1 / len(shares), **sizes})
    return rows


def count_visited(model: Transformer) -> int:
    """Parameters without those of the experts that a token does not go to."""
    (side,) = model.config.sides
    stack: Stack = model.stacks[side]  # type: ignore[assignment]
    found = [block.sublayers["feedforward"] for block in stack.layer_blocks if "feedforward" in block.sublayers]
    uses = Counter(module for module in found if isinstance(module, MixtureOfExperts))
    unvisited = sum(
        max(0, module.config.experts - times * module.config.top_k) * count_parameters(module.experts[0])
        for module, times in uses.items()
    )
    return count_parameters(model) - unvisited


def count_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
