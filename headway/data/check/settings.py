"""What a user can set about a check."""

from dataclasses import dataclass

from headway.data.check.faults import KEEPABLE
from headway.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Settings:
    source_language: str = ""  # "": told by the text
    target_language: str = ""
    max_ratio: float = 3.0  # of the sides' lengths, against what is usual in this corpus
    max_words: int = 250  # on a side
    doubt: float = 0.5  # probability from which on a pair counts as no translation
    keep: tuple[str, ...] = ()  # kinds of fault that a clean corpus may have
    workers: int = 0  # processes; 0: one a core where there is enough to do

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("--max-ratio", self.max_ratio, 1.0, 1e6),
            ("--max-words", self.max_words, 1, 1e9),
            ("--doubt", self.doubt, 0.0, 1.0),
        ):
            if not low <= value <= high:
                raise ConfigError(f"{name} is {value}: it must lie between {low:g} and {high:g}.")
        for kind in self.keep:
            if kind not in KEEPABLE:
                near = did_you_mean(kind, list(KEEPABLE))
                raise ConfigError(f'--keep: "{kind}" cannot be kept.{near} These can: {", ".join(KEEPABLE)}.')
