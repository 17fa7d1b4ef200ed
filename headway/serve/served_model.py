"""A model that a server has: a directory that was read, and its weights once somebody needs them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headway.config.objective_kinds import continues_text, has_source, reads_pairs
from headway.device import choose_device
from headway.errors import HeadwayError
from headway.serve.batch_queue import BatchQueue
from headway.serve.names import free_name
from headway.serve.settings import Log
from headway.storage.summary import ModelSummary, read_summary, summarise
from headway.storage.tensor_file import TensorFile
from headway.storage.training_history import find_checkpoints, read_losses
from headway.text.language_codes import count_directions, usual_direction
from headway.translate.results import Translation

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

MAX_CHECKPOINTS = 100  # of a model, evenly over its training


class ServedCheckpoint(NamedTuple):
    """How far a training was."""

    step: int
    loss: float | None  # on the validation text; None: not measured there
    weights_file: Path


@dataclass(eq=False)
class ServedModel:
    """One model directory, or a checkpoint in it. Clients know its name and its languages, never its path."""

    name: str
    path: Path
    summary: ModelSummary
    bytes: int  # of its weights in memory, about
    checkpoint: "ServedCheckpoint | None" = None  # whose weights it has; None: the model's own
    checkpoints: "list[ServedModel]" = field(default_factory=list)  # of its training, oldest first
    base: "ServedModel | None" = None  # of an adapter: the model whose weights it shares
    users: int = 0  # requests that need it loaded
    loaded: "Translator | LanguageModel | None" = None
    queue: BatchQueue[Translation] | None = None

    @property
    def is_translator(self) -> bool:
        return reads_pairs(self.summary.objective)

    @property
    def sources(self) -> tuple[str, ...]:
        return self.summary.source_languages if self.is_translator else ()

    @property
    def targets(self) -> tuple[str, ...]:
        return self.summary.target_languages if self.is_translator else ()

    def translates(self, source: str, target: str) -> bool:
        return source != target and source in self.sources and target in self.targets

    @property
    def is_causal(self) -> bool:
        """Whether it is a language model that continues texts."""
        return continues_text(self.summary.objective)

    @property
    def is_encoder(self) -> bool:
        """Whether it is an encoder alone: a masked language model, or a task on top of one."""
        objective = self.summary.objective
        return not has_source(objective) and not self.is_causal and objective != "solve"

    @property
    def language_model(self) -> "LanguageModel":
        from headway.translate.language_model import LanguageModel

        assert isinstance(self.loaded, LanguageModel)
        return self.loaded

    def hide_path(self, message: str) -> str:
        """A message with the name of this model in place of its path on the host."""
        return message.replace(str(self.path.resolve()), self.name).replace(str(self.path), self.name)


def read_served_model(path: Path, names: Sequence[str], name: str = "") -> ServedModel:
    """The model in this directory, not loaded. names: those that are taken; name: the one to have, if it is free, in
    place of the directory's."""
    summary = read_served_summary(path)
    weights = path / "model.safetensors"
    if not weights.is_file():
        raise HeadwayError(f"{path} has no model.safetensors yet: its training has not saved a model so far.")
    name = free_name(name or path.resolve().name, names)
    size = weights.stat().st_size * (4 if TensorFile(weights).is_int8 else 1)
    return ServedModel(name, path, summary, size)


def read_served_summary(path: Path) -> ModelSummary:
    """What requests can ask of the model in this directory."""
    read = read_summary(path)
    if read is None:  # loading its config reports what is wrong with it
        from headway.storage.model_dir import load_model

        summary = summarise(load_model(path).config)
    else:
        summary = read[0]
    if summary.frontend != "tokens":
        what = {"patches": "pictures", "mel": "sound"}.get(summary.frontend, summary.frontend)
        raise HeadwayError(
            f"{path} reads {what}, and this server takes text alone. Use it on the command line or in Python: "
            "headway predict, headway.load."
        )
    directions = count_directions(summary.source_languages, summary.target_languages)
    if reads_pairs(summary.objective) and not directions:
        raise HeadwayError(
            f"{path} does not say between which languages it translates, so no request could select it. Add "
            "source_languages and target_languages to its config.json, or train it with --from and --to."
        )
    return summary


def read_checkpoints(model: ServedModel, log: Log) -> list[ServedModel]:
    """Those that the training of a model has kept, not loaded."""
    found = find_checkpoints(model.path)
    if len(found) > MAX_CHECKPOINTS:
        found = [found[n * (len(found) - 1) // (MAX_CHECKPOINTS - 1)] for n in range(MAX_CHECKPOINTS)]
    losses: dict[int, float] = {}
    try:
        losses = read_losses(model.path) if found else {}
    except HeadwayError as error:
        log(f"the checkpoints of {model.name} are shown without their loss: {error}", "warning")
    return [
        ServedModel(
            f"{model.name}@{step}",
            model.path,
            model.summary,
            model.bytes,
            checkpoint=ServedCheckpoint(step, losses.get(step), folder / "model.safetensors"),
        )
        for step, folder in found
    ]


def load_checkpoint(model: ServedModel, device: str) -> "Translator | LanguageModel":
    """In torch and float32, for the page alone."""
    from headway.storage.model_dir import load_model
    from headway.translate.task_model import language_model_of
    from headway.translate.translator import Translator

    assert model.checkpoint is not None
    loaded = load_model(model.path, choose_device(device), model.checkpoint.weights_file)
    if not has_source(model.summary.objective):
        return language_model_of(loaded)
    return Translator([loaded], direction=usual_direction(model.sources, model.targets))
