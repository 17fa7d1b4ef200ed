"""A kind learns: a tiny model with it trains for some tens of steps on running text, or on the toy translation."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.config.schema import make_part
from headway.contracts.results import require
from headway.data.toy import toy_corpus
from headway.decode import SpecialTokens
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.text.lm_text import encode_text
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.loss import batch_loss
from headway.train.objectives import Batch, Example
from headway.train.optimisers import set_learning_rate

BATCH_ROWS, MAX_LENGTH, RATE = 8, 24, 0.01


class LearningTask(NamedTuple):
    tokenizer: Tokenizer
    batches: list[Batch]

    @property
    def frequencies(self) -> float:
        """The loss of a model that knows how frequent each label is, and nothing else."""
        labels = torch.cat([batch.labels[batch.labels != IGNORE_INDEX] for batch in self.batches])
        shares = labels.bincount().double() / len(labels)
        return -float((shares * shares.clamp(min=1e-12).log()).sum())

    @property
    def special(self) -> SpecialTokens:
        t = self.tokenizer
        return SpecialTokens(start=t.start, end=t.end, suppress=tuple(sorted(t.control_ids - {t.end})))


@functools.cache
def running_text() -> LearningTask:
    text = "\n".join(pair.source for pair in toy_corpus(800))
    tokenizer = Tokenizer.train(text.split("\n"), "characters")
    ids, draw = encode_text(text, tokenizer), np.random.default_rng(1)
    starts = draw.integers(len(ids) - MAX_LENGTH - 1, size=(90, BATCH_ROWS))
    return LearningTask(
        tokenizer,
        [
            collated("causal", [Example(ids[:0], ids[start : start + MAX_LENGTH + 1]) for start in row], tokenizer)
            for row in starts
        ],
    )


@functools.cache
def toy_translation() -> LearningTask:
    pairs = toy_corpus(400)
    tokenizer = Tokenizer.train([side for pair in pairs for side in (pair.source, pair.target)], "bpe(size=384)")
    examples = [
        Example(np.array([*tokenizer.encode(pair.source), tokenizer.end]), np.array(tokenizer.encode(pair.target)))
        for pair in pairs
    ]
    short = [one for one in examples if max(len(one.source), len(one.target)) < MAX_LENGTH]
    chosen = np.random.default_rng(1).integers(len(short), size=(50, BATCH_ROWS))
    return LearningTask(
        tokenizer, [collated("translation", [short[index] for index in row], tokenizer) for row in chosen]
    )


def collated(objective: str, examples: list[Example], tokenizer: Tokenizer) -> Batch:
    part: Any = make_part("objective", objective)
    batch: Batch = part.collate(examples, special_tokens(tokenizer), np.random.default_rng(1))
    return batch


def train_steps(model: Transformer, task: LearningTask, rate: float = RATE) -> list[float]:
    """The loss of each step."""
    optimisers = make_part("optimiser", "adam").build(model.train())  # type: ignore[attr-defined]
    losses = []
    for step, batch in enumerate(task.batches, start=1):
        set_learning_rate(optimisers, rate * min(1.0, step / 8))
        loss = batch_loss(model, batch, 0.0).loss / batch.label_count
        loss.backward()
        losses.append(float(loss.detach()))
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
    return losses


def check_learning(model: Transformer, task: LearningTask, rate: float = RATE) -> None:
    """Afterwards every weight has moved, and the loss is below what knowing how frequent each token is would give."""
    before = {name: weights.detach().clone() for name, weights in model.named_parameters()}
    losses = train_steps(model, task, rate)
    first, last = float(np.mean(losses[:3])), float(np.mean(losses[-5:]))
    require(all(map(math.isfinite, losses)), "finite losses", "NaN or infinity")
    still = [name for name, weights in model.named_parameters() if torch.equal(weights, before[name])]
    require(not still, "weights that move", f"{', '.join(still)} did not move")
    require(first > 1.3 * last, "a loss that falls by a quarter", f"the loss fell from {first:.3f} to {last:.3f} only")
    known = task.frequencies
    require(last < known - 0.1, f"a loss below that of token frequencies, {known:.3f}", f"{last:.3f}")


@torch.no_grad()
def check_context(model: Transformer) -> None:
    """What stood earlier, and what the source says, changes the output."""
    model.eval()
    ids, other = torch.randint(4, model.config.vocabulary or 0, (2, 4, 9))
    source, another = (ids, other) if "encoder" in model.config.sides else (None, None)
    hidden = model(source, ids).hidden[:, -1]
    earlier = torch.cat([other[:, :-1], ids[:, -1:]], 1)
    require(all_differ(model(source, earlier).hidden[:, -1], hidden), "an effect of earlier tokens", "none")
    if source is not None:
        require(all_differ(model(another, ids).hidden[:, -1], hidden), "an effect of the source", "none")


def all_differ(one: Tensor, other: Tensor) -> bool:
    """Every row from its fellow: what has no influence changes not a bit."""
    return bool((one != other).any(1).all())
