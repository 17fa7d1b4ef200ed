"""Command lines made up from what the verbs themselves say of their options, so that a new one is driven unasked."""

import random
import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import click

from headway.cli.app import Verb, app
from properties.hostile_text import ODD

WRITES = ("--out", "--output", "--png", "--svg", "--html", "--save", "--trace", "--cache", "--clean")
Values = tuple[list[str], list[str]]  # of the right kind, and others
NUMBERS: Values = (["1", "2", "3", "5"], ["0", "-1", "100", "99999999999999999999", "1.5", "", "x", "nan", "٣"])
FRACTIONS: Values = (["0.5", "1", "2.5"], ["0", "-1", "1e-300", "1e400", "nan", "inf", "-inf", "", "x"])
SETTINGS: Values = (
    ["train.seed=2", "search.beam_size=2", "model.decoder.position=rope", "model.decoder.mask=causal & local(2)"],
    ["train.seed=x", "model.d_model=7", "x", "=", "a.b=1", "train.steps=-1", "train.optimiser=sgd(", "..=1"],
)
NAMES = {"--to": "qtx", "--from": "en", "--device": "cpu", "--preset": "tiny", "--for": "1s", "--tag": "<x>"}
WORDS = ["cpu", "en", "qtx", "de", "base", "auto", "", "-", "x", "\u2028", "1", "bleu", "ü", "--", "1e9"]


@dataclass
class CasePaths:
    """What a path on the command line can name."""

    folder: Path  # of this case
    files: list[Path]
    models: list[Path]

    def some(self, chance: random.Random, good: list[Path]) -> str:
        wrong = [self.folder / "missing.en", self.folder / "empty-folder", *self.files, *self.models, Path("-")]
        return str(chance.choice(good if chance.random() < 0.85 else wrong))

    def new(self, chance: random.Random) -> str:
        names = ["new", "deep/er/new", "empty-folder", f"{self.files[0].name}/under-a-file", "new.tsv", "new.png"]
        return str(self.folder / chance.choice(names))


def one_of(values: Values, chance: random.Random) -> str:
    return chance.choice(values[chance.random() > 0.85])


def words_for(option: click.Option, chance: random.Random, paths: CasePaths) -> list[str]:
    """An option with a value that is mostly of the right kind."""
    name = chance.choice(option.opts)
    if option.is_flag:
        return [chance.choice([name, *option.secondary_opts])]
    kind, metavar = option.type, (option.metavar or "").upper()
    if set(option.opts) & set(WRITES):
        value = paths.new(chance)
    elif metavar == "DIR" or "model" in (option.name or ""):
        value = paths.some(chance, paths.models)
    elif metavar == "FILE" or isinstance(kind, click.Path | click.File):
        value = paths.some(chance, paths.files)
    elif isinstance(kind, click.Choice):
        value = one_of((list(map(str, kind.choices)), ["x", ""]), chance)
    elif isinstance(kind, click.types.IntParamType):
        value = one_of(NUMBERS, chance)
    elif isinstance(kind, click.types.FloatParamType):
        value = one_of(FRACTIONS, chance)
    elif "=" in metavar:
        value = one_of(SETTINGS, chance)
    else:
        value = one_of(([NAMES[known] for known in option.opts if known in NAMES] or WORDS, WORDS), chance)
    return [f"{name}={value}"] if name.startswith("--") and chance.random() < 0.1 else [name, value]


def command_line(verb: str, chance: random.Random, paths: CasePaths) -> list[str]:
    """An example from the verb's help, or nothing but the verb, and then options and arguments as they come."""
    command = app.get_command(click.Context(app), verb)
    assert isinstance(command, Verb)
    likely = chance.random() < 0.7
    words = example(chance.choice(command.examples)[0], paths) if likely else [verb]
    density = chance.choice([0.0, 0.03, 0.1]) if likely else chance.choice([0.1, 0.3])
    for parameter in chance.sample(command.params, len(command.params)):
        if isinstance(parameter, click.Option) and parameter.name != "debug":
            often = 0.95 if parameter.required and not likely else density
            while chance.random() < often:
                words += words_for(parameter, chance, paths)
                often = 0.2 if parameter.multiple else 0.0
        elif chance.random() < density:
            words.append(chance.choice([*ODD[3:-3], "A dog sees a house."]).replace("\x00", ""))
    if chance.random() < 0.1:
        words = written_over(words, chance, paths)
    return [*words, *small_training(words)] if verb == "train" else words


def written_over(words: list[str], chance: random.Random, paths: CasePaths) -> list[str]:
    """The same, but what is to be written is something that is read."""
    known = {*map(str, paths.files), *map(str, paths.models)}
    read = [word for before, word in pairwise(words) if word in known and before not in WRITES]
    if not read:
        return words
    return [words[0]] + [chance.choice(read) if before in WRITES else word for before, word in pairwise(words)]


def example(command: str, paths: CasePaths) -> list[str]:
    """An example with names of what is there in place of those that it has."""
    words = re.split(r" [<>] ", command)[0]
    found: list[str] = []
    for word in shlex.split(words)[1:]:
        before = found[-1] if found else ""
        ending = Path(word).suffix
        if before in WRITES or before == "-o":
            found.append(str(paths.folder / f"new{''.join(Path(word).suffixes)}"))
        elif before in ("--model", "-m", "--compare"):
            found.append(str(paths.models[5 if word.endswith("lm") else 0]))
        elif before.startswith("-") and ending in STANDS_FOR:
            found.append(str(paths.files[STANDS_FOR[ending]]))
        else:
            found.append(word)
    return found


# Which of the files stands for one with this ending in an example.
STANDS_FOR = {".en": 0, ".de": 1, ".txt": 2, ".tsv": 3, ".jsonl": 4, ".toml": 5, ".json": 6, ".xz": 1, ".gz": 1}


def small_training(words: list[str]) -> list[str]:
    """What makes a training small, whatever was said before."""
    sides = ["encoder", "decoder"]
    if "--text" in words:
        sides = ["encoder"] if "masked" in words else ["decoder"]
    small = ["tokenizer.size=384", "model.d_model=16", "train.batch_tokens=256", "train.max_tokens=32"]
    small += ["train.validate_every=2", "train.average=1", "train.micro_batch_tokens=256"]
    for side in sides:
        small += [f"model.{side}.layers=1", f"model.{side}.mixer=attention(2)", f"model.{side}.feedforward=relu(16)"]
    return [*(word for setting in small for word in ("--set", setting)), "--steps", "2"]
