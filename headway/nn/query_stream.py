"""XLNet's second stream: it predicts a token from its position and from tokens of lower rank, without reading it.

    content  h   reads every token; h attends to tokens of its own rank and of lower ones
    query    g   begins with a learned vector at each position to be predicted; g attends to the h of lower ranks

Both go through the same layers with the same weights: keys and values are those of h, which each layer publishes for g.
Ranks are a factorisation order (headway.nn.sequence.FactorisationOrder). Without one the order is that of the text, and
g of the position after each token is computed: what a decoder is asked for. Its content is `ordered` there, each token
seeing those before it, which can be cached; or `mutual`: all tokens so far see each other, and are computed anew for
each prediction (order_mutually).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope
from headway.nn.cache.kv import DecoderState
from headway.nn.cache.token_history import TokenHistory
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import OTHERS, Mask, in_any_order
from headway.nn.ops.dropout import Dropout
from headway.nn.sequence import FactorisationOrder, LastToken, TokenPositions, positions_after


class QueryStream(nn.Module):
    def __init__(self, scope: Scope, masks: Sequence[Mask]) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(scope.d_model))
        self.dropout = Dropout(scope.dropout)
        self.content_masks = [in_any_order(mask) for mask in masks]
        self.query_masks = [mask & OTHERS for mask in self.content_masks]

    def begin(self, x: Tensor, ctx: Context, last: LastToken | None) -> tuple[Tensor, Context, Context]:
        """The query stream before the first layer (B, K, d), without positions; and the contexts of both streams."""
        predicted = next_positions(ctx.queries) if ctx.predicted is None else ctx.predicted
        if last is not None:
            predicted = last.select_positions(predicted)
        content = replace(ctx, stream="content")
        query = replace(ctx, stream="query", queries=predicted, memo={})
        vectors = self.start.to(x.dtype).expand(len(x), predicted.length, -1)
        return vectors, content, query


def next_positions(tokens: TokenPositions) -> TokenPositions:
    """The position after each token."""
    return TokenPositions(tokens.positions + 1, tokens.valid, tokens.end + 1)


def order_tokens(tokens: TokenPositions, order: FactorisationOrder) -> tuple[TokenPositions, TokenPositions]:
    """The same tokens with their ranks, and those to be predicted. Ranks are counted from the first of these tokens."""
    positions = tokens.positions.expand(len(order.ranks), -1)
    ranks = order.ranks + positions[:, :1]
    predicted = TokenPositions(
        positions.gather(1, order.predicted), None, tokens.end, ranks=ranks.gather(1, order.predicted)
    )
    return TokenPositions(positions, order.valid, tokens.end, ranks=ranks), predicted


def order_mutually(history: TokenHistory, seen: Tensor) -> tuple[Tensor, FactorisationOrder]:
    """The first `seen` (B,) tokens of each row, all of which see each other, and one that they do not see, whose
    position is predicted: ids (B, S + 1), and their order."""
    length = int(seen.max()) + 1
    ids = F.pad(history.ids, (0, 1))[:, :length]
    index = torch.arange(length, device=ids.device)
    return ids, FactorisationOrder(index <= seen[:, None], (index >= seen[:, None]).long(), seen[:, None])


def decode_mutually(
    model: Any, ids: Tensor, valid: Tensor | None, state: DecoderState | None, report: ForwardReport | None, last: bool
) -> Tensor:
    """`decode` of a Transformer with mutual content, in which each prediction computes all tokens before it anew."""
    if report is not None and (report.trace is not None or report.capture):
        raise HeadwayError(
            'with decoder.content = "mutual" every prediction reads all tokens anew, so that there is no single pass '
            'to look into. To see it read from left to right, set "content" to "ordered" in its config.json.'
        )
    state = model.new_state(len(ids)) if state is None else state
    assert state is not None
    tokens = positions_after(state.lengths, state.end, ids.shape[1], valid, state.uniform)
    history: Any = state.layers[0]["tokens"]
    history.append(ids, tokens)
    seen = [history.lengths] if last else list((tokens.positions + 1).expand_as(ids).unbind(1))
    hidden = [model.decode(*order_mutually(history, count), report=report) for count in seen]
    state.advance(ids.shape[1], valid)
    return torch.cat(hidden, 1)


def check_query_stream(scope: Scope, stack: Any) -> None:
    """Raise a ConfigError for the config of a stack that cannot have a second stream."""
    if scope.side != "decoder" or stack.cross or stack.memory_tokens is not None:
        raise ConfigError(
            "two streams are those of a decoder without an encoder and without memory tokens. Set streams = 1.",
            "streams",
        )
    for mixer in stack.mixer:
        if not mixer.has_query_stream:
            raise ConfigError(
                f'{mixer.kind} has no query stream. Set mixer = "attention", or streams = 1.',
                "mixer",
            )
    for mask in stack.mask or ():
        kinds = {part.kind for part in getattr(mask, "parts", (mask,))}
        if "causal" not in kinds or not kinds <= {"causal", "segments"}:
            raise ConfigError(
                "with two streams a mask goes by the order of factorisation, in which distances mean nothing. Choose "
                '"causal", or with carry "causal & segments(256, 256)".',
                "mask",
            )
        if stack.content == "mutual" and kinds != {"causal"}:
            raise ConfigError(
                'content = "mutual" reads everything again at every step, so that there are no segments. Set mask = '
                '"causal".',
                "mask",
            )
    for part in stack.feedforward:
        if getattr(part, "reads_previous", False):
            raise ConfigError(f"{part.kind} reads the token before, and a query stream has none.", "feedforward")
