"""The [train] section of a config: objective, optimiser, schedule, batch sizes, budgets, checkpoints."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headway.config.objective_kinds import TASKS
from headway.config.schema import Node, number, slot
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Node):
    """Training settings. Defaults follow the paper where it gives them. Training stops at the first budget reached
    (`steps`, `epochs`, `seconds`); 0 means no such budget."""

    objective: Any = slot("objective", "translation")
    optimiser: Any = slot("optimiser", "adam")
    schedule: Any = slot("schedule", "noam")
    alignment: Any = slot("alignment", "none")
    shortlist: Any = slot("shortlist", "none")  # counted in the training text, for search.shortlist
    augmentation: Any = slot("augmentation", None)  # none
    placeholder_share: float = number(
        0.0, low=0, high=1
    )  # share of pairs that get placeholders ⟦0⟧: see docs/protecting.md
    label_smoothing: float = number(0.1, low=0, high=1)
    clip: float = number(0.0, low=0)  # maximum norm of the gradient; 0: no clipping
    ema: float = number(0.0, low=0, high=1)  # decay of an exponential moving average of the weights; 0: none
    seed: int = number(1, low=0, high=2**32 - 1)

    index: str | None = None  # the folder of an index, for a model that retrieves
    index_fingerprint: str | None = None  # of what is in it

    batch_tokens: int = number(25_000, low=1)  # per optimiser step, on each side
    micro_batch_tokens: int = number(0, low=0)  # per forward pass; 0: by device. Gradients accumulate to batch_tokens
    max_tokens: int = number(256, low=2)  # per side; longer pairs are skipped and counted

    steps: int = number(100_000, low=0)
    epochs: int = number(0, low=0)
    seconds: float = number(0.0, low=0)

    validate_every: int = number(1000, low=1)  # steps; also saves
    patience: int = number(0, low=0)  # validations without improvement before stopping; 0: never stop early
    metric: Literal["loss", "bleu", "chrf", "task"] = "loss"  # what decides which checkpoint is best
    decode_lines: int = number(1000, low=0)  # validation lines translated for BLEU and chrF
    keep_last: int = number(5, low=1)
    keep_best: int = number(1, low=1)
    average: int = number(5, low=1)  # checkpoints averaged into the final model; 1: take the best one

    batches: Literal["auto", "padded", "packed"] = "auto"  # auto: packed on a GPU, where the model allows it
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 for large models on a GPU
    compile: Literal["auto", "on", "off"] = "auto"  # auto: on a GPU, if the run is long enough to repay it
    cuda_graphs: Literal["auto", "off"] = "auto"  # auto: capture whole steps as CUDA graphs on a GPU
    log_every: int = number(100, low=1)

    def check(self, model: "Transformer.Config") -> None:
        """Raise ConfigError if this model cannot be trained with these settings."""
        self.objective.check(model)
        if self.objective.carry and self.compile == "on":
            raise ConfigError(
                'with carry, the carried state changes its size from step to step, but compile = "on" needs fixed '
                'shapes. Set compile = "auto".',
                "train.compile",
            )
        if self.objective.kind in TASKS and self.compile == "on":
            raise ConfigError(
                f'the batches of {self.objective.kind} have many shapes, but compile = "on" needs few. Set compile = '
                '"auto".',
                "train.compile",
            )
        self._check_retrieval(model)
        memory_tokens = model.decoder.memory_tokens
        recurs = memory_tokens is not None and memory_tokens.kind == "recurrent"
        if self.objective.carry and recurs and self.max_tokens % memory_tokens.length:
            raise ConfigError(
                f"with carry, train.max_tokens = {self.max_tokens} must be a multiple of the {memory_tokens.length} "
                "tokens of a segment: weights change after each step, and what is cached of a segment would no longer "
                "fit them.",
                "train.max_tokens",
            )
        self.alignment.check(model)
        if model.predicted_length is not None and self.alignment.kind != "none":
            raise ConfigError(
                "guided alignment needs a decoder that reads its target token after token. Set train.alignment = none.",
                "train.alignment",
            )
        self.shortlist.check(model)
        if self.augmentation is not None:
            self.augmentation.check(model)
        from headway.train.loader import PackedLoader  # imports torch, which reading a config does not need

        if self.batches == "packed" and (reason := PackedLoader.unsupported(self, model)):
            raise ConfigError(f'{reason}. Set "auto" or "padded".', "train.batches")
        for side in model.sides:
            for name in ("position", "mixer", "cross"):
                for part in getattr(getattr(model, side), name) or ():
                    limit, longest = getattr(part, "max_positions", None), self.max_tokens
                    if (
                        name == "position"
                        and part.applies_to == "input"
                        and (tokens := getattr(model, side).memory_tokens)
                    ):
                        longest = min(longest, tokens.length)  # it counts from the start of each segment
                    if limit is not None and limit < longest:
                        raise ConfigError(
                            f"{limit} learned positions are too few for texts of train.max_tokens = {self.max_tokens} "
                            "tokens. Raise the one or lower the other.",
                            f"model.{side}.{name}",
                        )

    def _check_retrieval(self, model: "Transformer.Config") -> None:
        retrieval = model.decoder.retrieval
        if retrieval is None:
            if self.index is not None:
                raise ConfigError(
                    "an index is for models that retrieve. Set model.decoder.retrieval = retro, or leave --index out.",
                    "train.index",
                )
            return
        if self.max_tokens % retrieval.chunk:
            raise ConfigError(
                f"train.max_tokens = {self.max_tokens} must be a multiple of the {retrieval.chunk} tokens of a chunk, "
                "as pieces of the text begin with one.",
                "train.max_tokens",
            )
