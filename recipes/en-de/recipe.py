"""What the steps share: the corpora, the folders, and how `headway` is called."""

import lzma
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # Headway is found where it was not installed
LANGUAGES = ("en", "de")
PLACED = "placed"  # what pairs with placeholders are called
TARGETS = {"de": "en-de", "en": "de-en"}  # a target language, and its direction as files are named


@dataclass(frozen=True, kw_only=True)
class Corpus:
    name: str
    files: list[str]
    pieces: int
    taught: int
    weight: float
    keep: tuple[str, ...] = ()
    held_out: int = 0  # to validate on
    tested: int = 0  # to measure on

    @property
    def parts(self) -> list[str]:
        """The names of its pieces."""
        return [f"{self.name}.{number}" for number in range(1, self.pieces + 1)]


def corpora(path: Path = HERE / "corpora.toml") -> list[Corpus]:
    return [Corpus(name=name, **table) for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items()]


def headway(*words: Any) -> None:
    """Run `headway ...` in this process, and exit if it fails."""
    from headway.cli import main

    told = [str(word) for word in words]
    print(f"$ headway {shlex.join(told)}", file=sys.stderr, flush=True)
    code = main(told)
    if code:
        sys.exit(code)


def rows(path: Path) -> Iterator[list[str]]:
    """The cells of a TSV file, plain or compressed."""
    with (
        lzma.open(path, "rt", encoding="utf-8", newline="\n")
        if path.suffix == ".xz"
        else path.open(encoding="utf-8", newline="\n") as file
    ):
        for line in file:
            yield line.rstrip("\n").split("\t")
