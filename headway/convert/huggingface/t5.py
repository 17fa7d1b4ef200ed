"""T5, mT5, MADLAD: pre-norm with RMS norm, no biases, scores that are not scaled, and relative positions whose table is
stored in the first layer and shared by all."""

from dataclasses import replace

from headway.convert.architecture import (
    Architecture,
    ConversionError,
    Json,
    final_norm,
    linear_rules,
    norm_rules,
    read_size,
    require,
    sublayer,
    sublayer_norm,
)
from headway.convert.huggingface.t5_text import read_t5_text
from headway.convert.tensor_rules import TensorRule

FEEDFORWARDS = {  # feed_forward_proj, and ours
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu",
    "gated-gelu": "geglu_tanh", "gated-gelu_new": "geglu_tanh", "gated-silu": "swiglu",
}  # fmt: skip
GATED_NAMES = {"gate": "wi_0", "inner": "wi_1", "outer": "wo"}
PLAIN_NAMES = {"inner": "wi", "outer": "wo"}
LINEARS = {"query": "q", "key": "k", "value": "v", "output": "o"}
SHARED, OUTPUT = "shared.weight", "lm_head.weight"
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
MAX_TOKENS = 512  # that it was trained on; its positions have no end


def read_t5(config: Json) -> Architecture:
    """T5 of both versions, and MADLAD. The first divides its logits by √d_model, which the second, untied, does not."""
    says_tied = require(config, "tie_word_embeddings", (True, False), True)
    scaled = require(config, "scale_decoder_outputs", (True, False), says_tied)
    return list_readings("T5", config, "relu", scaled)


def read_mt5(config: Json) -> Architecture:
    version = str(config.get("transformers_version", ""))
    if config.get("tie_word_embeddings") is True and version.startswith(("3.", "4.")):
        raise ConversionError(
            f"tie_word_embeddings = True in its config.json, written by transformers {version}, meant logits that are "
            "divided by √d_model, which later versions do not: load and save it with the version that it was made for, "
            "and set model_type = t5."
        )
    return list_readings("mT5", config, "gated-gelu", scaled=False)


def list_readings(family: str, config: Json, feedforward: str, scaled: bool) -> Architecture:
    """With an output matrix of its own where the weights have one that differs from the words, else tied."""
    layers = read_layers(family, config, feedforward)
    d_model = layers.model["d_model"]
    head: Json = {"kind": "logits"} | ({"scale": d_model**-0.5} if scaled else {})
    words = TensorRule("embeddings.decoder.words.weight", SHARED)
    own = replace(
        layers,
        model={**layers.model, "embedding": {"scale": False, "tied": "inputs"}, "head": head},
        rules=(*layers.rules, words, TensorRule("head.weight", OUTPUT)),
        copies={SHARED: COPIES},
    )
    return replace(
        own,
        model={**own.model, "embedding": {"scale": False, "tied": "all"}},
        rules=(*layers.rules, words),
        copies={SHARED: (*COPIES, OUTPUT)},
        otherwise=own,
    )


def read_layers(family: str, config: Json, feedforward: str) -> Architecture:
    kind = FEEDFORWARDS[require(config, "feed_forward_proj", tuple(FEEDFORWARDS), feedforward)]
    names = GATED_NAMES if kind in ("geglu_tanh", "swiglu") else PLAIN_NAMES
    d_model, d_kv, d_ff, heads = (read_size(config, name) for name in ("d_model", "d_kv", "d_ff", "num_heads"))
    buckets = read_size(config, "relative_attention_num_buckets", 32)
    distance = read_size(config, "relative_attention_max_distance", 128)
    layers = read_size(config, "num_layers")
    sizes = {"encoder": layers, "decoder": config.get("num_decoder_layers") or layers}
    rules: list[TensorRule] = []
    stacks: dict[str, Json] = {}
    for side in sizes:
        count = read_size(sizes, side)
        stacks[side] = {
            "layers": count,
            "position": f"t5({buckets}, {distance})",
            "mixer": {"kind": "attention", "heads": heads, "d_k": d_kv, "bias": False, "scale": 1.0},
            "feedforward": {"kind": kind, "hidden": d_ff, "bias": False},
            "residual": "pre",
        }
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rules.append(TensorRule(f"stacks.{side}.positions.0.table", table))
        rules += norm_rules(final_norm(side), f"{side}.final_layer_norm", bias=False)
        for layer in range(count):
            rules += layer_rules(side, layer, names)
    return Architecture(
        family=family,
        objective="translation",
        model={
            "d_model": d_model,
            "dropout": float(config.get("dropout_rate", 0.1)),
            "norm": {"kind": "rmsnorm", "eps": float(config.get("layer_norm_epsilon", 1e-6))},
            **stacks,
        },
        rules=tuple(rules),
        max_tokens=MAX_TOKENS,
        read_text=read_t5_text,
        # Of old files: a table that the decoder's attention to the source never uses.
        unused=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    )


def layer_rules(side: str, layer: int, feedforward_names: dict[str, str]) -> list[TensorRule]:
    attentions = {"self": "SelfAttention"} | ({"cross": "EncDecAttention"} if side == "decoder" else {})
    rules = []
    for number, (ours, name) in enumerate(attentions.items()):
        theirs = f"{side}.block.{layer}.layer.{number}"
        for own, their in LINEARS.items():
            rules += linear_rules(f"{sublayer(side, layer, ours)}.{own}", f"{theirs}.{name}.{their}", bias=False)
        rules += norm_rules(sublayer_norm(side, layer, ours), f"{theirs}.layer_norm", bias=False)
    theirs = f"{side}.block.{layer}.layer.{len(attentions)}"
    feedforward = sublayer(side, layer, "feedforward")
    for own, their in feedforward_names.items():
        rules += linear_rules(f"{feedforward}.{own}", f"{theirs}.DenseReluDense.{their}", bias=False)
    rules += norm_rules(sublayer_norm(side, layer, "feedforward"), f"{theirs}.layer_norm", bias=False)
    return rules
