"""ViT: an encoder of patches, pre-norm, with a class token and learned positions. DeiT has the same layers.

What a directory holds, says `architectures` in its config.json: ViTForImageClassification labels pictures; ViTModel
gives vectors: its pooled output, if it has a pooler, or else the class token.

How pictures become pixels, says preprocessor_config.json."""

from typing import TYPE_CHECKING, Any

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
from headway.convert.huggingface.bert import ACTIVATIONS, read_labels
from headway.convert.huggingface.model_folder import ModelText
from headway.convert.tensor_rules import Reshape, TensorRule
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Bytes, Tokenizer

if TYPE_CHECKING:
    from headway.convert.huggingface.model_folder import ModelFolder

LAYER = {
    "self.query": "attention.attention.query", "self.key": "attention.attention.key",
    "self.value": "attention.attention.value", "self.output": "attention.output.dense",
    "feedforward.inner": "intermediate.dense", "feedforward.outer": "output.dense",
}  # fmt: skip
RESAMPLING = {2: "bilinear", 3: "bicubic"}  # numbers of Pillow


def read_vit(config: Json) -> Architecture:
    classes: Any = config.get("architectures") or ["ViTModel"]
    name = str(classes[0]) if isinstance(classes, list) else str(classes)
    if not name.endswith(("ForImageClassification", "Model")):
        raise ConversionError(
            f"architectures = {classes!r} in its config.json: a ViT can be imported if it labels pictures "
            "(ForImageClassification) or gives vectors (Model)."
        )
    labels = read_labels(config) if name.endswith("ForImageClassification") else ()
    require(config, "qkv_bias", (True,), True)
    d_model, layers, heads, hidden = (
        read_size(config, key)
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    )
    patch, size = (_read_side(config, *given) for given in (("patch_size", 16), ("image_size", 224)))
    channels = require(config, "num_channels", (1, 3), 3)
    activation = ACTIVATIONS[require(config, "hidden_act", tuple(ACTIVATIONS), "gelu")]
    prefix = "vit."
    reading = config.get("preprocessor") or {}
    frontend = {"kind": "patches", "patch": patch, "size": size, "channels": channels, **_read_preprocessor(reading)}
    head: Json = {"kind": "pooled", "classes": len(labels), "pooling": "first", "dense": False}
    if not labels:
        head = {"kind": "embedding", "pooling": "first", "dense": False, "normalise": False}
    rules = _make_rules(prefix, layers, (d_model, channels, patch, patch))
    rules += linear_rules("head.classify", "classifier") if labels else []
    return Architecture(
        family="ViT",
        objective="classify" if labels else "embed",
        labels=labels,
        model={
            "d_model": d_model,
            "dropout": float(config.get("hidden_dropout_prob") or 0.0),
            "norm": {"kind": "layernorm", "eps": float(config.get("layer_norm_eps", 1e-12))},
            "encoder": {
                "layers": layers,
                "frontend": frontend,
                "position": "none",
                "mixer": f"attention({heads})",
                "feedforward": f"{activation}({hidden})",
                "residual": "pre",
            },
            "decoder": {"layers": 0},
            "head": head,
        },
        rules=tuple(rules),
        unused=("*pooler.*", "*mask_token"),
        lost=() if labels else ("its pooler, if it has one: vectors are the class token, which classifiers use, too",),
        prefix=prefix,
        read_text=_read_no_text,
    )


def _read_side(config: Json, name: str, default: int) -> int:
    """A size, or two that are equal."""
    value = config.get(name, default)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    return read_size({name: value}, name)


def _make_rules(prefix: str, layers: int, shape: tuple[int, ...]) -> list[TensorRule]:
    embeddings = f"{prefix}embeddings"
    projection = f"{embeddings}.patch_embeddings.projection"
    flat = Reshape(shape, (shape[0], shape[1] * shape[2] * shape[3]))
    rules = [
        TensorRule("embeddings.encoder.positions", f"{embeddings}.position_embeddings"),
        TensorRule("embeddings.encoder.class_token", f"{embeddings}.cls_token"),
        TensorRule("embeddings.encoder.project.weight", f"{projection}.weight", (flat,)),
        TensorRule("embeddings.encoder.project.bias", f"{projection}.bias"),
        *norm_rules(final_norm("encoder"), f"{prefix}layernorm"),
    ]
    for layer in range(layers):
        theirs = f"{prefix}encoder.layer.{layer}"
        for own, their in LAYER.items():
            part, _, name = own.partition(".")
            rules += linear_rules(f"{sublayer('encoder', layer, part)}.{name}", f"{theirs}.{their}")
        rules += norm_rules(sublayer_norm("encoder", layer, "self"), f"{theirs}.layernorm_before")
        rules += norm_rules(sublayer_norm("encoder", layer, "feedforward"), f"{theirs}.layernorm_after")
    return rules


def _read_preprocessor(given: Json) -> Json:
    """Settings of the front end, from preprocessor_config.json."""
    if not given:
        return {}
    resample = given.get("resample", 2)
    if resample not in RESAMPLING:
        raise ConversionError(f"resample = {resample!r} in its preprocessor_config.json: only 2 and 3 are supported.")
    found: Json = {"resample": RESAMPLING[resample], "fit": "crop" if given.get("do_center_crop") else "stretch"}
    if given.get("do_normalize", True):
        found["mean"], found["deviation"] = given.get("image_mean", [0.5] * 3), given.get("image_std", [0.5] * 3)
    else:
        found["mean"], found["deviation"] = [0.0], [1.0]
    return found


def _read_no_text(folder: "ModelFolder") -> ModelText:
    """It reads none; a model directory holds the tokenizer of bytes, which is not used."""
    one = Tokenizer.train([], Bytes.Config())
    return ModelText(tokenizers=Tokenizers(one, one))
