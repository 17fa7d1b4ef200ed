"""BM25 over an inverted index on disk: which documents have the terms of a query, and how much that says.

    with Bm25Writer(folder) as writer:           index = Bm25Index(folder)
        writer.add(text), for every document     index.search(["cach", "size"], 10) -> [Hit(document, score)]
        writer.finish()

The postings of a term lie together, in arrays that are mapped into memory: opening an index reads next to nothing of
it, a query reads the postings of its terms. Building streams: postings are spilled in the order of documents and sorted
by counting, so that memory holds the vocabulary and one block of postings.

    terms         the terms in order, UTF-8, without separators     documents   by term: those that have it
    term_ends     where each of them ends                           counts      and how often
    posting_ends  where the postings of each term end               lengths     terms of each document
"""

import math
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from headway.errors import HeadwayError
from headway.retrieval.array_file import map_array, write_array
from headway.text.search_terms import split_terms

K1 = 1.2  # how soon further occurrences of a term say little
B = 0.75  # how much longer documents are held against it
POSTINGS_PER_BLOCK = 1 << 20
MAX_COUNT = 65_535
POSTING = np.dtype([("term", "<u4"), ("document", "<u4"), ("count", "<u4")])
SPILL_FILE = "postings.spill"


class Hit(NamedTuple):
    document: int  # from 0
    score: float


class Bm25Writer:
    """Writes the index of documents into a folder, in the order in which they are added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.terms: dict[str, int] = {}
        self._frequencies = array("I")  # by term: documents that have it
        self._lengths = array("I")
        self._block = [array("I"), array("I"), array("I")]
        self._spill = (folder / SPILL_FILE).open("w+b")

    def add(self, text: str) -> None:
        found = Counter(split_terms(text))
        terms, documents, counts = self._block
        for term, count in found.items():
            number = self.terms.setdefault(term, len(self.terms))
            if number == len(self._frequencies):
                self._frequencies.append(0)
            self._frequencies[number] += 1
            terms.append(number)
            documents.append(len(self._lengths))
            counts.append(min(count, MAX_COUNT))
        self._lengths.append(found.total())
        if len(terms) >= POSTINGS_PER_BLOCK:
            self._spill_block()

    def _spill_block(self) -> None:
        block = np.empty(len(self._block[0]), POSTING)
        for name, values in zip(("term", "document", "count"), self._block):
            block[name] = values
        self._spill.write(block.tobytes())
        self._block = [array("I"), array("I"), array("I")]

    def finish(self) -> None:
        self._spill_block()
        ordered = sorted((encode_term(term), number) for term, number in self.terms.items())
        ranks = np.zeros(len(ordered), np.int64)  # by term number: its place in the order
        ranks[[number for _, number in ordered]] = np.arange(len(ordered))
        frequencies = np.zeros(len(ordered), np.int64)
        frequencies[ranks] = np.array(self._frequencies, np.int64)
        ends = np.cumsum(frequencies)
        (self.folder / "terms").write_bytes(b"".join(term for term, _ in ordered))
        term_ends = np.cumsum([len(term) for term, _ in ordered], dtype=np.int64)
        write_array(self.folder / "term_ends", term_ends[:, None], "<i8")
        write_array(self.folder / "posting_ends", ends[:, None], "<i8")
        write_array(self.folder / "lengths", np.array(self._lengths, np.uint32)[:, None], "<u4")
        self._sort_postings(ranks, ends - frequencies, int(frequencies.sum()))

    def __enter__(self) -> "Bm25Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._spill.close()
        (self.folder / SPILL_FILE).unlink(missing_ok=True)

    def _sort_postings(self, ranks: np.ndarray, free: np.ndarray, total: int) -> None:
        """Counting sort: of each block, every posting goes to the next free place of its term."""
        if not total:
            write_array(self.folder / "documents", np.zeros((0, 1)), "<u4")
            write_array(self.folder / "counts", np.zeros((0, 1)), "<u2")
            return
        partial = [self.folder / f"{name}.partial" for name in ("documents", "counts")]
        documents, counts = (np.memmap(path, kind, "w+", shape=total) for path, kind in zip(partial, ("<u4", "<u2")))
        self._spill.seek(0)
        while data := self._spill.read(POSTINGS_PER_BLOCK * POSTING.itemsize):
            block = np.frombuffer(data, POSTING)
            rank = ranks[block["term"]]
            order = np.argsort(rank, kind="stable")
            rank = rank[order]
            firsts = np.flatnonzero(np.diff(rank, prepend=-1))  # where another term begins
            sizes = np.diff(firsts, append=len(rank))
            places = np.arange(len(rank)) + np.repeat(free[rank[firsts]] - firsts, sizes)
            documents[places] = block["document"][order]
            counts[places] = block["count"][order]
            free[rank[firsts]] += sizes
        for path, values in zip(partial, (documents, counts)):
            values.flush()
            os.replace(path, path.with_suffix(""))


class Bm25Index:
    """An index on disk. Scores are those of Lucene: idf = ln(1 + (N - n + 0.5) / (n + 0.5))."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.term_ends = map_array(folder / "term_ends", 1, "<i8")[:, 0]
        self.posting_ends = map_array(folder / "posting_ends", 1, "<i8", len(self.term_ends))[:, 0]
        self.lengths = map_array(folder / "lengths", 1, "<u4")[:, 0]
        postings, characters = (int(ends[-1]) if len(ends) else 0 for ends in (self.posting_ends, self.term_ends))
        if postings < 0 or characters < 0:
            raise self._damaged("posting_ends")
        self.terms = map_array(folder / "terms", 1, "<u1", characters)[:, 0]
        self.documents = map_array(folder / "documents", 1, "<u4", postings)[:, 0]
        self.counts = map_array(folder / "counts", 1, "<u2", postings)[:, 0]
        self.mean_length = float(self.lengths.mean()) if len(self.lengths) else 0.0

    def _damaged(self, name: str) -> HeadwayError:
        return HeadwayError(f"{self.folder / name} is damaged. Build the index again, with --overwrite.")

    def __len__(self) -> int:
        return len(self.lengths)

    def search(self, terms: Iterable[str], k: int) -> list[Hit]:
        """The k best documents that have any of the terms, best first; of equal ones the first."""
        scores = np.zeros(len(self))
        for term in dict.fromkeys(terms):
            documents, weights = self._score_term(term)
            scores[documents] += weights
        return take_best(scores, k)

    def idf(self, term: str) -> float:
        """How much a term says: nearly 0 for one that every document has, more the fewer have it."""
        return compute_idf(len(self), self.document_frequency(term))

    def document_frequency(self, term: str) -> int:
        found = self._postings(term)
        return int(found.stop - found.start)

    def _score_term(self, term: str) -> tuple[np.ndarray, np.ndarray]:
        """The documents that have a term, and what it adds to their scores."""
        found = self._postings(term)
        documents = np.asarray(self.documents[found], np.int64)
        if len(documents) and int(documents.max()) >= len(self):
            raise self._damaged("documents")
        counts = np.asarray(self.counts[found], np.float64)
        norm = K1 * (1 - B + B * self.lengths[documents] / max(self.mean_length, 1e-9))
        return documents, compute_idf(len(self), len(documents)) * counts / (counts + norm)

    def _postings(self, term: str) -> slice:
        """Where a term's postings lie: binary search over the terms on disk."""
        wanted = encode_term(term)
        low, high = 0, len(self.term_ends)
        while low < high:
            middle = (low + high) // 2
            if self._term(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(self.term_ends) or self._term(low) != wanted:
            return slice(0, 0)
        start, end = int(self.posting_ends[low - 1]) if low else 0, int(self.posting_ends[low])
        if not 0 <= start <= end <= len(self.documents):
            raise self._damaged("posting_ends")
        return slice(start, end)

    def _term(self, rank: int) -> bytes:
        start = int(self.term_ends[rank - 1]) if rank else 0
        return self.terms[start : int(self.term_ends[rank])].tobytes()


def compute_idf(documents: int, frequency: int) -> float:
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def encode_term(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")  # JSON can spell half a character


def take_best(scores: np.ndarray, k: int) -> list[Hit]:
    """The k highest scores above 0, best first; of equal ones the first."""
    found = np.flatnonzero(scores > 0)
    if k < len(found):
        lowest = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= lowest]
    order = found[np.lexsort((found, -scores[found]))][:k]
    return [Hit(int(document), float(scores[document])) for document in order]


def score_documents(query: Sequence[str], documents: Sequence[Sequence[str]]) -> list[float]:
    """BM25 as it is written down: the specification of Bm25Index.search."""
    mean = sum(map(len, documents)) / max(len(documents), 1)
    scores = [0.0] * len(documents)
    for term in dict.fromkeys(query):
        idf = compute_idf(len(documents), sum(term in document for document in documents))
        for number, document in enumerate(documents):
            count = document.count(term)
            norm = K1 * (1 - B + B * len(document) / max(mean, 1e-9))
            scores[number] += idf * count / (count + norm) if count else 0.0
    return scores
