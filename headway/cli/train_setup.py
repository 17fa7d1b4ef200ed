"""What `headway train` does between its options and the training itself."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.cli.terminal import log


def prepare(out: Path, layers: list[Any], texts: Any, start: Any, device: Any, tokenizer_of: Path | None = None) -> Any:
    """Config, texts, tokenizers and the model to start from."""
    from headway.config.sources import compose
    from headway.errors import HeadwayError
    from headway.train.prewarm import warming
    from headway.train.setup import given_tokenizers, make_tokenizers, with_vocabulary

    config, _ = compose(layers)
    if config.train.placeholders and texts.pairs:
        from headway.train.placeholders import placed

        texts = replace(texts, pairs=placed(texts.pairs, config.train.placeholders))
    own, known = start.tokenizers if start else None, known_tokenizers(out)
    if tokenizer_of:
        own, told = given_tokenizers(tokenizer_of, config)
        layers = [*layers, told]
        if known and known.spelling != own.spelling:
            raise HeadwayError(
                f"{out} holds a run with another vocabulary than that of {tokenizer_of}. Leave out --tokenizer, or "
                "choose another --out."
            )
    with warming(device):
        tokenizers = known or own or make_tokenizers(config, texts)
    config, _ = with_vocabulary(layers, tokenizers)
    log(describe(config))
    return config, texts, tokenizers, start


def run(prepared: Any, out: Path, device: Any, team: Any, tensorboard: bool, allow_changes: bool) -> None:
    from headway.cli.progress import TrainingProgress, summary
    from headway.train.run import Training

    config, texts, tokenizers, start = prepared
    progress = TrainingProgress(config)
    training = Training(
        config, texts, tokenizers, out, device, progress, tensorboard, team, allow_changes, start
    )  # fmt: skip
    try:
        outcome = training.run()
    except (KeyboardInterrupt, SystemExit):
        progress.clear()
        log(f"go on with: {shlex.join(['headway', *sys.argv[1:]])}")
        raise
    progress.clear()
    if team.first:
        summary(outcome, config)


def upper_layers(config_file: Path | None, assignments: tuple[str, ...], flags: dict[str, Any]) -> list[Any]:
    """What lies above the preset: file, environment, flags."""
    from headway.config.config import read_toml
    from headway.config.sources import Layer, assignment, environment

    named = {"seconds": "for"}
    own = {
        name: Layer(f"flag --{named.get(name, name)}", {"train": {name: value}})
        for name, value in flags.items()
        if value is not None
    }
    layers = [Layer(f"file {config_file}", read_toml(config_file))] if config_file else []
    layers += environment()
    layers += [own.pop("objective")] if "objective" in own else []  # a part, of which --set may set a field
    layers += [Layer(f"flag --set {text.partition('=')[0]}", assignment(text)) for text in assignments]
    return [*layers, *own.values()]


def known_tokenizers(out: Path) -> Any:
    """Those of a run that goes on. One that ended before its first checkpoint begins anew, maybe with other settings."""
    from headway.text import Tokenizers
    from headway.train.checkpoints import checkpoints

    if checkpoints(out) and (out / "tokenizer.json").exists():
        return Tokenizers.load(out / "tokenizer.json")
    return None


def describe(config: Any) -> str:
    """What was chosen, in two lines that a person can read."""
    model, chosen = config.model, config.train
    layers = " + ".join(str(getattr(model, side).layers) for side in model.sides)
    stack = getattr(model, model.sides[-1])
    rate = chosen.schedule
    limits = (
        ("steps", f"{chosen.steps:,}"),
        ("epochs", f"{chosen.epochs:,}"),
        ("seconds", f"{chosen.seconds:g}"),
    )
    budget = " or ".join(f"at most {limit} {unit}" for unit, limit in limits if limit != "0") or "without end"
    count = model.parameter_count()
    parameters = f"{count / 1e6:.1f} M" if count >= 1e5 else f"{count:,}"
    return (
        f"model: {parameters} parameters, {layers} layers, d_model {model.d_model}, "
        f"{_mixing(stack.mixer[0])}, {stack.residual.kind}-norm, dropout {model.dropout}, "
        f"vocabulary {model.vocabulary:,} ({config.tokenizer.kind}, {config.vocabularies})\n"
        f"training: {chosen.batch_tokens:,} tokens a step, {rate.kind} with warm-up {rate.warmup:,}, "
        f"{budget}, validation every {chosen.validate_every}; seed {chosen.seed}"
    )


def _mixing(mixer: Any) -> str:
    heads = f"{mixer.heads} heads" if hasattr(mixer, "heads") else ""
    return heads if mixer.kind == "attention" else " of ".join(filter(None, [heads, mixer.kind]))
