"""Marian (OPUS-MT): the paper's translator, with sinusoids by halves and a bias of the logits. Pegasus is the same with
pre-norm; mBART and M2M100 name their tensors alike."""

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
from headway.convert.huggingface.marian_text import read_marian_text
from headway.convert.tensor_rules import Reshape, TensorRule

ACTIVATIONS = {
    "swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}  # fmt: skip
EPSILON = 1e-5  # of its norms: that of torch.nn.LayerNorm
SHARED, ENCODER_WORDS, DECODER_WORDS = (
    f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
)
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"
LINEARS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def read_marian(config: Json) -> Architecture:
    for name, value in OLD_SETTINGS.items():
        require(config, name, (value,), value)
    shared = require(config, "share_encoder_decoder_embeddings", (True, False), True)
    tied = require(config, "tie_word_embeddings", (True, False), True)
    source = read_size(config, "vocab_size")
    target = source if shared else read_size({"decoder_vocab_size": config.get("decoder_vocab_size") or source}, VOCAB)
    found = list_readings("Marian", config, shared=shared, tied=tied, target=target, pre_norm=False)
    return replace(found, read_text=read_marian_text)


# Of files that were written before transformers 4.20, where one class was BART, Marian and Pegasus.
OLD_SETTINGS = {
    "static_position_embeddings": True, "normalize_before": False, "normalize_embedding": False,
    "add_final_layer_norm": False,
}  # fmt: skip
VOCAB = "decoder_vocab_size"


def list_readings(family: str, config: Json, *, shared: bool, tied: bool, target: int, pre_norm: bool) -> Architecture:
    """Matrices shared as the config says, and a bias of the logits; with more matrices, or without the bias, where the
    weights have it so. target: the size of the target's vocabulary."""
    layers = read_encoder_decoder(family, config, pre_norm)
    ways = [way for way in WORDS if (shared or way in ("target", "none")) and (tied or way in ("inputs", "none"))]
    result: Architecture | None = None
    for way in reversed(ways):
        words = _add_words(layers, way)
        for bias in (False, True):
            result = replace(_add_bias(words, target) if bias else words, otherwise=result)
    assert result is not None
    return result


def read_encoder_decoder(family: str, config: Json, pre_norm: bool) -> Architecture:
    """The layers alone, without words and output."""
    d_model = read_size(config, "d_model")
    activation = ACTIVATIONS[require(config, "activation_function", tuple(ACTIVATIONS), "gelu")]
    scale = require(config, "scale_embedding", (True, False), False)
    if d_model % 2:
        raise ConversionError(f"d_model = {d_model} in its config.json is odd, and sinusoids come in pairs.")
    rules: list[TensorRule] = []
    stacks: dict[str, Json] = {}
    for side in ("encoder", "decoder"):
        layers, heads, hidden = (
            read_size(config, f"{side}_{name}") for name in ("layers", "attention_heads", "ffn_dim")
        )
        stacks[side] = {
            "layers": layers,
            "position": "sinusoidal(layout='halves')",
            "mixer": {"kind": "attention", "heads": heads, "dropout": float(config.get("attention_dropout", 0.0))},
            "feedforward": {
                "kind": activation, "hidden": hidden, "dropout": float(config.get("activation_dropout", 0.0)),
            },
            "residual": "pre" if pre_norm else "post",
        }  # fmt: skip
        for layer in range(layers):
            rules += layer_rules(side, layer)
        if pre_norm:
            rules += norm_rules(final_norm(side), f"model.{side}.layer_norm")
    return Architecture(
        family=family,
        objective="translation",
        model={
            "d_model": d_model,
            "dropout": float(config.get("dropout", 0.1)),
            "norm": {"kind": "layernorm", "eps": EPSILON},
            "embedding": {"scale": scale},
            **stacks,
        },
        rules=tuple(rules),
        max_tokens=read_size(config, "max_position_embeddings", 512),
        unused=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
    )


def layer_rules(side: str, layer: int) -> list[TensorRule]:
    """One layer: attention to itself, to the source, and the feed-forward."""
    theirs = f"model.{side}.layers.{layer}"
    attentions = {"self": "self_attn"} | ({"cross": "encoder_attn"} if side == "decoder" else {})
    rules = []
    for ours, name in attentions.items():
        for own, their in LINEARS.items():
            rules += linear_rules(f"{sublayer(side, layer, ours)}.{own}", f"{theirs}.{name}.{their}")
        rules += norm_rules(sublayer_norm(side, layer, ours), f"{theirs}.{name}_layer_norm")
    feedforward = sublayer(side, layer, "feedforward")
    rules += linear_rules(f"{feedforward}.inner", f"{theirs}.fc1")
    rules += linear_rules(f"{feedforward}.outer", f"{theirs}.fc2")
    rules += norm_rules(sublayer_norm(side, layer, "feedforward"), f"{theirs}.final_layer_norm")
    return rules


# Which matrices are one, as our embedding.tied says it, and the other names under which they may be stored.
WORDS = {
    "all": (ENCODER_WORDS, DECODER_WORDS, OUTPUT),
    "inputs": (ENCODER_WORDS, DECODER_WORDS),
    "target": (OUTPUT,),
    "none": (),
}


def _add_words(architecture: Architecture, tied: str) -> Architecture:
    """The embeddings, and the output matrix if it is not one of them."""
    shared = tied in ("all", "inputs")
    rules = [TensorRule("embeddings.decoder.words.weight", SHARED if shared else DECODER_WORDS)]
    if not shared:
        rules.append(TensorRule("embeddings.encoder.words.weight", ENCODER_WORDS))
    if tied in ("inputs", "none"):
        rules.append(TensorRule("head.weight", OUTPUT))
    return replace(
        architecture,
        model={**architecture.model, "embedding": {**architecture.model["embedding"], "tied": tied}},
        rules=(*architecture.rules, *rules),
        copies={rules[0].theirs: WORDS[tied]},
        unused=architecture.unused if shared else (*architecture.unused, SHARED),  # stored, though no layer reads it
    )


def _add_bias(architecture: Architecture, target: int) -> Architecture:
    rule = TensorRule("head.bias", BIAS, (Reshape((1, target), (target,)),))
    model = {**architecture.model, "head": "logits(true)"}
    return replace(architecture, model=model, rules=(*architecture.rules, rule))
