"""Compare an imported model with the original, computed by transformers: logits and greedy texts of a language model,
vectors of an encoder of texts. Prints one line for each number.

python benchmarks/compare_imported.py ORIGINAL MODEL [--gguf FILE]     # ORIGINAL: a directory; FILE: a GGUF file in it
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn import functional as F

import headway
from headway.translate.language_model import LanguageModel

PROMPTS = [
    "The capital of France is", "Once upon a time", "def fibonacci(n):", "Water boils at",
    "The best way to learn a language is", "Dear Sir,", "1, 2, 3, 4,", "In 1969, humans", "Berlin is the capital of",
    "My favourite colour is",
]  # fmt: skip
TEXT = (
    "The Transformer is a tool. Attention weighs the values of all tokens; a beam search finds the likeliest sentence. "
    "Grüße aus Köln! 東京 is a city in Japan, and 3.14159 is not a whole number.\n"
)
NEW_TOKENS = 24


@torch.no_grad()
def compare_language_model(theirs: Any, tokenizer: Any, ours: LanguageModel) -> None:
    ids = tokenizer(TEXT * 2, return_tensors="pt", add_special_tokens=False).input_ids
    print(f"ids of a text: {'equal' if ours.tokenizer.encode(TEXT * 2) == ids[0].tolist() else 'DIFFERENT'}")
    wanted, found = theirs(input_ids=ids).logits, ours.model.logits(ours.model.decode(ids))
    difference = (wanted - found).abs().max()
    print(f"logits of {ids.shape[1]} tokens: largest difference {difference:.2g}, their std {wanted.std():.2g}")
    equal = 0
    for prompt in PROMPTS:
        read = tokenizer(prompt, return_tensors="pt").input_ids
        settings = {"do_sample": False, "max_new_tokens": NEW_TOKENS, "eos_token_id": ours.tokenizer.end}
        ids = theirs.generate(read, attention_mask=torch.ones_like(read), pad_token_id=0, **settings)[0]
        text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        equal += text == ours(prompt, beam_size=1, length=NEW_TOKENS)
    print(f"greedy texts of {NEW_TOKENS} tokens: {equal} of {len(PROMPTS)} equal")


@torch.no_grad()
def compare_encoder(theirs: Any, tokenizer: Any, ours: LanguageModel) -> None:
    """With the mean of all tokens, of length 1, as sentence-transformers has it for most models."""
    words = Path(__file__).read_text(encoding="utf-8").split()
    lines = ["", TEXT, "long " * 600, *PROMPTS, *(" ".join(words[n : n + 3 + n % 40]) for n in range(187))]
    batch = tokenizer(
        lines, padding=True, truncation=True, max_length=ours.config.train.max_tokens, return_tensors="pt"
    )
    real = batch["attention_mask"][..., None].float()
    hidden = torch.cat(
        [
            theirs(**{name: part[n : n + 20] for name, part in batch.items()}).last_hidden_state
            for n in range(0, 200, 20)
        ]
    )
    wanted = F.normalize((hidden * real).sum(1) / real.sum(1), dim=1).numpy()
    found = ours.embed(lines)
    print(f"vectors of {len(lines)} texts: largest difference {np.abs(found - wanted).max():.2g}, ", end="")
    print(f"smallest cosine {(found * wanted).sum(1).min():.7f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("original")
    parser.add_argument("model")
    parser.add_argument("--gguf", default=None)
    given = parser.parse_args()
    ours = headway.load(given.model)
    assert isinstance(ours, LanguageModel)
    causal = ours.config.train.objective.kind == "causal"
    loader = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
    theirs = loader.from_pretrained(given.original, gguf_file=given.gguf, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.original, gguf_file=given.gguf)
    (compare_language_model if causal else compare_encoder)(theirs, tokenizer, ours)


if __name__ == "__main__":
    main()
