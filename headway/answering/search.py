"""Search: the passages that fit a question, by its words (BM25), by its meaning (vectors), or by both."""

from typing import Literal, NamedTuple, get_args

import numpy as np

from headway.answering.passage_index import Embed, PassageIndex
from headway.answering.passages import Source
from headway.answering.question import Question
from headway.errors import HeadwayError
from headway.retrieval.rank_fusion import fuse_ranks

Method = Literal["bm25", "dense", "hybrid"]
METHODS: tuple[Method, ...] = get_args(Method)
MIN_DEPTH = 100  # of each ranking, before they are fused


class FoundPassage(NamedTuple):
    """A passage that was found. Ranks begin at 1; 0: not found in this way."""

    number: int  # in the index
    source: Source
    score: float
    word_rank: int = 0
    word_score: float = 0.0
    vector_rank: int = 0
    cosine: float = 0.0


class Ranked(NamedTuple):
    rank: int
    score: float


def search_passages(
    index: PassageIndex, question: Question, k: int, method: Method, embed: Embed | None = None
) -> list[FoundPassage]:
    """The k best passages, best first. embed: makes vectors as those of the index were made; only for methods that
    compare meanings."""
    depth = max(k, MIN_DEPTH)
    words: dict[int, Ranked] = {}
    meanings: dict[int, Ranked] = {}
    if method != "dense":
        hits = index.words.search(question.terms, depth)
        words = {hit.document: Ranked(rank, hit.score) for rank, hit in enumerate(hits, start=1)}
    if method != "bm25":
        meanings = search_vectors_of(index, question, depth, embed)
    if method == "hybrid":
        chosen = [(hit.document, hit.score) for hit in fuse_ranks([list(words), list(meanings)], k)]
    else:
        chosen = [(number, found.score) for number, found in list((words or meanings).items())[:k]]
    none = Ranked(0, 0.0)
    return [
        FoundPassage(number, index.read_source(number), score, *words.get(number, none), *meanings.get(number, none))
        for number, score in chosen
    ]


def search_vectors_of(index: PassageIndex, question: Question, k: int, embed: Embed | None) -> dict[int, Ranked]:
    from headway.retrieval.vector_search import find_nearest, normalise

    if index.vectors is None or embed is None:
        raise HeadwayError(
            f"{index.folder} has no vectors, which a dense search compares. Build it with an encoder: headway index "
            "--kind passages --model ENCODER, or search by words: --retrieval bm25"
        )
    query = normalise(embed([question.text]))
    if query.shape[1] != index.vectors.shape[1]:
        raise HeadwayError(
            f"this encoder makes vectors of {query.shape[1]} numbers, and those of {index.folder} have "
            f"{index.vectors.shape[1]}. Give the encoder that made them: {index.encoder}"
        )
    rows, scores = find_nearest(query, index.vectors, k)
    pairs = zip(rows[0].tolist(), np.asarray(scores[0], float).tolist())
    return {row: Ranked(rank, score) for rank, (row, score) in enumerate(pairs, start=1)}
