"""BitNet b1.58: Llama with ternary weights, norms before the last projection of attention and of the feed-forward, and
squared ReLU. Its files hold float weights that are rounded at every use ("online"), or packed ones ("offline")."""

from typing import Any

from headway.convert.architecture import (
    Architecture,
    ConversionError,
    Json,
    norm_rules,
    read_size,
    require,
    sublayer,
)
from headway.convert.huggingface.llama import LlamaAttention, decoder_architecture, decoder_rules, projection_rules


def read_bitnet(config: Json) -> Architecture:
    config = {"hidden_act": "relu2", "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, **config}
    require(config, "hidden_act", ("relu2",))
    bias = bool(require(config, "attention_bias", (True, False), False))
    packed = _reads_packed(config.get("quantization_config"))
    attention = LlamaAttention(bias=bias, output_bias=bias, output_norm=True, packed=packed)
    rules = decoder_rules(config, attention)
    for layer in range(read_size(config, "num_hidden_layers")):
        ours, theirs = sublayer("decoder", layer, "feedforward"), f"model.layers.{layer}.mlp"
        for own, their in (("gate", "gate_proj"), ("inner", "up_proj"), ("outer", "down_proj")):
            rules += projection_rules(f"{ours}.{own}", f"{theirs}.{their}", False, packed)
        rules += norm_rules(f"{ours}.output_norm", f"{theirs}.ffn_sub_norm", bias=False)
    feedforward = {
        "kind": "reglu_squared",
        "hidden": read_size(config, "intermediate_size"),
        "output_norm": {"kind": "rmsnorm", "eps": float(config["rms_norm_eps"])},
    }
    linear = {"kind": "bitnet", "packed": packed}
    return decoder_architecture("BitNet", config, attention, feedforward, rules, linear=linear)


def _reads_packed(quantization: Any) -> bool:
    """Whether the weights are packed."""
    table: Json = quantization if isinstance(quantization, dict) else {}
    kinds = [table.get(name) for name in ("quant_method", "linear_class", "quantization_mode")]
    if kinds[:2] != ["bitnet", "autobitlinear"] or kinds[2] not in ("online", "offline") or table.get("use_rms_norm"):
        raise ConversionError(
            f"quantization_config = {quantization!r} in its config.json is not supported, only the quant_method bitnet "
            "with the linear_class autobitlinear, online or offline, and without use_rms_norm."
        )
    return bool(kinds[2] == "offline")
