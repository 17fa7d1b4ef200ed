"""How a model is trained: the [train] section of a config."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headway.config.schema import Node, number, slot
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Training(Node):
    """Defaults are the paper's where it speaks. Budgets: whichever comes first; 0 means no such budget."""

    objective: Any = slot("objective", "translation")
    optimiser: Any = slot("optimiser", "adam")
    schedule: Any = slot("schedule", "noam")
    alignment: Any = slot("alignment", "none")
    shortlist: Any = slot("shortlist", "none")  # made from the training text, for search.shortlist
    placeholders: float = number(0.0, low=0, high=1)  # share of pairs with ⟦0⟧ in them: see docs/protecting.md
    label_smoothing: float = number(0.1, low=0, high=1)
    clip: float = number(0.0, low=0)  # the gradient's norm at most; 0: as it is
    ema: float = number(0.0, low=0, high=1)  # decay of a running average of the weights; 0: none
    seed: int = number(1, low=0, high=2**32 - 1)

    batch_tokens: int = number(25_000, low=1)  # a step, on each side
    micro_batch_tokens: int = number(0, low=0)  # at once on the device; 0: by its kind. Steps add up to batch_tokens
    longest: int = number(256, low=2)  # tokens a side; longer pairs are left out, and counted

    steps: int = number(100_000, low=0)
    epochs: int = number(0, low=0)
    seconds: float = number(0.0, low=0)

    validate_every: int = number(1000, low=1)  # steps; also saves
    patience: int = number(0, low=0)  # validations without a better one; 0: go on
    metric: Literal["loss", "bleu", "chrf"] = "loss"  # what "better" means
    decode_lines: int = number(1000, low=0)  # of the validation set, for BLEU and chrF
    keep_last: int = number(5, low=1)
    keep_best: int = number(1, low=1)
    average: int = number(5, low=1)  # the last so many checkpoints become the model; 1: the best one does

    batches: Literal["auto", "rows", "lines"] = "auto"  # padded rows of like lengths, or lines of texts (on a GPU)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 on a GPU, for large models
    compile: Literal["auto", "on", "off"] = "auto"  # on a GPU, where the run is long enough to repay it
    graphs: Literal["auto", "off"] = "auto"  # on a GPU, whole steps as CUDA graphs
    log_every: int = number(100, low=1)

    def refuse(self, model: "Transformer.Config") -> None:
        """What cannot be trained with these settings."""
        self.objective.refuse(model)
        if self.objective.carry and self.compile == "on":
            raise ConfigError(
                'with carry, what rows remember changes its size from step to step, and compile = "on" wants fixed sizes. '
                'Set compile = "auto".',
                "train.compile",
            )
        self.alignment.refuse(model)
        self.shortlist.refuse(model)
        from headway.train.loader import unlined  # which needs torch, and settings do not

        if self.batches == "lines" and (reason := unlined(self, model)):
            raise ConfigError(f'{reason}. Set "auto" or "rows".', "train.batches")
        for side in model.sides:
            for part in getattr(model, side).position:
                if part.kind == "learned" and part.longest < self.longest:
                    raise ConfigError(
                        f"{part.longest} learned positions are too few for texts of train.longest = {self.longest} "
                        "tokens. Raise the one or lower the other.",
                        f"model.{side}.position",
                    )
