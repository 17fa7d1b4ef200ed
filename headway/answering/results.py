"""What answering a question gives, step by step: as values, and as events in JSON for the server and the page."""

from dataclasses import dataclass
from typing import Any

from headway.answering.passages import Source
from headway.answering.question import Question
from headway.answering.quotes import Quote
from headway.answering.search import FoundPassage, Method


@dataclass(frozen=True)
class QuestionTerm:
    word: str  # as the question has it
    documents: int  # passages that have it
    idf: float  # how much it says


@dataclass(frozen=True)
class SearchStep:
    """What is searched for, and where."""

    question: Question
    method: Method
    passages: int  # in the index
    terms: list[QuestionTerm]

    def to_event(self) -> dict[str, Any]:
        terms = [{"word": one.word, "passages": one.documents, "idf": round(one.idf, 3)} for one in self.terms]
        about = {"question": self.question.text, "method": self.method, "passages": self.passages}
        return {"event": "search", **about, "terms": terms}


@dataclass(frozen=True)
class CandidatesStep:
    """The passages that were found."""

    candidates: list[FoundPassage]

    def to_event(self) -> dict[str, Any]:
        return {"event": "passages", "passages": [describe_candidate(one) for one in self.candidates]}


@dataclass(frozen=True)
class QuotesStep:
    """The sentences of theirs that say most about the question."""

    quotes: list[Quote]

    def to_event(self) -> dict[str, Any]:
        return {"event": "quotes", "quotes": [describe_quote(one) for one in self.quotes]}


@dataclass(frozen=True)
class WritingStep:
    """A piece of the text that a language model is writing."""

    text: str

    def to_event(self) -> dict[str, Any]:
        return {"event": "text", "text": self.text}


@dataclass(frozen=True)
class AnswerSentence:
    """cited: by number, from 1, the sources that it names, or was given, where it names none; support: how much of it
    they say."""

    text: str
    cited: tuple[int, ...]
    support: float
    supported: bool
    given: bool = False  # whether the citation was found for it, and not written with it


@dataclass(frozen=True)
class CitedSource:
    number: int  # as the answer cites it
    candidate: int
    source: Source
    quotes: list[Quote]


@dataclass(frozen=True)
class CitedAnswer:
    """The answer. Its sentences are quotes, or written by a language model."""

    question: str
    sentences: list[AnswerSentence]
    sources: list[CitedSource]
    model: str = ""  # that wrote it; "": quotes

    @property
    def text(self) -> str:
        """As it is printed: each sentence with its sources, [?] behind one that they do not support."""
        return " ".join(map(format_sentence, self.sentences))

    @property
    def supported_share(self) -> float:
        return sum(one.supported for one in self.sentences) / max(len(self.sentences), 1)

    def to_event(self) -> dict[str, Any]:
        sentences = [
            {
                "text": one.text, "sources": list(one.cited), "support": round(one.support, 3),
                "supported": one.supported, "given": one.given,
            }
            for one in self.sentences
        ]  # fmt: skip
        sources = [
            {
                "number": one.number, "passage": one.candidate, "place": one.source.place,
                "quotes": [describe_quote(quote) for quote in one.quotes],
            }
            for one in self.sources
        ]  # fmt: skip
        about = {"question": self.question, "text": self.text, "model": self.model}
        return {"event": "answer", **about, "sentences": sentences, "sources": sources}


Step = SearchStep | CandidatesStep | QuotesStep | WritingStep | CitedAnswer


def format_sentence(sentence: AnswerSentence) -> str:
    marks = "".join(f"[{number}]" for number in sentence.cited) + "[?]" * (not sentence.supported)
    return f"{sentence.text} {marks}".strip()


def describe_candidate(one: FoundPassage) -> dict[str, Any]:
    source = one.source
    return {
        "number": one.number,
        "file": source.file,
        "place": source.place,
        "heading": source.passage.heading,
        "text": source.passage.text,
        "score": round(one.score, 5),
        "word_rank": one.word_rank,
        "word_score": round(one.word_score, 3),
        "vector_rank": one.vector_rank,
        "cosine": round(one.cosine, 4),
    }


def describe_quote(quote: Quote) -> dict[str, Any]:
    return {
        "passage": quote.candidate,
        "start": quote.start,
        "end": quote.end,
        "text": quote.text,
        "score": round(quote.score, 4),
        "coverage": round(quote.coverage, 4),
        "cosine": round(quote.cosine, 4),
    }
