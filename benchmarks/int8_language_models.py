"""Language models and encoders in int8 beside float32 on one CPU thread, with random weights: processor time.

    python benchmarks/int8_language_models.py

A GPT and an XLNet of 6 layers of width 512 continue a prompt greedily; an encoder of the same size reads 32 texts of 24
tokens and scores four classes. The best of three runs after one that is not counted."""

import time
from collections.abc import Callable
from typing import Any

import torch

from headway.config.config import read_config
from headway.config.search import Search
from headway.decode.dispatch import decode
from headway.decode.reference.model import ModelStepper
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens

NEW_TOKENS = 24
TEXTS, TEXT_TOKENS = 32, 24
VOCABULARY = 16_000
STACK: dict[str, Any] = {
    "layers": 6, "mixer": "attention(8)", "feedforward": "gelu_tanh(2048)", "residual": "pre",
    "position": "learned(512)",
}  # fmt: skip
XLNET = {**STACK, "position": "transformer_xl(tied=false)", "streams": 2}
MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "generate, GPT": ({"encoder": {"layers": 0}, "decoder": STACK}, "causal"),
    "generate, XLNet": ({"encoder": {"layers": 0}, "decoder": XLNET}, "permutation"),
    "classify": ({"encoder": STACK, "decoder": {"layers": 0}, "head": "pooled(4)"}, "classify"),
}


def main() -> None:
    torch.set_num_threads(1)
    print("| | float32, ms | int8, ms | ratio |\n|---|---|---|---|")
    for name, (table, objective) in MODELS.items():
        torch.manual_seed(0)
        size = {"d_model": 512, "vocabulary": VOCABULARY, "embedding": {"scale": False}}
        config = read_config({"model": {**size, **table}, "train": {"objective": objective}})
        model = Transformer(config.model).eval()
        plain, rounded = (1000 * time_best(make_task(ModelStepper(model, compute))) for compute in ("float32", "int8"))
        print(f"| {name} | {plain:.1f} | {rounded:.1f} | {plain / rounded:.2f}x |", flush=True)


def make_task(stepper: ModelStepper) -> Callable[[], object]:
    network = stepper.reference_model
    if "decoder" in network.config.sides:
        special = SpecialTokens(start=1, end=2)
        search = Search(beam_size=1, max_length=3 + NEW_TOKENS, min_length=3 + NEW_TOKENS)
        return lambda: decode(stepper, None, special_tokens=special, search=search, prefixes=[[5, 6, 7]])
    ids = torch.randint(5, VOCABULARY, (TEXTS, TEXT_TOKENS))

    def classify() -> object:
        with torch.no_grad():
            return network.head(network.encode(ids).values, None, None)

    return classify


def time_best(task: Callable[[], object]) -> float:
    """Seconds of processor time."""
    durations = []
    for _ in range(4):
        began = time.process_time()
        task()
        durations.append(time.process_time() - began)
    return min(durations[1:])


if __name__ == "__main__":
    main()
