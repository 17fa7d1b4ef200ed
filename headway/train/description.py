"""A config in two lines, for people."""

from collections import Counter
from typing import Any

from headway.config.config import Config
from headway.nn.layers.lora import lora_layers
from headway.nn.transformer import Transformer


def describe_config(config: Config) -> str:
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


def describe_adapter(model: Transformer) -> str:
    """How much of a model an adapter trains."""
    layers = lora_layers(model)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    base = sum(parameter.numel() for parameter in model.parameters()) - trained
    return f"adapter: {trained:,} weights in {len(layers)} linear layers, {trained / base:.1%} of the model's {base:,}"


def describe_mixers(model: Transformer.Config) -> str:
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
