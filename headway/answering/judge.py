"""Judge a written answer: which passages each of its sentences cites, and whether they say it."""

import re
from collections.abc import Sequence

from headway.answering.question import Question
from headway.answering.quotes import Idf, Quote
from headway.answering.results import AnswerSentence, CitedAnswer, CitedSource
from headway.answering.search import FoundPassage
from headway.answering.support import SUPPORT_THRESHOLD, measure_support
from headway.text.segment.sentences import split_sentences

CITATION = re.compile(r"\s*\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")
LEADING_CITATION = re.compile(r"^((?:\s*\[\d{1,3}(?:\s*[,;]\s*\d{1,3})*\])+[.!?]?)\s+(?=\S)")
LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


def judge_answer(
    question: Question, text: str, candidates: Sequence[FoundPassage], idf: Idf, model: str
) -> CitedAnswer:
    """candidates: the passages that were numbered in the prompt, in order."""
    sentences = [judge_sentence(claim, cited, candidates, idf) for claim, cited in read_sentences(text)]
    used = sorted({number for one in sentences for number in one.cited})
    sources = []
    for number in used:
        evidence = find_evidence(number, sentences, candidates, idf)
        sources.append(CitedSource(number, number - 1, candidates[number - 1].source, evidence))
    return CitedAnswer(question.text, sentences, sources, model)


def read_sentences(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """The sentences of a text without citations, and the numbers that each cites."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for segment in split_sentences(text):
        sentence = segment.text
        leading = LEADING_CITATION.match(sentence)
        if leading and found:  # of the sentence before
            found[-1] = found[-1][0], (*found[-1][1], *read_citations(leading[1]))
            sentence = sentence[leading.end() :]
        claim = LIST_MARK.sub("", CITATION.sub("", sentence)).strip()
        cited = read_citations(sentence)
        if any(map(str.isalnum, claim)):
            found.append((claim, cited))
        elif found:
            found[-1] = found[-1][0], (*found[-1][1], *cited)
    return [(claim, tuple(dict.fromkeys(cited))) for claim, cited in found]


def read_citations(text: str) -> tuple[int, ...]:
    return tuple(int(number) for match in CITATION.finditer(text) for number in re.findall(r"\d+", match[1]))


def judge_sentence(claim: str, cited: Sequence[int], candidates: Sequence[FoundPassage], idf: Idf) -> AnswerSentence:
    """One that names no passage which says it is given one that does, if there is one."""
    known = tuple(number for number in cited if 1 <= number <= len(candidates))
    support = {
        number: measure_support(claim, candidate.source.passage.indexed_text, idf)
        for number, candidate in enumerate(candidates, start=1)
    }
    own = max((support[number] for number in known), default=0.0)
    if known and own >= SUPPORT_THRESHOLD:
        return AnswerSentence(claim, known, own, True)
    best = max(support, key=lambda number: support[number], default=0)
    if best and support[best] >= SUPPORT_THRESHOLD:
        return AnswerSentence(claim, (best,), support[best], True, given=True)
    return AnswerSentence(claim, known, own, False)


def find_evidence(
    number: int, sentences: Sequence[AnswerSentence], candidates: Sequence[FoundPassage], idf: Idf
) -> list[Quote]:
    """Of a cited passage the sentence that says most of each supported sentence which cites it."""
    passage = candidates[number - 1].source.passage
    found: dict[int, Quote] = {}
    for one in sentences:
        if number not in one.cited or not one.supported:
            continue
        offset = 0
        best: Quote | None = None
        for segment in split_sentences(passage.text):
            start, offset = offset + len(segment.before), offset + len(segment.before) + len(segment.text)
            share = measure_support(one.text, segment.text, idf)
            if segment.text and (best is None or share > best.score):
                best = Quote(number - 1, start, offset, segment.text, share, share)
        if best is not None:
            found[best.start] = best
    return [found[start] for start in sorted(found)]
