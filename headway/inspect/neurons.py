"""Neurons of feed-forwards, from a trace: which fire for a token, which tokens excite one, and the router of experts.

A neuron is one channel of what goes into a feed-forward's second linear layer: its value is the factor of one row of
W₂, which is added to the output."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.errors import HeadwayError
from headway.inspect.layers import check_position, find_block
from headway.nn.context import Context
from headway.nn.layers.moe import MixtureOfExperts
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer


class Activations(NamedTuple):
    """All neurons of one feed-forward, or of one expert, for all tokens that it gets."""

    tokens: list[int]  # their positions: all of them, or those that are routed to the expert
    values: Tensor  # (tokens, neurons)
    before: Tensor | None  # (tokens, neurons) before the activation; of a gated one the factor beside the gate
    gates: Tensor | None  # (tokens, neurons) of a gated feed-forward, before the activation


@dataclass(frozen=True)
class Neurons:
    """The neurons of one feed-forward with the largest values for one token, largest absolute value first."""

    expert: int | None  # of a mixture of experts, counted from 0
    width: int  # how many neurons there are
    active: int  # how many of them are not 0
    ids: list[int]
    values: list[float]
    before: list[float] | None  # see Activations
    gates: list[float] | None


@dataclass(frozen=True)
class RouterNumbers:
    """Which experts each token goes to."""

    probabilities: Tensor  # (T, E) softmax of the router's scores
    chosen: Tensor  # (T, k) experts, best first
    shares: Tensor  # (T, k) the weights of their outputs


def read_router(tensors: Mapping[str, Tensor], path: str) -> RouterNumbers | None:
    """path: decoder.0.feedforward. None: this layer has no experts."""
    scores = tensors.get(f"{path}.router")
    if scores is None:
        return None
    return RouterNumbers(scores.softmax(-1), tensors[f"{path}.chosen"].long(), tensors[f"{path}.shares"])


def read_neurons(
    model: Transformer,
    tensors: Mapping[str, Tensor],
    path: str,
    position: int,
    top: int = 10,
    expert: int | None = None,
) -> Neurons | None:
    """For the token at this position. expert: None is the one with the largest share. None: this feed-forward has no
    neurons that can be told apart, or does not exist."""
    if f"{path}.input" in tensors:
        check_position(tensors[f"{path}.input"], position)
    router = read_router(tensors, path)
    if router is not None and expert is None:
        expert = int(router.chosen[position, 0])
    found = compute_activations(model, tensors, path, expert)
    if found is None or position not in found.tokens:
        return None
    row = found.tokens.index(position)
    values = found.values[row]
    ids = values.abs().topk(min(top, len(values))).indices
    return Neurons(
        expert=expert,
        width=len(values),
        active=int((values != 0).sum()),
        ids=ids.tolist(),
        values=values[ids].tolist(),
        before=None if found.before is None else found.before[row, ids].tolist(),
        gates=None if found.gates is None else found.gates[row, ids].tolist(),
    )


def read_neuron(
    model: Transformer, tensors: Mapping[str, Tensor], path: str, neuron: int, expert: int | None = None
) -> list[float | None]:
    """The value of one neuron for each token; None where the token does not go to this expert."""
    found = compute_activations(model, tensors, path, expert)
    if found is None:
        raise HeadwayError(f"there are no neurons at {path} that can be told apart.")
    if not 0 <= neuron < found.values.shape[1]:
        raise HeadwayError(f"there is no neuron {neuron}: {path} has {found.values.shape[1]}, counted from 0.")
    values: list[float | None] = [None] * len(tensors[f"{path}.input"])
    for position, value in zip(found.tokens, found.values[:, neuron].tolist()):
        values[position] = value
    return values


@torch.no_grad()
def compute_activations(
    model: Transformer, tensors: Mapping[str, Tensor], path: str, expert: int | None = None
) -> Activations | None:
    """path: decoder.0.feedforward; expert: needed with experts, ignored without. None: there are no neurons."""
    if f"{path}.input" not in tensors:
        return None
    side, layer, sub = path.split(".")
    module = find_block(model, side, int(layer)).sublayers[sub]
    given = tensors[f"{path}.input"]
    tokens = list(range(len(given)))
    router = read_router(tensors, path)
    if router is not None and isinstance(module, MixtureOfExperts):
        if expert is None or not 0 <= expert < len(module.experts):
            raise HeadwayError(f"there is no expert {expert}: {path} has {len(module.experts)}, counted from 0.")
        module = module.experts[expert]
        tokens = (router.chosen == expert).any(1).nonzero().flatten().tolist()
    if f"{path}.code" in tensors:  # ISTA: each neuron is an entry of its dictionary
        return Activations(tokens, tensors[f"{path}.code"], None, None)
    if not isinstance(getattr(module, "outer", None), nn.Module):
        return None
    like = model.output_embedding
    return _watch(module, tokens, given[tokens].to(like.device, like.dtype))


def _watch(module: nn.Module, tokens: list[int], x: Tensor) -> Activations:
    """Run a feed-forward on x (tokens, d), and see what goes in and out of its linear layers."""
    # Hooks on a copy of the modules, with the same weights: other threads use the model meanwhile.
    watched = copy.deepcopy(module, {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())})
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        return lambda _, given, output=None: seen.update({name: given[0] if output is None else output})

    watched.get_submodule("outer").register_forward_pre_hook(keep("values"))
    for name in ("inner", "gate"):
        if isinstance(getattr(watched, name, None), nn.Module):
            watched.get_submodule(name).register_forward_hook(keep(name))
    watched(x[None], Context(positions_from_start(len(x), None, x.device)))
    found = {name: tensor[0].to("cpu", torch.float32) for name, tensor in seen.items()}
    values = found["values"]
    before, gates = (
        found[name] if name in found and found[name].shape == values.shape else None for name in ("inner", "gate")
    )
    if before is not None and torch.equal(before, values):  # no activation follows
        before = None
    return Activations(tokens, values, before, gates)
