"""How good the model is on text that it has not seen: loss, and the translations themselves."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from headway.config.config import Config
from headway.config.search import Search
from headway.data.corpora import Parallel
from headway.nn.transformer import Transformer
from headway.storage.model_dir import Loaded
from headway.text import Tokenizers
from headway.text.metrics import score
from headway.train.carried_state import Carry
from headway.train.dataset import Corpus
from headway.train.loss import cross_entropy
from headway.train.objectives import Marks
from headway.translate.translator import Translator


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
    total, count = 0.0, 0
    carry = Carry(model, config.train.objective.carry, learns=False)
    for part, portion in enumerate(corpus.epoch(0)):
        for number, rows in enumerate(portion.batches(budget, [0, part])):
            random = np.random.default_rng([0, part, number])
            batch = config.train.objective.collate([portion.examples[i] for i in rows], marks, random)
            total += float(cross_entropy(model, batch.to(model.device), state=carry.state(0, len(rows))))
            count += batch.labelled
    return Measured(total / max(count, 1), count)


class Sample(NamedTuple):
    """Pairs to translate and compare."""

    source: list[str]
    target: list[str]
    target_language: str


def sample(pairs: Parallel, lines: int) -> Sample:
    first = list(itertools.islice(pairs.read(), lines))
    return Sample([source for source, _ in first], [target for _, target in first], pairs.target_language)


def validate(
    model: Transformer, corpus: Corpus, samples: Sequence[Sample], config: Config, tokenizers: Tokenizers, marks: Marks
) -> Validation:
    loss = mean_loss(model, corpus, config, marks).loss
    if config.train.objective.kind != "translation" or not any(s.source for s in samples):
        return Validation(loss)
    translator = Translator([Loaded(config, model, tokenizers)])
    search = Search(beam_size=1, max_ratio=1.5, max_extra=10)
    hypotheses, references = [], []
    for s in samples:
        to = s.target_language if config.tags else ""
        # As it will be used: autocast, in which a large model learns, keeps the search from being recorded as graphs.
        with torch.autocast(model.device.type, enabled=False):
            # A young model goes round in loops everywhere: what it says first is what is to be measured.
            found = translator.translate(s.source, search, to=to, split=False, mend=False, protect=None)
        hypotheses += [result.text for result in found]
        references += s.target
    scores = score(hypotheses, references)
    return Validation(loss, scores.bleu, scores.chrf)
