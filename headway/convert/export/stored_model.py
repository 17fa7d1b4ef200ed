"""StoredModel: a model directory as an export reads it. Weights are read one by one, in float where stored in int8."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from headway.config.config import Config
from headway.config.objective_kinds import ENCODER_TASKS
from headway.convert.weight_files import SafetensorsSource, WeightSource
from headway.errors import HeadwayError
from headway.storage.calibration import CALIBRATION_GLOB
from headway.storage.card import ModelCard, read_card
from headway.storage.model_dir import WEIGHTS_FILE, LoadedModel, load_model
from headway.storage.tensor_file import SCALE_SUFFIX
from headway.text.shortlist import SHORTLIST_FILE
from headway.text.tokenizer.pair import Tokenizers

MAX_POSITIONS = 1024  # of a table for positions that have no limit here


@dataclass(frozen=True)
class StoredModel:
    """A model directory that has been opened: nothing is read yet but config, tokenizers and the header."""

    folder: Path
    config: Config
    tokenizers: Tokenizers
    weights: WeightSource
    is_int8: bool  # stored so; `weights` gives float32

    @property
    def card(self) -> ModelCard:
        return read_card(self.folder)

    @property
    def reads_pairs(self) -> bool:
        """Whether it reads pairs of texts between [CLS] and [SEP], and tells whether the second follows."""
        return bool(getattr(self.config.model.head, "next_sentence", False))

    @property
    def objective(self) -> str:
        """ "translation", "causal", "permutation" or "masked", as which tasks on top of an encoder count."""
        kind: str = self.config.train.objective.kind
        return "masked" if kind in ENCODER_TASKS else kind

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def max_positions(self) -> int:
        """The length of tables of positions that have no limit here: that of the original, if the model has one."""
        return self.config.train.max_tokens if self.tokenizers.target.kind == "imported" else MAX_POSITIONS

    def load(self) -> LoadedModel:
        """The whole model in memory."""
        return load_model(self.folder)

    def describe(self) -> tuple[str, ...]:
        """What was found, a sentence each."""
        config = self.config
        languages = " → ".join("+".join(side) for side in (config.source_languages, config.target_languages) if side)
        what = {
            "translation": "a translator",
            "causal": "a language model",
            "permutation": "a permutation language model",
            "masked": "a masked language model",
        }
        if (task := self.config.train.objective.kind) in ENCODER_TASKS:
            what["masked"] = f"an encoder with the task {task}"
        size = f"{config.model.parameter_count():,} parameters" + (", stored in int8" if self.is_int8 else "")
        return (
            f"{what[self.objective]}{f' ({languages})' if languages else ''}, {size}",
            f"a tokenizer of the kind {config.tokenizer.kind} with {self.tokenizers.target.size} entries"
            + ("" if self.tokenizers.shared else f", and one of the source with {self.tokenizers.source.size}"),
        )

    def describe_lost(self) -> tuple[str, ...]:
        """What no other toolkit has a place for, a sentence each."""
        lost = []
        if any(self.folder.glob(CALIBRATION_GLOB)):
            lost.append("the calibration of its confidence")
        if (self.folder / SHORTLIST_FILE).exists():
            lost.append("its shortlist: every step scores the whole vocabulary")
        if self.objective == "translation":
            lost.append(
                "what Headway does around the model: sentence splitting, protected text, glossaries, retries of "
                "outputs that went wrong"
            )
        return tuple(lost)


def open_model(folder: str | Path) -> StoredModel:
    """Open a model directory. Raises HeadwayError if it is none."""
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise HeadwayError(f"{folder} is not a model directory: it has no config.json.")
    config = Config.load(folder / "config.json")
    if config.train.objective.kind not in ("translation", "causal", "permutation", "masked", *ENCODER_TASKS):
        raise HeadwayError(
            f"{folder} was trained by the objective {config.train.objective.kind}, for which no other toolkit has a "
            "form that it would run. Models of translation, causal, permutation and masked can be exported, and tasks "
            "on top of an encoder. Fine-tune it for one of these first."
        )
    tokenizers = Tokenizers.load(folder / "tokenizer.json")
    stored = SafetensorsSource([folder / WEIGHTS_FILE])
    is_int8 = any(name.endswith(SCALE_SUFFIX) for name in stored.shapes())
    return StoredModel(folder, config, tokenizers, DequantisedSource(stored) if is_int8 else stored, is_int8)


@dataclass(frozen=True)
class DequantisedSource:
    """Weights of which some are stored in int8 with a scale for each row, as float32."""

    source: WeightSource

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: shape for name, shape in self.source.shapes().items() if not name.endswith(SCALE_SUFFIX)}

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name + SCALE_SUFFIX in self.source.shapes() else self.source.dtype(name)

    def read(self, name: str) -> Tensor:
        tensor = self.source.read(name)
        if name + SCALE_SUFFIX not in self.source.shapes():
            return tensor
        return tensor * self.source.read(name + SCALE_SUFFIX)[:, None]
