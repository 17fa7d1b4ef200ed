"""Where each head of one layer looks, out of a trace."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headway.errors import HeadwayError
from headway.inspect.trace import Trace

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

Kind = Literal["encoder", "decoder", "cross"]

PLACES = {"encoder": "encoder.{}.self", "decoder": "decoder.{}.self", "cross": "decoder.{}.cross"}
KINDS: dict[str, list[Kind]] = {
    "translation": ["cross", "encoder", "decoder"],
    "causal": ["decoder"],
    "masked": ["encoder"],
}


@dataclass(frozen=True)
class Attended:
    """Weights (heads, queries, keys) of one layer, and the tokens on both sides.

    A decoder's query is named by the token that it is about to write: "Hund" is the row that looks at "dog".
    """

    weights: np.ndarray
    queries: list[str]
    keys: list[str]
    kind: Kind
    layer: int  # counted from 1
    text: str  # what the model said, or read where it says nothing


def label(piece: str) -> str:
    """A token as it can be shown: without the space before it, and with what cannot be seen spelled out."""
    shown = piece.strip(" ") or "␣"
    return "".join(letter if letter.isprintable() else f"<{ord(letter):02X}>" for letter in shown)


def attended(trace: Trace, kind: Kind | None = None, layer: int = 0) -> Attended:
    """`kind`: source on itself, target on itself, or target on source; None is cross, or what the
    model has. `layer` counts from 1; 0 is the last that has weights."""
    known = KINDS[trace.kind]
    kind = kind or known[0]
    if kind not in known:
        raise HeadwayError(f'this model has no attention of the kind "{kind}". It has: {", ".join(known)}.')
    side = "encoder" if kind == "encoder" else "decoder"
    layers = {found[1] for name in trace.tensors if (found := re.match(rf"{side}\.([0-9]+)\.", name))}
    if not 0 <= layer <= len(layers):
        raise HeadwayError(f"there is no layer {layer}: this model has 1 to {len(layers)}.")
    place = re.compile(PLACES[kind].format(r"([0-9]+)") + r"\.weights")
    others = sorted(int(found[1]) + 1 for name in trace.tensors if (found := place.fullmatch(name)))
    layer = layer or max(others, default=len(layers))
    weights = trace.tensors.get(f"{PLACES[kind].format(layer - 1)}.weights")
    if weights is None:
        raise HeadwayError(
            f"layer {layer} of the {side} has no attention weights: its mixer shares out no attention. "
            + (
                f"Layers that have some: {', '.join(map(str, others))}."
                if others
                else "No other layer of this kind has any."
            )
            + " What it does compute is in a trace: headway trace."
        )
    read, heard, written = trace.source.pieces, trace.target.pieces, list(trace.written.pieces)
    written += ["…"] * (len(heard) - len(written))  # of a text that does not end, nobody knows what follows
    queries, keys = {"encoder": (read, read), "decoder": (written, heard), "cross": (written, read)}[kind]
    if weights.dim() != 3 or weights.shape[1:] != (len(queries), len(keys)):
        raise HeadwayError(
            f"this trace does not fit together: {len(queries)} and {len(keys)} tokens have weights of the shape "
            f"{tuple(weights.shape)}. Make it anew."
        )
    return Attended(weights.numpy(), queries, keys, kind, layer, trace.output or trace.text)


def attention(
    model: "Translator | LanguageModel", text: str, kind: Kind | None = None, layer: int = 0, to: str = ""
) -> Attended:
    """Where a model looks while it translates a sentence, or reads a text."""
    from headway.translate.translator import Translator

    if isinstance(model, Translator):
        return attended(model.trace(text, to=to), kind, layer)
    if to:
        raise HeadwayError(f'a language model does not translate to "{to}": leave the target language out.')
    return attended(model.trace(text, length=0), kind, layer)
