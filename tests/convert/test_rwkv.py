"""RWKV-4 computes and writes what transformers does."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from convert.language_models import check_greedy, check_logits, check_round_trip, import_model, stir
from headway.convert.architecture import ConversionError
from headway.convert.huggingface.rwkv import read_rwkv

SIZES: dict[str, Any] = {
    "vocab_size": 257, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 20, "context_length": 64,
    "bos_token_id": 256, "eos_token_id": 256, "rescale_every": 0,
}  # fmt: skip


def build(**changes: Any) -> Any:
    model = stir(transformers.RwkvForCausalLM(transformers.RwkvConfig(**{**SIZES, **changes})))
    for name, parameter in model.named_parameters():
        if "time_mix" in name:
            torch.nn.init.uniform_(parameter)
    return model


@pytest.mark.parametrize("tied", [False, True])
def test_logits_and_ids(tied: bool, tmp_path: Path) -> None:
    theirs = build(tie_word_embeddings=tied)
    ours = import_model(theirs, tmp_path)
    check_logits(theirs, ours)
    check_greedy(theirs, ours, 5)
    check_round_trip(tmp_path / "theirs")


@pytest.mark.slow
def test_two_hundred_prompts(tmp_path: Path) -> None:
    theirs = build()
    check_greedy(theirs, import_model(theirs, tmp_path), 200)


def test_what_differs_is_said_or_refused() -> None:
    with pytest.raises(ConversionError, match="attention_hidden_size = 8"):
        read_rwkv({**SIZES, "attention_hidden_size": 8})
    with pytest.raises(ConversionError, match="layer_norm_epsilon = 0.001"):
        read_rwkv({**SIZES, "layer_norm_epsilon": 1e-3})
    assert "rescale_every" in read_rwkv({**SIZES, "rescale_every": 6}).lost[0]
    assert not read_rwkv(SIZES).lost
