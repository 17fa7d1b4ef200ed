"""Positional encodings as tables of numbers that can be plotted."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.config.schema import make_part
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope, make
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import FULL
from headway.nn.mixers.attention import Attention
from headway.nn.positions.score_mod import BoundScoreMod, ScoreModInputs
from headway.nn.sequence import positions_from_start


@dataclass(frozen=True)
class NumberTable:
    values: np.ndarray  # (rows, columns)
    title: str
    rows: str  # the label of the rows' axis
    columns: str


@torch.no_grad()
def position_table(kind: str, length: int = 50, d_model: int = 64, heads: int = 8, head: int = 1) -> NumberTable:
    """The table of a positional encoding, written as in a config.

    One that is added to the input: what is added, by position and channel. One that rotates queries and keys or changes
    scores: the score of a query and a key, both all ones (so 1 without positions), by their positions. One with a
    learned table of distances: the column of that table that each pair of positions uses."""
    norm = make_part("norm", "layernorm")
    linear = make_part("linear", "dense")
    scope = Scope(d_model=d_model, dropout=0.0, norm=norm, linear=linear)
    part: Any = make_part("position", kind)
    applies_to = getattr(part, "applies_to", "nothing")
    if applies_to == "nothing":
        raise HeadwayError(f'"{kind}" encodes no positions: there is nothing to plot.')
    if applies_to == "input":
        heads = 1  # it is added before heads exist
    _check_heads(applies_to, d_model, heads)
    mixer = Attention.Config(heads=heads, scale=heads / d_model).resolved(scope)
    part = part.resolved(scope, [mixer])
    position = make("position", part, scope)
    positions = positions_from_start(length, None, torch.device("cpu"))
    score = position.score_mod(
        ScoreModInputs(torch.zeros(1, heads, length, d_model // heads), positions, positions, FULL, 1.0, 0)
    )
    if score is not None and score.bucket is not None:
        columns = BoundScoreMod(score, positions, positions, heads).buckets(1)[0, 0].numpy()
        return NumberTable(columns, f"{kind}: the column of its table for each pair", "query", "key")
    if any(True for _ in position.parameters()):
        raise HeadwayError(
            f'"{kind}" is learned: before training there is nothing to plot. Plot a trained one with '
            "headway.inspect.plots.draw_table."
        )
    if applies_to == "input":
        added = position.add(torch.zeros(1, length, d_model), positions)[0].numpy()
        return NumberTable(added, f"{kind}: what is added", "position", "channel")
    if not 1 <= head <= heads:
        raise ConfigError(f"there is no head {head}: choose 1 to {heads}.")
    attention = Attention(mixer, scope)
    for name, parameter in attention.named_parameters():
        nn.init.constant_(parameter, 1.0 if name in ("query.bias", "key.bias") else 0.0)
    report = ForwardReport(trace={})
    attention(torch.zeros(1, length, d_model), Context(positions, report, position=position))
    assert report.trace is not None
    scores = report.trace[".scores"][0, head - 1].numpy()
    return NumberTable(scores, f"{kind}: scores of equal vectors, head {head} of {heads}", "query", "key")


def _check_heads(applies_to: str, d_model: int, heads: int) -> None:
    if d_model % heads:
        raise ConfigError(
            f"{heads} heads do not divide d_model = {d_model}. Choose --heads that do, or another --d-model."
        )
    if applies_to == "qk" and d_model // heads % 2:
        raise ConfigError(
            f"rotation needs an even number of channels per head, not {d_model // heads} (d_model = {d_model}, {heads} "
            "heads). Choose other --heads or --d-model."
        )
