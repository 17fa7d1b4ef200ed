"""The steps of an answer as text, for a terminal."""

from headway.answering.results import CandidatesStep, CitedAnswer, QuotesStep, SearchStep, Step
from headway.answering.search import FoundPassage

MAX_PASSAGE_CHARS = 160  # of a passage, in a list
NOTHING_FOUND = "Nothing in these documents has to do with this question."


def format_step(step: Step) -> str:
    """One step of the trace; "" for what is not shown."""
    if isinstance(step, SearchStep):
        terms = ", ".join(f"{one.word} ({one.documents})" for one in step.terms)
        return f"search     {step.method} in {step.passages:,} passages; words, and passages that have them: {terms}"
    if isinstance(step, CandidatesStep):
        return "\n".join(["passages", *(format_candidate(n, one) for n, one in enumerate(step.candidates, start=1))])
    if isinstance(step, QuotesStep):
        rows = [f"  {one.score:.3f}  passage {one.candidate + 1}: {one.text}" for one in step.quotes]
        return "\n".join(["quotes", *(rows or ["  none: no sentence says enough about the question"])])
    return ""


def format_candidate(number: int, one: FoundPassage) -> str:
    text = " ".join(one.source.passage.text.split())
    shown = text if len(text) <= MAX_PASSAGE_CHARS else f"{text[: MAX_PASSAGE_CHARS - 1]}…"
    ranks = [f"bm25 {one.word_score:.2f} (rank {one.word_rank})"] if one.word_rank else []
    ranks += [f"cosine {one.cosine:.3f} (rank {one.vector_rank})"] if one.vector_rank else []
    heading = f"  {one.source.passage.heading}" if one.source.passage.heading else ""
    return f"  {number}. {one.source.place}{heading}  [{', '.join(ranks)}]\n     {shown}"


def format_answer(answer: CitedAnswer) -> str:
    """The answer, and below it its sources with what is quoted of them."""
    if not answer.sentences:
        return NOTHING_FOUND
    lines = [answer.text, ""]
    for source in answer.sources:
        heading = f"  {source.source.passage.heading}" if source.source.passage.heading else ""
        lines.append(f"[{source.number}] {source.source.place}{heading}")
        if answer.model:
            lines += [f"    “{quote.text}”" for quote in source.quotes]
    return "\n".join(lines)
