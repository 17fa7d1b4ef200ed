"""What fits into a time budget on a CPU: how large a model, a vocabulary and a step.

config layers ─► time a few steps of a model on this machine ─► tokens that fit ─► BudgetPlan: settings, and why

Presets are made for a GPU, whose steps take milliseconds: on a laptop, a dozen of them would fill six minutes. On a GPU
nothing is planned.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from headway.config.config import Config
from headway.config.objective_kinds import has_source, is_denoising, reads_pairs
from headway.config.presets import CorpusStatistics, find_preset_for
from headway.config.sources import Layer, compose
from headway.nn.transformer import Transformer
from headway.text.align.words import STARTS_WORD
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.text.tokenizer.training_text import recommend_size
from headway.text.tokenizer.vocabulary import FIXED_CONTROL_TOKENS, round_up_size
from headway.train.loss import batch_loss
from headway.train.objectives import Example

LADDERS = {"translation": ("tiny", "small", "medium", "base"), "causal": ("tiny_lm", "small_lm")}  # by size
MIN_TOKENS_PER_PARAMETER = 2  # with fewer, a smaller model learns more in the same time
TRAINING_SHARE = 0.9  # of a time budget; validation and the end take the rest
TIMED_TOKENS = 512  # of a step that is timed
TIMED_STEPS = 4  # at most, after one that is not
MAX_TIMED_SECONDS = 2.0
CHARACTERS_PER_TOKEN = 3.5
VOCABULARY_SHARE = 1.3  # times √tokens: a larger vocabulary takes the time of a small model, and is not learned
SMALLEST_VOCABULARY = 320
SMALLEST_TRANSLATOR_VOCABULARY = 1024
VALIDATIONS = 10  # that are planned in a run


class StepSizes(NamedTuple):
    """How the tokens that fit are divided into steps."""

    steps: int  # this many are wanted
    smallest: int  # tokens of a step
    warm_up_share: float
    longest_warm_up: int


NEW_MODEL = StepSizes(steps=2500, smallest=512, warm_up_share=0.08, longest_warm_up=1000)
FINE_TUNING = StepSizes(steps=250, smallest=512, warm_up_share=0.1, longest_warm_up=200)


class BudgetPlan(NamedTuple):
    """What to train in the time that there is."""

    settings: dict[str, Any]
    reason: str
    preset: str = ""  # "": the model is given
    table: dict[str, Any] = {}  # of the preset


def plan_new_model(
    preset: str, objective: str, upper: Sequence[Layer], corpus: CorpusStatistics, device: torch.device
) -> BudgetPlan | None:
    """Which preset, up to the one that suits this much text, and which steps. `upper`: settings that the user gave,
    which are kept. None where there is nothing to plan."""
    ladder = LADDERS["translation" if has_source(objective) else "causal"]
    seconds = _find_time_budget([Layer("", find_preset_for(preset, objective)), *upper], device)
    if not seconds:
        return None
    plan = None
    for name in ladder[: ladder.index(preset) + 1]:
        table = find_preset_for(name, objective)
        layers = [Layer("", table), *upper]
        settings = _plan_vocabulary(layers, corpus, seconds)
        config = _compose_with_size([*layers, Layer("", settings), *upper], corpus)
        tokens = _count_tokens(config, corpus, seconds)
        if plan is not None and tokens < MIN_TOKENS_PER_PARAMETER * config.model.parameter_count():
            break
        settings["train"] = _plan_steps(config, tokens, NEW_MODEL)
        plan = BudgetPlan(settings, _describe(tokens, seconds, settings), name, table)
    return plan


def plan_fine_tuning(
    layers: Sequence[Layer], upper: Sequence[Layer], corpus: CorpusStatistics, device: torch.device
) -> BudgetPlan | None:
    """Which steps, for the model of these layers. None where there is nothing to plan."""
    seconds = _find_time_budget([*layers, *upper], device)
    if not seconds:
        return None
    config, _ = compose([*layers, *upper])
    tokens = _count_tokens(config, corpus, seconds)
    settings = {"train": _plan_steps(config, tokens, FINE_TUNING)}
    return BudgetPlan(settings, _describe(tokens, seconds, settings))


def measure_token_rate(config: Config, length: int) -> float:
    """Tokens a second on each side, forward and backward, on this CPU."""
    model = Transformer(config.model).train()
    random = np.random.default_rng(0)
    objective = config.train.objective
    first = len(FIXED_CONTROL_TOKENS)
    resolved = config.model.resolved()
    assert resolved.source_vocabulary is not None and resolved.vocabulary is not None
    sizes = (resolved.source_vocabulary, resolved.vocabulary)
    special = SpecialTokens(
        start=1,
        end=2,
        sentinels=tuple(range(first, min(sizes))) if is_denoising(objective.kind) else (),
        vocabulary=min(sizes),
        target_roles=np.full(min(sizes), STARTS_WORD),
    )
    rows = max(1, TIMED_TOKENS // length)
    draws = ([random.integers(first, size, length) for size in sizes] for _ in range(rows))
    examples = [Example(source, target) for source, target in draws]
    batch = objective.collate(examples, special, random)
    durations: list[float] = []
    while len(durations) < 2 or (len(durations) <= TIMED_STEPS and sum(durations) < MAX_TIMED_SECONDS):
        started = time.perf_counter()
        batch_loss(model, batch, config.train.label_smoothing).loss.backward()
        model.zero_grad(set_to_none=True)
        durations.append(time.perf_counter() - started)
    return rows * length / min(durations[1:])  # the first allocates memory


def _find_time_budget(layers: Sequence[Layer], device: torch.device) -> float:
    """Seconds; 0 where nothing is planned."""
    return float(compose(layers)[0].train.seconds) if device.type == "cpu" else 0.0


def _plan_vocabulary(layers: Sequence[Layer], corpus: CorpusStatistics, seconds: float) -> dict[str, Any]:
    """No larger than so many tokens can teach, unless the user chose one."""
    config, _ = compose(layers)
    tokenizer = config.tokenizer.to_dict()
    if not hasattr(config.tokenizer, "size") or any("tokenizer" in layer.values for layer in layers[1:]):
        return {}
    translates = has_source(config.train.objective.kind)
    smallest = SMALLEST_TRANSLATOR_VOCABULARY if translates else SMALLEST_VOCABULARY
    tokens = _count_tokens(_compose_with_size(layers, corpus, smallest), corpus, seconds)
    size = max(round_up_size(int(VOCABULARY_SHARE * tokens**0.5)), smallest)
    return {"tokenizer": {**tokenizer, "size": size}} if size < _vocabulary_size(config, corpus) else {}


def _count_tokens(config: Config, corpus: CorpusStatistics, seconds: float) -> float:
    """How many tokens can be trained on, on each side."""
    return measure_token_rate(config, _typical_length(config, corpus)) * seconds * TRAINING_SHARE


def _compose_with_size(layers: Sequence[Layer], corpus: CorpusStatistics, size: int = 0) -> Config:
    """With a vocabulary of this size, or of that which it will probably get."""
    config, _ = compose(layers)
    size = size or _vocabulary_size(config, corpus)
    return compose([*layers, Layer("", {"model": {"vocabulary": size, "source_vocabulary": size}})])[0]


def _vocabulary_size(config: Config, corpus: CorpusStatistics) -> int:
    sides = 2 if reads_pairs(config.train.objective.kind) else 1
    return round_up_size(getattr(config.tokenizer, "size", None) or recommend_size(sides * corpus.characters))


def _typical_length(config: Config, corpus: CorpusStatistics) -> int:
    """Tokens of a text."""
    if not has_source(config.train.objective.kind):
        return int(config.train.max_tokens)
    mean = corpus.characters / max(corpus.lines, 1) / CHARACTERS_PER_TOKEN
    return int(min(max(mean, 8), config.train.max_tokens))


def _plan_steps(config: Config, tokens: float, sizes: StepSizes) -> dict[str, Any]:
    batch_tokens = int(min(max(tokens / sizes.steps, sizes.smallest), config.train.batch_tokens))
    batch_tokens = max(batch_tokens // 64 * 64, 64)
    steps = max(int(tokens / batch_tokens), 1)
    warm_up = int(min(max(sizes.warm_up_share * steps, 1), sizes.longest_warm_up, config.train.schedule.warmup))
    return {
        "batch_tokens": batch_tokens,
        "schedule": {"warmup": warm_up},
        "steps": 0,  # until the time is up
        "validate_every": max(steps // VALIDATIONS, 10),
    }


def _describe(tokens: float, seconds: float, settings: dict[str, Any]) -> str:
    batch_tokens = settings["train"]["batch_tokens"]
    minutes, rest = divmod(int(seconds), 60)
    return (
        f"this CPU trains about {tokens / seconds / TRAINING_SHARE:,.0f} tokens a second: {tokens / batch_tokens:,.0f} "
        f"steps of {batch_tokens:,} tokens fit into {minutes}:{rest:02}"
    )
