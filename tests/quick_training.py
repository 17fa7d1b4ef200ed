"""Pairs, and the keywords of a call of headway.train that takes a moment."""

from typing import Any

from headway.data.toy import toy_corpus

PAIRS = [(pair.source, pair.target) for pair in toy_corpus(60)]
SMALL: dict[str, Any] = {
    "tokenizer": "bytes",
    "model.d_model": 16,
    "train.batch_tokens": 1024,
    "train.schedule": "constant(0.01)",
    "train.validate_every": 2,
    "train.log_every": 2,
    "train.average": 1,
    "train.decode_lines": 0,
    "train.max_tokens": 80,
}
for side in ("encoder", "decoder"):
    SMALL |= {f"model.{side}.layers": 1, f"model.{side}.mixer": "attention(2)", f"model.{side}.feedforward": "relu(16)"}
TEXT = {**SMALL, "model.encoder.layers": 0, "train.max_tokens": 32}
QUICK: dict[str, Any] = {"preset": "tiny", "set": SMALL, "steps": 4, "device": "cpu", "progress": False}
