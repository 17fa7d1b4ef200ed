"""Parameters and FLOPs of a model, block by block."""

from collections.abc import Iterator
from dataclasses import dataclass

from headway.nn.build import Cost, Scope
from headway.nn.layers.feedforward import NoFeedForward
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer


@dataclass(frozen=True)
class BlockSummary:
    name: str  # as in a trace: encoder.0.self
    kind: str  # as in a config: attention, relu …
    parameters: int
    flops: int  # of a forward pass; a multiply-add counts as two
    applies_to: str = ""  # of positions: the input, queries and keys (qk), scores
    cached_per_token: int = 0  # numbers that decoding keeps for each token,
    cached_per_text: int = 0  # and however long the text is


def summarise_blocks(config: Transformer.Config, source: int, target: int) -> list[BlockSummary]:
    """In the order of the forward pass, for this many tokens. Together they have all parameters."""
    c = config.resolved()
    costs = c.costs()
    front_end = c.encoder.frontend if c.encoder.layers else None
    kind = c.embedding.tied if front_end is None else front_end.kind
    flops = 0 if front_end is None else costs["embedding"].flops(source, source)
    found = [BlockSummary("embedding", kind, costs["embedding"].parameters, flops)]
    for side in c.sides:
        stack, scope = getattr(c, side), c.scope(side)
        queries = source if side == "encoder" else target
        positions = {part.kind: part.applies_to for part in stack.position_costs(scope)}
        for name, kind, cost in _stack_blocks(stack, scope):
            keys = source if name.endswith(".cross") else queries
            applies_to = positions[kind] if name == "position" else ""
            flops = cost.flops(queries, keys)
            cached = (cost.cached_per_token, cost.cached_per_text) if side == "decoder" else (0, 0)
            found.append(BlockSummary(f"{side}.{name}", kind, cost.parameters, flops, applies_to, *cached))
    if c.reasoner is not None:
        found.append(BlockSummary("reasoner", c.reasoner.kind, costs["reasoner"].parameters, 0))
    top = target if c.decoder.layers else source
    return [*found, BlockSummary("head", c.head.kind, costs["head"].parameters, costs["head"].flops(top, 0))]


def _stack_blocks(stack: Stack.Config, scope: Scope) -> Iterator[tuple[str, str, Cost]]:
    tokens = stack.memory_tokens
    if tokens is not None:
        yield "memory_tokens", tokens.kind, tokens.cost(scope)
    if stack.retrieval is not None:
        yield "retrieval", stack.retrieval.kind, stack.retrieval.cost(scope)
    for name, kind, cost in _layer_blocks(stack, scope):
        yield name, kind, cost if tokens is None else tokens.spread(cost, cross=name.endswith(".cross"))


def _layer_blocks(stack: Stack.Config, scope: Scope) -> Iterator[tuple[str, str, Cost]]:
    for part, cost in stack.position_costs(scope).items():
        yield "position", part.kind, cost
    mixers, nodes = stack.mixer_costs(scope), stack.node_costs(scope)
    for layer, parts in enumerate(zip(*map(stack.tiled, ("mixer", "cross", "nodes", "feedforward")))):
        for name, part in zip(("self", "cross", "nodes", "feedforward"), parts):
            if part is not None and name == "nodes":
                yield f"{layer}.{name}", part.kind, stack.count_once(layer, nodes[layer])
            elif part is not None and not isinstance(part, NoFeedForward.Config):
                cost = mixers[layer] if name == "self" else part.cost(scope)
                role = "feedforward" if name == "feedforward" else "mixer"
                wiring = Cost(parameters=stack.residual.parameters(scope, role))
                yield f"{layer}.{name}", part.kind, stack.count_once(layer, cost + wiring)
    if parameters := stack.residual.parameters(scope, "stack"):  # post-norm ends with the norm of its last sub-layer
        yield "end", "norm", Cost(parameters=parameters)
