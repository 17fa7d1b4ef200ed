"""Mixtral: Llama with a mixture of SwiGLU experts in each layer. The weights of the chosen experts sum to 1."""

from headway.convert.architecture import Architecture, ConversionError, Json, linear_rules, read_size, require, sublayer
from headway.convert.huggingface.llama import LlamaAttention, decoder_architecture, decoder_rules, read_window
from headway.convert.tensor_rules import TensorRule

EXPERT = {"gate": "w1", "outer": "w2", "inner": "w3"}


def read_mixtral(config: Json) -> Architecture:
    require(config, "hidden_act", ("silu",), "silu")
    config = {"rms_norm_eps": 1e-5, "rope_theta": 1e6, "num_local_experts": 8, "num_experts_per_tok": 2, **config}
    experts, top_k = (read_size(config, name) for name in ("num_local_experts", "num_experts_per_tok"))
    if top_k < 2:
        raise ConversionError(
            f"num_experts_per_tok = {top_k} in its config.json is not supported, only 2 or more: the weight of a "
            "single expert is 1 there, and its probability in Headway."
        )
    attention = LlamaAttention(windows=(read_window(config),))
    rules = decoder_rules(config, attention)
    for layer in range(read_size(config, "num_hidden_layers")):
        ours, theirs = sublayer("decoder", layer, "feedforward"), f"model.layers.{layer}.block_sparse_moe"
        rules.append(TensorRule(f"{ours}.router.weight", f"{theirs}.gate.weight"))
        for n in range(experts):
            for own, their in EXPERT.items():
                rules += linear_rules(f"{ours}.experts.{n}.{own}", f"{theirs}.experts.{n}.{their}", bias=False)
    feedforward = {
        "kind": "moe",
        "experts": experts,
        "top_k": top_k,
        "weights": "chosen",
        "balance_loss": float(config.get("router_aux_loss_coef", 0.001)),
        "expert": {"kind": "swiglu", "hidden": read_size(config, "intermediate_size")},
    }
    return decoder_architecture("Mixtral", config, attention, feedforward, rules)
