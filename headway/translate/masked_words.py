"""Guess masked words: the likeliest tokens for each mask token of a text."""

from typing import TYPE_CHECKING, NamedTuple

import torch

from headway.errors import HeadwayError
from headway.text.tokenizer.imported import ImportedTokenizer

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel

MASKS = ("[MASK]", "<mask>")  # how a mask may be written, whatever the tokenizer calls it


class MaskedWord(NamedTuple):
    text: str  # of one token, with a space before it if it begins a word
    probability: float


@torch.no_grad()
def fill_masks(model: "LanguageModel", text: str, candidates: int) -> list[list[MaskedWord]]:
    """The likeliest tokens for each mask of the text, best first."""
    tokenizer, network = model.tokenizer, model.network
    if network.config.head.kind != "masked" or tokenizer.mask < 0:
        raise HeadwayError(
            'this model guesses no masked words: its head is not "masked", or it has no mask token. Train one with '
            "--objective masked or --preset bert, or import a BERT."
        )
    if not 1 <= candidates <= tokenizer.size:
        raise HeadwayError(f"candidates = {candidates}: give a number from 1 to {tokenizer.size}.")
    ids = model.frame(encode_with_masks(text, model))
    if tokenizer.mask not in ids:
        raise HeadwayError(f"there is nothing to guess in this text: write {MASKS[0]} where a word is missing.")
    if len(ids) > model.config.train.max_tokens:
        raise HeadwayError(
            f"this text has {len(ids)} tokens, and the model reads {model.config.train.max_tokens}. Shorten it."
        )
    model.stepper.check_process()
    read = torch.tensor([ids], device=network.device)
    hidden = network.encode(read).values[read == tokenizer.mask]  # (masks, d)
    best = network.logits(hidden).float().softmax(-1).topk(candidates)
    return [
        [MaskedWord(tokenizer.decode([n]), p) for n, p in zip(numbers, probabilities)]
        for numbers, probabilities in zip(best.indices.tolist(), best.values.tolist())
    ]


def encode_with_masks(text: str, model: "LanguageModel") -> list[int]:
    """The ids of a text, with the mask token where it says so."""
    tokenizer = model.tokenizer
    spelled = tokenizer.pieces([tokenizer.mask])[0]
    for mask in MASKS:
        text = text.replace(mask, spelled)
    before, *others = text.split(spelled)
    # As the original does it: its mask token may take in the space before it.
    special = tokenizer.encode_special(text) if others and isinstance(tokenizer, ImportedTokenizer) else None
    if special is not None:
        return special
    ids = model.encode(before)
    for part in others:
        ids += [tokenizer.mask, *tokenizer.encode(part)]
    return ids
