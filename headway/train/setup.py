"""From text to what training needs: settings, tokenizers, examples."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from headway.config.catalogue import find
from headway.config.config import Config
from headway.config.presets import automatic, preset
from headway.config.schema import expand
from headway.config.sources import Layer, compose
from headway.data.corpora import Parallel, Running
from headway.data.epoch_encoder import EpochEncoder
from headway.errors import ConfigError, HeadwayError
from headway.files.cache import cached, fingerprint
from headway.nn.transformer import Transformer
from headway.storage.model_dir import WEIGHTS, fill, load_model
from headway.storage.packing import is_packed
from headway.storage.registry import directory
from headway.text import Tokenizer, Tokenizers
from headway.train.alignment_links import links_of
from headway.train.dataset import Corpus, ParallelText, dropout_of, sides_of
from headway.train.lm_dataset import Lanes, RunningText, held_out, text_stream
from headway.train.resume import changes
from headway.train.sources import Files, Texts, distinct

FEW = 8192  # tokens a step: enough to move a model, and a step that a CPU takes in seconds
GENTLE = "inverse_sqrt(0.0003, warmup=200)"  # a rate of Adam's that improves a model without making it forget


class Start(NamedTuple):
    """A model to fine-tune."""

    folder: Path
    config: Config
    tokenizers: Tokenizers
    weights: dict[str, Tensor]

    @staticmethod
    def read(folder: str) -> "Start":
        config, model, tokenizers = load_model(folder)
        if is_packed(config):
            raise HeadwayError(
                f"{folder} is packed: the float weights that training changes are gone. Give the model that it was packed "
                "from."
            )
        return Start(Path(folder), config, tokenizers, model.state_dict())

    def layers(self, texts: Texts) -> list[Layer]:
        """Its own settings, and what is different when a model is only moved a little."""
        for name, known, given in (
            ("source", self.config.source_languages, [p.source_language for p in texts.pairs]),
            ("target", self.config.target_languages, [p.target_language for p in texts.pairs]),
        ):
            strange = [language for language in given if language and known and language not in known]
            if strange:
                raise ConfigError(
                    f'{self.folder} has the {name} language {", ".join(known)}, and this text is "{strange[0]}". Train a '
                    "new model, or give text in its languages."
                )
        steps = max(500, self.config.train.steps // 10)
        moved = {"steps": steps, "epochs": 0, "seconds": 0, "validate_every": max(50, steps // 20), "schedule": GENTLE}
        if self.config.train.optimiser.kind not in ("adam", "adamw"):
            moved["optimiser"] = "adam"  # the rate means something else to others
        here: dict[str, Any] = {"precision": "auto", "compile": "auto"}  # it may have been made on another machine
        here["batch_tokens"] = min(self.config.train.batch_tokens, FEW)
        return [Layer(f"model {self.folder}", self.config.to_dict()), Layer("fine-tuning", {"train": moved | here})]

    def fill(self, model: Transformer, config: Config) -> None:
        """With these weights, which a changed architecture does not fit."""
        try:
            fill(model, self.weights, self.folder / WEIGHTS)
        except HeadwayError:
            told = [change.told for change in changes(self.config, config) if change.path.startswith("model.")]
            if not told:
                raise
            raise HeadwayError(
                f"the weights of {self.folder} do not fit another architecture: {'; '.join(told[:3])}. Leave these settings "
                "as they are, or train a new model without --from-model."
            ) from None


def layers_for(
    texts: Texts, files: Files, preset_name: str, upper: Sequence[Layer], start: Start | None = None
) -> tuple[list[Layer], str]:
    """Everything that decides a config, lowest first, and what was chosen and why. `upper`: file, environment, flags."""
    by_text = "translation" if texts.pairs else "causal"
    if start is not None:
        layers, reason = start.layers(texts), f"the settings of {start.folder}, to begin with"
        objective = start.config.train.objective.kind
    elif preset_name == "auto":
        objective = _objective(upper) or by_text
        name, table, reason = automatic(texts.statistics(), objective)
        layers, reason = [Layer(f"preset {name} (auto)", table)], f"preset {name}: {reason}"
    else:
        layers, reason = [Layer(f"preset {preset_name}", preset(preset_name))], f"preset {preset_name}, as asked"
        objective = _objective([*layers, *upper]) or by_text
    if (objective == "translation") != bool(texts.pairs):
        given, needed = ("pairs", "--text") if texts.pairs else ("--text", "--source and --target, or --pairs")
        raise ConfigError(
            f"the objective {objective} learns from {needed}, not from {given}. Give that, or choose another --objective "
            "or --preset."
        )
    if start is not None:
        return [*layers, *upper], reason
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


def given_tokenizers(given: Path, config: Config) -> tuple[Tokenizers, Layer]:
    """Those that another model has, by its directory, its name or their file, and what the config must say of them."""
    if given.is_file() or given.suffix == ".json":
        file = given
    else:
        file = (given if given.is_dir() else Path(directory(given))) / "tokenizer.json"
    tokenizers = Tokenizers.load(file)
    missing = [tag for tag in config.tags if tag not in tokenizers.source.tags]
    if missing:
        raise ConfigError(
            f"{file} has no tag for {', '.join(missing)}: it was made for other languages. Leave out --tokenizer, or take "
            "that of a model with the same target languages."
        )
    said: dict[str, Any] = {"vocabularies": "shared" if tokenizers.shared else "separate"}
    if config.tokenizer.kind != tokenizers.target.kind:
        said["tokenizer"] = tokenizers.target.kind
    return tokenizers, Layer("flag --tokenizer", said)


def make_tokenizers(config: Config, texts: Texts) -> Tokenizers:
    """Learned from the training text alone, unless the same was learned before."""
    part = json.dumps(config.tokenizer.to_dict(), sort_keys=True)
    key = fingerprint([texts.identity, part, config.vocabularies, *config.tags])
    return cached(
        "tokenizer",
        key,
        lambda folder: _learned(config, texts).save(folder / "tokenizer.json"),
        lambda folder: Tokenizers.load(folder / "tokenizer.json"),
    )


def _learned(config: Config, texts: Texts) -> Tokenizers:
    if texts.text:
        one = Tokenizer.train(Lines([texts.text]), config.tokenizer)
        return Tokenizers(one, one)
    if config.vocabularies == "shared":
        both = Tokenizer.train(Lines(texts.pairs, (0, 1)), config.tokenizer, tags=config.tags)
        return Tokenizers(both, both)
    source, target = (Lines(texts.pairs, (side,)) for side in (0, 1))
    return Tokenizers(
        Tokenizer.train(source, config.tokenizer, tags=config.tags), Tokenizer.train(target, config.tokenizer)
    )


@dataclass(frozen=True)
class Lines:
    """Everything that a tokenizer learns from, read anew each time: running text, or sides of pairs."""

    texts: Sequence[Parallel | Running]
    sides: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[str]:
        for side in self.sides or (0,):
            for text in self.texts:
                if isinstance(text, Running):
                    yield from (f"{line}\n" for line in text.read())
                else:
                    yield from (pair[side] for pair in text.read())


def with_vocabulary(layers: Sequence[Layer], tokenizers: Tokenizers) -> tuple[Config, dict[str, str]]:
    """The config once the tokenizer is known."""
    sizes: dict[str, Any] = {"vocabulary": tokenizers.target.size, "source_vocabulary": tokenizers.source.size}
    model: dict[str, Any] = {"model": sizes}
    config, _ = compose(layers)
    if config.vocabularies == "separate" and config.model.embedding.tied == "all":
        sizes["embedding"] = {"tied": "target"}
    return compose([*layers, Layer("tokenizer", model)])


def make_corpora(
    config: Config, texts: Texts, tokenizers: Tokenizers, scratch: Path, writes: bool = True
) -> tuple[Corpus, Corpus]:
    """For training and for validation. Text that is encoded anew in every epoch goes to `scratch`; of several
    processes that train together, one writes it."""
    settings = config.train
    if texts.text and texts.valid_text:
        learned, held = (text_stream(text, tokenizers.target) for text in (texts.text, texts.valid_text))
        measured = held_out(held, settings.longest, settings.objective)
        if settings.objective.carry:
            return Lanes(learned, settings.longest, settings.batch_tokens, settings.seed), measured
        return RunningText(learned, settings.longest, settings.seed, settings.objective.ahead), measured
    respelled = None
    if dropout := dropout_of(config):
        corpora = [(p.origin, sides_of(p, tokenizers, config.tags)) for p in texts.pairs]
        own = scratch / fingerprint([*(p.identity for p in texts.pairs), *tokenizers.spelling, str(dropout)])
        for other in [folder for folder in scratch.glob("*") if writes and folder != own]:
            shutil.rmtree(other, ignore_errors=True)  # of other text, which nobody goes on with
        respelled = EpochEncoder(own, corpora, dropout, writes)
        respelled.begin()
    links = [] if settings.alignment.kind == "none" else links_of(texts.pairs)
    training = ParallelText(texts.pairs, tokenizers, config.tags, settings.longest, respelled, links)
    return training, ParallelText(texts.valid_pairs, tokenizers, config.tags, settings.longest)
