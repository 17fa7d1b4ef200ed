"""In, out, in: a model of another toolkit that is imported and exported again is the same, bit for bit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from convert.language_models import byte_tokenizer, import_directory, import_model, read_directory, stir
from safetensors.torch import load_file

from headway.convert.architecture import ConversionError
from headway.convert.export.formats import export_model
from headway.convert.export.stored_model import open_model
from headway.convert.importer import ImportPlan
from headway.storage.model_dir import load_model, read_tensors, save_model
from headway.storage.packing import pack_bitnet_model
from headway.text.tokenizer.pair import Tokenizers

LLAMA: dict[str, Any] = {
    "vocab_size": 257, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 20, "max_position_embeddings": 1024, "rms_norm_eps": 1e-3, "bos_token_id": 256,
    "eos_token_id": 256, "pad_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 2.0,
    "beta_slow": 0.5, "truncate": False, "attention_factor": 1.3,
}  # fmt: skip
NEOX = {
    **{name: value for name, value in LLAMA.items() if name not in ("num_key_value_heads", "rms_norm_eps")},
    "use_parallel_residual": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0},
}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 257}
LANGUAGE_MODELS: list[tuple[str, dict[str, Any]]] = [
    ("GPT2LMHead", GPT2),
    ("GPT2LMHead", {**GPT2, "tie_word_embeddings": False, "activation_function": "gelu", "n_inner": 24}),
    ("GPTNeoXForCausalLM", NEOX),
    ("LlamaForCausalLM", LLAMA),
    ("LlamaForCausalLM", {**LLAMA, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("LlamaForCausalLM", {**LLAMA, "head_dim": 6, "rope_parameters": LLAMA3}),
    ("LlamaForCausalLM", {**LLAMA, "rope_parameters": YARN}),
    ("MistralForCausalLM", {**LLAMA, "sliding_window": 5}),
    ("Qwen2ForCausalLM", {**LLAMA, "tie_word_embeddings": True}),
    ("Qwen2ForCausalLM", {**LLAMA, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 8}),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "settings"), LANGUAGE_MODELS)
def test_a_language_model_comes_back(name: str, settings: dict[str, Any], dtype: torch.dtype, tmp_path: Path) -> None:
    maker: Any = getattr(transformers, "GPT2LMHeadModel" if name == "GPT2LMHead" else name)
    import_model(stir(maker(maker.config_class(**settings)), dtype), tmp_path)
    report = export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "out"))
    assert before.keys() == after.keys()
    for tensor in before:
        assert before[tensor].dtype == after[tensor].dtype == dtype
        assert torch.equal(before[tensor], after[tensor]), tensor
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == [maker.__name__], report.format
    original, loaded = (transformers.AutoConfig.from_pretrained(tmp_path / folder) for folder in ("theirs", "out"))
    for setting in settings.keys() - {"bos_token_id", "eos_token_id", "pad_token_id", "max_window_layers"}:
        assert getattr(loaded, setting) == getattr(original, setting), setting
    import_directory(tmp_path / "out", tmp_path / "again")
    ours, again = (read_tensors(tmp_path / folder / "model.safetensors") for folder in ("ours", "again"))
    assert ours.keys() == again.keys() and all(torch.equal(ours[tensor], again[tensor]) for tensor in ours)


ENCODER: dict[str, Any] = {
    "vocab_size": 257, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20,
    "max_position_embeddings": 40, "pad_token_id": 256,
}  # fmt: skip
DISTILBERT = {
    "vocab_size": 257, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 20, "max_position_embeddings": 40,
    "pad_token_id": 256,
}  # fmt: skip
ENDS = {"pad_token_id": 256, "eos_token_id": 256, "decoder_start_token_id": 256}
T5: dict[str, Any] = {
    "vocab_size": 257, "d_model": 16, "d_kv": 5, "d_ff": 20, "num_heads": 3, "num_layers": 2, "num_decoder_layers": 1,
    **ENDS,
}  # fmt: skip
MARIAN: dict[str, Any] = {
    "vocab_size": 257, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 4, "max_position_embeddings": 1024,
    **ENDS,
}  # fmt: skip
OTHER_MODELS: list[tuple[str, dict[str, Any]]] = [
    ("BertForMaskedLM", ENCODER),
    ("BertModel", {**ENCODER, "hidden_act": "relu"}),
    ("RobertaForMaskedLM", {**ENCODER, "max_position_embeddings": 297, "type_vocab_size": 1}),
    ("DistilBertForMaskedLM", DISTILBERT),
    ("T5ForConditionalGeneration", T5),
    ("T5ForConditionalGeneration", {**T5, "tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}),
    ("MarianMTModel", MARIAN),
    ("MarianMTModel", {**MARIAN, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 257}),
    ("MarianMTModel", {**MARIAN, "activation_function": "swish", "scale_embedding": True}),
    ("PegasusForConditionalGeneration", {**MARIAN, "activation_function": "relu"}),
    ("M2M100ForConditionalGeneration", {**MARIAN, "scale_embedding": True}),
    ("MBartForConditionalGeneration", {**MARIAN, "max_position_embeddings": 40}),
    ("BartForConditionalGeneration", {**MARIAN, "max_position_embeddings": 40}),
    ("MixtralForCausalLM", {**LLAMA, "num_local_experts": 3, "sliding_window": None}),
]


@torch.no_grad()
@pytest.mark.parametrize(("name", "settings"), OTHER_MODELS)
def test_other_models_come_back(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    maker: Any = getattr(transformers, name)
    theirs = stir(maker(maker.config_class(**settings)))
    tables = {key: tensor for key, tensor in theirs.state_dict().items() if "embed_positions" in key}
    if tables and "Bart" not in name:  # they are computed, and not learned
        plain = maker(maker.config_class(**settings)).state_dict()
        theirs.load_state_dict({key: plain[key] for key in tables}, strict=False)
    for key, tensor in theirs.named_parameters():
        if "embed_positions" in key and "Bart" in name:
            tensor[:2] = 0  # never used, as the first of RoBERTa
    if name.startswith("Roberta"):  # its first positions are never used, and come back as zeros
        theirs.roberta.embeddings.position_embeddings.weight[:257] = 0
    theirs.save_pretrained(tmp_path / "theirs")
    read_again(tmp_path / "theirs", tmp_path / "ours")
    export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "out"))
    assert before.keys() ^ after.keys() <= tables.keys()
    for key in before.keys() & after.keys():
        assert torch.equal(before[key], after[key]), key
    read_again(tmp_path / "out", tmp_path / "again")
    ours, again = (read_tensors(tmp_path / folder / "model.safetensors") for folder in ("ours", "again"))
    assert ours.keys() == again.keys() and all(torch.equal(ours[key], again[key]) for key in ours)
    ids = torch.randint(0, 256, (2, 9))
    given = {"decoder_input_ids": ids} if theirs.config.is_encoder_decoder else {}
    found = maker.from_pretrained(tmp_path / "out").eval()(input_ids=ids, **given)
    assert torch.equal(found[0], theirs(input_ids=ids, **given)[0])


def read_again(folder: Path, out: Path) -> None:
    architecture, weights = read_directory(folder)
    tokenizer = byte_tokenizer()
    ImportPlan(architecture=architecture, weights=weights, tokenizers=Tokenizers(tokenizer, tokenizer)).write(out)


def test_bitnet_comes_back_unless_it_is_packed(tmp_path: Path) -> None:
    settings = {**LLAMA, "tie_word_embeddings": True}
    stir(transformers.BitNetForCausalLM(transformers.BitNetConfig(**settings))).save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    table = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": table}))
    import_directory(tmp_path / "theirs", tmp_path / "ours")
    assert (
        export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out").format == "Hugging Face (BitNet)"
    )
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
    config, weights = pack_bitnet_model(load_model(tmp_path / "ours"))
    save_model(tmp_path / "packed", config, weights, load_model(tmp_path / "ours").tokenizers, "")
    with pytest.raises(ConversionError, match='linear is "bitnet" with packed = True'):
        export_model(open_model(tmp_path / "packed"), "huggingface", tmp_path / "refused")
