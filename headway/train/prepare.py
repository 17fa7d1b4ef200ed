"""From text to what training needs: settings, tokenizers, examples."""

from collections.abc import Sequence
from typing import Any

from headway.catalogue import find
from headway.config import Config
from headway.errors import ConfigError
from headway.layers import Layer, compose
from headway.parts import expand
from headway.presets import automatic, preset
from headway.text import Tokenizer, Tokenizers
from headway.train.corpus import Corpus, ParallelText, RunningText, WholeText, dropout_of, text_stream
from headway.train.texts import Files, Texts, distinct


def layers_for(texts: Texts, files: Files, preset_name: str, upper: Sequence[Layer]) -> tuple[list[Layer], str]:
    """Everything that decides a config, lowest first, and what was chosen and why. `upper`: file, environment, flags."""
    by_text = "translation" if texts.pairs else "causal"
    if preset_name == "auto":
        objective = _objective(upper) or by_text
        name, table, reason = automatic(texts.statistics(), objective)
        layers, reason = [Layer(f"preset {name} (auto)", table)], f"preset {name}: {reason}"
    else:
        layers, reason = [Layer(f"preset {preset_name}", preset(preset_name))], f"preset {preset_name}, as asked"
        objective = _objective([*layers, *upper]) or by_text
    if (objective == "translation") != bool(texts.pairs):
        given, needed = ("--source and --target", "--text") if texts.pairs else ("--text", "--source and --target")
        raise ConfigError(
            f"the objective {objective} learns from {needed}, not from {given}. Give that, or choose another --objective "
            "or --preset."
        )
    if _objective([*layers, *upper]) != objective:
        layers.append(Layer("the text given", {"train": {"objective": objective}}))
    return [*layers, *_languages(texts, files, asked=False), *upper, *_languages(texts, files, asked=True)], reason


def _languages(texts: Texts, files: Files, asked: bool) -> list[Layer]:
    """Those that flags name, which lie above all; or those that the files' names tell, which lie below."""
    sides = (
        ("source_languages", "--from", files.source_languages, [p.source_language for p in texts.pairs]),
        ("target_languages", "--to", files.target_languages, [p.target_language for p in texts.pairs]),
    )
    return [
        Layer(f"flag {flag}" if asked else "the files' names", {key: distinct(languages)})
        for key, flag, given, languages in sides
        if bool(given) == asked
    ]


def _objective(layers: Sequence[Layer]) -> str:
    """The last word of these layers on it."""
    for layer in reversed(layers):
        train = layer.values.get("train")
        value = train.get("objective") if isinstance(train, dict) else None
        kind = expand("objective", value)["kind"] if isinstance(value, str) else (value or {}).get("kind")
        if kind:
            return find("objective", kind).kind
    return ""


def make_tokenizers(config: Config, texts: Texts) -> Tokenizers:
    """Learned from the training text alone."""
    if not texts.pairs:
        one = Tokenizer.train(texts.text.splitlines(keepends=True), config.tokenizer)
        return Tokenizers(one, one)
    source = [line for p in texts.pairs for line in p.source]
    target = [line for p in texts.pairs for line in p.target]
    if config.vocabularies == "shared":
        both = Tokenizer.train([*source, *target], config.tokenizer, tags=config.tags)
        return Tokenizers(both, both)
    return Tokenizers(
        Tokenizer.train(source, config.tokenizer, tags=config.tags), Tokenizer.train(target, config.tokenizer)
    )


def with_vocabulary(layers: Sequence[Layer], tokenizers: Tokenizers) -> tuple[Config, dict[str, str]]:
    """The config once the tokenizer is known."""
    sizes: dict[str, Any] = {"vocabulary": tokenizers.target.size, "source_vocabulary": tokenizers.source.size}
    model: dict[str, Any] = {"model": sizes}
    config, _ = compose(layers)
    if config.vocabularies == "separate" and config.model.embedding.tied == "all":
        sizes["embedding"] = {"tied": "target"}
    return compose([*layers, Layer("tokenizer", model)])


def make_corpora(config: Config, texts: Texts, tokenizers: Tokenizers) -> tuple[Corpus, Corpus]:
    """For training and for validation."""
    settings = config.train
    if not texts.pairs:
        learned, held = (text_stream(text, tokenizers.target) for text in (texts.text, texts.valid_text))
        return RunningText(learned, settings.longest, settings.seed), WholeText(held, settings.longest)
    training = ParallelText(texts.pairs, tokenizers, config.tags, settings.longest, dropout_of(config))
    return training, ParallelText(texts.valid_pairs, tokenizers, config.tags, settings.longest)
