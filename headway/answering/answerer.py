"""Answer questions from an index: search, quote, and answer with the quotes or with what a language model writes."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.answering.extract import compose_extract
from headway.answering.judge import judge_answer
from headway.answering.passage_index import Embed, PassageIndex
from headway.answering.question import Question, read_question
from headway.answering.quotes import Idf, find_quotes
from headway.answering.results import (
    CandidatesStep,
    CitedAnswer,
    QuestionTerm,
    QuotesStep,
    SearchStep,
    Step,
    WritingStep,
)
from headway.answering.search import FoundPassage, Method, search_passages
from headway.answering.write import fit_prompt, write_answer
from headway.text.search_terms import split_terms

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel

MAX_PASSAGES_FOUND = 100
MIN_COVERAGE = 0.42  # of what the question's words say, by the best passage: below it, nothing was found by words
MIN_COSINE = 0.3  # of the best passage: below it, nothing was found by meaning


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    passages: int = 8  # that are found
    sentences: int = 3  # that are quoted
    method: Method | None = None  # None: both, where the index has vectors
    model_name: str = ""  # of the model that writes


def answer_steps(
    index: PassageIndex,
    question_text: str,
    options: AnswerOptions | None = None,
    embed: Embed | None = None,
    model: "LanguageModel | None" = None,
) -> Iterator[Step]:
    """Every step of an answer, and the answer as the last. embed: makes vectors as those of the index were made; model:
    writes the answer, which is made of quotes otherwise."""
    options = options or AnswerOptions()
    question = read_question(question_text)
    method = options.method or ("hybrid" if index.vectors is not None and embed is not None else "bm25")
    idf = functools.cache(index.words.idf)
    frequency = index.words.document_frequency
    terms = [QuestionTerm(word, frequency(term), idf(term)) for term, word in question.words.items()]
    yield SearchStep(question, method, len(index), terms)

    candidates = search_passages(index, question, min(options.passages, MAX_PASSAGES_FOUND), method, embed)
    yield CandidatesStep(candidates)

    compared = embed if method != "bm25" else None
    found = is_found(question, candidates, idf)
    quotes = find_quotes(question, candidates, idf, options.sentences, compared) if found else []
    yield QuotesStep(quotes)

    if model is None or not quotes:
        yield compose_extract(question, candidates, quotes)
        return
    prompt, read = fit_prompt(model, question, candidates)
    text = ""
    for piece in write_answer(model, prompt):
        text += piece
        yield WritingStep(piece)
    yield judge_answer(question, text, candidates[:read], idf, options.model_name)


def is_found(question: Question, candidates: Sequence[FoundPassage], idf: Idf) -> bool:
    """Whether some passage has to do with the question at all."""
    total = sum(map(idf, question.terms)) or 1.0

    def coverage(candidate: FoundPassage) -> float:
        terms = set(split_terms(f"{candidate.source.file}\n{candidate.source.passage.indexed_text}"))
        return sum(idf(term) for term in question.terms if term in terms) / total

    return any(one.cosine >= MIN_COSINE or coverage(one) >= MIN_COVERAGE for one in candidates)


def answer(
    index: PassageIndex,
    question: str,
    options: AnswerOptions | None = None,
    embed: Embed | None = None,
    model: "LanguageModel | None" = None,
) -> CitedAnswer:
    """The answer alone."""
    for step in answer_steps(index, question, options, embed, model):
        if isinstance(step, CitedAnswer):
            return step
    raise AssertionError("the last step is the answer")
