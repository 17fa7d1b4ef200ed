"""A given output, as a model would have written it: log p of each token, and the likeliest one in its place.

    start, token, token, …  ──► one forward pass ──► log p of each token that follows ──► their sum, and the score

`describe_scored` gives the numbers of `translator.score` for JSON."""

from collections.abc import Sequence
from math import fsum
from typing import Any

import torch
from torch import Tensor

from headway.config.search import Search
from headway.inspect.events import TokenTexts, pack_weights
from headway.text.tokenizer.tokenizer import Tokenizer

ALTERNATIVES = 3  # that are told for each position


def describe_scored(
    logps: Tensor, written: Sequence[int], pieces: TokenTexts, *, lead: int = 0, search: Search | None = None
) -> dict[str, Any]:
    """logps (T, V) of a trace; written: the T tokens that follow, or fewer, where the last was not written; lead: how
    many of them only name the language, which no score counts; search: of a translator, for the score."""
    rows = []
    for position, token in enumerate(written):
        own = logps[position]
        best = own.topk(min(ALTERNATIVES, len(own)))
        rows.append(
            {
                "id": token,
                "piece": pieces([token])[0],
                "logp": round(float(own[token]), 5),
                "counts": position >= lead,
                "rank": int((own > own[token]).sum()) + 1,
                "best": {
                    "ids": best.indices.tolist(),
                    "pieces": pieces(best.indices.tolist()),
                    "logps": [round(value, 5) for value in best.values.tolist()],
                },
            }
        )
    total = fsum(logps[torch.arange(len(written)), torch.tensor(written, dtype=torch.long)].double().tolist()[lead:])
    score = None if search is None else round(search.score(total, len(written)), 5)
    return {"tokens": rows, "logp": round(total, 5), "score": score}


def count_lead(written: Sequence[int], tokenizer: Tokenizer) -> int:
    """How many tokens at the beginning only name the language."""
    own = enumerate(written)
    return next((n for n, token in own if token not in tokenizer.control_ids or token == tokenizer.end), 0)


def select_weights(tensors: dict[str, Tensor], place: str) -> dict[str, Any]:
    """The attention weights of one sub-layer, where it has some."""
    name = f"{place}.weights"
    return {name: pack_weights(tensors[name])} if name in tensors else {}
