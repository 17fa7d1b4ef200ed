"""Pairs of texts from documents, for next sentence prediction (BERT).

lines, with empty ones between documents ─► sentences as rows of ids, an empty row between documents ─► DocumentPairs

A pair is packed as in BERT: sentences of a document are taken until they fill max_tokens, and divided at random; in
half of the pairs the second part is replaced by sentences of another document, and what it replaces is used again.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headway.data.corpora import TextCorpus
from headway.data.encoding import EncodedSide, encode_lines, encode_to_folder
from headway.data.ragged import RaggedArray, concatenate_ragged, open_ragged
from headway.errors import HeadwayError
from headway.files.cache import fingerprint, load_or_build
from headway.text.segment.sentences import split_sentences
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import EXAMPLES_PER_SHARD, EpochShard
from headway.train.masked_objective import PAIR_TOKENS, SentencePair
from headway.train.preparation import Log, log_nothing

SHORT_SHARE = 0.1  # of the pairs are shorter than they could be, as texts in use are
MIN_SHORT_TOKENS = 2
LINES_PER_GROUP = 4096


def split_documents(lines: Iterable[str]) -> Iterator[str]:
    """The sentences of each line; an empty line ends a document, and is one here, too."""
    for line in lines:
        if not line.strip():
            yield ""
        for segment in split_sentences(line):
            if segment.text:
                yield segment.text


def encode_document_file(text: TextCorpus, tokenizer: Tokenizer, log: Log = log_nothing) -> RaggedArray:
    """The sentences of a text as rows of ids, with empty ones between documents, from the cache if they are there."""

    def build(folder: Path) -> None:
        log(f"encoding the sentences of {text.counts.lines:,} lines")
        sentences = ((sentence,) for sentence in split_documents(text.read()))
        encode_to_folder(folder, sentences, [EncodedSide("sentences", tokenizer)])

    key = fingerprint([text.identity, tokenizer.fingerprint(), "sentences of documents"])
    rows: RaggedArray = load_or_build("documents", key, build, lambda folder: open_ragged(folder, "sentences"))
    return rows


def encode_documents(lines: Iterable[str], tokenizer: Tokenizer) -> RaggedArray:
    """The same in memory."""
    sentences = list(split_documents(lines))
    groups = [sentences[start : start + LINES_PER_GROUP] for start in range(0, len(sentences), LINES_PER_GROUP)]
    return concatenate_ragged([encode_lines(tokenizer, group) for group in groups or [[]]])


class PairBounds(NamedTuple):
    """Where two pieces of text lie in the flat array of ids, for many pairs."""

    bounds: np.ndarray  # (pairs, 4) first start, first end, second start, second end
    follows: np.ndarray  # (pairs,) bool


class PairExamples:
    def __init__(self, flat: np.ndarray, pairs: PairBounds) -> None:
        self.flat = flat
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs.follows)

    def __getitem__(self, index: int) -> SentencePair:
        first, end, other, last = self.pairs.bounds[index]
        return SentencePair(self.flat[first:end], self.flat[other:last], bool(self.pairs.follows[index]))


class DocumentPairs:
    """Pairs of pieces of documents, made anew in each epoch. `what`: the text, as errors call it."""

    skipped_summary = ""

    def __init__(self, sentences: RaggedArray, max_tokens: int, seed: int, what: str = "this text") -> None:
        lengths = sentences.lengths()
        full = lengths > 0
        self.flat = sentences.flat
        self.starts = (np.asarray(sentences.ends) - lengths)[full]  # (sentences,) in the flat array
        self.ends = np.asarray(sentences.ends)[full]
        numbers = np.cumsum(~full)[full]  # of the document of each sentence
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        self.documents = np.stack([first, np.append(first[1:], len(numbers))[: len(first)]], axis=1)  # (documents, 2)
        self.budget = max_tokens - PAIR_TOKENS
        self.seed = seed
        if reason := find_document_error(self.documents):
            raise HeadwayError(
                f"next sentences cannot be learned from {what}: {reason}. Put an empty line between documents, or set "
                "train.objective.next_sentence = false."
            )
        if self.budget < 2:
            raise HeadwayError(
                f"a pair of texts has at least {PAIR_TOKENS + 2} tokens, and train.max_tokens = {max_tokens}. Raise it."
            )

    @property
    def size(self) -> int:
        """How many sentences there are."""
        return len(self.starts)

    def epoch(self, number: int) -> Iterator[EpochShard]:
        parts = -(-self.size // EXAMPLES_PER_SHARD)
        bounds = np.linspace(0, len(self.documents), parts + 1).astype(int)
        for part in np.random.default_rng([number, parts]).permutation(parts).tolist():
            random = np.random.default_rng([self.seed, number, part])
            pairs = self._make_pairs(range(bounds[part], bounds[part + 1]), random)
            texts = pairs.bounds[:, [1, 3]] - pairs.bounds[:, [0, 2]]
            lengths = np.stack([np.zeros(len(texts), np.int64), texts.sum(axis=1) + PAIR_TOKENS], axis=1)
            yield EpochShard(PairExamples(self.flat, pairs), lengths, shard_count=parts)

    def close(self) -> None:
        """Nothing to close."""

    def _make_pairs(self, documents: Iterable[int], random: np.random.Generator) -> PairBounds:
        bounds, follows = [], []
        for document in documents:
            first, last = self.documents[document].tolist()
            while last - first >= 2:  # one sentence alone has none that follows it
                wanted = self.budget
                if random.random() < SHORT_SHARE:
                    wanted = int(random.integers(min(MIN_SHORT_TOKENS, wanted), wanted + 1))
                end = self._fill(first, last, wanted)
                middle = first + 1 if end - first == 2 else int(random.integers(first + 1, end))
                one = int(self.starts[first]), int(self.ends[middle - 1])
                consecutive = bool(random.random() < 0.5)
                if consecutive:
                    other = int(self.starts[middle]), int(self.ends[end - 1])
                    first = end
                else:
                    other = self._draw_text(document, wanted - (one[1] - one[0]), random)
                    first = middle
                bounds.append([*self._cut(one, other, random)])
                follows.append(consecutive)
        return PairBounds(np.array(bounds, np.int64).reshape(-1, 4), np.array(follows, bool))

    def _fill(self, first: int, last: int, wanted: int) -> int:
        """The end of so many sentences from `first` on as have this many tokens: two at least."""
        enough = int(np.searchsorted(self.ends[first:last], self.starts[first] + wanted)) + 1
        return min(first + max(enough, 2), last)

    def _draw_text(self, document: int, wanted: int, random: np.random.Generator) -> tuple[int, int]:
        """Sentences of another document, from a random one on."""
        number = int(random.integers(len(self.documents) - 1))
        first, last = self.documents[number + (number >= document)].tolist()
        begin = int(random.integers(first, last))
        enough = int(np.searchsorted(self.ends[begin:last], self.starts[begin] + max(wanted, 1))) + 1
        return int(self.starts[begin]), int(self.ends[min(begin + enough, last) - 1])

    def _cut(self, one: tuple[int, int], other: tuple[int, int], random: np.random.Generator) -> Iterator[int]:
        """Bounds of both without what is too much: token by token off the longer one, at either end."""
        lengths = np.array([one[1] - one[0], other[1] - other[0]])
        over = int(lengths.sum()) - self.budget
        if over <= 0:
            yield from (*one, *other)
            return
        longer = int(lengths.argmax())
        lead = min(over, int(abs(lengths[0] - lengths[1])))  # then both are of one length, and lose in turn
        cut = np.array([(over - lead) // 2] * 2)
        cut[longer] += lead + (over - lead) % 2
        for (start, end), tokens in zip((one, other), cut.tolist()):
            front = int(random.binomial(tokens, 0.5))
            yield from (start + front, end - (tokens - front))


def find_document_error(documents: np.ndarray) -> str:
    """Why pairs cannot be made of documents (n, 2) of these sentences; "" if they can."""
    if len(documents) < 2:
        count = f"{len(documents)} document{'s' * (len(documents) != 1)}"
        return f"it has {count}, and half of the pairs need another"
    if not (documents[:, 1] - documents[:, 0] > 1).any():
        return "none of its documents has two sentences"
    return ""


def has_documents(sentences: RaggedArray) -> bool:
    """Whether pairs can be made of these sentences."""
    numbers = np.cumsum(sentences.lengths() == 0)[sentences.lengths() > 0]
    counts = np.unique(numbers, return_counts=True)[1]
    return len(counts) >= 2 and int(counts.max()) >= 2
