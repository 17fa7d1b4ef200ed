"""`headway.train`: from text to a trained model in one call. The command line calls it, too.

train(data, out, …)    read_data ─► compose_setup ─► TrainingRun ─► TrainingResult
prepare(data, …)       the same without the run: TrainingSetup, for a loop of one's own
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import torch

from headway.config.config import Config
from headway.config.presets import find_preset
from headway.config.sources import Layer, compose, find_old_names
from headway.device import choose_device
from headway.errors import HeadwayError
from headway.storage.registry import model_directory
from headway.text.tokenizer.pair import Tokenizers
from headway.train.callbacks import CallbackList
from headway.train.checkpoints import list_checkpoints, refuse_foreign_files
from headway.train.description import describe_adapter, describe_config
from headway.train.distributed import is_distributed, join_process_group, leave_process_group
from headway.train.loggers import make_loggers
from headway.train.options import TrainKeywords, TrainOptions
from headway.train.prewarm import prewarm_torch
from headway.train.progress import ProgressListener, SilentProgress
from headway.train.python_data import TrainingData, given_languages, read_data
from headway.train.result import TrainingResult
from headway.train.retrieval_dataset import index_settings
from headway.train.run import TrainingRun
from headway.train.setup import (
    PretrainedModel,
    collect_layers,
    compose_with_vocabulary,
    load_tokenizers,
    make_tokenizers,
)
from headway.train.sources import TrainingTexts
from headway.train.task_setup import take_encoder
from headway.train.training_setup import TrainingSetup


def train(data: TrainingData, out: str | Path, **keywords: Unpack[TrainKeywords]) -> TrainingResult:
    """Train a translator from pairs, or a language model from texts, and write it to the model directory `out`.

    data: a list or generator of (source, target), or of texts; a dict of two languages; a data frame; a Hugging Face
        dataset; the path of a file; a Corpus, or several
    out: where to write the model. The same call resumes a run that was interrupted.
    keywords: see TrainOptions; the most common are valid, preset, seconds, steps, set, callbacks

    In processes that torchrun has started, they train together: each makes the same call."""
    return train_with(data, Path(out), TrainOptions(**keywords))


def prepare(data: TrainingData, **keywords: Unpack[TrainKeywords]) -> TrainingSetup:
    """Everything that training needs before its first step, for a loop of one's own: config, tokenizers, model,
    batches. It takes the keywords of `train`."""
    options = TrainOptions(**keywords)
    options.check()
    listener = options.listener()
    device = join_process_group(options.device)[1]
    return compose_setup(data, read_data(data, options), options, listener, device, None)


def train_with(data: TrainingData, out: Path, options: TrainOptions) -> TrainingResult:
    """The same with options as one value."""
    options.check()
    callbacks = CallbackList(options.callbacks)
    loggers = make_loggers(options.log)
    refuse_foreign_files(out)
    group, device = join_process_group(options.device)
    listener = options.listener() if group.is_main else SilentProgress()
    listener.on_note("reading the text")
    try:
        # Only the main process reads: a generator is exhausted once, and its copy serves all.
        texts = group.broadcast(read_data(data, options) if group.is_main else None)
        with group.main_first():
            setup = compose_setup(data, texts, options, listener, device, out)
        listener.on_begin(setup.config)
        run = TrainingRun(
            setup.config,
            setup.texts,
            setup.tokenizers,
            out,
            device,
            listener,
            loggers,
            group,
            options.allow_changes,
            setup.pretrained,
            callbacks,
        )
        if setup.pretrained is not None and setup.pretrained.lora is not None:
            listener.on_note(describe_adapter(run.trainer.model))
        return run.run()
    finally:
        leave_process_group()


def compose_config(data: TrainingData, options: TrainOptions) -> tuple[Config, dict[str, str], list[str]]:
    """The config that a training would have, before its vocabulary is known; the origin of each value; notes."""
    options.check()
    device = choose_device(options.device)
    texts = read_data(data, options)
    layers, _ = _collect(data, texts, options, _load_pretrained(options, texts), device, None)
    return *compose(layers), find_old_names(layers)


def compose_setup(
    data: TrainingData,
    texts: TrainingTexts,
    options: TrainOptions,
    listener: ProgressListener,
    device: torch.device,
    out: Path | None,
) -> TrainingSetup:
    """Config and tokenizers for these texts; those of the run in `out`, if there is one to resume."""
    for note in texts.notes:
        listener.on_note(note)
    for warning in texts.warnings:
        listener.on_warning(warning)
    pretrained = _load_pretrained(options, texts)
    layers, reason = _collect(data, texts, options, pretrained, device, out)
    for note in (*find_old_names(layers), reason):
        listener.on_note(note)
    config, _ = compose(layers)
    if config.train.placeholder_share and texts.pairs:
        from headway.train.placeholders import add_placeholders

        texts = replace(texts, pairs=add_placeholders(texts.pairs, config.train.placeholder_share))
    given = pretrained.tokenizers if pretrained else None
    saved = _saved_tokenizers(out) if out else None
    if tokenizer := find_tokenizer(options):
        given, layer = load_tokenizers(tokenizer, config)
        layers = [*layers, layer]
        if saved and saved.fingerprints != given.fingerprints:
            raise HeadwayError(
                f"{out} holds a run with another vocabulary than that of {tokenizer}. Leave it out, or choose "
                "another --out."
            )
    with prewarm_torch(device):
        tokenizers = saved or given or make_tokenizers(config, texts, listener.on_note)
    config, _ = compose_with_vocabulary(layers, tokenizers)
    listener.on_note(describe_config(config))
    return TrainingSetup(config, texts, tokenizers, device, pretrained)


def _collect(
    data: TrainingData,
    texts: TrainingTexts,
    options: TrainOptions,
    pretrained: PretrainedModel | None,
    device: torch.device,
    out: Path | None,
) -> tuple[list[Layer], str]:
    base: Any = options.config if isinstance(options.config, Config) else options.preset
    alone = not is_distributed()  # several processes would measure different speeds
    resumed = Config.load(out / "config.json") if out and list_checkpoints(out) else None
    languages = given_languages(data, options)
    upper = options.layers()
    if options.index:
        upper.insert(0, index_layer(options, base, pretrained))
    return collect_layers(texts, languages, base, upper, pretrained, device if alone else None, resumed)


def index_layer(options: TrainOptions, base: Any, pretrained: PretrainedModel | None) -> Layer:
    """What follows from the index: a model that retrieves, in its chunks. Above the preset, which may say more."""
    if pretrained is not None or isinstance(base, Config):
        known: Any = pretrained.config if pretrained is not None else base
        has_retrieval = known.model.decoder.retrieval is not None
    else:
        has_retrieval = base != "auto" and "retrieval" in find_preset(base)["model"].get("decoder", {})
    assert options.index
    return Layer("flag --index" if options.flags else "index", index_settings(options.index, has_retrieval))


def find_tokenizer(options: TrainOptions) -> Path | None:
    """The one that is named, or that of the index, whose chunks are made of its tokens."""
    if options.tokenizer or not options.index or options.from_model:
        return Path(options.tokenizer) if options.tokenizer else None
    return Path(options.index) / "tokenizer.json"


def _load_pretrained(options: TrainOptions, texts: TrainingTexts) -> PretrainedModel | None:
    if not options.from_model:
        return None
    loaded = PretrainedModel.load(model_directory(options.from_model), options.lora_config())
    return loaded if texts.task is None else take_encoder(loaded, texts.task)


def _saved_tokenizers(out: Path) -> Tokenizers | None:
    """The tokenizers of a run to resume. A run without a checkpoint starts over, perhaps with other settings."""
    if list_checkpoints(out) and (out / "tokenizer.json").exists():
        return Tokenizers.load(out / "tokenizer.json")
    return None
