"""Judge whether a text follows another in a document, as BERT's second head does."""

from typing import TYPE_CHECKING

import torch

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel


@torch.no_grad()
def judge_pair(model: "LanguageModel", first: str, second: str) -> float:
    """The probability that the second text follows the first."""
    network = model.network
    if not model.reads_pairs:
        raise HeadwayError(
            "this model does not tell whether a text follows another. Train one with --preset bert, on text with empty "
            "lines between documents."
        )
    left, right = model.frame(model.encode(first)), [*model.encode(second), model.tokenizer.end]
    ids = torch.tensor([left + right], device=network.device)
    if ids.shape[1] > model.config.train.max_tokens:
        raise HeadwayError(
            f"these two texts have {ids.shape[1]} tokens, and the model reads {model.config.train.max_tokens}. Shorten "
            "them."
        )
    model.stepper.check_process()
    segments = (torch.arange(ids.shape[1], device=network.device) >= len(left)).long()[None]
    segments = segments if network.config.embedding.segments > 1 else torch.zeros_like(segments)
    hidden = network.encode(ids, segments=segments).values
    return float(network.head.next_sentence(hidden).float().softmax(-1)[0, 0])
