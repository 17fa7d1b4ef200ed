"""Vectors of texts, by an encoder: those of its embedding head, or else the mean of its outputs, of length 1."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from headway.decode.padding import pad_rows
from headway.errors import HeadwayError
from headway.nn.layers.heads import EmbeddingHead

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel

BATCH_TOKENS = 8192  # padding included


@torch.no_grad()
def embed_texts(model: "LanguageModel", texts: Sequence[str]) -> np.ndarray:
    """(texts, d), float32. Texts that are longer than the model reads are cut, as sentence-transformers does."""
    if isinstance(texts, str):
        raise HeadwayError("embed takes a list of texts, not one text: write embed([text]).")
    network = model.model
    if "encoder" not in network.config.sides:
        raise HeadwayError("this model has no encoder, which makes vectors of texts. Choose a BERT or its like.")
    model.stepper.check_process()
    limit = model.config.train.max_tokens - len(model.frame([]))
    rows = [model.frame(model.encode(text)[:limit]) for text in texts]
    head = network.head
    if not isinstance(head, EmbeddingHead):
        head = EmbeddingHead(EmbeddingHead.Config(), network.config.scope("encoder"))
    vectors = np.zeros((len(rows), network.config.d_model), dtype=np.float32)
    for batch in _batch_by_length(rows):
        ids, valid = pad_rows([rows[n] for n in batch], model.tokenizer.pad, network.device)
        found = head.vector(network.encode(ids, valid).values, valid)
        vectors[batch] = found.float().cpu().numpy()
    return vectors


def _batch_by_length(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The numbers of the rows, in batches of similar length, the longest first: it needs the most memory."""
    batch: list[int] = []
    for n in sorted(range(len(rows)), key=lambda n: -len(rows[n])):
        if batch and (len(batch) + 1) * len(rows[batch[0]]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(n)
    if batch:
        yield batch
