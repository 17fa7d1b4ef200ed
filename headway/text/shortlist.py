"""Which words a translation is likely to need, told from its source: all others can be left out of the output layer.

Made by headway.text.align.lexicon, kept beside a model. No torch here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from headway.errors import HeadwayError
from headway.files.atomic import whole
from headway.text.tokenizer.pair import Tokenizers

SHORTLIST = "shortlist.safetensors"
FORMAT_VERSION = "1"


@dataclass(frozen=True)
class Shortlist:
    """For each source token the target tokens that it may become, and those that any sentence may need.

    The lists lie one behind the other: those of source tokens 0, 1, 2, …, then the one for every sentence. A model with
    several target languages has all this once for each, told apart by the tag with which a source begins.
    """

    starts: np.ndarray  # (lists + 1,) int32: list n is targets[starts[n] : starts[n + 1]]
    targets: np.ndarray  # int32
    source_size: int  # entries of the vocabularies
    target_size: int
    tags: tuple[int, ...] = ()  # source tokens
    about: Mapping[str, str] = field(default_factory=dict)  # how it was made, for people

    def candidates(self, source_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """(C,) int64, ascending: what may be said of a source as the model reads it, with its tag and its end."""
        ids = np.unique(np.asarray(source_ids, dtype=np.int64))
        rows = self._first(source_ids) + np.append(ids, self.source_size)
        lists = [self.targets[self.starts[row] : self.starts[row + 1]] for row in rows]
        return np.unique(np.concatenate(lists)).astype(np.int64)

    def mask(self, rows: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
        """(N, V) bool: the same for several sources."""
        allowed = np.zeros((len(rows), self.target_size), dtype=bool)
        for own, ids in zip(allowed, rows):
            own[self.candidates(ids)] = True
        return allowed

    @property
    def fixed(self) -> bool:
        """Whether every sentence of a target language has the same candidates, so that they can be cut out once."""
        lengths = np.diff(self.starts).reshape(-1, self.source_size + 1)
        return not lengths[:, :-1].any()

    def _first(self, source_ids: Sequence[int] | np.ndarray) -> int:
        if not self.tags:
            return 0
        if not len(source_ids) or source_ids[0] not in self.tags:
            raise HeadwayError(
                "this model's shortlist was made without text in this target language. Make it anew from text in all of "
                "them: headway shortlist"
            )
        return self.tags.index(int(source_ids[0])) * (self.source_size + 1)

    def save(self, folder: str | Path) -> None:
        targets = self.targets.astype(np.uint16) if self.target_size <= 1 << 16 else self.targets
        tensors = {"starts": self.starts, "targets": targets, "tags": np.array(self.tags, dtype=np.int32)}
        sizes = {"source_size": str(self.source_size), "target_size": str(self.target_size)}
        with whole(Path(folder) / SHORTLIST) as partial:
            save_file(tensors, partial, {**self.about, **sizes, "format_version": FORMAT_VERSION})

    @staticmethod
    def load(folder: str | Path) -> "Shortlist":
        """That of a model directory; see shortlist_of where it may have none."""
        path = Path(folder) / SHORTLIST
        try:
            with safe_open(path, framework="numpy") as file:
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
        found = Shortlist(starts, targets, *sizes, tuple(tags.tolist()), about)
        if not found._sound():
            raise _damaged(path)
        return found

    def _sound(self) -> bool:
        """Whether no list reaches beyond the others, and no entry beyond the vocabulary."""
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


def shortlist_of(folders: Sequence[str | Path], tokenizers: Tokenizers) -> Shortlist | None:
    """The first that there is: models that vote have the same words."""
    for folder in folders:
        if (Path(folder) / SHORTLIST).exists():
            found = Shortlist.load(folder)
            if (found.source_size, found.target_size) != (tokenizers.source.size, tokenizers.target.size):
                raise HeadwayError(
                    f"{folder} does not fit together: its {SHORTLIST} was made for {found.target_size} target tokens, and "
                    f"its tokenizer.json knows {tokenizers.target.size}. Make it anew: headway shortlist --model {folder} …"
                )
            return found
    return None


def _damaged(path: Path) -> HeadwayError:
    return HeadwayError(f"{path} is damaged. Copy it anew, or make another: headway shortlist --model {path.parent} …")


def joined_lists(lists: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Lists one behind the other, and where each begins."""
    starts = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    return starts, np.concatenate([*lists, np.zeros(0, np.int32)]).astype(np.int32)


def keep_shortlist(origin: str | Path, folder: str | Path) -> None:
    """For a model made from another with the same words: the same shortlist, or none where that has none."""
    if (Path(origin) / SHORTLIST).exists():
        Shortlist.load(origin).save(folder)
    else:
        (Path(folder) / SHORTLIST).unlink(missing_ok=True)
