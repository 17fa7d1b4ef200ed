"""How much each token is heard in a layer, whatever its mixer computes: attention, a recurrence, a convolution.

For each token s its vector is taken out of what the mixer reads (set to 0), and the mixer computes again:

    influence[t, s] = ‖output_t - output_t without s‖ / ‖output_t‖

Of a recurrence it shows what its state still keeps of a token; of a mask, whom it lets through, also by way of others.
It is measured on the model's own numbers, and for mixers without attention weights it is what there is to be drawn in
place of them. Unlike weights, the rows of influence do not sum to 1."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headway.decode.stop import check_stop
from headway.errors import HeadwayError
from headway.inspect.events import pack_floats
from headway.inspect.tracer import trace_forward
from headway.nn.context import Context, ForwardReport
from headway.nn.layers.lora import share_weights
from headway.nn.sequence import KeyValues, Memory, TokenPositions
from headway.nn.transformer import Transformer

MAX_TOKENS = 128  # each is a pass of the layer over all of them
BATCH_TOKENS = 2048  # in one pass


@torch.no_grad()
def measure_influence(
    model: Transformer, source: Sequence[int], target: Sequence[int], path: str, second: int = 0
) -> Tensor:
    """(T, S) for a self sub-layer, such as decoder.0.self, of a model that has read these tokens: what the encoder
    reads, and what the decoder does. second: where the second of two texts begins."""
    side, layer, sub = path.split(".")
    length = len(source if side == "encoder" else target)
    if sub != "self" or side not in model.config.sides or int(layer) >= getattr(model.config, side).layers:
        raise HeadwayError(f"there is no mixer {path} in this model: write encoder.0.self or decoder.0.self.")
    if length > MAX_TOKENS:
        raise HeadwayError(f"influence is measured for at most {MAX_TOKENS} tokens, not {length}: give a shorter text.")
    mixer, x, ctx = _record_call(model, source, target, path, second)
    if x.shape[1] != length:
        raise HeadwayError(f"{path} reads other vectors beside those of the tokens: its influence cannot be measured.")
    whole = mixer(x, _repeat(ctx, 1))  # (1, T, d)
    size = whole.norm(dim=-1).clamp(min=torch.finfo(whole.dtype).tiny)  # (1, T)
    columns = []
    for places in torch.arange(length, device=x.device).split(max(BATCH_TOKENS // length, 1)):
        check_stop()
        without = x.repeat(len(places), 1, 1)  # (n, T, d)
        without[torch.arange(len(places)), places] = 0.0
        output = mixer(without, _repeat(ctx, len(places)))
        columns.append((output - whole).norm(dim=-1) / size)  # (n, T)
    return torch.cat(columns).T.to("cpu", torch.float32).contiguous()


def describe_influence(
    model: Transformer, source: Sequence[int], target: Sequence[int], path: str, second: int = 0
) -> dict[str, Any]:
    """As JSON, for the page."""
    return {"values": pack_floats(measure_influence(model, source, target, path, second))}


def _record_call(
    model: Transformer, source: Sequence[int], target: Sequence[int], path: str, second: int
) -> tuple[Any, Tensor, Context]:
    """The mixer at this place, and what it is called with in a forward pass of the whole model."""
    side, layer, _ = path.split(".")
    watched = share_weights(model)  # a hook on the model itself would act on other threads as well
    stack: Any = watched.stacks[side]
    mixer = stack.layer_blocks[int(layer)].sublayers["self"]
    calls: list[tuple[Tensor, Context]] = []

    def remember(module: Any, given: tuple[Any, ...]) -> None:
        if given[1].path == path:  # layers may share their weights
            calls.append((given[0], given[1]))

    mixer.register_forward_pre_hook(remember)
    trace_forward(watched, source, target, second)
    return (mixer, *calls[0])


def _repeat(ctx: Context, rows: int) -> Context:
    """The same for several rows alike; nothing is recorded."""

    def own(positions: TokenPositions) -> TokenPositions:
        assert positions.valid is None, "a trace has no padding"
        return positions

    memories = {
        name: Memory(memory.values.expand(rows, -1, -1), own(memory.positions)) for name, memory in ctx.memories.items()
    }
    published = {
        name: KeyValues(kv.k.expand(rows, -1, -1, -1), kv.v.expand(rows, -1, -1, -1), own(kv.positions), kv.owner)
        for name, kv in ctx.published.items()
    }
    return replace(ctx, report=ForwardReport(), memories=memories, published=published, memo={})
