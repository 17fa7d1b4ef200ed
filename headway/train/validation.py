"""Validation: the loss on held-out text, and BLEU and chrF of greedy translations."""

import itertools
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from headway.config.config import Config
from headway.config.objective_kinds import reads_pairs
from headway.config.search import Search
from headway.data.corpora import ParallelCorpus
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.storage.model_dir import LoadedModel
from headway.text.bleu_tokenization import choose_tokenization
from headway.text.metrics import compute_scores
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.carried_state import CarriedState
from headway.train.dataset import Dataset
from headway.train.loss import compute_hidden, objective_loss, score_pairs
from headway.train.task_dataset import TaskDataset
from headway.translate.options import TranslateOptions
from headway.translate.problem_evaluation import evaluate_problems
from headway.translate.solver import Solver
from headway.translate.task_evaluation import evaluate_task
from headway.translate.task_model import make_task_model
from headway.translate.translator import Translator

VALIDATION_BATCH_TOKENS = 8192
LINES_PER_LOOK = 32  # at the clock, where there is a deadline
MAX_DECODED_LINES = 3000  # of all samples together


class ValidationResult(NamedTuple):
    loss: float  # nats per token, without label smoothing
    bleu: float | None = None
    chrf: float | None = None
    lines: int | None = None  # that were translated, where time was up before the last
    accuracy: float | None = None  # share of masked tokens that were guessed
    next_sentence_loss: float | None = None  # nats per pair
    next_sentence_accuracy: float | None = None
    task: dict[str, float] | None = None  # metrics of a task by name, the one to compare by first

    @property
    def method(self) -> str:
        """How bleu and chrf were measured, for a report."""
        return "greedy" if self.lines is None else f"greedy, {self.lines} lines: there was no time for more"

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def accuracies(self) -> dict[str, float]:
        """Those of masked words and of next sentences, where they were measured, by the names in a log."""
        found = {"masked_accuracy": self.accuracy, "next_sentence_accuracy": self.next_sentence_accuracy}
        return {name: value for name, value in found.items() if value is not None}

    def score(self, metric: str) -> float:
        """The number to compare by, higher is better."""
        task = next(iter((self.task or {}).values()), None)
        value = {"loss": -self.loss, "bleu": self.bleu, "chrf": self.chrf, "task": task}[metric]
        return -self.loss if value is None else value

    def entries(self) -> dict[str, float | int | None]:
        """Every number by its name, as history.jsonl has them."""
        numbers = {name: value for name, value in self._asdict().items() if name != "task"}
        return {**numbers, **(self.task or {})}

    @property
    def scores_line(self) -> str:
        """What is reported beside the loss."""
        if self.task is not None:
            return ", ".join(f"{name} {value:.4f}" for name, value in self.task.items())
        return "" if self.bleu is None else f"BLEU {self.bleu:.2f}, chrF {self.chrf:.2f} ({self.method})"


class MeanLoss(NamedTuple):
    loss: float  # nats per token
    tokens: int  # that were predicted
    accuracy: float | None = None  # share of these that were guessed; of the masked objective
    next_sentence_loss: float | None = None  # nats per pair; where there are pairs
    next_sentence_accuracy: float | None = None
    pairs: int = 0


@torch.no_grad()
def mean_loss(
    model: Transformer,
    dataset: Dataset,
    config: Config,
    special: SpecialTokens,
    batch_tokens: int = VALIDATION_BATCH_TOKENS,
) -> MeanLoss:
    """Over the whole dataset. With the masked objective, the same tokens are masked each time."""
    if config.train.objective.kind == "masked":
        return score_masked(model, dataset, config, special, batch_tokens)
    total, count = 0.0, 0
    carried = CarriedState(model, config.train.objective.carry, trainable=False)
    for part, shard in enumerate(dataset.epoch(0)):
        for number, indices in enumerate(shard.batches(batch_tokens, [0, part])):
            random = np.random.default_rng([0, part, number])
            batch = config.train.objective.collate([shard.examples[i] for i in indices], special, random)
            state = carried.state_for(0, len(indices))
            total += float(objective_loss(model, batch.to(model.device), config.train.objective, state=state))
            count += batch.label_count
    return MeanLoss(total / max(count, 1), count)


@torch.no_grad()
def score_masked(
    model: Transformer, dataset: Dataset, config: Config, special: SpecialTokens, batch_tokens: int
) -> MeanLoss:
    """The same for masked tokens, with their accuracy and that of next sentences."""
    sums = torch.zeros(6, dtype=torch.float64)  # of tokens, then of pairs: loss, correct, count
    for part, shard in enumerate(dataset.epoch(0)):
        for number, indices in enumerate(shard.batches(batch_tokens, [0, part])):
            random = np.random.default_rng([0, part, number])
            batch = config.train.objective.collate([shard.examples[i] for i in indices], special, random)
            batch = batch.to(model.device)
            hidden, kept = compute_hidden(model, batch), batch.labels != IGNORE_INDEX
            logits = F.linear(*model.factors(hidden[kept]))  # (labels, V)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            labels = batch.labels[kept]
            found = [F.cross_entropy(logits, labels, reduction="sum"), (logits.argmax(1) == labels).sum(), kept.sum()]
            if batch.follows is not None:
                found += score_pairs(model, hidden, batch.follows)
            sums[: len(found)] += torch.stack([number.double() for number in found]).cpu()
    loss, correct, count, pair_loss, pair_correct, pairs = sums.tolist()
    words = MeanLoss(loss / max(count, 1), int(count), correct / max(count, 1))
    if not pairs:
        return words
    return words._replace(
        next_sentence_loss=pair_loss / pairs, next_sentence_accuracy=pair_correct / pairs, pairs=int(pairs)
    )


class ValidationSample(NamedTuple):
    """Pairs to translate and compare."""

    source: list[str]
    target: list[str]
    target_language: str
    source_language: str = ""


def take_samples(corpora: Sequence[ParallelCorpus], lines: int) -> list[ValidationSample]:
    """The first lines of each corpus: of many, fewer of each."""
    return [take_sample(corpus, min(lines, max(1, MAX_DECODED_LINES // len(corpora)))) for corpus in corpora]


def take_sample(pairs: ParallelCorpus, lines: int) -> ValidationSample:
    first = list(itertools.islice(pairs.read(), lines))
    languages = pairs.target_language, pairs.source_language
    return ValidationSample([source for source, _ in first], [target for _, target in first], *languages)


def validate(
    model: Transformer,
    dataset: Dataset,
    samples: Sequence[ValidationSample],
    config: Config,
    tokenizers: Tokenizers,
    special: SpecialTokens,
    deadline: float | None = None,
) -> ValidationResult:
    """`deadline`, by time.monotonic(): after it, no more lines are translated."""
    mean = mean_loss(model, dataset, config, special)
    loss = mean.loss
    if config.train.objective.kind == "masked":
        told = (mean.accuracy, mean.next_sentence_loss, mean.next_sentence_accuracy)
        return ValidationResult(loss, None, None, None, *told)
    if not math.isfinite(loss):
        return ValidationResult(loss)  # nothing can be translated either
    if isinstance(dataset, TaskDataset) and dataset.data.task == "solve":
        solver = Solver(LoadedModel(config, model, tokenizers))
        with torch.autocast(model.device.type, enabled=False):
            found = evaluate_problems(solver, dataset.data.examples, samples=0).scores
        return ValidationResult(loss, task={score.name: score.value for score in found})
    if isinstance(dataset, TaskDataset):
        task_model = make_task_model(LoadedModel(config, model, tokenizers), loader=dataset.loader)
        with torch.autocast(model.device.type, enabled=False):
            measured = evaluate_task(task_model, dataset.data.examples, samples=0).scores
        return ValidationResult(loss, task={score.name: score.value for score in measured})
    if not reads_pairs(config.train.objective.kind) or not any(sample.source for sample in samples):
        return ValidationResult(loss)
    translator = Translator([LoadedModel(config, model, tokenizers)])
    parts = samples if deadline is None else split_samples(samples)
    hypotheses: dict[str, list[str]] = {}  # by tokenization: languages are scored as each of them needs it
    references: dict[str, list[str]] = {}
    for part in parts:
        if hypotheses and deadline is not None and time.monotonic() >= deadline:
            break
        tokenize = choose_tokenization(part.target_language, part.target)
        hypotheses.setdefault(tokenize, []).extend(_translate(translator, part, config))
        references.setdefault(tokenize, []).extend(part.target)
    scores = [compute_scores(hypotheses[kind], references[kind], tokenize=kind) for kind in hypotheses]
    lines = [len(one) for one in hypotheses.values()]
    bleu, chrf = (float(np.average([getattr(one, name) for one in scores], weights=lines)) for name in ("bleu", "chrf"))
    is_cut = sum(lines) < sum(len(sample.source) for sample in samples)
    return ValidationResult(loss, bleu, chrf, sum(lines) if is_cut else None)


def split_samples(samples: Sequence[ValidationSample]) -> list[ValidationSample]:
    """In small parts, some of each sample in turn."""
    rounds = itertools.zip_longest(*map(_split, samples))
    return [part for one in rounds for part in one if part is not None]


def _split(sample: ValidationSample) -> list[ValidationSample]:
    starts = range(0, len(sample.source), LINES_PER_LOOK)
    slices = [slice(start, start + LINES_PER_LOOK) for start in starts]
    return [sample._replace(source=sample.source[part], target=sample.target[part]) for part in slices]


def cut_samples(samples: Sequence[ValidationSample], lines: int) -> list[ValidationSample]:
    """What was translated of them before a deadline."""
    kept = []
    for part in split_samples(samples):
        if lines <= 0:
            break
        kept.append(part)
        lines -= len(part.source)
    return kept


def _translate(translator: Translator, sample: ValidationSample, config: Config) -> list[str]:
    """Greedily."""
    options = TranslateOptions(
        source=sample.source_language,
        target=sample.target_language if config.tags else "",
        split_sentences=False,
        retry=False,  # a young model loops everywhere: its first output is what is to be measured
        protect=None,
        search=Search(beam_size=1, max_ratio=1.5, max_extra=10),
    )
    # As in use: under the autocast of training, the search could not run as CUDA graphs.
    with torch.autocast(translator.device, enabled=False):
        return [result.text for result in translator.translate(sample.source, options)]
