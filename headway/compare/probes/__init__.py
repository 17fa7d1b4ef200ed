"""Probes: named measurements of a trained language model, which test what a paper claims about its architecture.

coding_rate          how far each layer compresses tokens towards its subspaces, and how sparse it makes them (CRATE)
segment_evaluation   reading with a carried state against re-reading a window for every token (Transformer-XL)
retention_forms      three forms of one operation, and what a decoded token costs after a long context (RetNet)
expert_load          which share of the tokens each expert gets (mixtures of experts)
windows              shared by them: pieces of the validation text, and what the layers record of them

probes = ["coding_rate"] in a study ── check_probe ──► trained model, validation text ── run_probe ──► a small table

The table of a probe has rows with the same keys in the same order; values are numbers, or names that say what a row is
about. A value that there is none of is "". This module loads without torch.
"""

import importlib
from typing import TYPE_CHECKING

from headway.errors import ConfigError, HeadwayError, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from headway.config.config import Config
    from headway.nn.transformer import Transformer
    from headway.text.tokenizer.special_tokens import SpecialTokens

ProbeRow = dict[str, float | str]

PROBES = {
    "coding_rate": "coding rate and sparsity of the tokens, layer by layer",
    "segment_evaluation": "loss and speed of reading with a carried state, of re-read and of separate windows",
    "retention_forms": "time, differences and state of the three forms of retention, and of decoding, by length",
    "expert_load": "the share of the tokens that each expert gets, and the parameters that a token visits",
}


def check_probe(name: str) -> None:
    """Raise a ConfigError if there is no such probe."""
    if name not in PROBES:
        known = ", ".join(PROBES)
        raise ConfigError(f'there is no probe "{name}".{did_you_mean(name, list(PROBES))} Known: {known}.', "probes")


def run_probe(
    name: str, model: "Transformer", stream: "np.ndarray", config: "Config", special: "SpecialTokens"
) -> list[ProbeRow]:
    """The table of a probe. `stream`: the token ids of the validation text in one row."""
    import torch

    check_probe(name)
    if len(model.config.sides) > 1:
        raise HeadwayError(f"the probe {name} measures language models, and this one translates. Leave it out.")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            probe = importlib.import_module(f"{__name__}.{name}")
            rows: list[ProbeRow] = probe.measure(model, stream, config, special)
            return rows
    finally:
        model.train(training)
