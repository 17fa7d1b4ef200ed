"""Model directories with random weights, made in milliseconds: for tests of what becomes of a model, not of what it
has learned."""

from pathlib import Path
from typing import Any

import torch

from headway.config.config import Config, read_config
from headway.nn.transformer import Transformer
from headway.storage.model_dir import save_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

LINES = [
    "The dog sees a red house.", "Ein Hund sieht 12 rote Häuser, nicht wahr?", "It's a cat! \"Really?\"",
    "Grüße ☃ – 100 %", "no one, two three", "Weather: nice today; so we went for a walk.",
    "", "x", "Donaudampfschifffahrt", "a  b   c",
]  # fmt: skip
SIZES = {"layers": 2, "mixer": "attention(4)", "feedforward": "relu(32)"}


def translator_table(**changes: Any) -> dict[str, Any]:
    """The table `model` of a small pre-norm translator; changes are made to both sides."""
    side = {**SIZES, "residual": "pre", **changes}
    return {"d_model": 16, "encoder": side, "decoder": side}


def language_model_table(**changes: Any) -> dict[str, Any]:
    side = {**SIZES, "residual": "pre", "position": "learned(64)", **changes}
    return {"d_model": 16, "encoder": {"layers": 0}, "decoder": side, "embedding": {"scale": False}}


def write_random_model(
    folder: Path,
    model: dict[str, Any],
    objective: str = "translation",
    tokenizer: Tokenizer | None = None,
    source_tokenizer: Tokenizer | None = None,
    noise: float = 0.2,
    **config: Any,
) -> Config:
    """A model directory. Weights are larger than those that training starts from, so that outputs vary."""
    target = tokenizer or Tokenizer.train(LINES, "bytes")
    tokenizers = Tokenizers(source_tokenizer or target, target)
    sizes = {"vocabulary": target.size, "source_vocabulary": tokenizers.source.size}
    train = {"objective": objective, "max_tokens": 64}
    table = {"tokenizer": target.kind, "model": {**model, **sizes}, "train": train, **config}
    if source_tokenizer:
        table["vocabularies"] = "separate"
    made = read_config(table)
    weights = Transformer(made.model).state_dict()
    for tensor in weights.values():
        tensor.add_(torch.randn(tensor.shape) * noise)
    save_model(folder, made, weights, tokenizers, "---\nlicense: mit\n---\n\n# A model\n")
    return made
