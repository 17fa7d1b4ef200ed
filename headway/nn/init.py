"""Weight initialisation, all of it.

| what               | how                        |
|--------------------|----------------------------|
| token embedding    | normal, deviation 1/√d     |
| learned positions and distances, segments, start of a query stream | normal, deviation 0.02 |
| linear weight      | uniform Xavier; times the residual's gain in `residual_outputs`, and its own in `initial_gains` |
| untied output      | normal, deviation 1/√d     |
| every bias         | 0                          |
| every norm's gain  | 1                          |
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from headway.nn.layers.heads import LogitsHead
from headway.nn.layers.linear import Linear
from headway.nn.positions.positions import Learned, Position
from headway.nn.query_stream import QueryStream
from headway.nn.stack import Stack


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """In place. Biases and gains keep the 0 and 1 of their constructors."""
    small = {id(module.table) for module in model.modules() if isinstance(module, Learned)}
    small |= {id(child) for name, child in model.named_modules() if name.endswith(".segments")}
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            deviation = 0.02 if id(module) in small else module.embedding_dim**-0.5
            module.weight.normal_(0.0, deviation)
        elif isinstance(module, Position):
            for table in module.parameters(recurse=False):
                table.normal_(0.0, 0.02)
        elif isinstance(module, QueryStream):
            module.start.normal_(0.0, 0.02)
        elif isinstance(module, Linear) and module.weight is not None:
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, LogitsHead) and module.weight is not None:
            module.weight.normal_(0.0, module.weight.shape[1] ** -0.5)
    for module in model.modules():
        factors: Mapping[str, float] = getattr(module, "initial_gains", {})  # of its linear layers, by name
        for name, factor in factors.items():
            weight = module.get_submodule(name).weight
            if isinstance(weight, Tensor):
                weight.mul_(factor)
    for stack in model.modules():
        if isinstance(stack, Stack):
            parts = [(block.gain, part) for block in stack.blocks for part in block.sublayers.values()]  # type: ignore[operator]
            for gain, part in [*parts, (stack.blocks[0].gain, stack.shared)]:
                for name in getattr(part, "residual_outputs", ()):
                    weight = part.get_submodule(name).weight
                    if weight is not None and gain != 1:
                        weight.mul_(gain)
