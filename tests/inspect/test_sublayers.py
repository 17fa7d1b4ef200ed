"""The equations that a sub-layer is said to follow, computed again from what is told of it and from nothing else."""

import base64
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from contracts.cases import mixer_forms

from headway.config.config import read_config
from headway.errors import ConfigError, HeadwayError
from headway.inspect.ablation import ablate_network
from headway.inspect.sublayers import PROJECTING, describe_column, describe_sublayer
from headway.inspect.tracer import trace_forward
from headway.nn.transformer import Transformer

NEAR = {"rtol": 0, "atol": 2e-4}
IDS = [5, 6, 7, 8, 9, 3]
VARIANTS: dict[str, dict[str, Any]] = {
    "pre": {"residual": "pre"},
    "post": {"residual": "post"},
    "rope": {"residual": "pre", "position": "rope"},
    "rope in halves, longer texts": {"position": "rope(layout='halves', scaling='yarn(4)')", "residual": "pre"},
    "alibi": {"position": "alibi"},
    "t5": {"position": "t5"},
    "shaw": {"position": "shaw", "residual": "pre"},
    "groups": {"mixer": "attention(4, 2, scale=0.3)", "position": "rope"},
    "one group, no bias": {"mixer": "attention(4, 1, d_k=6, d_v=5, bias=false)"},
    "norms inside": {"mixer": "attention(4, 2, output_bias=false, qk_norm='rmsnorm', output_norm='rmsnorm')"},
}
RETENTION = {
    "retention": {"mixer": "retention(2)", "residual": "pre", "position": "none"},
    "retention, rotated": {"mixer": "retention(4, gated=true, bias=true)", "position": "rope", "residual": "pre"},
}


def make_model(decoder: dict[str, Any], encoder: dict[str, Any] | None = None, norm: str = "layernorm") -> Transformer:
    """With random weights everywhere, so that no gain is 1 and no bias 0."""
    sizes = {"layers": 1, "mixer": "attention(4)", "feedforward": "relu(8)"}
    sides = {"encoder": {**sizes, **(encoder or {})} if encoder is not None else {"layers": 0}}
    table = {"d_model": 16, "vocabulary": 20, "norm": norm, "decoder": {**sizes, **decoder}, **sides}
    model = Transformer(
        read_config({"model": table, "train": {"objective": "translation" if encoder else "causal"}}).model
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.3)
    return model.eval()


def floats(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"]).astype(np.float64)


def numbers(told: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: floats(tensor) for name, tensor in told.items() if name != "about"}


def matrix(model: Transformer, path: str, letter: str, head: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, width) and (width): as the server tells them, one column after another."""
    columns = [describe_column(model, path, letter, head, channel) for channel in range(width)]
    return np.stack([floats(one["column"]) for one in columns], 1), np.array([one["bias"] for one in columns])


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def normed(x: np.ndarray, n: dict[str, np.ndarray], about: dict[str, Any], name: str = "norm") -> np.ndarray:
    fact = "qk_norm" if name in ("q_norm", "k_norm") else name
    centred = x - x.mean(-1, keepdims=True) if about[fact] == "layernorm" else x
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + about[f"{fact}_eps"])
    return centred / spread * n[f"{name}_gain"] + n.get(f"{name}_bias", 0.0)


def turned(x: np.ndarray, n: dict[str, np.ndarray], about: dict[str, Any]) -> np.ndarray:
    """Each pair of channels by the angle of its position."""
    angles = np.arange(len(x))[:, None] * n["rotation_rates"]
    half = x.shape[-1] // 2
    first, second = (x[:, :half], x[:, half:]) if about["layout"] == "halves" else (x[:, 0::2], x[:, 1::2])
    cos, sin = (n["rotation_amplitude"] * part for part in (np.cos(angles), np.sin(angles)))
    pair = first * cos - second * sin, second * cos + first * sin
    return np.concatenate(pair, -1) if about["layout"] == "halves" else np.stack(pair, -1).reshape(x.shape)


def check_head(model: Transformer, told: dict[str, Any], path: str, head: int) -> None:
    """From x to the output, each step of one head from what was told of the step before."""
    n, about = numbers(told), told["about"]
    equations, heads = about["equations"], about["heads"]
    inputs = n["x"] if "same" in equations else n["input"]
    if "norm" in equations:
        np.testing.assert_allclose(normed(n["x"], n, about), inputs, **NEAR)
    group = head * len(n["k"]) // heads
    made: dict[str, np.ndarray] = {}
    for letter in "qkv":
        of = head if letter == "q" else group
        known = n[letter][of]
        first = next(n[name][of] for name in (f"unnormed_{letter}", f"unrotated_{letter}", letter) if name in n)
        weights, bias = matrix(model, path, letter, head, known.shape[-1])
        computed = (n["source"] if "source" in n and letter != "q" else inputs) @ weights + bias
        assert (letter in about["biased"]) == bool(bias.any())
        scale = about["key_scale"] if letter == "k" and "unrotated_k" not in n else 1.0
        np.testing.assert_allclose(computed * scale, first, **NEAR, err_msg=letter)
        if "qk_norm" in equations and letter != "v":
            after = n.get(f"unrotated_{letter}", n[letter])[of]
            np.testing.assert_allclose(normed(first, n, about, f"{letter}_norm"), after, **NEAR)
        if "rotation" in equations and letter != "v":
            computed = turned(n[f"unrotated_{letter}"][of], n, about) * (about["key_scale"] if letter == "k" else 1.0)
            np.testing.assert_allclose(computed, known, **NEAR)
        made[letter] = known
    products = made["q"] @ made["k"].T
    if "decay" in equations:
        decay = n["decay"][head]
        faded = [[decay[j + 1 : i + 1].prod() if j <= i else 0.0 for j in range(len(decay))] for i in range(len(decay))]
        shares = products * np.array(faded)
        np.testing.assert_allclose(shares, n["scores"][head], **NEAR)
    else:
        bias = n["score_bias"][head] if "score_bias" in n else 0.0
        np.testing.assert_allclose(products * about["scale"] + bias, n["scores"][head], **NEAR)
        shares = n["weights"][head]
        np.testing.assert_allclose(softmax(np.where(shares == 0, -np.inf, n["scores"][head])), shares, **NEAR)
    context = shares @ made["v"] + (n["value_bias"][head] if "value_bias" in n else 0.0)
    width = context.shape[-1]
    own = slice(head * width, (head + 1) * width)
    if "gated" in equations:
        context = n["gate"][:, own] * context / np.sqrt((context**2).mean(-1, keepdims=True) + about["gate_eps"])
        gates, gate_bias = matrix(model, path, "g", head, heads * width)
        raised = inputs @ gates + gate_bias
        np.testing.assert_allclose(raised / (1 + np.exp(-raised)), n["gate"], **NEAR)
    if {"concat", "gated"} & set(equations):
        np.testing.assert_allclose(context, n["joined"][:, own], **NEAR)
    if "normed" in equations:
        contexts = np.concatenate([n["weights"][one] @ n["v"][one * len(n["v"]) // heads] for one in range(heads)], -1)
        np.testing.assert_allclose(normed(contexts, n, about, "output_norm"), n["joined"], **NEAR)
    last, bias = matrix(model, path, "o", head, inputs.shape[-1])
    np.testing.assert_allclose(n["joined"] @ last + bias, n["output"], **NEAR)


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_of_attention_can_be_computed_again(name: str, norm: str) -> None:
    model = make_model(VARIANTS[name], VARIANTS[name], norm)
    tensors = trace_forward(model, IDS, [1, *IDS[:4]])
    for path in ("encoder.0.self", "decoder.0.self", "decoder.0.cross"):
        told = describe_sublayer(tensors, path, model.config, model)
        equations = told["about"]["equations"]
        assert {"q", "k", "v", "product", "softmax", "sum", "output"} <= set(equations), path
        assert ("norm" in equations) == (VARIANTS[name].get("residual") == "pre"), path
        assert ("rotation" in equations) == ("rope" in str(VARIANTS[name]) and "cross" not in path)
        assert ("source" in told) == ("cross" in path)
        assert ({"qk_norm", "normed"} <= set(equations)) == (name == "norms inside")
        assert ("concat" in equations) == (name != "norms inside")
        assert not told["about"]["rounds"]
        for head in (0, 3):
            check_head(model, told, path, head)
            one = numbers(describe_sublayer(tensors, path, model.config, model, head))
            np.testing.assert_array_equal(one["scores"][0], numbers(told)["scores"][head])


@pytest.mark.parametrize("name", RETENTION)
def test_retention_can_be_computed_again(name: str) -> None:
    model = make_model(RETENTION[name])
    told = describe_sublayer(trace_forward(model, [], IDS), "decoder.0.self", model.config, model)
    assert {"norm", "decay", "sum", "gated", "output"} <= set(told["about"]["equations"])
    assert "weights" not in told
    for head in range(told["about"]["heads"]):
        check_head(model, told, "decoder.0.self", head)


@pytest.mark.parametrize("form", [form for form in mixer_forms() if " + " not in form])
def test_no_mixer_is_said_to_do_what_it_does_not(form: str) -> None:
    """Every mixer of the catalogue: products with matrices that are named give what the mixer computed."""
    for mask, position in itertools.product(("causal", "full"), ("none", "rope", "alibi")):
        try:
            model = make_model({"mixer": form, "position": position, "mask": mask, "residual": "pre"})
        except ConfigError:
            continue
        told = describe_sublayer(trace_forward(model, [], IDS), "decoder.0.self", model.config, model)
        n, equations = numbers(told), told["about"]["equations"]
        assert "norm" in equations
        assert ("softmax" in equations) <= ("weights" in n)
        for letter in set("qkv") & set(equations):
            first = next(n[name] for name in (f"unnormed_{letter}", f"unrotated_{letter}", letter) if name in n)[-1]
            weights, bias = matrix(model, "decoder.0.self", letter, told["about"]["heads"] - 1, first.shape[-1])
            scale = told["about"]["key_scale"] if letter == "k" and "unrotated_k" not in n else 1.0
            np.testing.assert_allclose((n["input"] @ weights + bias) * scale, first, **NEAR, err_msg=f"{form} {letter}")
        if "output" in equations:
            last, bias = matrix(model, "decoder.0.self", "o", 0, 16)
            np.testing.assert_allclose(n["joined"] @ last + bias, n["output"], **NEAR)


def test_linear_layers_of_other_kinds_tell_their_columns_too() -> None:
    table = {"d_model": 16, "vocabulary": 20, "linear": "bitnet", "encoder": {"layers": 0}}
    side = {"layers": 1, "mixer": "attention(4)", "feedforward": "relu(8)", "residual": "pre"}
    config = read_config({"model": {**table, "decoder": side}, "train": {"objective": "causal"}})
    model = Transformer(config.model).eval()
    told = describe_sublayer(trace_forward(model, [], IDS), "decoder.0.self", model.config, model)
    assert told["about"]["rounds"]
    weights, _ = matrix(model, "decoder.0.self", "q", 1, 4)
    assert len(np.unique(np.abs(weights).round(5))) <= 2  # -1, 0 and 1, times one scale


def test_what_does_not_exist_is_refused() -> None:
    model = make_model({"mixer": "gau(8)"})
    with pytest.raises(HeadwayError, match="has no matrix q"):
        describe_column(model, "decoder.0.self", "q", 0, 0)
    model = make_model({})
    for asked in ((4, 0), (0, 4)):
        with pytest.raises(HeadwayError, match="4 heads, and q has 4 channels"):
            describe_column(model, "decoder.0.self", "q", *asked)
    with pytest.raises(HeadwayError, match="there is no head 4"):
        describe_sublayer(trace_forward(model, [], IDS), "decoder.0.self", model.config, model, 4)
    assert set("".join(PROJECTING.values())) <= set("qkvgo")


def test_an_output_that_was_switched_off_is_not_explained() -> None:
    model = make_model({})
    for part, explained in (
        ("decoder.0.self.head 1", False),
        ("decoder.0.self", False),
        ("decoder.0.feedforward", True),
    ):
        tensors = trace_forward(ablate_network(model, [part]), [], IDS)
        equations = describe_sublayer(tensors, "decoder.0.self", model.config, model)["about"]["equations"]
        assert ("output" in equations) == explained, part
