"""The text that a user gives to train on: read, paired, its languages known, some of it held out for validation."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headway.data.files import read_lines, read_pairs
from headway.errors import ConfigError, HeadwayError
from headway.presets import Statistics
from headway.train.corpus import Pairs

HELD_OUT = 1000  # lines for validation at most, where none are given
PACKED = (".gz", ".xz", ".zst")
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,8})*", re.IGNORECASE)
NO_LANGUAGE = {"txt", "tok", "raw", "src", "tgt", "tsv", "csv", "bpe", "dat", "trn", "dev", "tst", "lc", "tc"}


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

    def refuse(self) -> None:
        """Say what does not go together before anything is read."""
        pairs = self.source or self.target
        if bool(self.text) == bool(pairs):
            raise ConfigError("give --source and --target for a translator, or --text for a language model.")
        if self.text and (self.valid_source or self.valid_target):
            raise ConfigError(
                "a language model is validated on --valid-text, not on --valid-source and --valid-target."
            )
        if pairs and self.valid_text:
            raise ConfigError("a translator is validated on --valid-source and --valid-target, not on --valid-text.")
        for left, right, one, other in (
            ("--source", "--target", self.source, self.target),
            ("--valid-source", "--valid-target", self.valid_source, self.valid_target),
        ):
            if len(one) != len(other):
                raise ConfigError(
                    f"{left} was given {len(one)} times and {right} {len(other)} times: they go in pairs."
                )
        for name, of, given, files in (
            ("--from", "--source", self.source_languages, self.source),
            ("--to", "--target", self.target_languages, self.target),
        ):
            if len(given) not in (0, 1, len(files)):
                raise ConfigError(
                    f"{name} was given {len(given)} times and {of} {len(files)} times: give it once for all, or once "
                    "for each."
                )


@dataclass
class Texts:
    """What was in it."""

    pairs: list[Pairs] = field(default_factory=list)
    valid_pairs: list[Pairs] = field(default_factory=list)
    text: str = ""
    valid_text: str = ""
    notes: list[str] = field(default_factory=list)

    def statistics(self) -> Statistics:
        lines = [line for p in self.pairs for line in p.target] if self.pairs else self.text.splitlines()
        return Statistics(len(lines), sum(len(line.split()) for line in lines), sum(map(len, lines)))


def read_texts(files: Files) -> Texts:
    """Read everything, or say what does not fit together."""
    files.refuse()
    if files.text:
        return _running_text(files)
    texts = Texts(_pairs(files, files.source, files.target))
    _refuse_unknown_languages(texts.pairs)
    if files.valid_source:
        texts.valid_pairs = _pairs(files, files.valid_source, files.valid_target)
    else:
        texts.pairs, texts.valid_pairs = _split_off(texts.pairs)
        count = sum(len(p.source) for p in texts.valid_pairs)
        texts.notes.append(f"no validation text was given: {count} pairs are held out for it")
    return texts


def language_of(path: str) -> str:
    """train.en.gz -> en; '' where the name does not say."""
    name = Path(path).name
    for ending in PACKED:
        name = name.removesuffix(ending)
    suffix = Path(name).suffix.lstrip(".").lower()
    return suffix if LANGUAGE.fullmatch(suffix) and suffix not in NO_LANGUAGE else ""


def distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


def _running_text(files: Files) -> Texts:
    text = _all_lines(files.text)
    if files.valid_text:
        return Texts(text=text, valid_text=_all_lines(files.valid_text))
    lines = text.removesuffix("\n").split("\n")
    held = min(HELD_OUT, len(lines) // 20) or 1
    kept, last = lines[:-held], lines[-held:]
    if not "".join(kept).strip() or not "".join(last).strip():
        raise HeadwayError(f"{files.text[0]} is too short to hold some of it out. Give --valid-text as well.")
    note = f"no validation text was given: the last {held} lines are held out for it"
    return Texts(text="\n".join(kept) + "\n", valid_text="\n".join(last) + "\n", notes=[note])


def _all_lines(paths: Sequence[str]) -> str:
    text = "".join(f"{line}\n" for path in paths for line in read_lines(path))
    if not text.strip():
        raise HeadwayError(f"{' and '.join(paths)}: there is no text in it.")
    return text


def _pairs(files: Files, source: Sequence[str], target: Sequence[str]) -> list[Pairs]:
    found = []
    for number, (one, other) in enumerate(zip(source, target)):
        # Without the space around a line, as a translator reads it later.
        both = [(a.strip(), b.strip()) for a, b in read_pairs(one, other)]
        if not any(a and b for a, b in both):
            raise HeadwayError(f"{one} and {other} hold no sentence pair.")
        languages = (
            _at(files.source_languages, number, len(source)) or language_of(one),
            _at(files.target_languages, number, len(target)) or language_of(other),
        )
        found.append(Pairs([a for a, _ in both], [b for _, b in both], *languages))
    return found


def _at(values: Sequence[str], number: int, count: int) -> str:
    """The language of the n-th of `count` files: one stands for all."""
    if len(values) == 1:
        return values[0]
    return values[number] if len(values) == count else ""


def _refuse_unknown_languages(pairs: Sequence[Pairs]) -> None:
    """Several target languages are told apart by their names, so each must have one."""
    known = dict.fromkeys(p.target_language for p in pairs)
    if len(known) > 1 and "" in known:
        names = ", ".join(distinct(known))
        raise ConfigError(f"some targets are {names}, and the language of others is not known: give --to for each.")


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
