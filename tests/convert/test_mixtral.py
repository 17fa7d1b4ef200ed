"""Mixtral computes and writes what transformers does."""

from pathlib import Path
from typing import Any

import pytest
import transformers

from convert.language_models import check_greedy, check_logits, check_round_trip, import_model, stir
from convert.test_llama import SIZES
from headway.convert.architecture import ConversionError
from headway.convert.huggingface.mixtral import read_mixtral


def build(**changes: Any) -> Any:
    sizes = {**SIZES, "num_local_experts": 5, "num_experts_per_tok": 2, **changes}
    return stir(transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes)))


@pytest.mark.parametrize("changes", [{}, {"num_experts_per_tok": 3, "sliding_window": 4}], ids=["two", "three"])
def test_logits_and_ids(changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = build(**changes)
    ours = import_model(theirs, tmp_path)
    check_logits(theirs, ours)
    check_greedy(theirs, ours, 5)
    check_round_trip(tmp_path / "theirs")


@pytest.mark.slow
def test_two_hundred_prompts(tmp_path: Path) -> None:
    theirs = build()
    check_greedy(theirs, import_model(theirs, tmp_path), 200)


def test_one_expert_is_refused() -> None:
    with pytest.raises(ConversionError, match="num_experts_per_tok = 1"):
        read_mixtral({**SIZES, "num_experts_per_tok": 1})
