"""Vectors of texts, by an encoder: those of its embedding head, or else the mean of its outputs, of length 1."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from headway.decode.padding import pad_rows
from headway.errors import HeadwayError
from headway.nn.layers.heads import EmbeddingHead
from headway.text.task_text import MAX_CHARACTERS_PER_TOKEN
from headway.text.tokenizer.direction_tokens import find_direction_tokens

if TYPE_CHECKING:
    from headway.decode.types import Compute
    from headway.nn.transformer import Transformer
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

BATCH_TOKENS = 8192  # padding included


def embed_texts(model: "LanguageModel", texts: Sequence[str]) -> np.ndarray:
    """(texts, d), float32. Texts that are longer than the model reads are cut, as sentence-transformers does."""
    if isinstance(texts, str):
        raise HeadwayError("embed takes a list of texts, not one text: write embed([text]).")
    if "encoder" not in model.model.config.sides:
        raise HeadwayError("this model has no encoder, which makes vectors of texts. Choose a BERT or its like.")
    model.stepper.check_process()
    limit = model.config.train.max_tokens - len(model.frame([]))
    cut = [text[: limit * MAX_CHARACTERS_PER_TOKEN] for text in texts]
    rows = [model.frame(model.encode(text)[:limit]) for text in cut]
    return compute_vectors(model.network, rows, model.tokenizer.pad)


def embed_sources(translator: "Translator", texts: Sequence[str]) -> np.ndarray:
    """The same by the encoder of a translator, which reads them as it reads its sources."""
    config, tokenizers = translator.config, translator.tokenizers
    tokenizer = tokenizers.source
    room = config.train.max_tokens - 1
    direction = find_direction_tokens(
        tokenizers, next(iter(config.source_languages), ""), next(iter(config.target_languages), ""),
        tagged=bool(config.tags),
    )  # fmt: skip
    lead, tail = direction.source_lead, direction.source_tail
    cut = [text[: config.train.max_tokens * MAX_CHARACTERS_PER_TOKEN] for text in texts]
    rows = [[*lead, *row[:room], *tail] for row in tokenizer.encode_batch(cut)]
    return compute_vectors(translator.steppers[0].reference_model, rows, tokenizer.pad)


def load_embedder(
    name: str, device: str = "auto", compute: "Compute" = "auto"
) -> "Callable[[Sequence[str]], np.ndarray]":
    """What makes vectors of texts with this model: an encoder, or the encoder of a translator."""
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load_single

    model = load_single(name, device, compute=compute)
    return model.embed if isinstance(model, LanguageModel) else functools.partial(embed_sources, model)


@torch.no_grad()
def compute_vectors(network: "Transformer", rows: Sequence[Sequence[int]], pad: int) -> np.ndarray:
    """Of rows of ids, in batches of like length."""
    head = network.head
    if not isinstance(head, EmbeddingHead):
        head = EmbeddingHead(EmbeddingHead.Config(), network.config.scope("encoder"))
    vectors = np.zeros((len(rows), network.config.d_model), dtype=np.float32)
    for batch in batch_by_length(rows):
        ids, valid = pad_rows([rows[n] for n in batch], pad, network.device)
        found = head.vector(network.encode(ids, valid).values, valid)
        vectors[batch] = found.float().cpu().numpy()
    return vectors


def batch_by_length(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The numbers of the rows, in batches of similar length, the longest first: it needs the most memory."""
    batch: list[int] = []
    for n in sorted(range(len(rows)), key=lambda n: -len(rows[n])):
        if batch and (len(batch) + 1) * len(rows[batch[0]]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(n)
    if batch:
        yield batch
