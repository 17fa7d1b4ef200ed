"""Llama, Mistral, Qwen2 and Qwen3 compute and write what transformers does, with every kind of rotary position."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open

from convert.language_models import check_greedy, check_logits, check_round_trip, import_model, stir
from headway.convert.architecture import ConversionError
from headway.convert.huggingface.llama import read_llama, read_qwen2
from headway.errors import HeadwayError

SIZES: dict[str, Any] = {
    "vocab_size": 257, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 20, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "bos_token_id": 256,
    "eos_token_id": 256, "pad_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 16}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    "Llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "Llama with wide heads": ("Llama", {"head_dim": 6, "num_key_value_heads": 1}),
    "Llama, linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}}),
    "Llama 3": ("Llama", {"rope_parameters": LLAMA3, "head_dim": 16}),
    "Llama, yarn": ("Llama", {"rope_parameters": YARN, "head_dim": 16}),
    "Llama, yarn, more": (
        "Llama",
        {"rope_parameters": {**YARN, "beta_fast": 2, "beta_slow": 0.5, "truncate": False, "attention_factor": 1.3}},
    ),
    "Mistral": ("Mistral", {"sliding_window": 5}),
    "Qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "Qwen2 with windows": ("Qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2}),
    "Qwen3": ("Qwen3", {"head_dim": 8}),
}


def build(name: str) -> Any:
    family, changes = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **changes})
    return stir(getattr(transformers, f"{family}ForCausalLM")(config))


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_ids(name: str, tmp_path: Path) -> None:
    theirs = build(name)
    ours = import_model(theirs, tmp_path)
    check_logits(theirs, ours)
    check_greedy(theirs, ours, 5)
    check_round_trip(tmp_path / "theirs")
    assert ours.config.model.parameter_count() == sum(p.numel() for p in theirs.parameters())


def test_a_decoder_makes_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="this model has no encoder, which makes vectors of texts"):
        import_model(build("Llama"), tmp_path).embed(["a"])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_two_hundred_prompts(name: str, tmp_path: Path) -> None:
    theirs = build(name)
    check_greedy(theirs, import_model(theirs, tmp_path), 200)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_stay_16_bits_on_disk(dtype: torch.dtype, tmp_path: Path) -> None:
    theirs = build("Llama").to(dtype)
    ours = import_model(theirs, tmp_path)
    with safe_open(tmp_path / "ours" / "model.safetensors", framework="pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {dtype}  # noqa: SIM118
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "theirs", dtype=torch.float32)
    check_logits(again.eval(), ours)  # again: .to(dtype) has rounded the rates of rotation, too


def test_old_configs_say_the_same() -> None:
    """rope_theta and rope_scaling stood beside each other before rope_parameters."""
    config = transformers.LlamaConfig(**{**SIZES, **MODELS["Llama 3"][1]}).to_dict()
    scaling = dict(config.pop("rope_parameters"))
    old = {**config, "rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}
    old["rope_scaling"]["type"] = old["rope_scaling"].pop("rope_type")
    assert read_llama(old) == read_llama({**config, "rope_parameters": LLAMA3})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type = 'dynamic'.*depend on the length"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "mscale": 1.0}}, "mscale"),
        ({"rope_parameters": {"rope_type": "linear"}}, "factor = None in its config.json is not a positive number"),
        ({"rope_parameters": {"rope_type": "linear", "factor": True}}, "factor = True .* is not a positive number"),
        ({"rope_parameters": [1]}, "rope_scaling = .* is not a table"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"head_dim": 5}, "head_dim = 5 .* is odd"),
        ({"attention_bias": "yes"}, "attention_bias = 'yes'"),
    ],
)
def test_what_is_not_exact_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        read_llama({**SIZES, **changes})


@pytest.mark.parametrize("kinds", [["full_attention"], ["full_attention"] * 2 + ["chunked_attention"], 3])
def test_layers_of_another_kind_are_refused(kinds: Any) -> None:
    with pytest.raises(ConversionError, match="layer_types = .* is not supported"):
        read_qwen2({**SIZES, "layer_types": kinds})
