"""GPT-NeoX computes and writes what transformers does, in the form that Headway has."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from convert.language_models import check_greedy, check_logits, check_round_trip, import_model, stir
from headway.convert.architecture import ConversionError
from headway.convert.huggingface.gpt_neox import read_gpt_neox
from headway.convert.tensor_rules import JoinedHeads, RowSlice, TensorRule, read_tensor, write_tensor
from headway.errors import HeadwayError

WHOLE_HEADS = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0}
SIZES: dict[str, Any] = {
    "vocab_size": 257, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20,
    "max_position_embeddings": 64, "bos_token_id": 256, "eos_token_id": 256, "use_parallel_residual": False,
    "rope_parameters": WHOLE_HEADS,
}  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"attention_bias": False, "tie_word_embeddings": True, "hidden_act": "relu"}])
def test_logits_and_ids(changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = stir(GPTNeoXForCausalLM(GPTNeoXConfig(**{**SIZES, **changes})))
    ours = import_model(theirs, tmp_path)
    check_logits(theirs, ours)
    check_greedy(theirs, ours, 5)
    check_round_trip(tmp_path / "theirs")
    assert ours.config.model.parameter_count() == sum(p.numel() for p in theirs.parameters())


def test_the_form_of_pythia_is_refused() -> None:
    with pytest.raises(ConversionError, match="use_parallel_residual = True"):
        read_gpt_neox({**SIZES, "use_parallel_residual": True})
    with pytest.raises(ConversionError, match="partial_rotary_factor"):
        read_gpt_neox({**SIZES, "rope_parameters": {**WHOLE_HEADS, "partial_rotary_factor": 0.25}})
    with pytest.raises(ConversionError, match="partial_rotary_factor"):
        read_gpt_neox({name: value for name, value in SIZES.items() if name != "rope_parameters"})


def test_heads_that_lie_together_are_sorted_and_back() -> None:
    rules = [TensorRule(f"ours.{n}", "qkv", (JoinedHeads(2, 3), RowSlice(4 * n, 4))) for n in range(3)]
    theirs = torch.arange(12.0)[:, None].repeat(1, 2)
    parts = [read_tensor(rule, theirs) for rule in rules]
    assert parts[1][:, 0].tolist() == [2, 3, 8, 9]  # the keys of both heads
    assert [tuple(part.shape) for part in parts] == [rule.shape((12, 2)) for rule in rules]
    assert torch.equal(write_tensor(rules, parts), theirs)
    with pytest.raises(HeadwayError, match="its 13 rows are not 3 for each of 2 heads"):
        rules[0].shape((13, 2))
