"""Quotes: the sentences of the passages found that say most about a question, none of them twice."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from headway.answering.passage_index import Embed
from headway.answering.question import Question
from headway.answering.search import FoundPassage
from headway.text.search_terms import split_terms
from headway.text.segment.sentences import split_sentences

MAX_SENTENCES = 200  # that are compared with a question
HEADING_SHARE = 0.5  # what a term of the question counts that only the heading above a sentence has
RANK_WEIGHT = 0.2  # of the passage's rank, beside what a sentence says itself
DENSE_WEIGHT = 0.5  # of the cosine, where there is an encoder
DIVERSITY = 0.2  # of maximal marginal relevance: how much a sentence loses that repeats a chosen one
MIN_SHARE = 0.5  # of the best score: what a further sentence must reach

Idf = Callable[[str], float]


class Quote(NamedTuple):
    """A sentence of a passage, verbatim."""

    candidate: int  # its passage, among those found
    start: int  # in the text of the passage
    end: int
    text: str
    score: float
    coverage: float  # the share of the question's terms that it has, by what they say
    cosine: float = 0.0


def find_quotes(
    question: Question, candidates: Sequence[FoundPassage], idf: Idf, count: int, embed: Embed | None = None
) -> list[Quote]:
    """The best sentences, best first."""
    scored = score_sentences(question, candidates, idf, embed)
    chosen: list[Quote] = []
    terms = {quote: weigh_terms(quote.text, idf) for quote in scored}
    remaining = sorted(scored, key=lambda quote: -quote.score)
    lowest = MIN_SHARE * remaining[0].score if remaining else 0.0
    remaining = [quote for quote in remaining if quote.score >= lowest and quote.score > 0]
    while remaining and len(chosen) < count:
        best = max(
            remaining,
            key=lambda quote: (
                (1 - DIVERSITY) * quote.score
                - DIVERSITY * max((compare_terms(terms[quote], terms[one]) for one in chosen), default=0.0)
            ),
        )
        remaining.remove(best)
        if all(compare_terms(terms[best], terms[one]) < 0.8 for one in chosen):
            chosen.append(best)
    return chosen


def score_sentences(
    question: Question, candidates: Sequence[FoundPassage], idf: Idf, embed: Embed | None
) -> list[Quote]:
    weights = {term: idf(term) for term in question.terms}
    total = sum(weights.values()) or 1.0
    found: list[Quote] = []
    for number, candidate in enumerate(candidates):
        passage = candidate.source.passage
        heading = set(split_terms(f"{candidate.source.file} {passage.heading}"))
        offset = 0
        for segment in split_sentences(passage.text):
            start = offset + len(segment.before)
            offset = start + len(segment.text)
            own = set(split_terms(segment.text))
            if len(found) == MAX_SENTENCES or not own:
                continue
            coverage = sum(
                weight * (1.0 if term in own else HEADING_SHARE if term in heading else 0.0)
                for term, weight in weights.items()
            )
            says = any(term in own for term in weights) or embed is not None
            score = (coverage / total if says else 0.0) * (1 - RANK_WEIGHT) + RANK_WEIGHT / (1 + number)
            found.append(Quote(number, start, offset, segment.text, score if says else 0.0, coverage / total))
    return blend_cosines(question, found, embed) if embed is not None and found else found


def blend_cosines(question: Question, quotes: Sequence[Quote], embed: Embed) -> list[Quote]:
    from headway.retrieval.vector_search import normalise

    vectors = normalise(embed([question.text, *(quote.text for quote in quotes)]))
    cosines = np.maximum(vectors[1:] @ vectors[0], 0.0).tolist()
    return [
        quote._replace(score=(1 - DENSE_WEIGHT) * quote.score + DENSE_WEIGHT * cosine, cosine=cosine)
        for quote, cosine in zip(quotes, cosines)
    ]


def weigh_terms(text: str, idf: Idf) -> dict[str, float]:
    return {term: idf(term) for term in split_terms(text)}


def compare_terms(one: dict[str, float], other: dict[str, float]) -> float:
    """The cosine of two bags of terms."""
    product = sum(weight * other[term] for term, weight in one.items() if term in other)
    lengths = [math.sqrt(sum(weight * weight for weight in bag.values())) for bag in (one, other)]
    return product / (lengths[0] * lengths[1]) if all(lengths) else 0.0
