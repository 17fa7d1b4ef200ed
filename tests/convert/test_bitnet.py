"""BitNet b1.58 computes and writes what transformers does, with float weights and with packed ones."""

import importlib
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from convert.language_models import check_greedy, check_logits, check_round_trip, import_directory, stir
from convert.test_llama import SIZES
from headway.convert.architecture import ConversionError
from headway.convert.huggingface.bitnet import read_bitnet
from headway.nn.layers.bitlinear import pack_ternary, round_to_ternary

with mock.patch("torch.compile", lambda function: function):  # it takes seconds, and warns of itself
    bitnet = importlib.import_module("transformers.integrations.bitnet")


def quantize(model: Any, mode: str) -> None:
    """Replace its linear layers, as loading with a quantization_config does, but without a compiler."""
    for name, module in list(model.model.named_modules()):
        if isinstance(module, nn.Linear):
            layer = bitnet.AutoBitLinear(
                module.in_features, module.out_features, module.bias is not None, online_quant=mode == "online"
            )
            weight, scale = round_to_ternary(module.weight.detach())
            layer.weight.data = module.weight.detach() if mode == "online" else weight
            if mode == "offline":
                layer.weight_scale.fill_(float(scale))
            model.model.set_submodule(name, layer)


def save(model: Any, mode: str, folder: Path) -> None:
    """In the form of the published directories: packed weights have four rows in one."""
    model.save_pretrained(folder)
    table = json.loads((folder / "config.json").read_text())
    table["quantization_config"] = {
        "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": mode,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(table))
    if mode == "offline":
        tensors = load_file(folder / "model.safetensors")
        for name in [name for name in tensors if name.endswith("proj.weight")]:
            tensors[name] = pack_ternary(tensors[name])
        save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_logits_and_ids(mode: str, tmp_path: Path) -> None:
    config = transformers.BitNetConfig(**{**SIZES, "tie_word_embeddings": True})
    theirs = stir(transformers.BitNetForCausalLM(config))
    quantize(theirs, mode)
    save(theirs.eval(), mode, tmp_path / "theirs")
    ours = import_directory(tmp_path / "theirs", tmp_path / "ours")
    check_logits(theirs, ours)
    check_greedy(theirs, ours, 3)
    check_round_trip(tmp_path / "theirs")
    stored = {tensor.dtype for tensor in load_file(tmp_path / "ours" / "model.safetensors").values()}
    assert stored == ({torch.float32} if mode == "online" else {torch.float32, torch.uint8})


@pytest.mark.parametrize("linear_class", ["bitlinear", None])
def test_other_roundings_are_refused(linear_class: str | None) -> None:
    with pytest.raises(ConversionError, match="quantization_config = .*only the quant_method bitnet"):
        read_bitnet({**SIZES, "quantization_config": {"quant_method": "bitnet", "linear_class": linear_class}})
    with pytest.raises(ConversionError, match="hidden_act = 'silu'"):
        read_bitnet({**SIZES, "hidden_act": "silu"})
