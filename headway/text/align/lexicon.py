"""A lexical translation table of tokens, counted in parallel text, from which shortlists are made.

An aligner is trained on some of the pairs, with tokens as words. Then all pairs are read once: each target token counts
for the source tokens that it is probably aligned to. Memory does not grow with the text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from headway.text.align.aligner import Aligner, group_by_length, train_aligner
from headway.text.align.hmm import compute_posteriors
from headway.text.shortlist import Shortlist, concatenate_lists
from headway.text.tokenizer.pair import Tokenizers

ALIGNER_PAIRS = 10_000  # to train the aligner on: more gain little, and take longer than all the counting
MAX_TOKENS = 256  # per side; longer pairs are skipped
PAIRS_PER_GROUP = 2048
UNSEEN_PROBABILITY = 1e-4  # of tokens that the aligner did not see together; high, so that its sample may be small
MIN_LINK_PROBABILITY = 0.01  # less likely links are not counted
MAX_PENDING_LINKS = 4_000_000  # before they are counted
SPARE_FACTOR = 4  # times the tokens wanted are kept per source token until all text is read

Ids = tuple[list[int], list[int]]
PairReader = Callable[[], Iterable[tuple[str, str]]]  # gives the same pairs each time


@dataclass
class TokenLexicon:
    """How often each source token is translated by each target token, and how often each target token occurs."""

    tokenizers: Tokenizers
    best: int  # target tokens wanted per source token; 0: only frequencies are counted
    pairs: int = 0
    codes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # source id · V + target id
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.frequency = np.zeros(self.tokenizers.target.size, dtype=np.int64)
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []

    def read(self, pairs: Iterable[Ids], aligner: Aligner | None) -> None:
        """Count more pairs."""
        pairs = iter(pairs)
        while group := list(islice(pairs, PAIRS_PER_GROUP)):
            target_ids = [token for _, target in group for token in target]
            self.frequency += np.bincount(target_ids, minlength=len(self.frequency))
            self.pairs += len(group)
            if aligner is not None:
                for links in link_tokens(aligner, group, len(self.frequency)):
                    self._pending.append(links)
                if sum(len(codes) for codes, _ in self._pending) > MAX_PENDING_LINKS:
                    self._count_pending()
        self._count_pending()

    def _count_pending(self) -> None:
        codes = np.concatenate([self.codes, *(codes for codes, _ in self._pending)])
        counts = np.concatenate([self.counts, *(counts for _, counts in self._pending)])
        self._pending = []
        self.codes, indices = np.unique(codes, return_inverse=True)
        self.counts = np.bincount(indices, counts, minlength=len(self.codes))
        kept = np.sort(self._rank_codes(SPARE_FACTOR * self.best))
        self.codes = self.codes[kept]
        self.counts = self.counts[kept]

    def _rank_codes(self, best: int) -> np.ndarray:
        """Indices into `codes`: by source token, the most frequent translation first, up to `best` of each."""
        source, target = np.divmod(self.codes, len(self.frequency))
        order = np.lexsort((target, -self.frequency[target], -self.counts, source))
        starts = np.searchsorted(source, source)  # codes ascend, so that those of a source token are adjacent
        ranked: np.ndarray = order[np.arange(len(order)) - starts < best]
        return ranked

    def lists(self, best: int, frequent: int) -> list[np.ndarray]:
        """The lists of a Shortlist: the `best` translations of each source token, then one for every sentence: the
        `frequent` most common tokens, and bytes that occur, so that names can be written. With `best`, a token may also
        be copied."""
        target = self.tokenizers.target
        common = np.argsort(-self.frequency, kind="stable")[:frequent]
        byte_ids = [n for n in range(target.size) if target.is_byte(n)]
        always = np.union1d(common, byte_ids)
        always = np.union1d(always[self.frequency[always] > 0], target.end)
        source, translations = np.divmod(self.codes[self._rank_codes(best)], len(self.frequency))
        ends = np.searchsorted(source, np.arange(1, self.tokenizers.source.size))
        per_token = np.split(translations, ends)
        copies = self._copies() if best else {}
        lists = [np.union1d(one, copies[n]) if n in copies else one for n, one in enumerate(per_token)]
        return [*lists, always]

    def _copies(self) -> dict[int, int]:
        """The target token with the same text as each source token."""
        source, target = self.tokenizers.source, self.tokenizers.target
        if source is target:
            return {n: n for n in range(source.size) if n not in source.control_ids}
        same = {piece: n for n, piece in enumerate(target.pieces(range(target.size))) if n not in target.control_ids}
        pieces = enumerate(source.pieces(range(source.size)))
        return {n: same[piece] for n, piece in pieces if n not in source.control_ids and piece in same}


def link_tokens(aligner: Aligner, pairs: Sequence[Ids], width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Codes (source id · width + target id) of links, and the probability of each."""
    rows = [
        tuple(
            [known.get(str(token), -1) for token in side] for side, known in zip(pair, (aligner.source, aligner.target))
        )
        for pair in pairs
    ]
    for group in group_by_length(rows, MAX_TOKENS):
        codes = group.codes(len(aligner.target))  # (N, 1 + T, 1 + S)
        index = np.minimum(np.searchsorted(aligner.codes, codes), len(aligner.codes) - 1)
        emissions = np.where(aligner.codes[index] == codes, aligner.forward[index], 0.0)
        posteriors, _ = compute_posteriors(np.maximum(emissions[:, 1:], UNSEEN_PROBABILITY), aligner.jumps[0])
        posteriors = posteriors[:, :, 1:]  # (N, T, S)
        source, target = (np.array([pairs[row][side] for row in group.rows], dtype=np.int64) for side in (0, 1))
        likely = posteriors >= MIN_LINK_PROBABILITY
        yield (source[:, None, :] * width + target[:, :, None])[likely], posteriors[likely]


def encode_pairs(pairs: Iterable[tuple[str, str]], tokenizers: Tokenizers) -> Iterator[Ids]:
    """The ids of each pair."""
    pairs = iter(pairs)
    while group := list(islice(pairs, PAIRS_PER_GROUP)):
        sources, targets = zip(*group)
        yield from zip(tokenizers.source.encode_batch(sources), tokenizers.target.encode_batch(targets))


def count_lexicon(pairs: PairReader, total: int, tokenizers: Tokenizers, best: int) -> TokenLexicon:
    """Count all `total` pairs, which are read twice. The same pairs give the same lexicon."""
    lexicon = TokenLexicon(tokenizers, best)
    aligner = None
    if best:
        sample = islice(pairs(), 0, None, max(-(-total // ALIGNER_PAIRS), 1))
        id_texts = (tuple(" ".join(map(str, ids)) for ids in pair) for pair in encode_pairs(sample, tokenizers))
        aligner = train_aligner(id_texts)  # type: ignore[arg-type]
    lexicon.read(encode_pairs(pairs(), tokenizers), aligner)
    return lexicon


def make_shortlist(lexicons: Mapping[str, TokenLexicon], best: int, frequent: int) -> Shortlist:
    """From one lexicon per target language tag, or from a single one without a name."""
    first = next(iter(lexicons.values()))
    source, target = first.tokenizers.source, first.tokenizers.target
    starts, targets = concatenate_lists([one for lexicon in lexicons.values() for one in lexicon.lists(best, frequent)])
    tags = tuple(source.tags[name] for name in lexicons if name)
    about = {"best": str(best), "frequent": str(frequent), "pairs": str(sum(each.pairs for each in lexicons.values()))}
    return Shortlist(starts, targets, source.size, target.size, tags, about)
