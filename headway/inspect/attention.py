"""Where a translator looks while it translates one sentence."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from headway.errors import HeadwayError
from headway.nn.context import Report
from headway.translator import Translator

Kind = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True)
class Attended:
    """Weights (heads, queries, keys) of one layer, and the tokens on both sides.

    A decoder's query is named by the token that it is about to write: "Hund" is the row that looks at "dog".
    """

    weights: np.ndarray
    queries: list[str]
    keys: list[str]
    kind: Kind
    layer: int
    text: str


def label(piece: str) -> str:
    """A token as it can be shown: without the space before it, and with what cannot be seen spelled out."""
    shown = piece.strip(" ") or "␣"
    return "".join(letter if letter.isprintable() else f"<{ord(letter):02X}>" for letter in shown)


@torch.no_grad()
def attention(translator: Translator, text: str, kind: Kind = "cross", layer: int = 0, to: str = "") -> Attended:
    """`layer` counts from 1; 0 is the last. The sentence is translated first, then read again with the trace on."""
    model = translator.steppers[0].model
    stack = model.config.encoder if kind == "encoder" else model.config.decoder
    if not 0 <= layer <= stack.layers:
        raise HeadwayError(f"there is no layer {layer}: this model has 1 to {stack.layers}.")
    number = (layer or stack.layers) - 1
    if not text.strip():
        raise HeadwayError("there is nothing to look at: give a sentence.")
    translation = translator.translate([text], to=to, split=False)[0]
    source_side, target_side = translator.tokenizers.source, translator.tokenizers.target
    source = [*translator.tag(to), *source_side.encode(text.strip()), source_side.end]
    target = [target_side.start, *translation.guesses[0].tokens]
    report = Report(trace={})
    memory = model.encode(torch.tensor([source], device=model.device), report=report)
    model.decode(torch.tensor([target], device=model.device), memory=memory, report=report)
    place = {"encoder": "encoder.{}.self", "decoder": "decoder.{}.self", "cross": "decoder.{}.cross"}[kind]
    assert report.trace is not None
    weights = report.trace[f"{place.format(number)}.weights"][0].float().cpu().numpy()
    read, heard = source_side.pieces(source), target_side.pieces(target)
    written = target_side.pieces([*target[1:], target_side.end])
    queries, keys = {"encoder": (read, read), "decoder": (written, heard), "cross": (written, read)}[kind]
    return Attended(weights, queries, keys, kind, number + 1, translation.text)
