"""Small labelled data, and the keywords of a call of headway.train that learns from it in a moment."""

from typing import Any

import numpy as np

COLOURS = ["red", "blue", "green"]
THINGS = ["house", "dog", "tree", "car", "boat"]
SMALL: dict[str, Any] = {
    "tokenizer": "bytes", "model.d_model": 32, "model.encoder.layers": 1, "model.encoder.mixer": "attention(2)",
    "model.encoder.feedforward": "relu(32)", "model.dropout": 0.0, "train.batch_tokens": 512, "train.max_tokens": 48,
    "train.schedule": "constant(0.01)", "train.validate_every": 20, "train.log_every": 20,
}  # fmt: skip
QUICK: dict[str, Any] = {"preset": "tiny_encoder", "set": SMALL, "device": "cpu", "progress": False}


def make_rows(task: str, count: int = 120, seed: int = 1) -> list[Any]:
    random = np.random.default_rng(seed)
    rows: list[Any] = []
    for _ in range(count):
        colour, thing, other = random.choice(COLOURS), random.choice(THINGS), random.choice(COLOURS)
        number = int(random.integers(1000))
        text = f"{number} a {colour} {thing}"
        if task == "classify":
            rows.append((text, colour))
        elif task == "tag":
            rows.append((text, "O O B-C B-T"))
        elif task == "match":
            rows.append((text, f"the {other} one", "same" if colour == other else "other"))
        elif task == "score":
            rows.append((text, f"the {other} one", float(COLOURS.index(colour)) + number / 2000))
        else:
            rows.append((text, f"{thing} {number}, {colour}"))
    return rows
