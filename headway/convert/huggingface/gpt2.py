"""GPT-2: a decoder alone, pre-norm, learned positions. Its linear layers are stored transposed, with queries, keys and
values in one matrix."""

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
from headway.convert.tensor_rules import RowSlice, TensorRule, Transpose

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}


def read_gpt2(config: Json) -> Architecture:
    require(config, "scale_attn_weights", (True,), True)
    require(config, "scale_attn_by_inverse_layer_idx", (False,), False)
    require(config, "add_cross_attention", (False,), False)
    activation = ACTIVATIONS[require(config, "activation_function", tuple(ACTIVATIONS), "gelu_new")]
    d_model, layers, heads = (read_size(config, name) for name in ("n_embd", "n_layer", "n_head"))
    hidden = read_size({"n_inner": config.get("n_inner") or 4 * d_model}, "n_inner")
    positions = read_size(config, "n_positions")
    tied = require(config, "tie_word_embeddings", (True, False), True)
    rules = [
        TensorRule("embeddings.decoder.words.weight", "transformer.wte.weight"),
        TensorRule("stacks.decoder.positions.0.table.weight", "transformer.wpe.weight"),
        *norm_rules(final_norm("decoder"), "transformer.ln_f"),
    ]
    for layer in range(layers):
        theirs = f"transformer.h.{layer}"
        attention, feedforward = sublayer("decoder", layer, "self"), sublayer("decoder", layer, "feedforward")
        rules += norm_rules(sublayer_norm("decoder", layer, "self"), f"{theirs}.ln_1")
        rules += norm_rules(sublayer_norm("decoder", layer, "feedforward"), f"{theirs}.ln_2")
        for n, name in enumerate(("query", "key", "value")):
            rows = RowSlice(n * d_model, d_model)
            rules += linear_rules(f"{attention}.{name}", f"{theirs}.attn.c_attn", Transpose(), rows)
        rules += linear_rules(f"{attention}.output", f"{theirs}.attn.c_proj", Transpose())
        rules += linear_rules(f"{feedforward}.inner", f"{theirs}.mlp.c_fc", Transpose())
        rules += linear_rules(f"{feedforward}.outer", f"{theirs}.mlp.c_proj", Transpose())
    if not tied:
        rules.append(TensorRule("head.weight", "lm_head.weight"))
    return Architecture(
        family="GPT-2",
        objective="causal",
        model={
            "d_model": d_model,
            "dropout": float(config.get("resid_pdrop", 0.1)),
            "norm": {"kind": "layernorm", "eps": float(config.get("layer_norm_epsilon", 1e-5))},
            "embedding": {"scale": False, "tied": "all" if tied else "none"},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": layers,
                "position": f"learned({positions})",
                "mixer": f"attention({heads})",
                "feedforward": f"{activation}({hidden})",
                "residual": "pre",
            },
        },
        rules=tuple(rules),
        max_tokens=positions,
        prefix="transformer.",
        unused=("*.attn.bias", "*.attn.masked_bias", *(("lm_head.weight",) if tied else ())),
    )
