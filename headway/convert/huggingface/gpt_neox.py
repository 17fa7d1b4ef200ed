"""GPT-NeoX: a decoder alone, pre-norm, rotary positions, layer norm and biases. Its queries, keys and values are one
matrix, head by head. Of its two forms, Headway has the one whose sub-layers follow each other (Pythia has the other,
and rotates only a part of each head)."""

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
from headway.convert.huggingface.rope import read_rope
from headway.convert.tensor_rules import JoinedHeads, RowSlice, TensorRule

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
ROTATED_PART = 0.25  # of each head, where the config does not say


def read_gpt_neox(config: Json) -> Architecture:
    require(config, "use_parallel_residual", (False,), True)
    activation = ACTIVATIONS[require(config, "hidden_act", tuple(ACTIVATIONS), "gelu")]
    d_model, layers, heads, hidden = (
        read_size(config, name)
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    )
    bias = require(config, "attention_bias", (True, False), True)
    tied = require(config, "tie_word_embeddings", (True, False), False)
    part = config.get("rotary_pct", ROTATED_PART)
    position = read_rope(
        {"partial_rotary_factor": part, "rope_theta": config.get("rotary_emb_base", 10000), **config}, d_model // heads
    )
    rules = [
        TensorRule("embeddings.decoder.words.weight", "gpt_neox.embed_in.weight"),
        *norm_rules(final_norm("decoder"), "gpt_neox.final_layer_norm"),
    ]
    for layer in range(layers):
        theirs = f"gpt_neox.layers.{layer}"
        attention, feedforward = sublayer("decoder", layer, "self"), sublayer("decoder", layer, "feedforward")
        rules += norm_rules(sublayer_norm("decoder", layer, "self"), f"{theirs}.input_layernorm")
        rules += norm_rules(sublayer_norm("decoder", layer, "feedforward"), f"{theirs}.post_attention_layernorm")
        for n, name in enumerate(("query", "key", "value")):
            cut = JoinedHeads(heads, 3), RowSlice(n * d_model, d_model)
            rules += linear_rules(f"{attention}.{name}", f"{theirs}.attention.query_key_value", *cut, bias=bias)
        rules += linear_rules(f"{attention}.output", f"{theirs}.attention.dense", bias=bias)
        rules += linear_rules(f"{feedforward}.inner", f"{theirs}.mlp.dense_h_to_4h")
        rules += linear_rules(f"{feedforward}.outer", f"{theirs}.mlp.dense_4h_to_h")
    output = "embed_out.weight", "lm_head.weight"  # in files, and in the model
    if not tied:
        rules.append(TensorRule("head.weight", output[0]))
    return Architecture(
        family="GPT-NeoX",
        objective="causal",
        model={
            "d_model": d_model,
            "dropout": float(config.get("hidden_dropout", 0.0)),
            "norm": {"kind": "layernorm", "eps": float(config.get("layer_norm_eps", 1e-5))},
            "embedding": {"scale": False, "tied": "all" if tied else "none"},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": layers,
                "position": position,
                "mixer": {"kind": "attention", "heads": heads, "bias": bias},
                "feedforward": f"{activation}({hidden})",
                "residual": "pre",
            },
        },
        rules=tuple(rules),
        max_tokens=read_size(config, "max_position_embeddings", 2048),
        unused=("*.rotary_emb.inv_freq", "*.attention.bias", "*.attention.masked_bias", *(output if tied else ())),
    )
