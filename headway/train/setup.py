"""Sets up a training run: config layers, tokenizers, datasets, and the model to fine-tune.

TrainingTexts ─► collect_layers() ─► make_tokenizers() ─► compose_with_vocabulary() ─► make_datasets() ─► TrainingRun
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.config.catalogue import find_entry
from headway.config.config import Config
from headway.config.objective_kinds import is_denoising, reads_pairs
from headway.config.presets import choose_preset, find_preset
from headway.config.shorthand import expand
from headway.config.sources import Layer, compose
from headway.data.corpora import ParallelCorpus, TextCorpus
from headway.data.epoch_encoder import EpochEncoder
from headway.errors import ConfigError, HeadwayError
from headway.files.cache import fingerprint, load_or_build
from headway.nn.layers.lora import LoraConfig, add_lora
from headway.nn.transformer import Transformer
from headway.storage.adapter import save_adapter
from headway.storage.model_dir import WEIGHTS_FILE, load_model, load_weights, save_model
from headway.storage.packing import is_packed
from headway.storage.registry import model_directory
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.alignment_links import align_corpora
from headway.train.budget_plan import plan_fine_tuning, plan_new_model
from headway.train.dataset import Dataset, ParallelDataset, make_sides, tokenizer_dropout
from headway.train.document_pairs import DocumentPairs, encode_document_file
from headway.train.line_dataset import LineDataset, encode_text_lines
from headway.train.lm_dataset import ContiguousTextDataset, TextDataset, encode_text_file, make_validation_dataset
from headway.train.picture_dataset import make_task_datasets
from headway.train.preparation import Log, log_nothing
from headway.train.resume import find_changes
from headway.train.retrieval_dataset import make_retrieval_datasets
from headway.train.sources import TrainingFiles, TrainingTexts, unique_values
from headway.train.task_setup import add_new_head, collect_task_layers

DEFAULT_PREDICTED_LENGTH = 256  # of targets whose tokens are written all at once
BYTES_PER_TRAINED_PARAMETER = 16  # the weight, its gradient and Adam's two means, in float32
MAX_FINE_TUNING_BATCH_TOKENS = 8192  # enough to improve a model, and a CPU takes such a step in seconds
MAX_LORA_BATCH_TOKENS = 1024
PLAN_ORIGIN = "time budget (auto)"
LORA_SCHEDULE = "cosine(0.003, warmup=20)"
FINE_TUNING_SCHEDULE = "inverse_sqrt(0.0003, warmup=200)"  # for Adam: improves a model and forgets little


class PretrainedModel(NamedTuple):
    """A model to fine-tune."""

    folder: Path
    config: Config
    tokenizers: Tokenizers
    weights: dict[str, Tensor]
    lora: LoraConfig | None = None  # train an adapter of this kind, and nothing else
    new_head: bool = False  # the weights hold none, or one for something else

    @staticmethod
    def load(folder: str, lora: LoraConfig | None = None) -> "PretrainedModel":
        config, model, tokenizers = load_model(folder)
        if is_packed(config):
            raise HeadwayError(
                f"{folder} is packed: the float weights that training changes are gone. Give the model that it was "
                "packed from."
            )
        return PretrainedModel(Path(folder), config, tokenizers, model.state_dict(), lora)

    def layers(self, texts: TrainingTexts) -> list[Layer]:
        """The model's own settings, and those that fine-tuning changes."""
        for name, known, given in (
            ("source", self.config.source_languages, [p.source_language for p in texts.pairs]),
            ("target", self.config.target_languages, [p.target_language for p in texts.pairs]),
        ):
            unknown = [language for language in given if language and known and language not in known]
            if unknown:
                raise ConfigError(
                    f'{self.folder} has the {name} language {", ".join(known)}, but this text is "{unknown[0]}". Train '
                    "a new model, or give text in its languages."
                )
        steps = max(500, self.config.train.steps // 10)
        train: dict[str, Any] = {
            "steps": steps,
            "epochs": 0,
            "seconds": 0,
            "validate_every": max(50, steps // 20),
            "schedule": FINE_TUNING_SCHEDULE,
            "precision": "auto",  # the model may have been trained on another machine
            "compile": "auto",
            "batch_tokens": min(self.config.train.batch_tokens, MAX_FINE_TUNING_BATCH_TOKENS),
        }
        if self.config.train.optimiser.kind not in ("adam", "adamw"):
            train["optimiser"] = "adam"  # the learning rate above is meant for Adam
        if self.lora is not None:  # few weights, which start at nothing, learn faster
            train |= {"schedule": LORA_SCHEDULE, "batch_tokens": min(train["batch_tokens"], MAX_LORA_BATCH_TOKENS)}
        return [Layer(f"model {self.folder}", self.config.to_dict()), Layer("fine-tuning", {"train": train})]

    def fill(self, model: Transformer, config: Config) -> None:
        """Load these weights into a model, and add the adapter; raises if the architecture differs."""
        weights = add_new_head(self.weights, model) if self.new_head else self.weights
        try:
            load_weights(model, weights, self.folder / WEIGHTS_FILE)
        except HeadwayError:
            changes = [change for change in find_changes(self.config, config) if change.path.startswith("model.")]
            if not changes:
                raise
            messages = "; ".join(change.message for change in changes[:3])
            raise HeadwayError(
                f"the weights of {self.folder} do not fit another architecture: {messages}. Leave these settings as "
                "they are, or train a new model without --from-model."
            ) from None
        if self.lora is not None:
            add_lora(model, self.lora)


def collect_layers(
    texts: TrainingTexts,
    files: TrainingFiles,
    base: str | Config,
    upper: Sequence[Layer],
    pretrained: PretrainedModel | None = None,
    planned_for: torch.device | None = None,
    resumed: Config | None = None,
) -> tuple[list[Layer], str]:
    """Everything that decides a config, lowest first, and a message: what was chosen and why. `base`: the name of a
    preset, or a whole config; `upper`: the layers of file, environment and flags; `planned_for`: the device on which a
    time budget shall be used well; `resumed`: the config of the run that goes on."""
    if texts.task is not None:
        return collect_task_layers(texts, base, upper, pretrained)
    was_planned = resumed is not None and not resumed.train.steps and (pretrained is not None or base == "auto")
    if was_planned:
        planned_for = None  # another measurement would give other settings
    by_text = "translation" if texts.pairs else "causal"
    if pretrained is not None:
        layers = pretrained.layers(texts)
        reason = f"the settings of {pretrained.folder}, as a starting point"
        objective = pretrained.config.train.objective.kind
        if texts.pairs and is_denoising(objective) and not _find_objective(upper):
            objective = by_text
            train: dict[str, Any] = {"objective": objective}
            if pretrained.config.tokenizer.kind != "imported":  # a new task: more is to be learned than to be kept
                train["schedule"] = pretrained.config.train.schedule.to_dict()
            layers += [Layer("the pairs given", {"train": train})]
            layers += _language_layers(texts, files, from_flags=False)
            reason = f"{reason}, now to translate"
        objective = _find_objective(upper) or objective
        if planned_for and (plan := plan_fine_tuning(layers, upper, texts.statistics(), planned_for)):
            layers.append(Layer(PLAN_ORIGIN, plan.settings))
            reason = f"{reason}; {plan.reason}"
    elif isinstance(base, Config):
        layers = [Layer("config", base.to_dict())]
        reason = "the config given"
        objective = _find_objective(upper) or base.train.objective.kind
    elif base == "auto":
        objective = _find_objective(upper) or by_text
        name, table, reason = choose_preset(texts.statistics(), objective)
        layers = [Layer(f"preset {name} (auto)", table)]
        reason = f"preset {name}: {reason}"
        if planned_for and (new := plan_new_model(name, objective, upper, texts.statistics(), planned_for)):
            layers = [Layer(f"preset {new.preset} (auto)", new.table), Layer(PLAN_ORIGIN, new.settings)]
            reason = f"{reason}; {new.reason}" if new.preset == name else f"preset {new.preset}: {new.reason}"
    else:
        layers = [Layer(f"preset {base}", find_preset(base))]
        reason = f"preset {base}, as requested"
        objective = _find_objective([*layers, *upper]) or by_text
    if reads_pairs(objective) != bool(texts.pairs):
        given, needed = ("pairs", "--text") if texts.pairs else ("--text", "--source and --target, or --pairs")
        raise ConfigError(
            f"the objective {objective} learns from {needed}, not from {given}. Give that, or choose another "
            "--objective or --preset."
        )
    if objective == "masked_target" and pretrained is None:
        lowest = {"model": {"predicted_length": DEFAULT_PREDICTED_LENGTH}}
        layers.insert(0 if not isinstance(base, Config) else 1, Layer("objective masked_target", lowest))
    if was_planned and resumed is not None:
        layers.append(_resumed_layer(resumed))
        reason = "the settings that were chosen when the run began"
    if pretrained is not None:
        from_flags = _language_layers(texts, files, from_flags=True) if not pretrained.config.target_languages else []
        return [*layers, *upper, *from_flags], reason
    if _find_objective([*layers, *upper]) != objective:
        layers.append(Layer("the text given", {"train": {"objective": objective}}))
    from_names = _language_layers(texts, files, from_flags=False)
    from_flags = _language_layers(texts, files, from_flags=True)
    return [*layers, *from_names, *upper, *from_flags], reason


def _resumed_layer(config: Config) -> Layer:
    """Everything that may have been planned."""
    table = config.to_dict()
    budgets = ("epochs", "seconds")
    train = {name: value for name, value in table["train"].items() if name not in budgets}
    chosen = {name: table[name] for name in ("tokenizer", "model", "search")}
    return Layer("the run to resume", {**chosen, "train": train})


def _language_layers(texts: TrainingTexts, files: TrainingFiles, from_flags: bool) -> list[Layer]:
    """Languages given by flags, which lie above all other layers; or found in file names, which lie below `upper`."""
    sides = (
        ("source_languages", "--from", files.source_languages, [p.source_language for p in texts.pairs]),
        ("target_languages", "--to", files.target_languages, [p.target_language for p in texts.pairs]),
    )
    return [
        Layer(f"flag {flag}" if from_flags else "the files' names", {key: unique_values(languages)})
        for key, flag, given, languages in sides
        if bool(given) == from_flags and (from_flags or any(languages))
    ]


def _find_objective(layers: Sequence[Layer]) -> str:
    """The kind of objective that the highest of these layers sets; "" if none does."""
    for layer in reversed(layers):
        train = layer.values.get("train")
        value = train.get("objective") if isinstance(train, dict) else None
        kind = expand("objective", value)["kind"] if isinstance(value, str) else (value or {}).get("kind")
        if kind:
            return find_entry("objective", kind).kind
    return ""


def load_tokenizers(given: Path, config: Config) -> tuple[Tokenizers, Layer]:
    """The tokenizers of another model, given as its directory, its name or their file; and the config layer that fits
    them."""
    if given.is_file() or given.suffix == ".json":
        file = given
    else:
        file = (given if given.is_dir() else Path(model_directory(given))) / "tokenizer.json"
    tokenizers = Tokenizers.load(file)
    known = {*tokenizers.source.tags, *tokenizers.target.target_prefix}
    known |= {key.partition("-")[2] for key in tokenizers.source.source_prefix}
    missing = [tag for tag in config.tags if tag not in known]
    if missing:
        raise ConfigError(
            f"{file} has no tag for {', '.join(missing)}: it was made for other languages. Leave out --tokenizer, or "
            "use that of a model with the same target languages."
        )
    values: dict[str, Any] = {"vocabularies": "shared" if tokenizers.shared else "separate"}
    if config.tokenizer.kind != tokenizers.target.kind:
        values["tokenizer"] = tokenizers.target.kind
    return tokenizers, Layer("flag --tokenizer", values)


def refuse_oversized_model(config: Config, device: torch.device) -> None:
    """Raise ConfigError, before anything is allocated, if the weights cannot be trained in this memory."""
    count = config.model.parameter_count()
    needed = BYTES_PER_TRAINED_PARAMETER * count
    if device.type == "cuda":
        available = torch.cuda.get_device_properties(device).total_memory
    else:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise ConfigError(
            f"{count:,} parameters take {needed >> 30:,} GiB in training, and {device} has {available >> 30:,} GiB. "
            "Choose a smaller d_model, feedforward or vocabulary, or fewer layers.",
            "model",
        )


def make_tokenizers(config: Config, texts: TrainingTexts, log: Log = log_nothing) -> Tokenizers:
    """Learned from the training text alone; from the cache if the same were learned before."""
    part = json.dumps(config.tokenizer.to_dict(), sort_keys=True)
    sentinels = _count_sentinels(config)
    key = fingerprint([texts.identity, part, config.vocabularies, *config.tags, *([str(sentinels)] * bool(sentinels))])

    def build(folder: Path) -> None:
        if config.tokenizer.kind != "bytes":  # which has none
            what = "examples" if texts.task else "pairs" if texts.pairs else "lines"
            log(f"learning a vocabulary from {texts.statistics().lines:,} {what}")
        _train_tokenizers(config, texts).save(folder / "tokenizer.json")

    return load_or_build(
        "tokenizer",
        key,
        build,
        lambda folder: Tokenizers.load(folder / "tokenizer.json"),
    )


def _count_sentinels(config: Config) -> int:
    """That the objective needs in a new vocabulary."""
    return int(getattr(config.train.objective, "sentinels", 0))


def _train_tokenizers(config: Config, texts: TrainingTexts) -> Tokenizers:
    if texts.task is not None:
        one = Tokenizer.train(texts.task.texts(), config.tokenizer)
        return Tokenizers(one, one)
    if texts.text:
        one = Tokenizer.train(TokenizerText([texts.text]), config.tokenizer, sentinels=_count_sentinels(config))
        return Tokenizers(one, one)
    if config.vocabularies == "shared":
        both = Tokenizer.train(TokenizerText(texts.pairs, (0, 1)), config.tokenizer, tags=config.tags)
        return Tokenizers(both, both)
    source, target = (TokenizerText(texts.pairs, (side,)) for side in (0, 1))
    return Tokenizers(
        Tokenizer.train(source, config.tokenizer, tags=config.tags), Tokenizer.train(target, config.tokenizer)
    )


@dataclass(frozen=True)
class TokenizerText:
    """The lines that a tokenizer is trained on, read anew in each iteration: running text, or sides of pairs."""

    texts: Sequence[ParallelCorpus | TextCorpus]
    sides: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[str]:
        for side in self.sides or (0,):
            for text in self.texts:
                if isinstance(text, TextCorpus):
                    yield from (f"{line}\n" for line in text.read())
                else:
                    yield from (pair[side] for pair in text.read())


def compose_with_vocabulary(layers: Sequence[Layer], tokenizers: Tokenizers) -> tuple[Config, dict[str, str]]:
    """The config with the vocabulary sizes of these tokenizers, and the origin of each value."""
    sizes: dict[str, Any] = {"vocabulary": tokenizers.target.size, "source_vocabulary": tokenizers.source.size}
    model: dict[str, Any] = {"model": sizes}
    config, _ = compose(layers)
    # Imported tokenizers may be two that give the same ids, as Marian's are.
    separate = config.vocabularies == "separate" and tokenizers.target.kind != "imported"
    if separate and config.model.embedding.ties_sides:
        sizes["embedding"] = {"tied": "target" if config.model.embedding.ties_output else "none"}
    return compose([*layers, Layer("tokenizer", model)])


def make_datasets(
    config: Config,
    texts: TrainingTexts,
    tokenizers: Tokenizers,
    scratch: Path,
    writes: bool = True,
    log: Log = log_nothing,
) -> tuple[Dataset, Dataset]:
    """For training and for validation. With BPE dropout, each epoch's encoding goes to `scratch`; of several processes
    that train together, only one `writes`."""
    settings = config.train
    max_tokens = settings.max_tokens
    if check_vocabulary := getattr(settings.objective, "check_vocabulary", None):
        check_vocabulary(special_tokens(tokenizers.target), max_tokens)
    if texts.task is not None and texts.valid_task is not None:
        log(f"encoding {texts.task.lines:,} examples")
        return make_task_datasets(texts.task, texts.valid_task, tokenizers.source, config)
    if texts.text and texts.valid_text:
        both = (texts.text, texts.valid_text)
        if getattr(settings.objective, "next_sentence", False):
            documents, valid_documents = (encode_document_file(text, tokenizers.target, log) for text in both)
            return (
                DocumentPairs(documents, max_tokens, settings.seed),
                DocumentPairs(valid_documents, max_tokens, 0, "the validation text"),
            )
        if is_denoising(settings.objective.kind):
            rows, valid_rows = (encode_text_lines(text, tokenizers.target, log) for text in both)
            lines = settings.objective.lines
            return LineDataset(rows, max_tokens, lines), LineDataset(valid_rows, max_tokens, lines)
        if config.model.decoder.retrieval is not None:
            return make_retrieval_datasets(config, texts, tokenizers.target, log)
        stream, valid_stream = (encode_text_file(text, tokenizers.target, log) for text in both)
        validation = make_validation_dataset(valid_stream, max_tokens, settings.objective)
        if settings.objective.carry:
            return ContiguousTextDataset(stream, max_tokens, settings.batch_tokens, settings.seed), validation
        return TextDataset(stream, max_tokens, settings.seed, settings.objective.lookahead), validation
    epoch_encoder = None
    if dropout := tokenizer_dropout(config):
        corpora = [(p.origin, make_sides(p, tokenizers, config.tags)) for p in texts.pairs]
        own = scratch / fingerprint([*(p.identity for p in texts.pairs), *tokenizers.fingerprints, str(dropout)])
        for other in [folder for folder in scratch.glob("*") if writes and folder != own]:
            shutil.rmtree(other, ignore_errors=True)  # of other text, which is no longer trained on
        epoch_encoder = EpochEncoder(own, corpora, dropout, writes)
        epoch_encoder.begin()
    links = [] if settings.alignment.kind == "none" else align_corpora(texts.pairs)
    training = ParallelDataset(texts.pairs, tokenizers, config.tags, max_tokens, epoch_encoder, links, log)
    return training, ParallelDataset(texts.valid_pairs, tokenizers, config.tags, max_tokens)


def write_trained_model(
    out: Path,
    config: Config,
    tokenizers: Tokenizers,
    weights: dict[str, Tensor],
    card: str,
    pretrained: PretrainedModel | None,
) -> None:
    """A model directory; or, of a run that trains one, an adapter directory."""
    if pretrained is not None and pretrained.lora is not None:
        save_adapter(out, pretrained.lora, pretrained.folder, weights, card)
    else:
        save_model(out, config, weights, tokenizers, card)
