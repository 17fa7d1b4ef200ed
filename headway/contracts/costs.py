"""What a config says that its model costs is what the built model costs."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.config.schema import from_dict
from headway.contracts.results import require
from headway.nn.sequence import Neighbours
from headway.nn.transformer import Transformer


def check_parameters(config: Transformer.Config) -> None:
    """As many as the config says, before anything is built."""
    with torch.device("meta"):
        found = sum(parameter.numel() for parameter in Transformer(config).parameters())
    expected = config.parameter_count()
    require(found == expected, f"{expected:,} parameters by the config", f"{found:,} in the model")


def check_flops(config: Transformer.Config, source: int = 7, target: int = 5) -> None:
    """As many in a forward pass as the config says, by torch's own counter."""
    config = use_naive_kernels(config)
    expected, found = config.forward_flops(source, target), count_flops(config, source, target)
    require(found == expected, f"{expected:,} FLOPs by the config", f"{found:,} in a forward pass")


def count_flops(config: Transformer.Config, source: int, target: int) -> int:
    model = Transformer(config).eval()
    ids = [torch.zeros(1, length, dtype=torch.long) for length in (source, target)]
    given: Any = {}
    if (retrieval := model.config.decoder.retrieval) is not None:
        shape = (1, target // retrieval.chunk, retrieval.neighbours, retrieval.tokens)
        given = {"neighbours": Neighbours(torch.zeros(shape, dtype=torch.long), torch.ones(shape, dtype=torch.bool))}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        sides = (i if side in config.sides else None for i, side in zip(ids, ("encoder", "decoder")))
        hidden = model(*sides, **given).hidden
        model.logits(hidden)
    return int(counter.get_total_flops())


def use_naive_kernels(config: Transformer.Config) -> Transformer.Config:
    """Every product in sight of the counter: attention by the naive kernel."""
    table = config.resolved().to_dict()
    for side in ("encoder", "decoder"):
        for name in ("mixer", "cross"):
            for part in table[side].get(name, []):
                if "kernel" in part:
                    part["kernel"] = "math"
    if "retrieval" in table["decoder"]:
        table["decoder"]["retrieval"]["attention"]["kernel"] = "math"
    return from_dict(Transformer.Config, table)
