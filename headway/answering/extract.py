"""An answer of quotes: the best sentences in the order of their passages, each with its source. Nothing is written."""

from collections.abc import Sequence

from headway.answering.question import Question
from headway.answering.quotes import Quote
from headway.answering.results import AnswerSentence, CitedAnswer, CitedSource
from headway.answering.search import FoundPassage


def compose_extract(question: Question, candidates: Sequence[FoundPassage], quotes: Sequence[Quote]) -> CitedAnswer:
    """The passage with the best quote comes first; its quotes stand in the order of the document."""
    order = list(dict.fromkeys(quote.candidate for quote in quotes))
    sentences: list[AnswerSentence] = []
    sources: list[CitedSource] = []
    for number, candidate in enumerate(order, start=1):
        own = sorted((quote for quote in quotes if quote.candidate == candidate), key=lambda quote: quote.start)
        sources.append(CitedSource(number, candidate, candidates[candidate].source, own))
        sentences += [AnswerSentence(quote.text, (number,), 1.0, True) for quote in own]
    return CitedAnswer(question.text, sentences, sources)
