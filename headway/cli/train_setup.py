"""From the options of `headway train` to a training run: config layers, tokenizers, and the run itself."""

import shlex
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.cli.terminal import log


def prepare_training(
    out: Path, layers: list[Any], texts: Any, start: Any, device: Any, tokenizer_path: Path | None = None
) -> Any:
    """The config, texts, tokenizers and the model to start from."""
    from headway.config.sources import compose
    from headway.errors import HeadwayError
    from headway.train.prewarm import prewarm_torch
    from headway.train.setup import compose_with_vocabulary, load_tokenizers, make_tokenizers

    config, _ = compose(layers)
    if config.train.placeholder_share and texts.pairs:
        from headway.train.placeholders import add_placeholders

        texts = replace(texts, pairs=add_placeholders(texts.pairs, config.train.placeholder_share))
    given = start.tokenizers if start else None
    saved = saved_tokenizers(out)
    if tokenizer_path:
        given, layer = load_tokenizers(tokenizer_path, config)
        layers = [*layers, layer]
        if saved and saved.fingerprints != given.fingerprints:
            raise HeadwayError(
                f"{out} holds a run with another vocabulary than that of {tokenizer_path}. Leave out --tokenizer, or "
                "choose another --out."
            )
    with prewarm_torch(device):
        tokenizers = saved or given or make_tokenizers(config, texts)
    config, _ = compose_with_vocabulary(layers, tokenizers)
    log(describe_config(config))
    return config, texts, tokenizers, start


def run_training(prepared: Any, out: Path, device: Any, group: Any, tensorboard: bool, allow_changes: bool) -> None:
    from headway.cli.progress import TrainingProgress, log_summary
    from headway.train.run import TrainingRun

    config, texts, tokenizers, start = prepared
    progress = TrainingProgress(config)
    training = TrainingRun(
        config, texts, tokenizers, out, device, progress, tensorboard, group, allow_changes, start
    )  # fmt: skip
    try:
        result = training.run()
    except (KeyboardInterrupt, SystemExit):
        progress.clear()
        log(f"resume with: {shlex.join(['headway', *sys.argv[1:]])}")
        raise
    progress.clear()
    if group.is_main:
        log_summary(result, config)


def override_layers(config_file: Path | None, assignments: tuple[str, ...], flags: dict[str, Any]) -> list[Any]:
    """The config layers above the preset, lowest first: file, environment, flags."""
    from headway.config.config import read_toml
    from headway.config.sources import Layer, parse_assignment, read_environment

    flag_names = {"seconds": "for"}
    flag_layers = {
        name: Layer(f"flag --{flag_names.get(name, name)}", {"train": {name: value}})
        for name, value in flags.items()
        if value is not None
    }
    layers = [Layer(f"file {config_file}", read_toml(config_file))] if config_file else []
    layers += read_environment()
    if "objective" in flag_layers:  # below --set, which may set a field of the objective
        layers.append(flag_layers.pop("objective"))
    layers += [Layer(f"flag --set {text.partition('=')[0]}", parse_assignment(text)) for text in assignments]
    return [*layers, *flag_layers.values()]


def saved_tokenizers(out: Path) -> Any:
    """The tokenizers of a run to resume. A run without a checkpoint starts over, perhaps with other settings."""
    from headway.text.tokenizer.pair import Tokenizers
    from headway.train.checkpoints import list_checkpoints

    if list_checkpoints(out) and (out / "tokenizer.json").exists():
        return Tokenizers.load(out / "tokenizer.json")
    return None


def describe_config(config: Any) -> str:
    """A summary of model and training in two lines."""
    model = config.model
    training = config.train
    layers = " + ".join(str(getattr(model, side).layers) for side in model.sides)
    residual = getattr(model, model.sides[-1]).residual.kind
    schedule = training.schedule
    limits = (
        ("steps", f"{training.steps:,}"),
        ("epochs", f"{training.epochs:,}"),
        ("seconds", f"{training.seconds:g}"),
    )
    budget = " or ".join(f"at most {limit} {unit}" for unit, limit in limits if limit != "0") or "without end"
    count = model.parameter_count()
    parameters = f"{count / 1e6:.1f} M" if count >= 1e5 else f"{count:,}"
    return (
        f"model: {parameters} parameters, {layers} layers, d_model {model.d_model}, "
        f"{describe_mixers(model)}, {residual}-norm, dropout {model.dropout}, "
        f"vocabulary {model.vocabulary:,} ({config.tokenizer.kind}, {config.vocabularies})\n"
        f"training: {training.batch_tokens:,} tokens a step, {schedule.kind} with warm-up {schedule.warmup:,}, "
        f"{budget}, validation every {training.validate_every}; seed {training.seed}"
    )


def describe_mixers(model: Any) -> str:
    """ "4 heads" where all layers are such attention; else each kind with its number of layers, by side if they
    differ."""
    sides = {side: _count_mixers(getattr(model, side).tiled("mixer")) for side in model.sides}
    if len(set(sides.values())) == 1:
        return next(iter(sides.values()))
    return ", ".join(f"{side} {mixers}" for side, mixers in sides.items())


def _count_mixers(mixers: list[Any]) -> str:
    counts = Counter(map(_describe_mixer, mixers))
    if len(counts) == 1:
        only = next(iter(counts))
        return only.removesuffix(" of attention")
    return ", ".join(f"{name} ×{count}" for name, count in counts.items())


def _describe_mixer(mixer: Any) -> str:
    heads = f"{mixer.heads} heads" if hasattr(mixer, "heads") else ""
    return " of ".join(filter(None, [heads, mixer.kind]))
