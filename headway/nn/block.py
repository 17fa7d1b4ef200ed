"""One layer: an ordered list of sub-layers, each inside the residual."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import Part
from headway.nn.build import Scope, make
from headway.nn.cache.kv import State
from headway.nn.context import Context
from headway.nn.layers.residual import Residual, streams
from headway.nn.masks.masks import Mask


class Block(nn.Module):
    def __init__(self, mixer: Part, cross: Part | None, feedforward: Part, residual: Any, scope: Scope) -> None:
        super().__init__()
        parts: dict[str, tuple[str, Part]] = {"self": ("mixer", mixer)}
        if cross is not None:
            parts["cross"] = ("mixer", cross)
        parts["feedforward"] = ("feedforward", feedforward)
        self.sublayers = nn.ModuleDict({name: make(slot, part, scope) for name, (slot, part) in parts.items()})
        self.gain: float = residual.gain(scope)  # of the weights that add to the stream, when they start
        self.residuals = nn.ModuleDict({name: residual.build(scope, "sublayer") for name in parts})

    def forward(self, s: Any, ctx: Context, states: dict[str, State] | None) -> Any:
        """s is what the residual carries. The mask and the position in ctx are those of the self sub-layer."""
        for name, sublayer in self.sublayers.items():
            residual: Residual = self.residuals[name]  # type: ignore[assignment]
            state = None if states is None else states.get(name)
            where = f"{ctx.where}.{name}"
            inside = replace(ctx, where=where) if name == "self" else ctx.inside(where)
            s = residual.wrap(s, lambda x, run=sublayer, c=inside, st=state: _run(run, x, c, st))  # type: ignore[misc]
            if ctx.traced:
                for number, stream in enumerate(streams(s), start=1):
                    inside.record("stream" if number == 1 else f"stream{number}", stream)
        return s

    @property
    def remembers(self) -> bool:
        """Whether what it reads now is needed to read what follows."""
        return bool(getattr(self.sublayers["self"], "remembers", True))

    def new_states(self, batch: int, device: torch.device, mask: Mask, learns: bool) -> dict[str, State]:
        own = self.sublayers["self"].new_state(batch, device, reach=mask.reach, learns=learns)  # type: ignore[operator]
        states: dict[str, State] = {} if own is None else {"self": own}
        if "cross" in self.sublayers:
            states["cross"] = self.sublayers["cross"].new_state(batch, device, listens=True)  # type: ignore[operator]
        return states


def _run(sublayer: nn.Module, x: Tensor, ctx: Context, state: State | None) -> Tensor:
    kind = ctx.where.rpartition(".")[2]
    if kind == "feedforward":
        output = sublayer(x, ctx)
    elif kind == "cross":
        memory = ctx.memories.get("encoder")
        if memory is None and state is None:
            raise ValueError(
                "this decoder listens to an encoder and was given nothing to hear: pass memory, from encode"
            )
        output = sublayer(x, ctx, source=memory, state=state)
    else:
        output = sublayer(x, ctx, state=state)
    ctx.record("output", output)
    assert isinstance(output, Tensor)
    return output
