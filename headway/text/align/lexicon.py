"""What each source token is translated by, counted in parallel text: from this, shortlists are made. No torch here.

An aligner learns from some of the pairs, with tokens for words. Then the rest is read once: each target token counts for
the source tokens that probably say it. What is kept does not grow with the text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from headway.text.align.aligner import Aligner, groups_of, learn_aligner
from headway.text.align.hmm import posterior
from headway.text.shortlist import Shortlist, joined_lists
from headway.text.tokenizer.pair import Tokenizers

LEARNED = 10_000  # pairs for the aligner: more of them find little more, and take longer than all the counting
LONGEST = 256  # tokens a side; longer pairs are passed over
GROUP = 2048  # pairs read together
UNMET = 1e-4  # the chance of two tokens that the aligner did not see together. So high, its sample may be small
LEAST = 0.01  # a link less likely than this is not counted
PENDING = 4_000_000  # links counted together
SPARE = 4  # as many times the tokens wanted are kept of each source token until all is read

Ids = tuple[list[int], list[int]]
Pairs = Callable[[], Iterable[tuple[str, str]]]  # the same pairs each time


@dataclass
class Lexicon:
    """How often each source token became each target token, and how often each target token occurs."""

    tokenizers: Tokenizers
    best: int  # target tokens wanted of a source token; 0: their frequencies are enough
    pairs: int = 0
    codes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # source token · V + target token
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.frequency = np.zeros(self.tokenizers.target.size, dtype=np.int64)
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []

    def read(self, pairs: Iterable[Ids], aligner: Aligner | None) -> None:
        """Count some pairs more."""
        pairs = iter(pairs)
        while group := list(islice(pairs, GROUP)):
            said = [token for _, target in group for token in target]
            self.frequency += np.bincount(said, minlength=len(self.frequency))
            self.pairs += len(group)
            if aligner is not None:
                for links in linked(aligner, group, len(self.frequency)):
                    self._pending.append(links)
                if sum(len(codes) for codes, _ in self._pending) > PENDING:
                    self._settle()
        self._settle()

    def _settle(self) -> None:
        codes = np.concatenate([self.codes, *(codes for codes, _ in self._pending)])
        counts = np.concatenate([self.counts, *(counts for _, counts in self._pending)])
        self._pending = []
        self.codes, places = np.unique(codes, return_inverse=True)
        self.counts = np.bincount(places, counts, minlength=len(self.codes))
        kept = np.sort(self._ranked(SPARE * self.best))
        self.codes, self.counts = self.codes[kept], self.counts[kept]

    def _ranked(self, best: int) -> np.ndarray:
        """Places in `codes`: source token by source token, the likeliest first, so many of each."""
        source, target = np.divmod(self.codes, len(self.frequency))
        order = np.lexsort((target, -self.frequency[target], -self.counts, source))
        begins = np.searchsorted(source, source)  # codes ascend, so that each source token's stand together
        ranked: np.ndarray = order[np.arange(len(order)) - begins < best]
        return ranked

    def lists(self, best: int, frequent: int) -> list[np.ndarray]:
        """As a Shortlist wants them. With `best`, a token may also be copied; bytes that occur are always there, so
        that names can be spelled."""
        target = self.tokenizers.target
        common = np.argsort(-self.frequency, kind="stable")[:frequent]
        spelled = [n for n in range(target.size) if target.is_byte(n)]
        always = np.union1d(common, spelled)
        always = np.union1d(always[self.frequency[always] > 0], target.end)
        source, found = np.divmod(self.codes[self._ranked(best)], len(self.frequency))
        ends = np.searchsorted(source, np.arange(1, self.tokenizers.source.size))
        own = np.split(found, ends)
        copies = self._copies() if best else {}
        lists = [np.union1d(one, copies[n]) if n in copies else one for n, one in enumerate(own)]
        return [*lists, always]

    def _copies(self) -> dict[int, int]:
        """The target token that spells the same as a source token."""
        source, target = self.tokenizers.source, self.tokenizers.target
        if source is target:
            return {n: n for n in range(source.size) if n not in source.controls}
        same = {piece: n for n, piece in enumerate(target.pieces(range(target.size))) if n not in target.controls}
        pieces = enumerate(source.pieces(range(source.size)))
        return {n: same[piece] for n, piece in pieces if n not in source.controls and piece in same}


def linked(aligner: Aligner, pairs: Sequence[Ids], width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Codes (source token · width + target token) of links, and how likely each is."""
    rows = [
        tuple(
            [known.get(str(token), -1) for token in side] for side, known in zip(pair, (aligner.source, aligner.target))
        )
        for pair in pairs
    ]
    for group in groups_of(rows, LONGEST):
        met = group.codes(len(aligner.target))  # (N, 1 + T, 1 + S)
        place = np.minimum(np.searchsorted(aligner.codes, met), len(aligner.codes) - 1)
        chances = np.where(aligner.codes[place] == met, aligner.forward[place], 0.0)
        shares, _ = posterior(np.maximum(chances[:, 1:], UNMET), aligner.jumps[0])
        shares = shares[:, :, 1:]  # (N, T, S)
        source, target = (np.array([pairs[row][side] for row in group.rows], dtype=np.int64) for side in (0, 1))
        likely = shares >= LEAST
        yield (source[:, None, :] * width + target[:, :, None])[likely], shares[likely]


def encoded(pairs: Iterable[tuple[str, str]], tokenizers: Tokenizers) -> Iterator[Ids]:
    pairs = iter(pairs)
    while group := list(islice(pairs, GROUP)):
        sources, targets = zip(*group)
        yield from zip(tokenizers.source.encode_batch(sources), tokenizers.target.encode_batch(targets))


def count_lexicon(pairs: Pairs, total: int, tokenizers: Tokenizers, best: int) -> Lexicon:
    """From all the pairs, `total` of them, read twice. The same pairs give the same lexicon."""
    lexicon = Lexicon(tokenizers, best)
    aligner = None
    if best:
        some = islice(pairs(), 0, None, max(-(-total // LEARNED), 1))
        spelled = (tuple(" ".join(map(str, ids)) for ids in pair) for pair in encoded(some, tokenizers))
        aligner = learn_aligner(spelled)  # type: ignore[arg-type]
    lexicon.read(encoded(pairs(), tokenizers), aligner)
    return lexicon


def make_shortlist(lexicons: Mapping[str, Lexicon], best: int, frequent: int) -> Shortlist:
    """Of one lexicon for each target language that has a tag, or of one without a name."""
    first = next(iter(lexicons.values()))
    source, target = first.tokenizers.source, first.tokenizers.target
    starts, targets = joined_lists([one for lexicon in lexicons.values() for one in lexicon.lists(best, frequent)])
    tags = tuple(source.tags[name] for name in lexicons if name)
    told = {"best": str(best), "frequent": str(frequent), "pairs": str(sum(each.pairs for each in lexicons.values()))}
    return Shortlist(starts, targets, source.size, target.size, tags, told)
