"""From files to what training needs: text, languages, tokenizers, settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.config import Config
from headway.data.files import read_lines, read_pairs
from headway.errors import HeadwayError
from headway.layers import Layer, compose
from headway.presets import Statistics, automatic, preset
from headway.text import Tokenizer, Tokenizers
from headway.train.corpus import Corpus, Pairs, ParallelText, RunningText, dropout_of, text_stream

HELD_OUT = 1000  # lines for validation at most, where none are given


@dataclass(frozen=True, kw_only=True)
class Files:
    """What the user gave."""

    source: Sequence[str] = ()
    target: Sequence[str] = ()
    valid_source: Sequence[str] = ()
    valid_target: Sequence[str] = ()
    text: Sequence[str] = ()
    valid_text: Sequence[str] = ()
    source_languages: Sequence[str] = ()
    target_languages: Sequence[str] = ()


@dataclass
class Texts:
    """What was in it."""

    pairs: list[Pairs] = field(default_factory=list)
    valid_pairs: list[Pairs] = field(default_factory=list)
    text: str = ""
    valid_text: str = ""
    notes: list[str] = field(default_factory=list)

    def statistics(self) -> Statistics:
        if self.pairs:
            lines = sum(len(p.target) for p in self.pairs)
            words = sum(len(line.split()) for p in self.pairs for line in p.target)
            return Statistics(lines, words, sum(len(line) for p in self.pairs for line in p.target))
        return Statistics(self.text.count("\n") + 1, len(self.text.split()), len(self.text))


def read_texts(files: Files) -> Texts:
    """Read everything, or say what does not fit together."""
    if bool(files.text) == bool(files.source or files.target):
        raise HeadwayError("give --source and --target for a translator, or --text for a language model.")
    if files.text:
        return _running_text(files)
    texts = Texts(_pairs(files, files.source, files.target, "--source", "--target"))
    if files.valid_source or files.valid_target:
        texts.valid_pairs = _pairs(files, files.valid_source, files.valid_target, "--valid-source", "--valid-target")
    else:
        texts.pairs, texts.valid_pairs = _split_off(texts.pairs)
        count = sum(len(p.source) for p in texts.valid_pairs)
        texts.notes.append(f"no validation text was given: {count} pairs are held out for it")
    return texts


def language_of(path: str) -> str:
    """train.en.gz -> en; '' where the name does not say."""
    name = Path(path).name
    for ending in (".gz", ".xz", ".zst"):
        name = name.removesuffix(ending)
    suffix = Path(name).suffix.lstrip(".").lower()
    return (
        suffix if 2 <= len(suffix) <= 8 and suffix not in ("txt", "text", "tok", "raw", "train", "src", "tgt") else ""
    )


def layers_for(
    texts: Texts, files: Files, preset_name: str, objective: str, upper: Sequence[Layer]
) -> tuple[list[Layer], str]:
    """Everything that decides a config, lowest first, and what was chosen automatically."""
    if preset_name == "auto":
        name, table, reason = automatic(texts.statistics(), objective)
        chosen = Layer(f"preset {name} (auto)", table)
        reason = f"preset {name}: {reason}"
    else:
        chosen, reason = Layer(f"preset {preset_name}", preset(preset_name)), f"preset {preset_name}, as asked"
    languages = {
        "source_languages": _distinct(p.source_language for p in texts.pairs),
        "target_languages": _distinct(p.target_language for p in texts.pairs),
    }
    lowest = [chosen, Layer("objective", {"train": {"objective": objective}}), Layer("corpus", languages)]
    return [*lowest, *upper], reason


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
        streams = [text_stream(text, tokenizers.target) for text in (texts.text, texts.valid_text)]
        learned, held = (RunningText(stream, settings.longest, settings.seed) for stream in streams)
        return learned, held
    training = ParallelText(texts.pairs, tokenizers, config.tags, settings.longest, dropout_of(config))
    return training, ParallelText(texts.valid_pairs, tokenizers, config.tags, settings.longest)


def _running_text(files: Files) -> Texts:
    text = "\n".join("\n".join(read_lines(path)) for path in files.text) + "\n"
    if not text.strip():
        raise HeadwayError(f"{files.text[0]} holds no text.")
    if files.valid_text:
        return Texts(text=text, valid_text="\n".join("\n".join(read_lines(path)) for path in files.valid_text) + "\n")
    lines = text.split("\n")
    kept = max(1, int(len(lines) * 0.95))
    note = f"no validation text was given: the last {len(lines) - kept} lines are held out for it"
    return Texts(text="\n".join(lines[:kept]) + "\n", valid_text="\n".join(lines[kept:]), notes=[note])


def _pairs(files: Files, source: Sequence[str], target: Sequence[str], left: str, right: str) -> list[Pairs]:
    if len(source) != len(target):
        raise HeadwayError(f"{left} was given {len(source)} times and {right} {len(target)} times: they go in pairs.")
    found = []
    for number, (one, other) in enumerate(zip(source, target)):
        both = list(read_pairs(one, other))
        if not any(a.strip() and b.strip() for a, b in both):
            raise HeadwayError(f"{one} and {other} hold no sentence pair.")
        languages = (
            _at(files.source_languages, number) or language_of(one),
            _at(files.target_languages, number) or language_of(other),
        )
        found.append(Pairs([a for a, _ in both], [b for _, b in both], *languages))
    return found


def _split_off(pairs: list[Pairs]) -> tuple[list[Pairs], list[Pairs]]:
    """A small part of each corpus for validation, chosen by a fixed chance."""
    training: list[Pairs] = []
    valid: list[Pairs] = []
    for p in pairs:
        count = min(HELD_OUT, max(1, len(p.source) // 20))
        if count >= len(p.source):
            raise HeadwayError("a corpus of one pair cannot be split. Give --valid-source and --valid-target.")
        held = set(np.random.default_rng(0).permutation(len(p.source))[:count].tolist())
        for keep, parts in ((False, training), (True, valid)):
            rows = [i for i in range(len(p.source)) if (i in held) == keep]
            parts.append(p._replace(source=[p.source[i] for i in rows], target=[p.target[i] for i in rows]))
    return training, valid


def _at(values: Sequence[str], number: int) -> str:
    """The n-th of them; one stands for all."""
    return values[0] if len(values) == 1 else values[number] if number < len(values) else ""


def _distinct(values: Any) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]
