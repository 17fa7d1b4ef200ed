"""What a training needs before its first step, for a loop of one's own.

prepare(…) ─► TrainingSetup ─► make_model() ─► batches() ─► loss() ─► your optimiser ─► validate() ─► save()
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from headway.config.config import Config
from headway.nn.transformer import Transformer
from headway.storage.model_dir import save_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.checkpoints import lock_directory, refuse_foreign_files
from headway.train.dataset import Dataset, training_special_tokens
from headway.train.distributed import SINGLE_PROCESS
from headway.train.loader import PaddedLoader, read_steps
from headway.train.loss import batch_loss
from headway.train.model_card import model_card
from headway.train.objectives import Batch
from headway.train.setup import PretrainedModel, make_datasets, refuse_oversized_model
from headway.train.sources import TrainingTexts
from headway.train.validation import ValidationResult, take_samples, validate


@dataclass
class TrainingSetup:
    """Config, text and tokenizers of a training, and what is made of them."""

    config: Config
    texts: TrainingTexts
    tokenizers: Tokenizers
    device: torch.device
    pretrained: PretrainedModel | None = None  # to fine-tune

    def make_model(self) -> Transformer:
        """The model, an nn.Module in training mode: with weights as the config's seed draws them, or those of the
        model that is fine-tuned."""
        refuse_oversized_model(self.config, self.device)
        torch.manual_seed(self.config.train.seed)
        model = Transformer(self.config.model)
        if self.pretrained is not None:
            self.pretrained.fill(model, self.config)
        return model.to(self.device).train()

    def batches(self, epochs: int = 1, first_epoch: int = 0) -> Iterator[Batch]:
        """Padded batches of at most train.batch_tokens tokens a side, on the device: all examples once an epoch, in an
        order that depends on the seed and the epoch alone."""
        settings = self.config.train
        loader = PaddedLoader(settings, self.special_tokens, SINGLE_PROCESS, settings.batch_tokens, compiled=False)
        left = epochs
        for step in read_steps(self.datasets[0], loader, settings.seed, 0, first_epoch, 0) if epochs else ():
            yield from (batch.to(self.device) for batch in step)
            left -= not step  # an empty one marks the end of an epoch
            if not left:
                return

    def loss(self, model: Transformer, batch: Batch) -> Tensor:
        """The mean training loss of a batch: label-smoothed cross-entropy for each label, and what layers add."""
        settings = self.config.train
        output = batch_loss(model, batch, settings.label_smoothing, settings.alignment, objective=settings.objective)
        return output.loss / max(batch.label_count, 1)

    @torch.no_grad()
    def validate(self, model: Transformer) -> ValidationResult:
        """Loss, BLEU and chrF on the validation text, as a run measures them."""
        training = model.training
        samples = take_samples(self.texts.valid_pairs, self.config.train.decode_lines)
        special = self.special_tokens
        try:
            return validate(model.eval(), self.datasets[1], samples, self.config, self.tokenizers, special)
        finally:
            model.train(training)

    def save(self, model: Transformer, out: str | Path, step: int = 0) -> Path:
        """Write a model directory, which `headway.load` and every command can use. `step` is for its card."""
        folder = Path(out)
        refuse_foreign_files(folder)
        base = self.pretrained.folder if self.pretrained else None
        card = model_card(self.config, self.texts, None, step, base)
        with lock_directory(folder):
            save_model(folder, self.config, model.state_dict(), self.tokenizers, card)
        return folder

    @cached_property
    def special_tokens(self) -> SpecialTokens:
        """Start, end, padding …, of the target."""
        return training_special_tokens(self.config, self.tokenizers)

    @cached_property
    def datasets(self) -> tuple[Dataset, Dataset]:
        """The text as token ids, to train and to validate on."""
        scratch = tempfile.mkdtemp(prefix="headway-")  # for BPE dropout, which encodes every epoch anew
        weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        return make_datasets(self.config, self.texts, self.tokenizers, Path(scratch))
