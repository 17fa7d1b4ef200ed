"""How good the model is on text that it has not seen: loss, and the translations themselves."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from headway.config import Config
from headway.data.batches import token_batches
from headway.decode.settings import Search
from headway.metrics import score
from headway.model_dir import Loaded
from headway.nn.transformer import Transformer
from headway.text import Tokenizers
from headway.train.corpus import Corpus, Pairs, lengths_of
from headway.train.loop import batch_loss
from headway.train.objectives import Marks
from headway.translator import Translator


class Validation(NamedTuple):
    loss: float  # nats a token, without smoothing
    bleu: float | None = None
    chrf: float | None = None

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    def better(self, metric: str) -> float:
        """The number to compare, higher is better."""
        value = {"loss": -self.loss, "bleu": self.bleu, "chrf": self.chrf}[metric]
        return -self.loss if value is None else value


class Measured(NamedTuple):
    loss: float  # nats a token
    tokens: int  # that were guessed


@torch.no_grad()
def mean_loss(model: Transformer, corpus: Corpus, config: Config, marks: Marks, budget: int = 8192) -> Measured:
    """Over the whole corpus. Masked words are hidden in the same places each time."""
    examples = next(iter(corpus.epochs(0)))
    lengths = lengths_of(examples)
    total, count = 0.0, 0
    for number, rows in enumerate(token_batches(lengths, budget, 0, 0)):
        random = np.random.default_rng([0, number])
        batch = config.train.objective.collate([examples[i] for i in rows], marks, random)
        total += float(batch_loss(model, batch.to(model.device), 0.0))
        count += batch.labelled
    return Measured(total / max(count, 1), count)


def validate(
    model: Transformer, corpus: Corpus, pairs: Sequence[Pairs], config: Config, tokenizers: Tokenizers, marks: Marks
) -> Validation:
    loss = mean_loss(model, corpus, config, marks).loss
    if config.train.objective.kind != "translation" or not config.train.decode_lines:
        return Validation(loss)
    translator = Translator([Loaded(config, model, tokenizers)])
    search = Search(beam_size=1, max_ratio=1.5, max_extra=10)
    hypotheses, references = [], []
    for p in pairs:
        lines = p.source[: config.train.decode_lines]
        to = p.target_language if config.tags else ""
        # A young model goes round in loops everywhere: what it says first is what is to be measured.
        found = translator.translate(lines, search, to=to, split=False, mend=False)
        hypotheses += [result.text for result in found]
        references += p.target[: config.train.decode_lines]
    scores = score(hypotheses, references)
    return Validation(loss, scores.bleu, scores.chrf)
