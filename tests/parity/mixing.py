"""A mixer by itself, without a model around it: built, and run as self- or cross-attention."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config.schema import from_dict, make_part
from headway.errors import ConfigError
from headway.nn.build import Scope, make
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import make_mask
from headway.nn.sequence import Memory, positions_from_start
from headway.nn.transformer import Transformer


class Run(NamedTuple):
    output: Tensor  # (B, T, d)
    trace: dict[str, Tensor]


def scope(d_model: int, side: str = "decoder") -> Scope:
    return from_dict(Transformer.Config, {"d_model": d_model, "vocabulary": 9, "dropout": 0.0}).scope(side)  # type: ignore[arg-type]


def make_mixer(mixer: str, d_model: int, side: str = "decoder") -> nn.Module:
    """In float64, with chance in every parameter."""
    torch.manual_seed(3)
    module: nn.Module = make("mixer", make_part("mixer", mixer), scope(d_model, side)).double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.4)
    return module


def run_mixer(
    module: nn.Module, x: Tensor, *, source: Tensor | None = None, valid: Tensor | None = None, mask: str = "full"
) -> Run:
    """`valid`: which keys are real, of the source if there is one."""
    own = valid if source is None else None
    ctx = Context(positions_from_start(x.shape[1], own, x.device), ForwardReport(trace={}), make_mask(mask), path="m")
    memory = None
    if source is not None:
        memory = Memory(source, positions_from_start(source.shape[1], valid, x.device))
    output = module(x, ctx, source=memory)
    return Run(output, {name.removeprefix("m."): value for name, value in (ctx.report.trace or {}).items()})


def identity(size: int) -> Tensor:
    return torch.eye(size, dtype=torch.float64)


def refusal(mixer: str, *, side: str = "decoder", **slots: Any) -> ConfigError:
    """What a model with this mixer on one side is told."""
    own = {"layers": 1, "mixer": mixer, "feedforward": "relu(24)"} | slots
    table = {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": {"layers": 0}, side: own}
    try:
        from_dict(Transformer.Config, table | ({"head": "masked"} if side == "encoder" else {})).resolved()
    except ConfigError as error:
        return error
    raise AssertionError("it is not refused")
