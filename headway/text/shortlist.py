"""Shortlists (lexical shortlists, vocabulary selection): the target tokens that a source can need. The output layer can
be computed for these alone.

Made by headway.text.align.lexicon and stored in the model directory.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from headway.errors import HeadwayError, HeadwayWarning
from headway.files.atomic import save_tensors_atomically
from headway.files.tensors import open_tensors
from headway.text.tokenizer.pair import Tokenizers

SHORTLIST_FILE = "shortlist.safetensors"
FORMAT_VERSION = "1"


@dataclass(frozen=True)
class Shortlist:
    """For each source token its possible target tokens, and those that any sentence may need.

    The lists are concatenated: those of source tokens 0, 1, 2, …, then the one for every sentence. A model with several
    target languages has all this once for each, distinguished by the tag that a source begins with.
    """

    starts: np.ndarray  # (lists + 1,) int32: list n is targets[starts[n] : starts[n + 1]]
    targets: np.ndarray  # int32
    source_size: int  # entries of the vocabularies
    target_size: int
    tags: tuple[int, ...] = ()  # source tokens
    about: Mapping[str, str] = field(default_factory=dict)  # how it was made, for information only

    def candidates(self, source_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """(C,) int64, ascending: the candidates for a source as the model reads it, with its tag and end token."""
        ids = np.unique(np.asarray(source_ids, dtype=np.int64))
        rows = self._first_list(source_ids) + np.append(ids, self.source_size)
        lists = [self.targets[self.starts[row] : self.starts[row + 1]] for row in rows]
        return np.unique(np.concatenate(lists)).astype(np.int64)

    def mask(self, rows: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
        """(N, V) bool: the candidates of several sources."""
        allowed = np.zeros((len(rows), self.target_size), dtype=bool)
        for row, ids in zip(allowed, rows):
            row[self.candidates(ids)] = True
        return allowed

    @property
    def is_fixed(self) -> bool:
        """Whether all sentences of a target language have the same candidates, so that weights can be selected once."""
        lengths = np.diff(self.starts).reshape(-1, self.source_size + 1)
        return not lengths[:, :-1].any()

    def _first_list(self, source_ids: Sequence[int] | np.ndarray) -> int:
        if not self.tags:
            return 0
        if not len(source_ids) or source_ids[0] not in self.tags:
            raise HeadwayError(
                "this model's shortlist was made without text in this target language. Make it again from text in all "
                "target languages: headway shortlist"
            )
        return self.tags.index(int(source_ids[0])) * (self.source_size + 1)

    def save(self, folder: str | Path) -> None:
        targets = self.targets.astype(np.uint16) if self.target_size <= 1 << 16 else self.targets
        tensors = {"starts": self.starts, "targets": targets, "tags": np.array(self.tags, dtype=np.int32)}
        sizes = {"source_size": str(self.source_size), "target_size": str(self.target_size)}
        about = {**self.about, **sizes, "format_version": FORMAT_VERSION}
        save_tensors_atomically(Path(folder) / SHORTLIST_FILE, tensors, about)

    @staticmethod
    def load(folder: str | Path) -> "Shortlist":
        """The shortlist of a model directory; see load_shortlist for one that may have none."""
        path = Path(folder) / SHORTLIST_FILE
        try:
            with open_tensors(path, "numpy") as file:
                about = dict(file.metadata() or {})
                version = about.pop("format_version", FORMAT_VERSION)
                starts, targets, tags = (file.get_tensor(name) for name in ("starts", "targets", "tags"))
                sizes = int(about.pop("source_size")), int(about.pop("target_size"))
        except (SafetensorError, OSError, KeyError, ValueError):
            raise _damaged(path) from None
        if version != FORMAT_VERSION:
            raise HeadwayError(
                f"{path} has format_version {version}; this Headway reads {FORMAT_VERSION}. Update Headway to read it."
            )
        if targets.dtype == np.uint16:
            targets = targets.astype(np.int32)
        shortlist = Shortlist(starts, targets, *sizes, tuple(tags.tolist()), about)
        if not shortlist._is_valid():
            raise _damaged(path)
        return shortlist

    def _is_valid(self) -> bool:
        """Whether shapes and types are right, lists are contiguous, and ids are in the vocabulary."""
        if {part.dtype for part in (self.starts, self.targets)} != {np.dtype(np.int32)}:
            return False
        lists = (self.source_size + 1) * max(len(self.tags), 1)
        if self.starts.shape != (lists + 1,) or self.targets.ndim != 1:
            return False
        steps = np.diff(self.starts)
        ends = int(self.starts[0]), int(self.starts[-1])
        if ends != (0, len(self.targets)) or (len(steps) and steps.min() < 0):
            return False
        return not len(self.targets) or (self.targets.min() >= 0 and int(self.targets.max()) < self.target_size)


class UnreadableShortlist:
    """Stands for a file that cannot be used. That is an error only where a search asks for the shortlist."""

    def __init__(self, error: HeadwayError) -> None:
        self.error = error


def load_shortlist(folders: Sequence[str | Path], tokenizers: Tokenizers) -> "Shortlist | UnreadableShortlist | None":
    """The first shortlist that exists in the model directories of an ensemble, which share a vocabulary; else None."""
    for folder in folders:
        if (Path(folder) / SHORTLIST_FILE).exists():
            try:
                return _load_fitting(folder, tokenizers)
            except HeadwayError as error:
                warnings.warn(f"the shortlist is not used: {error}", HeadwayWarning, stacklevel=2)
                return UnreadableShortlist(error)
    return None


def _load_fitting(folder: str | Path, tokenizers: Tokenizers) -> Shortlist:
    shortlist = Shortlist.load(folder)
    if (shortlist.source_size, shortlist.target_size) != (tokenizers.source.size, tokenizers.target.size):
        raise HeadwayError(
            f"{folder} is inconsistent: its {SHORTLIST_FILE} was made for {shortlist.target_size} target tokens, and "
            f"its tokenizer.json has {tokenizers.target.size}. Make the shortlist again: headway shortlist --model "
            f"{folder} …"
        )
    return shortlist


def _damaged(path: Path) -> HeadwayError:
    return HeadwayError(f"{path} is damaged. Copy it again, or make another: headway shortlist --model {path.parent} …")


def concatenate_lists(lists: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(starts, targets): the lists concatenated, and where each begins."""
    starts = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    return starts, np.concatenate([*lists, np.zeros(0, np.int32)]).astype(np.int32)


def copy_shortlist(origin: str | Path, folder: str | Path) -> None:
    """Give a model made from another with the same vocabulary its shortlist, or none if that has none."""
    if (Path(origin) / SHORTLIST_FILE).exists():
        Shortlist.load(origin).save(folder)
    else:
        (Path(folder) / SHORTLIST_FILE).unlink(missing_ok=True)
