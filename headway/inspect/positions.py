"""What a position does, as a table of numbers that can be drawn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.config.schema import make_part
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope, make
from headway.nn.context import Context, Report
from headway.nn.masks.masks import FULL
from headway.nn.mixers.attention import Attention
from headway.nn.positions.score_mod import Bend, Looking
from headway.nn.sequence import places_from


@dataclass(frozen=True)
class Table:
    values: np.ndarray  # (rows, columns)
    title: str
    rows: str  # what they count
    columns: str


@torch.no_grad()
def position_table(written: str, length: int = 50, d_model: int = 64, heads: int = 8, head: int = 1) -> Table:
    """Of a position that is added to x: what is added, by position and channel. Of one that turns queries and keys or
    bends scores: the score of a query and a key that are the same everywhere (all ones, so 1 without positions), by
    their two positions. Of one that learns a table of distances: the column of it that a pair meets."""
    plain, dense = make_part("norm", "layernorm"), make_part("linear", "dense")
    scope = Scope(d_model=d_model, dropout=0.0, norm=plain, linear=dense)
    part: Any = make_part("position", written)
    acts = getattr(part, "acts", "nowhere")
    if acts == "nowhere":
        raise HeadwayError(f'"{written}" marks no order: there is nothing to draw.')
    if acts == "adds":
        heads = 1  # it is added before there are any
    _refuse_heads(acts, d_model, heads)
    mixer = Attention.Config(heads=heads, scale=heads / d_model).resolved(scope)
    part = part.resolved(scope, [mixer])
    position = make("position", part, scope)
    places = places_from(length, None, torch.device("cpu"))
    score = position.score(Looking(torch.zeros(1, heads, length, d_model // heads), places, places, FULL, 1.0, 0))
    if score is not None and score.column is not None:
        columns = Bend(score, places, places, heads).columns(1)[0, 0].numpy()
        return Table(columns, f"{written}: which of its columns a pair meets", "query", "key")
    if any(True for _ in position.parameters()):
        raise HeadwayError(
            f'"{written}" is learned: before a training there is nothing to draw. Draw what has been learned with '
            "headway.inspect.plots.draw_table."
        )
    if acts == "adds":
        added = position.add(torch.zeros(1, length, d_model), places)[0].numpy()
        return Table(added, f"{written}: what is added", "position", "channel")
    if not 1 <= head <= heads:
        raise ConfigError(f"there is no head {head}: choose 1 to {heads}.")
    attention = Attention(mixer, scope)
    for name, parameter in attention.named_parameters():
        nn.init.constant_(parameter, 1.0 if name in ("query.bias", "key.bias") else 0.0)
    report = Report(trace={})
    attention(torch.zeros(1, length, d_model), Context(places, report, position=position))
    assert report.trace is not None
    scores = report.trace[".scores"][0, head - 1].numpy()
    return Table(scores, f"{written}: scores of equal vectors, head {head} of {heads}", "query", "key")


def _refuse_heads(acts: str, d_model: int, heads: int) -> None:
    if d_model % heads:
        raise ConfigError(
            f"{heads} heads do not divide d_model = {d_model}. Choose --heads that do, or another --d-model."
        )
    if acts == "turns" and d_model // heads % 2:
        raise ConfigError(
            f"pairs of channels are turned, and each of {heads} heads has {d_model // heads}. Choose --heads or "
            "--d-model so that it is an even number."
        )
