"""Search: the settings of beam search and sampling. Needs no torch."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from headway.config.schema import Node, number, slot
from headway.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Search(Node):
    """beam_size = 1 is greedy search; with `sample`, n_best outputs are drawn independently instead.

    Lengths count the tokens of the output, with a forced prefix and the end token, without the start token.
    An output has at most max_length tokens if that is given, else ceil(max_ratio · source) + max_extra.
    `stopping`: when a beam search ends. "count": as soon as beam_size hypotheses have ended; "score": when the best
    running one would not be among their beam_size best, if it ended now (early_stopping = False in Hugging Face).
    `method`: "beam" or "mask_predict(iterations, length_beam)"; by default the one that the model was trained for.
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
    stopping: Literal["count", "score"] = "count"
    force_end: bool = False  # the last token that the maximum length allows is the end token
    renormalise: bool = False  # probabilities are shares among the tokens that may be produced
    shortlist: bool = False  # score only the tokens that the model's shortlist has for the source
    sample: bool = False
    temperature: float = number(1.0, low=0.0)
    top_k: int = number(0, low=0)
    top_p: float = number(1.0, low=0.0, high=1.0)
    seed: int | None = None
    method: Any = slot("search", None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"{self.min_length} is more than max_length = {self.max_length}. Lower it, or raise max_length.",
                "min_length",
            )
        if self.sample:
            self._check_sampling()
        else:
            self._check_beam()

    def _check_beam(self) -> None:
        if self.n_best > self.beam_size:
            raise ConfigError(
                f"{self.n_best} is more than beam_size = {self.beam_size}: a beam finds at most that many hypotheses. "
                f"Set beam_size = {self.n_best} or more.",
                "n_best",
            )
        for name, off in (("temperature", 1.0), ("top_k", 0), ("top_p", 1.0)):
            if getattr(self, name) != off:
                raise ConfigError(
                    f"{getattr(self, name)} has no effect without sampling. Set sample = true, or remove it.",
                    name,
                )

    def _check_sampling(self) -> None:
        if self.beam_size > 1:
            raise ConfigError(
                f"sampling has no beam, and this is {self.beam_size}. Set beam_size = 1; n_best is the number of "
                "samples.",
                "beam_size",
            )
        if self.temperature == 0:
            raise ConfigError(
                "0 is not allowed for sampling. Set sample = false for the most probable token.", "temperature"
            )
        if self.top_p == 0:
            raise ConfigError("0 leaves no token to sample. Set a value above 0, or top_k = 1.", "top_p")

    def max_output_length(self, source_length: int) -> int:
        """The maximum number of output tokens, end token included, for a source of this many tokens."""
        if self.max_length is not None:
            return self.max_length
        return max(math.ceil(self.max_ratio * source_length) + self.max_extra, self.min_length)

    def score(self, logp: float, length: int) -> float:
        """The score by which finished hypotheses are ranked: log-probability over length penalty."""
        return logp / self.length_penalty(length)

    def length_penalty(self, length: int) -> float:
        """((5 + length) / 6) ** alpha for "paper", length ** alpha for "power", 1 for "none"."""
        length = max(length, 1)
        if self.penalty == "none":
            return 1.0
        return float(((5 + length) / 6 if self.penalty == "paper" else length) ** self.alpha)
