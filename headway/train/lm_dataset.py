"""Running text as a language model sees it: one long row of ids, in pieces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.batches import piece_starts
from headway.data.corpora import Running
from headway.data.encoding import Side, encode_rows, encode_to
from headway.data.ragged import open_rows
from headway.files.cache import cached, fingerprint
from headway.text import Tokenizer
from headway.text.tokenizer.vocabulary import utf8
from headway.train.dataset import PORTION, Corpus, Portion
from headway.train.objectives import Example

PIECE = 100_000  # characters that are encoded together


def line_end(tokenizer: Tokenizer) -> int:
    """What every text stands behind, read or learned from: the end of a line, as the lines within it do. The start token
    where line ends are not told from spaces."""
    found = tokenizer.encode("x\n")[len(tokenizer.encode("x")) :]
    return found[0] if found else tokenizer.start


def behind_line_end(text: str, tokenizer: Tokenizer) -> list[int]:
    """A text as it is spelled behind the end of a line. By itself its first word would be spelled as behind a space."""
    utf8(text)  # says what is no text, by its place in this one
    before = "x" if text[:1].isspace() else "x\n"  # spaces would be spelled together with the line end
    return tokenizer.encode(before + text)[len(tokenizer.encode(before)) :]


def text_stream(text: Running, tokenizer: Tokenizer) -> np.ndarray:
    """A text as one row of ids, behind the end of a line; from the cache where it is there."""

    def build(folder: Path) -> None:
        pieces = _pieces(text.read())
        first = [line_end(tokenizer), *behind_line_end(next(pieces, ""), tokenizer)]
        encode_to(folder, ((piece,) for piece in pieces), [Side("text", tokenizer)], first)

    key = fingerprint([text.identity, tokenizer.fingerprint(), "behind a line end"])
    flat: np.ndarray = cached("text", key, build, lambda folder: open_rows(folder, "text").flat)
    return flat


def text_ids(text: str, tokenizer: Tokenizer) -> np.ndarray:
    """The same of a text in memory."""
    *pieces, last = _pieces(iter(text.split("\n")))
    first, *others = [*pieces, last[:-1]]  # the last line has no end
    opening = [line_end(tokenizer), *behind_line_end(first, tokenizer)]
    return np.concatenate([opening, encode_rows(tokenizer, others).flat])


def _pieces(lines: Iterator[str], size: int = PIECE) -> Iterator[str]:
    """Large pieces, cut before the end of a line so that no token is torn: the tokenizer's work grows with a piece's
    length. A line that is longer than a piece is cut where it must be."""
    piece = ""
    for line in lines:
        if piece and len(piece) + len(line) > size:
            yield piece.removesuffix("\n")
            piece = "\n" if piece.endswith("\n") else ""
        piece += f"{line}\n"
        while len(piece) > 2 * size:
            yield piece[:size]
            piece = piece[size:]
    if piece:
        yield piece


class RunningText:
    """One long text, cut into pieces, at other places in each epoch. `ahead`: tokens behind a piece that are only guessed,
    one where the next token is."""

    left_out = ""

    def __init__(self, stream: np.ndarray, length: int, seed: int, ahead: int = 1) -> None:
        self.stream, self.length, self.seed, self.ahead = stream, length, seed, ahead

    @property
    def size(self) -> int:
        return max(len(self.stream) - self.ahead, 0)  # where the next token is guessed, the first is only read

    def epoch(self, number: int) -> Iterator[Portion]:
        starts = piece_starts(self.size + 1, self.length, self.seed, number)
        parts = -(-len(starts) // PORTION)
        for part in np.random.default_rng([number, parts]).permutation(parts).tolist():
            chosen = starts[len(starts) * part // parts : len(starts) * (part + 1) // parts]
            yield self._portion(chosen)._replace(portions=parts)

    def close(self) -> None:
        """Nothing is running."""

    def _portion(self, starts: np.ndarray) -> Portion:
        ends = np.minimum(starts + self.length, self.size)
        lengths = np.stack([np.zeros_like(starts), ends - starts], axis=1)
        return Portion(Pieces(self.stream, starts, ends + self.ahead), lengths)


class WholeText(RunningText):
    """The same to measure on: from its first token to its last, the last piece shorter."""

    def __init__(self, stream: np.ndarray, length: int, ahead: int = 1) -> None:
        super().__init__(stream, length, 0, ahead)

    def epoch(self, number: int) -> Iterator[Portion]:
        yield self._portion(np.arange(0, self.size, self.length))


class Lanes:
    """One long text read by several rows side by side, each of which goes on in a batch where it stopped in the batch
    before. Every row reads its own stretch; with a seed the text begins elsewhere in each epoch."""

    left_out = ""
    FEWEST = 4  # pieces that a row reads at least, else there is nothing to remember

    def __init__(self, stream: np.ndarray, length: int, budget: int, seed: int | None = None) -> None:
        self.stream, self.length, self.seed = stream, length, seed
        self.size = max(len(stream) - 1, 0)  # the first token is only read
        self.rows = max(1, min(budget // length, self.size // (length * self.FEWEST)))

    def epoch(self, number: int) -> Iterator[Portion]:
        shift = 0 if self.seed is None else int(np.random.default_rng([self.seed, number]).integers(self.length))
        shift = min(shift, max(self.size - 1, 0))
        bounds = shift + np.arange(self.rows + 1) * (self.size - shift) // self.rows  # of the stretches
        pieces = -(-int(np.diff(bounds).max(initial=0)) // self.length)
        starts = bounds[:-1, None] + np.arange(pieces) * self.length  # (rows, pieces)
        ends = np.minimum(starts + self.length, bounds[1:, None])
        starts = np.minimum(starts, ends)
        lengths = np.stack([np.zeros(starts.size, np.int64), (ends - starts).ravel() + 1], axis=1)
        columns = np.arange(starts.size).reshape(starts.shape).T
        yield Portion(Pieces(self.stream, starts.ravel(), ends.ravel() + 1), lengths, list(columns))

    def close(self) -> None:
        """Nothing is running."""


def held_out(stream: np.ndarray, length: int, objective: Any) -> Corpus:
    """A whole text to measure on."""
    if objective.carry:
        return Lanes(stream, length, budget=8 * length)
    return WholeText(stream, length, objective.ahead)


class Pieces:
    def __init__(self, stream: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self.stream, self.starts, self.ends = stream, starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Example:
        return Example(self.stream[:0], self.stream[self.starts[index] : self.ends[index]])
