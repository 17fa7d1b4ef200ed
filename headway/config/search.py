"""How to search: what is followed, how it is ranked, when it stops. Nothing here imports torch."""

import math
from dataclasses import dataclass
from typing import Literal

from headway.config.schema import Node, number
from headway.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Search(Node):
    """beam_size 1 is greedy; `sample` draws instead, n_best times independently.

    Lengths count the tokens of the output: a forced prefix and the end token too, the start token not.
    The longest output is max_length where given, else ceil(max_ratio · source) + max_extra.
    """

    beam_size: int = number(4, low=1, high=10_000)
    n_best: int = number(1, low=1, high=10_000)
    penalty: Literal["paper", "power", "none"] = "paper"
    alpha: float = number(0.6, low=-10.0, high=10.0)
    max_length: int | None = number(None, low=0)
    max_extra: int = number(50, low=0)
    max_ratio: float = number(1.0, low=0.0, high=1000.0)
    min_length: int = number(0, low=0)
    no_repeat_ngram: int = number(0, low=0)
    shortlist: bool = False  # only words that the model's shortlist names for a source
    sample: bool = False
    temperature: float = number(1.0, low=0.0)
    top_k: int = number(0, low=0)
    top_p: float = number(1.0, low=0.0, high=1.0)
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"{self.min_length} is more than max_length = {self.max_length}. Lower one or raise the other.",
                "min_length",
            )
        if self.sample:
            self._check_sampling()
        else:
            self._check_beam()

    def _check_beam(self) -> None:
        if self.n_best > self.beam_size:
            raise ConfigError(
                f"a beam of {self.beam_size} finds {self.beam_size} hypotheses, not {self.n_best}. "
                f"Set beam_size = {self.n_best} or more.",
                "n_best",
            )
        for name, off in (("temperature", 1.0), ("top_k", 0), ("top_p", 1.0)):
            if getattr(self, name) != off:
                raise ConfigError(
                    f"{getattr(self, name)} has no effect without sampling. Set sample = true, or leave it out.",
                    name,
                )

    def _check_sampling(self) -> None:
        if self.beam_size > 1:
            raise ConfigError(
                f"sampling follows one hypothesis at a time, not {self.beam_size}. Set beam_size = 1; "
                "n_best says how many to draw.",
                "beam_size",
            )
        if self.temperature == 0:
            raise ConfigError(
                "0 leaves nothing to draw from. Set sample = false for the most probable token.", "temperature"
            )
        if self.top_p == 0:
            raise ConfigError("0 leaves nothing to draw from. Set a share above 0, or top_k = 1.", "top_p")

    def limit(self, source: int) -> int:
        """The most tokens an output may have, its end included, for a source of this length."""
        if self.max_length is not None:
            return self.max_length
        return max(math.ceil(self.max_ratio * source) + self.max_extra, self.min_length)

    def score(self, logp: float, length: int) -> float:
        """logp / penalty(length), by which finished hypotheses are ranked."""
        return logp / self.divisor(length)

    def divisor(self, length: int) -> float:
        """penalty(length)"""
        length = max(length, 1)
        if self.penalty == "none":
            return 1.0
        return float(((5 + length) / 6 if self.penalty == "paper" else length) ** self.alpha)


@dataclass(frozen=True, kw_only=True)
class Marks:
    """The ids with a meaning for the search: the first fed, the one that ends, those never produced."""

    start: int
    end: int
    suppress: tuple[int, ...] = ()
