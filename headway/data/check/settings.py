"""CheckSettings: the options of `headway check`."""

from dataclasses import dataclass

from headway.data.check.faults import KEEPABLE_FAULTS
from headway.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    source_language: str = ""  # "": detected
    target_language: str = ""
    max_ratio: float = 3.0  # of the sides' lengths, relative to the usual ratio in this corpus
    max_words: int = 250  # per side
    doubt: float = 0.5  # above this probability a pair is not a translation
    keep: tuple[str, ...] = ()  # names of faults that stay in the clean corpus
    workers: int = 0  # processes; 0: one a core if the corpus is large enough

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("--max-ratio", self.max_ratio, 1.0, 1e6),
            ("--max-words", self.max_words, 1, 1e9),
            ("--max-doubt", self.doubt, 0.0, 1.0),
        ):
            if not low <= value <= high:
                raise ConfigError(f"{name} must be between {low:g} and {high:g}, not {value}.")
        for kind in self.keep:
            if kind not in KEEPABLE_FAULTS:
                near = did_you_mean(kind, list(KEEPABLE_FAULTS))
                raise ConfigError(f'--keep: "{kind}" cannot be kept.{near} Choose from: {", ".join(KEEPABLE_FAULTS)}.')
