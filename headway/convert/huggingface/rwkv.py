"""RWKV-4: time mixing and channel mixing, pre-norm, a norm of the embeddings. Where RWKV has the share of a token, we
have that of the one before it: 1 - share."""

from headway.convert.architecture import (
    Architecture,
    Json,
    final_norm,
    linear_rules,
    norm_rules,
    read_size,
    require,
    sublayer,
    sublayer_norm,
)
from headway.convert.tensor_rules import OneMinus, Reshape, TensorRule

FINAL_EPS = 1e-5  # of the last norm, whatever the config says


def read_rwkv(config: Json) -> Architecture:
    d_model, layers = read_size(config, "hidden_size"), read_size(config, "num_hidden_layers")
    require(config, "attention_hidden_size", (d_model, None))
    eps = require(config, "layer_norm_epsilon", (FINAL_EPS,), FINAL_EPS)
    hidden = 4 * d_model if config.get("intermediate_size") is None else read_size(config, "intermediate_size")
    tied = require(config, "tie_word_embeddings", (True, False), False)
    rules = [
        TensorRule("embeddings.decoder.words.weight", "rwkv.embeddings.weight"),
        *norm_rules("embeddings.decoder.norm", "rwkv.blocks.0.pre_ln"),
        *norm_rules(final_norm("decoder"), "rwkv.ln_out"),
    ]
    rules += [] if tied else [TensorRule("head.weight", "head.weight")]
    for layer in range(layers):
        theirs = f"rwkv.blocks.{layer}"
        time, channel = sublayer("decoder", layer, "self"), sublayer("decoder", layer, "feedforward")
        rules += norm_rules(sublayer_norm("decoder", layer, "self"), f"{theirs}.ln1")
        rules += norm_rules(sublayer_norm("decoder", layer, "feedforward"), f"{theirs}.ln2")
        for name in ("receptance", "key", "value", "output"):
            rules += linear_rules(f"{time}.{name}", f"{theirs}.attention.{name}", bias=False)
        for name in ("receptance", "key", "value"):
            rules.append(_share_rule(f"{time}.{name}_share", f"{theirs}.attention.time_mix_{name}", d_model))
        rules.append(TensorRule(f"{time}.log_decay", f"{theirs}.attention.time_decay"))
        rules.append(TensorRule(f"{time}.bonus", f"{theirs}.attention.time_first"))
        for own, their in (("inner", "key"), ("outer", "value"), ("gate", "receptance")):
            rules += linear_rules(f"{channel}.{own}", f"{theirs}.feed_forward.{their}", bias=False)
        for own, their in (("inner", "key"), ("gate", "receptance")):
            rules.append(_share_rule(f"{channel}.{own}_share", f"{theirs}.feed_forward.time_mix_{their}", d_model))
    lost = []
    if config.get("rescale_every", 6) > 0:
        lost.append("rescale_every, which halves large numbers for 16-bit floats: Headway computes as in training")
    return Architecture(
        family="RWKV-4",
        objective="causal",
        model={
            "d_model": d_model,
            "dropout": 0.0,
            "norm": {"kind": "layernorm", "eps": eps},
            "embedding": {"scale": False, "norm": True, "tied": "all" if tied else "none"},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": layers,
                "position": "none",
                "mixer": "rwkv4",
                "feedforward": f"rwkv_channel_mix({hidden})",
                "residual": "pre",
            },
        },
        rules=tuple(rules),
        max_tokens=read_size(config, "context_length", 1024),
        unused=("head.weight",) if tied else (),
        lost=tuple(lost),
    )


def _share_rule(ours: str, theirs: str, width: int) -> TensorRule:
    return TensorRule(ours, theirs, (Reshape((1, 1, width), (width,)), OneMinus()))
