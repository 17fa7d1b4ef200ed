"""Llama and its like: decoders with RMS norm, rotary positions and SwiGLU.

          biases            queries, keys     window
Llama     where it says     as they are       none
Mistral   none              as they are       the same in all layers
Qwen2     q, k, v alone     as they are       in the upper layers, where it says
Qwen3     where it says     RMS norm          in the upper layers, where it says

Mixtral (mixtral.py) and BitNet (bitnet.py) differ in their feed-forward too."""

from dataclasses import dataclass
from typing import Any

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
from headway.convert.huggingface.rope import read_rope
from headway.convert.tensor_rules import Reshape, TensorRule

MAX_WINDOW = 2048  # tokens of a text that is read at once in fine-tuning and in measuring perplexity
EMBEDDING, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"
PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}


@dataclass(frozen=True, kw_only=True)
class LlamaAttention:
    """What differs between the families."""

    bias: bool = False  # of queries, keys and values
    output_bias: bool = False
    qk_norm: bool = False
    output_norm: bool = False  # of what goes into the output projection
    packed: bool = False  # linear layers are BitNet's, with packed weights and a scale
    windows: tuple[int | None, ...] = (None,)  # of each layer, or one for all


def read_llama(config: Json) -> Architecture:
    bias = _read_switch(config, "attention_bias")
    return llama_architecture("Llama", config, LlamaAttention(bias=bias, output_bias=bias))


def read_mistral(config: Json) -> Architecture:
    return llama_architecture("Mistral", config, LlamaAttention(windows=(read_window(config),)))


def read_qwen2(config: Json) -> Architecture:
    return llama_architecture("Qwen2", config, LlamaAttention(bias=True, windows=_read_layer_windows(config)))


def read_qwen3(config: Json) -> Architecture:
    bias = _read_switch(config, "attention_bias")
    attention = LlamaAttention(bias=bias, output_bias=bias, qk_norm=True, windows=_read_layer_windows(config))
    return llama_architecture("Qwen3", {"head_dim": 128, **config}, attention)


def llama_architecture(family: str, config: Json, attention: LlamaAttention) -> Architecture:
    """A Llama-like model with a SwiGLU in each layer."""
    require(config, "hidden_act", ("silu",), "silu")
    hidden = read_size(config, "intermediate_size")
    bias = _read_switch(config, "mlp_bias")
    rules = decoder_rules(config, attention)
    for layer in range(read_size(config, "num_hidden_layers")):
        ours = sublayer("decoder", layer, "feedforward")
        for own, their in (("gate", "gate_proj"), ("inner", "up_proj"), ("outer", "down_proj")):
            rules += linear_rules(f"{ours}.{own}", f"model.layers.{layer}.mlp.{their}", bias=bias)
    feedforward = {"kind": "swiglu", "hidden": hidden, "bias": bias}
    return decoder_architecture(family, config, attention, feedforward, rules)


def decoder_rules(config: Json, attention: LlamaAttention) -> list[TensorRule]:
    """Of everything but the feed-forwards."""
    rules = [
        TensorRule("embeddings.decoder.words.weight", EMBEDDING),
        *norm_rules(final_norm("decoder"), "model.norm", bias=False),
    ]
    if not _is_tied(config):
        rules.append(TensorRule("head.weight", OUTPUT))
    for layer in range(read_size(config, "num_hidden_layers")):
        theirs, ours = f"model.layers.{layer}", sublayer("decoder", layer, "self")
        for own, their in PROJECTIONS.items():
            bias = attention.output_bias if own == "output" else attention.bias
            rules += projection_rules(f"{ours}.{own}", f"{theirs}.self_attn.{their}", bias, attention.packed)
        if attention.output_norm:
            rules += norm_rules(f"{ours}.output_norm", f"{theirs}.self_attn.attn_sub_norm", bias=False)
        if attention.qk_norm:
            rules += norm_rules(f"{ours}.query_norm", f"{theirs}.self_attn.q_norm", bias=False)
            rules += norm_rules(f"{ours}.key_norm", f"{theirs}.self_attn.k_norm", bias=False)
        rules += norm_rules(sublayer_norm("decoder", layer, "self"), f"{theirs}.input_layernorm", bias=False)
        rules += norm_rules(
            sublayer_norm("decoder", layer, "feedforward"), f"{theirs}.post_attention_layernorm", bias=False
        )
    return rules


def projection_rules(ours: str, theirs: str, bias: bool, packed: bool) -> list[TensorRule]:
    """Of a linear layer; packed: of one of BitNet's."""
    if not packed:
        return linear_rules(ours, theirs, bias=bias)
    rules = [
        TensorRule(f"{ours}.packed", f"{theirs}.weight"),
        TensorRule(f"{ours}.scale", f"{theirs}.weight_scale", (Reshape((1,), ()),)),
    ]
    return rules + ([TensorRule(f"{ours}.bias", f"{theirs}.bias")] if bias else [])


def decoder_architecture(
    family: str, config: Json, attention: LlamaAttention, feedforward: Json, rules: list[TensorRule], **model: Any
) -> Architecture:
    """The model around these feed-forwards. `model`: further settings of it."""
    d_model, heads = (read_size(config, name) for name in ("hidden_size", "num_attention_heads"))
    eps = float(config.get("rms_norm_eps", 1e-6))
    tied = _is_tied(config)
    untied = None
    if tied:  # some files say so, and hold an output matrix of their own
        plain = {**config, "tie_word_embeddings": False}
        head = [*rules, TensorRule("head.weight", OUTPUT)]
        untied = decoder_architecture(family, plain, attention, feedforward, head, **model)
    mixer: Json = {
        "kind": "attention",
        "heads": heads,
        "groups": heads if config.get("num_key_value_heads") is None else read_size(config, "num_key_value_heads"),
        "d_k": read_head_width(config),
        "bias": attention.bias,
        "dropout": float(config.get("attention_dropout") or 0.0),
    }
    if attention.output_bias != attention.bias:
        mixer["output_bias"] = attention.output_bias
    if attention.output_norm:
        mixer["output_norm"] = {"kind": "rmsnorm", "eps": eps}
    if attention.qk_norm:
        mixer["qk_norm"] = {"kind": "rmsnorm", "eps": eps}
    masks = ["causal" if window is None else f"causal & local({window})" for window in attention.windows]
    return Architecture(
        family=family,
        objective="causal",
        model={
            "d_model": d_model,
            "dropout": 0.0,
            "norm": {"kind": "rmsnorm", "eps": eps},
            "embedding": {"scale": False, "tied": "all" if tied else "none"},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": read_size(config, "num_hidden_layers"),
                "position": read_rope(config, read_head_width(config)),
                "mask": masks[0] if len(set(masks)) == 1 else masks,
                "mixer": mixer,
                "feedforward": feedforward,
                "residual": "pre",
            },
            **model,
        },
        rules=tuple(rules),
        max_tokens=min(read_size(config, "max_position_embeddings", 2048), MAX_WINDOW),
        unused=("*.rotary_emb.inv_freq",),
        copies={EMBEDDING: (OUTPUT,)} if tied else {},
        otherwise=untied,
    )


def read_head_width(config: Json) -> int:
    width = config.get("head_dim")
    if width is None:
        width = read_size(config, "hidden_size") // read_size(config, "num_attention_heads")
    return read_size({"head_dim": width}, "head_dim")


def read_window(config: Json) -> int | None:
    """The sliding window of all layers."""
    return None if config.get("sliding_window") is None else read_size(config, "sliding_window")


def _read_layer_windows(config: Json) -> tuple[int | None, ...]:
    """The sliding window of each layer, as Qwen's configs say it."""
    layers = read_size(config, "num_hidden_layers")
    window = read_window(config) if _read_switch(config, "use_sliding_window") else None
    kinds = config.get("layer_types")
    if kinds is None:
        first = config.get("max_window_layers", 28)
        kinds = ["sliding_attention" if window is not None and n >= first else "full_attention" for n in range(layers)]
    known = ("full_attention", "sliding_attention")
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in known for kind in kinds):
        raise ConversionError(
            f"layer_types = {kinds!r} in its config.json is not supported: it must name {layers} layers, each "
            f"{' or '.join(known)}."
        )
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _is_tied(config: Json) -> bool:
    return _read_switch(config, "tie_word_embeddings")


def _read_switch(config: Json, name: str) -> bool:
    return bool(require(config, name, (True, False), False))
