"""XLNet: a decoder alone with two streams, post-norm, Transformer-XL's positions.

    attn_type = "bi"     all tokens so far see each other        decoder.content = "mutual"
    attn_type = "uni"    each token sees those before it         decoder.content = "ordered"

Its projections are (d_model, heads, d_head); what each layer adds to queries (r_w_bias, r_r_bias) is one tensor here,
of all layers."""

from headway.convert.architecture import (
    Architecture,
    ConversionError,
    Json,
    linear_rules,
    norm_rules,
    read_size,
    require,
    sublayer,
    sublayer_norm,
)
from headway.convert.layer_stacks import name_stacks
from headway.convert.tensor_rules import Reshape, TensorRule, Transpose

ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu",
    "swish": "silu",
}  # fmt: skip
LANGUAGE_MODEL = "XLNetLMHeadModel"
CONTENT = {"bi": "mutual", "uni": "ordered"}
POSITION = "stacks.decoder.positions.0"
QUERY_BIASES = {
    "to_keys": "transformer.layer.*.rel_attn.r_w_bias",
    "to_distances": "transformer.layer.*.rel_attn.r_r_bias",
}
SEGMENTS = ("rel_attn.seg_embed", "rel_attn.r_s_bias")  # of each layer
TRAINED_LENGTH = 512  # tokens: there is no limit, and no setting


def read_xlnet(config: Json) -> Architecture:
    classes = config.get("architectures") or [LANGUAGE_MODEL]
    if classes != [LANGUAGE_MODEL]:
        raise ConversionError(
            f"architectures = {classes!r} in its config.json: an XLNet model can be imported if it continues texts "
            f"({LANGUAGE_MODEL}), not with another head."
        )
    for name in ("bi_data", "same_length"):
        require(config, name, (False,), False)
    require(config, "clamp_len", (-1, 0, None), -1)
    content = CONTENT[require(config, "attn_type", tuple(CONTENT), "bi")]
    activation = ACTIVATIONS[require(config, "ff_activation", tuple(ACTIVATIONS), "gelu")]
    d_model, layers, heads, hidden = (read_size(config, name) for name in ("d_model", "n_layer", "n_head", "d_inner"))
    d_head = d_model // heads
    require(config, "d_head", (d_head, None))
    tied = require(config, "tie_word_embeddings", (True, False), True)
    lost = ["segment embeddings (seg_embed, r_s_bias), which tell two texts apart: a text to be continued is one"]
    if config.get("use_mems_eval", True) and content == "mutual":
        lost.append(
            "transformers' way to generate from states of earlier tokens as they were then (use_mems_eval): all tokens "
            "are computed anew at every step, as with use_mems = False"
        )
    if config.get("mem_len"):
        lost.append(f"the memory of earlier segments (mem_len = {config['mem_len']}): a text is read as a whole")
    return Architecture(
        family="XLNet",
        objective="permutation",
        objective_settings={"context": content},
        model={
            "d_model": d_model,
            "dropout": float(config.get("dropout", 0.1)),
            "norm": {"kind": "layernorm", "eps": float(config.get("layer_norm_eps", 1e-12))},
            "embedding": {"scale": False, "tied": "all" if tied else "none"},
            "encoder": {"layers": 0},
            "decoder": {
                "layers": layers,
                "streams": 2,
                "content": content,
                "position": "transformer_xl(tied=false)",
                "mixer": {"kind": "attention", "heads": heads, "bias": False},
                "feedforward": f"{activation}({hidden})",
                "residual": "post",
            },
            "head": "logits(bias=true)",
        },
        rules=tuple(_list_rules(d_model, layers, heads, tied)),
        stacks=name_stacks(layers, *QUERY_BIASES.values()),
        max_tokens=TRAINED_LENGTH,
        prefix="transformer.",
        unused=(*(f"*.{name}" for name in SEGMENTS), *(("lm_loss.weight",) if tied else ())),
        lost=tuple(lost),
    )


def _list_rules(d_model: int, layers: int, heads: int, tied: bool) -> list[TensorRule]:
    d_head = d_model // heads
    flat = Reshape((d_model, heads, d_head), (d_model, heads * d_head))
    start = Reshape((1, 1, d_model), (d_model,))
    rules = [
        TensorRule("embeddings.decoder.words.weight", "transformer.word_embedding.weight"),
        TensorRule("stacks.decoder.query_stream.start", "transformer.mask_emb", (start,)),
        TensorRule("head.bias", "lm_loss.bias"),
    ]
    for ours, theirs in QUERY_BIASES.items():
        shape = Reshape((layers, heads, d_head), (layers, heads, 1, d_head))
        rules.append(TensorRule(f"{POSITION}.{ours}", theirs, (shape,)))
    rules += [] if tied else [TensorRule("head.weight", "lm_loss.weight")]
    for layer in range(layers):
        theirs = f"transformer.layer.{layer}"
        attention, feedforward = sublayer("decoder", layer, "self"), sublayer("decoder", layer, "feedforward")
        for ours, name in (("query", "q"), ("key", "k"), ("value", "v")):
            rules.append(TensorRule(f"{attention}.{ours}.weight", f"{theirs}.rel_attn.{name}", (flat, Transpose())))
        rules.append(TensorRule(f"{attention}.output.weight", f"{theirs}.rel_attn.o", (flat,)))
        rules.append(TensorRule(f"{POSITION}.project.{layer}.weight", f"{theirs}.rel_attn.r", (flat, Transpose())))
        rules += norm_rules(sublayer_norm("decoder", layer, "self"), f"{theirs}.rel_attn.layer_norm")
        rules += linear_rules(f"{feedforward}.inner", f"{theirs}.ff.layer_1")
        rules += linear_rules(f"{feedforward}.outer", f"{theirs}.ff.layer_2")
        rules += norm_rules(sublayer_norm("decoder", layer, "feedforward"), f"{theirs}.ff.layer_norm")
    return rules
