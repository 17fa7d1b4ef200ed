"""Students of Marian, as bergamot and Firefox train them: a decoder whose self-attention is an SSRU.

    transformer-decoder-autoreg: rnn      decoder_lN_rnn_W, _rnn_Wf, _rnn_bf, _rnn_ffn_ln_scale, _rnn_ffn_ln_bias
    dec-cell: ssru

Neither Hugging Face nor CTranslate2 has such models, so that nobody's habits need to be kept: sinusoids and norms are
Marian's own. The files that browsers download are the same models in int8 (intgemm), which are refused."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.convert.architecture import Architecture, ConversionError, Json, linear_rules, read_size, sublayer
from headway.convert.readings import change_readings
from headway.errors import HeadwayError

AUTOREG = "transformer-decoder-autoreg"
EPSILON = 1e-9  # what Marian's norms add to the variance
SELF_ATTENTION = re.compile(r"stacks\.decoder\.blocks\.\d+\.sublayers\.self\.")
# Options that change what an SSRU computes.
FIXED: dict[str, tuple[Any, ...]] = {"dec-cell": ("ssru",), "layer-normalization": (False, None)}
BINARY = (1).to_bytes(8, "little")  # the version, with which Marian's binary models begin
SHORTLIST = 0xF11A48D5013417F5.to_bytes(8, "little")
BROWSER_NAMES = re.compile(r"\.intgemm[\w.]*\.bin(\.gz|\.zst)?$")  # also compressed, as they are downloaded


def is_student(settings: Json) -> bool:
    return settings.get(AUTOREG) == "rnn"


def replace_self_attention(architecture: Architecture) -> Architecture:
    """The translator of these settings with an SSRU in each layer of the decoder, and Marian's own numbers."""
    return change_readings(architecture, _replace_self_attention)


def _replace_self_attention(reading: Architecture) -> Architecture:
    decoder = reading.model["decoder"]
    model = {**reading.model, "norm": {**reading.model["norm"], "eps": EPSILON}}
    model["decoder"] = {**decoder, "cross": decoder["mixer"], "mixer": "ssru"}
    for side in ("encoder", "decoder"):
        model[side] = {**model[side], "position": "sinusoidal(layout='halves', spacing='closed')"}
    rules = [rule for rule in reading.rules if not SELF_ATTENTION.match(rule.ours)]
    for layer in range(decoder["layers"]):
        ours, theirs = sublayer("decoder", layer, "self"), f"model.decoder.layers.{layer}.rnn"
        rules += linear_rules(f"{ours}.gate", f"{theirs}.gate")
        rules += linear_rules(f"{ours}.candidate", f"{theirs}.candidate", bias=False)
    return replace(reading, family="Marian student", model=model, rules=tuple(rules))


def check_recurrent_tensors(settings: Json, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ConversionError, in Marian's words, unless each layer of the decoder has an SSRU of the model's width."""
    width = read_size(settings, "dim-emb")
    expected = {"W": (width, width), "Wf": (width, width), "bf": (1, width)}
    for layer in sorted(set(read_tied_layers(settings))):
        for end, shape in expected.items():
            name = f"decoder_l{layer}_rnn_{end}"
            if name not in shapes:
                raise ConversionError(
                    f"the tensor {name} is missing: {AUTOREG} = rnn promises an SSRU in layer {layer} of the decoder. "
                    "Download the whole model again."
                )
            if shapes[name] not in (shape, shape[-1:] if end == "bf" else shape):
                raise ConversionError(
                    f"the tensor {name} has the shape {shapes[name]}, and an SSRU of a model with dim-emb = {width} "
                    f"needs {shape}. Download the model again."
                )
    if other := [name for name in shapes if re.match(r"decoder_l\d+_self_", name)]:
        raise ConversionError(
            f"the weights hold the tensor {other[0]}, and {AUTOREG} = rnn has no self-attention in the decoder. One of "
            "both is of another model: download it again."
        )


def read_tied_layers(settings: Json) -> list[int]:
    """The number of the layer, from 1, whose weights each layer of the decoder has."""
    depth = read_size(settings, "dec-depth")
    tied = settings.get("transformer-tied-layers") or list(range(1, depth + 1))
    numbers = isinstance(tied, list) and all(type(layer) is int and 0 < layer <= depth for layer in tied)
    if not numbers or len(tied) != depth:
        raise ConversionError(
            f"transformer-tied-layers = {tied!r} must name one layer, from 1 to {depth}, for each of the {depth} "
            "layers of the decoder (dec-depth)."
        )
    return list(tied)


def find_browser_file(path: Path) -> Path | None:
    """A file of a browser's student: this file, or one in this directory."""
    files = sorted(path.glob("*.bin*")) if path.is_dir() else [path]
    return next((file for file in files if file.is_file() and _is_browser_file(file)), None)


def _is_browser_file(path: Path) -> bool:
    if BROWSER_NAMES.search(path.name):
        return True
    if path.suffix != ".bin":
        return False
    try:
        with path.open("rb") as file:
            return file.read(8) in (BINARY, SHORTLIST)
    except OSError:
        return False


def refuse_browser_file(path: Path) -> HeadwayError:
    return ConversionError(
        f"{path} is of a student for browsers: a binary model of Marian, usually in int8 (intgemm), or a shortlist "
        "(lex….bin). Headway imports the student in float32, from which it was made: its model.npz, with its .spm "
        "vocabularies beside it. Projects that train students publish it (as student-finetuned, or student). The "
        "shortlist is not needed: `headway pack --int8` makes the imported model small again."
    )
