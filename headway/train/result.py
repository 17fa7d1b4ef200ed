"""What a training leaves: the model directory, and what is known of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError
from headway.train.history import read_history
from headway.train.validation import ValidationResult

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator


@dataclass(frozen=True)
class TrainingResult:
    """A finished training: `result.translator` is ready to use, and so is `headway.load(result.folder)`."""

    folder: Path  # the model directory
    step: int
    seconds: float
    result: ValidationResult  # of the weights that became the model
    weights_origin: str  # which checkpoints these are, as a phrase
    reason: str = field(default="", kw_only=False)  # why the run ended

    @cached_property
    def model(self) -> "Translator | LanguageModel":
        """The model, loaded as what it is."""
        from headway.translate.translator import load_single

        return load_single(self.folder)

    @property
    def translator(self) -> "Translator":
        """The model, if it translates."""
        from headway.translate.translator import Translator

        if not isinstance(self.model, Translator):
            raise HeadwayError(f"{self.folder} is a language model: it is result.language_model.")
        return self.model

    @property
    def language_model(self) -> "LanguageModel":
        """The model, if it continues text."""
        from headway.translate.language_model import LanguageModel

        if not isinstance(self.model, LanguageModel):
            raise HeadwayError(f"{self.folder} is a translator: it is result.translator.")
        return self.model

    @property
    def history(self) -> Sequence[dict[str, Any]]:
        """Every report and validation of the run, as history.jsonl has them."""
        return read_history(self.folder)
