"""Convert Headway's weights to CTranslate2 and Hugging Face, for benchmarks.

Written independently of the package's own converter, so that each checks the other. For models with sinusoidal
positions, relu and tied embeddings.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


class IdTokenizer:
    """The tokenizers of a model directory, for engines that take ids."""

    def __init__(self, folder: Path) -> None:
        from headway.text.tokenizer.pair import Tokenizers

        both = Tokenizers.load(folder / "tokenizer.json")
        self.source, self.target = both.source, both.target
        self.suppressed = sorted(self.target.control_ids - {self.target.end})

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*ids, self.source.end] for ids in self.source.encode_batch(lines)]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self.target.decode(row).strip() for row in rows]


def write_ctranslate2(folder: Path, out: Path) -> None:
    """Write a CTranslate2 model in float32, which CTranslate2 quantises to int8 on loading."""
    from ctranslate2.specs import transformer_spec
    from ctranslate2.specs.common_spec import Activation

    config, weights = read_model(folder)
    encoder, decoder = config["encoder"], config["decoder"]
    pre = decoder["residual"]["kind"] == "pre"
    spec = transformer_spec.TransformerSpec.from_config(
        (encoder["layers"], decoder["layers"]), decoder["mixer"][0]["heads"], pre_norm=pre, activation=Activation.RELU
    )
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embedding = stack.embeddings[0] if side == "encoder" else stack.embeddings
        embedding.weight = weights["embeddings.decoder.words.weight"]
        stack.position_encodings.encodings = sinusoids(config)
        if pre:
            copy_norm(stack.layer_norm, weights, f"stacks.{side}.ends.norm")
        for index, layer in enumerate(stack.layer):
            block = f"stacks.{side}.blocks.{index}"
            parts = {"self": layer.self_attention} | ({"cross": layer.attention} if side == "decoder" else {})
            for name, part in parts.items():
                path = f"{block}.sublayers.{name}"
                groups = (
                    [("query", "key", "value"), ("output",)]
                    if name == "self"
                    else [("query",), ("key", "value"), ("output",)]
                )
                for linear, names in zip(part.linear, groups):
                    for end in ("weight", "bias"):
                        setattr(linear, end, np.concatenate([weights[f"{path}.{one}.{end}"] for one in names]))
                copy_norm(part.layer_norm, weights, f"{block}.residuals.{name}.norm")
            for linear, name in ((layer.ffn.linear_0, "inner"), (layer.ffn.linear_1, "outer")):
                for end in ("weight", "bias"):
                    setattr(linear, end, weights[f"{block}.sublayers.feedforward.{name}.{end}"])
            copy_norm(layer.ffn.layer_norm, weights, f"{block}.residuals.feedforward.norm")
    spec.decoder.projection.weight = weights["embeddings.decoder.words.weight"]
    text = IdTokenizer(folder)
    vocabulary = [str(n) for n in range(text.target.size)]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    special_tokens = {"bos_token": text.target.start, "eos_token": text.target.end, "unk_token": text.target.pad}
    for name, value in special_tokens.items():
        setattr(spec.config, name, str(value))
    spec.config.decoder_start_token = str(text.target.start)
    spec.config.layer_norm_epsilon = config["norm"]["eps"]
    spec.validate()
    out.mkdir(parents=True, exist_ok=True)
    spec.save(str(out))


def copy_norm(spec: Any, weights: dict[str, np.ndarray], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.gain"], weights[f"{name}.bias"]


def read_model(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The [model] of a directory, and its weights; only kinds that all three engines support."""
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
    for side in ("encoder", "decoder"):
        stack = config[side]
        kinds = [stack["residual"]["kind"], *(part["kind"] for part in stack["position"] + stack["feedforward"])]
        if kinds[0] not in ("pre", "post") or set(kinds[1:]) != {"sinusoidal", "relu"}:
            raise SystemExit(f"{folder}: its {side} has parts that the others do not support: {', '.join(kinds)}")
    return config, load_file(folder / "model.safetensors")


def sinusoids(config: dict[str, Any], positions: int = 512) -> np.ndarray:
    width = config["d_model"]
    angles = np.arange(positions)[:, None] * 10_000.0 ** (-np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(positions, width).astype(np.float32)


def make_hugging_face(folder: Path) -> Any:
    """A Marian model (post-norm) or a Pegasus model (pre-norm), which name their weights alike."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    config, weights = read_model(folder)
    pre = config["decoder"]["residual"]["kind"] == "pre"
    sizes: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        stack = config[side]
        sizes |= {f"{side}_layers": stack["layers"], f"{side}_attention_heads": stack["mixer"][0]["heads"]}
        sizes |= {f"{side}_ffn_dim": stack["feedforward"][0]["hidden"]}
    own, model = (
        (transformers.PegasusConfig, transformers.PegasusForConditionalGeneration)
        if pre
        else (transformers.MarianConfig, transformers.MarianMTModel)
    )
    text = IdTokenizer(folder).target
    built = model(
        own(
            vocab_size=config["vocabulary"], d_model=config["d_model"], activation_function="relu",
            scale_embedding=config["embedding"]["scale"], max_position_embeddings=512, pad_token_id=text.pad,
            decoder_start_token_id=text.start, eos_token_id=text.end, forced_eos_token_id=None, **sizes,
        )
    ).eval()  # fmt: skip
    state = {name: torch.from_numpy(value) for name, value in to_hugging_face_names(weights).items()}
    for side in ("encoder", "decoder"):
        state[f"model.{side}.embed_positions.weight"] = torch.from_numpy(sinusoids(config))
    result = built.load_state_dict(state, strict=False)
    known = ("shared.weight", "embed_tokens.weight", "lm_head.weight", "final_logits_bias")
    unmatched = [name for name in result.missing_keys if not name.endswith(known)] + result.unexpected_keys
    assert not unmatched, unmatched
    built.tie_weights()
    return built


def to_hugging_face_names(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    parts = {"self": "self_attn", "cross": "encoder_attn"}
    linear = {
        "query": "q_proj",
        "key": "k_proj",
        "value": "v_proj",
        "output": "out_proj",
        "inner": "fc1",
        "outer": "fc2",
    }
    found = {"model.shared.weight": weights["embeddings.decoder.words.weight"]}
    for name, value in weights.items():
        _, *path = name.split(".")
        if name.startswith("embeddings"):
            continue
        side, end = path[0], {"gain": "weight"}.get(path[-1], path[-1])
        if path[1] == "ends":
            found[f"model.{side}.layer_norm.{end}"] = value
            continue
        layer, part = f"model.{side}.layers.{path[2]}", path[4]
        if path[3] == "residuals":
            own = "final_layer_norm" if part == "feedforward" else f"{parts[part]}_layer_norm"
            found[f"{layer}.{own}.{end}"] = value
        else:
            inside = "" if part == "feedforward" else f"{parts[part]}."
            found[f"{layer}.{inside}{linear[path[5]]}.{end}"] = value
    return found
