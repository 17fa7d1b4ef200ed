"""Ablation: a model some of whose parts are switched off, to see what they were for.

A part is named as in a trace, with layers and heads counted from 0:

    decoder.2.cross.head 3     one head: what W_o makes of it is left out; the bias of W_o stays
    decoder.2.cross            a sub-layer: self, cross or feedforward
    decoder.2                  a whole layer

What is switched off adds nothing to the residual stream. It still computes its attention weights, so that they can be
looked at. No weight is changed or copied: `ablate` makes another model of the same tensors, and both can be used side
by side, in any threads. The fast decoders, which read weights without calling the layers, leave such a model to the
reference search."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from headway.errors import HeadwayError
from headway.nn.layers.lora import share_weights
from headway.nn.transformer import Transformer

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

PART_PATTERN = r"(encoder|decoder)\.([0-9]{1,4})(?:\.(self|cross|feedforward)(?:\.head ([0-9]{1,4}))?)?"
AnyModel = TypeVar("AnyModel", "Translator", "LanguageModel")


@dataclass(frozen=True)
class ModelPart:
    """A layer, a sub-layer of it, or a head of that."""

    side: str
    layer: int
    sublayer: str = ""  # "": the whole layer
    head: int | None = None

    def __str__(self) -> str:
        name = f"{self.side}.{self.layer}" + (f".{self.sublayer}" if self.sublayer else "")
        return name if self.head is None else f"{name}.head {self.head}"


def parse_part(name: str) -> ModelPart:
    match = re.fullmatch(PART_PATTERN, name) if isinstance(name, str) else None
    if match is None:
        raise HeadwayError(
            f'"{name}" names no part of a model. Write decoder.2 for a layer, decoder.2.cross for a sub-layer (self, '
            "cross or feedforward), or decoder.2.cross.head 3 for a head, all counted from 0."
        )
    side, layer, sublayer, head = match.groups()
    return ModelPart(side, int(layer), sublayer or "", None if head is None else int(head))


def ablate(model: AnyModel, parts: Sequence[str]) -> AnyModel:
    """The same translator or language model without these parts: ablate(translator, ["decoder.2.cross.head 3"])."""
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

    if isinstance(model, LanguageModel):
        network = ablate_network(model.model, parts)
        return type(model)(model.loaded._replace(model=network))
    assert isinstance(model, Translator)
    if len(model.steppers) > 1:
        raise HeadwayError(
            f"parts of a single model can be switched off, not of an ensemble of {len(model.steppers)}: load one of "
            "them."
        )
    loaded = model.engines.loaded[0]
    network = ablate_network(loaded.model, parts)
    ablated = Translator([loaded._replace(model=network)], model.stepper.shortlist, (model.source, model.target))
    ablated.batch_tokens = model.batch_tokens
    return ablated


def ablate_network(network: Transformer, parts: Sequence[str]) -> Transformer:
    """A copy of the modules with the same weights, in which these parts add nothing to the residual stream."""
    if isinstance(parts, str):
        parts = [parts]
    found = [parse_part(name) for name in parts]
    for part in found:
        _check_part(network, part)
    copied = share_weights(network)
    heads: dict[tuple[str, int, str], set[int]] = {}
    for side in {part.side for part in found}:
        stack: Any = copied.stacks[side]
        if stack.shares_weights:  # a layer that is switched off must not take those of its weights with it
            stack.blocks = nn.ModuleList(share_weights(block) for block in stack.layer_blocks)
    for part in found:
        sublayers = _sublayers(copied, part)
        if part.head is not None:
            heads.setdefault((part.side, part.layer, part.sublayer), set()).add(part.head)
            continue
        for name in [part.sublayer] if part.sublayer else list(sublayers):
            sublayers[name].register_forward_hook(_silence)
    for (side, layer, sublayer), off in heads.items():
        projection, count = _output_projection(_sublayers(copied, ModelPart(side, layer))[sublayer])
        assert projection is not None
        projection.register_forward_pre_hook(_HeadSwitch(count, sorted(off)))
    return copied


def _check_part(network: Transformer, part: ModelPart) -> None:
    sides = network.config.sides
    if part.side not in sides:
        raise HeadwayError(f"there is no {part}: this model has no {part.side}, only its {sides[0]}.")
    layers = getattr(network.config, part.side).layers
    if part.layer >= layers:
        raise HeadwayError(f"there is no {part}: the {part.side} has the layers 0 to {layers - 1}.")
    sublayers = _sublayers(network, part)
    if part.sublayer and part.sublayer not in sublayers:
        raise HeadwayError(f"there is no {part}: this layer has {', '.join(sublayers)}.")
    if part.head is None:
        return
    projection, count = _output_projection(sublayers[part.sublayer])
    if projection is None:
        raise HeadwayError(
            f"there is no {part}: {part.side}.{part.layer}.{part.sublayer} has no heads. Switch it off as a whole."
        )
    if part.head >= count:
        raise HeadwayError(
            f"there is no {part}: {part.side}.{part.layer}.{part.sublayer} has the heads 0 to {count - 1}."
        )


def _sublayers(network: Transformer, part: ModelPart) -> dict[str, Any]:
    stack: Any = network.stacks[part.side]
    return dict(stack.layer_blocks[part.layer].sublayers.items())


def _output_projection(sublayer: Any) -> tuple[nn.Module | None, int]:
    """The linear layer that reads all heads side by side, and how many there are; None, 0 where there are no heads.
    LSRA has them in its half that is attention."""
    module = sublayer if hasattr(sublayer, "output") else getattr(sublayer, "attention", None)
    heads = getattr(getattr(module, "config", None), "heads", None)
    projection = getattr(module, "output", None)
    return (projection, heads) if heads and isinstance(projection, nn.Module) else (None, 0)


def _silence(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return torch.zeros_like(output)


class _HeadSwitch:
    """Before an output projection: heads that are off are zeroed, as if its columns for them were."""

    def __init__(self, heads: int, off: Sequence[int]) -> None:
        self.heads, self.off = heads, list(off)

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        joined = inputs[0].unflatten(-1, (self.heads, -1))  # (…, H, E)
        keep = torch.ones(self.heads, 1, dtype=joined.dtype, device=joined.device)
        keep[self.off] = 0
        return ((joined * keep).flatten(-2),)
