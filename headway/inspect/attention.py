"""Attention weights of one layer, from a trace."""

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

import numpy as np

from headway.errors import HeadwayError
from headway.files.notebook_html import render_grid
from headway.inspect.trace import Trace

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

AttentionKind = Literal["encoder", "decoder", "cross", "nodes"]

ATTENTION_PATHS = {
    "encoder": "encoder.{}.self",
    "decoder": "decoder.{}.self",
    "cross": "decoder.{}.cross",
    "nodes": "decoder.{}.nodes",
}
ATTENTION_KINDS: dict[str, list[AttentionKind]] = {
    "translation": ["cross", "encoder", "decoder"],
    "causal": ["decoder"],
    "masked": ["encoder"],
}


@dataclass(frozen=True)
class AttentionMap:
    """Weights (heads, queries, keys) of one layer, and the tokens on both sides.

    A decoder's query is named by the token that it predicts: "Hund" is the row that attends to "dog".
    """

    weights: np.ndarray
    queries: list[str]
    keys: list[str]
    kind: AttentionKind
    layer: int  # counted from 1
    text: str  # the output, or the input of a model that generates nothing

    def _repr_html_(self) -> str:
        """Notebooks show the mean of all heads, and each head."""
        rows, columns = ([format_token(piece) for piece in side] for side in (self.queries, self.keys))
        panels = [("mean of all heads", self.weights.mean(0))]
        panels += [(f"head {number}", weights) for number, weights in enumerate(self.weights, start=1)]
        grids = [render_grid(weights.tolist(), rows, columns, title) for title, weights in panels]
        return f"<div>{escape(self.kind)}, layer {self.layer}: {escape(self.text)}</div>{''.join(grids)}"


def format_token(piece: str) -> str:
    """A token for display: without the space before it, and with unprintable characters as hex codes."""
    stripped = piece.strip(" ") or "␣"
    return "".join(char if char.isprintable() else f"<{ord(char):02X}>" for char in stripped)


def read_attention(trace: Trace, kind: AttentionKind | None = None, layer: int = 0) -> AttentionMap:
    """`kind`: encoder or decoder self-attention, or cross-attention, or that to the nodes of a graph; None is one of
    the last two, or what the model has. `layer` counts from 1; 0 is the last that has weights."""
    known = ATTENTION_KINDS[trace.kind]
    if "reasoner.output" in trace.tensors:
        known = ["nodes", *known]
    kind = kind or known[0]
    if kind not in known:
        raise HeadwayError(f'this model has no attention of the kind "{kind}". It has: {", ".join(known)}.')
    side = "encoder" if kind == "encoder" else "decoder"
    layers = {found[1] for name in trace.tensors if (found := re.match(rf"{side}\.([0-9]+)\.", name))}
    if not 0 <= layer <= len(layers):
        raise HeadwayError(f"there is no layer {layer}: this model has 1 to {len(layers)}.")
    pattern = re.compile(ATTENTION_PATHS[kind].format(r"([0-9]+)") + r"\.weights")
    with_weights = sorted(int(found[1]) + 1 for name in trace.tensors if (found := pattern.fullmatch(name)))
    layer = layer or max(with_weights, default=len(layers))
    weights = trace.tensors.get(f"{ATTENTION_PATHS[kind].format(layer - 1)}.weights")
    if weights is None:
        others = (
            f"Layers that have some: {', '.join(map(str, with_weights))}."
            if with_weights
            else "No other layer of this kind has any."
        )
        raise HeadwayError(
            f"layer {layer} of the {side} has no attention weights, because its mixer is not attention. {others} What "
            "it does compute is in a trace: headway trace."
        )
    source = trace.source.pieces
    target = trace.target.pieces
    predicted = list(trace.written.pieces)
    predicted += ["…"] * (len(target) - len(predicted))  # after an output that was cut, the next token is unknown
    queries, keys = {"encoder": (source, source), "decoder": (predicted, target), "cross": (predicted, source),
                     "nodes": (predicted, source)}[kind]  # fmt: skip
    if weights.dim() != 3 or weights.shape[1:] != (len(queries), len(keys)):
        raise HeadwayError(
            f"this trace is inconsistent: {len(queries)} queries and {len(keys)} keys have weights of the shape "
            f"{tuple(weights.shape)}. Make it again: headway trace."
        )
    return AttentionMap(weights.numpy(), queries, keys, kind, layer, trace.output or trace.text)


def compute_attention(
    model: "Translator | LanguageModel",
    text: str,
    kind: AttentionKind | None = None,
    layer: int = 0,
    source: str = "",
    target: str = "",
) -> AttentionMap:
    """The attention of a model while it translates a sentence, or reads a text."""
    from headway.translate.translator import Translator

    if isinstance(model, Translator):
        return read_attention(model.trace(text, source=source, target=target), kind, layer)
    if target:
        raise HeadwayError(f'a language model does not translate to "{target}": leave out the target language.')
    return read_attention(model.trace(text, length=0), kind, layer)
