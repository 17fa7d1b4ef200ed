"""Validates again and again in a time budget: all validations translate the same lines, or their scores could not be
compared, and as many as the first of them managed in its share of the time."""

import time
from collections.abc import Sequence

from headway.config.config import Config
from headway.nn.transformer import Transformer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.dataset import Dataset
from headway.train.validation import ValidationResult, ValidationSample, cut_samples, validate

MAX_DECODING_SHARE = 0.01  # of a time budget, for the translations of one validation


class Validator:
    def __init__(
        self,
        config: Config,
        dataset: Dataset,
        samples: Sequence[ValidationSample],
        tokenizers: Tokenizers,
        special: SpecialTokens,
    ) -> None:
        self.config = config
        self.dataset = dataset
        self.samples = list(samples)
        self.tokenizers = tokenizers
        self.special = special
        self.decodable_lines = sum(len(sample.source) for sample in samples)
        self.decoded_lines = 0  # of them, in each validation; 0: not known yet
        self.seconds = 0.0  # that the last validation took

    def measure(self, model: Transformer, seconds_left: float | None) -> ValidationResult:
        """seconds_left: until the end of the run; None: there is no time budget."""
        if seconds_left is None:
            return self._validate(model, None)
        is_first = not self.decoded_lines
        share = MAX_DECODING_SHARE * self.config.train.seconds
        result = self._validate(model, time.monotonic() + (min(seconds_left, share) if is_first else seconds_left))
        if is_first:
            self.decoded_lines = self.decodable_lines if result.lines is None else result.lines
            self.samples = cut_samples(self.samples, self.decoded_lines)
        elif result.lines is not None and self.config.train.metric != "loss":
            return ValidationResult(result.loss)  # scores of fewer lines cannot be compared with those before
        elif result.lines is None and self.decoded_lines < self.decodable_lines:
            return result._replace(lines=self.decoded_lines)
        return result

    def _validate(self, model: Transformer, deadline: float | None) -> ValidationResult:
        began = time.monotonic()
        data = self.dataset, self.samples
        result = validate(model, *data, self.config, self.tokenizers, self.special, deadline)
        self.seconds = time.monotonic() - began
        return result
