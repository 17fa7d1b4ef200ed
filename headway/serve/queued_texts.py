"""The texts of a job, as the batch queue translates them: one plan for each sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.translate.results import Translation
from headway.translate.search import Request, TranslationStages
from headway.translate.search_calls import Plan
from headway.translate.source import Sentence, SourceLine

if TYPE_CHECKING:
    from headway.translate.options import TranslateOptions
    from headway.translate.translator import Translator


@dataclass(frozen=True)
class JobOptions:
    """How a job is translated."""

    options: "TranslateOptions"
    needs_scores: bool = False


class QueuedTexts:
    """The stages of a job's texts. What they give is what Translator.translate gives for the same texts."""

    def __init__(self, translator: "Translator", texts: Sequence[str], job: JobOptions) -> None:
        self.requests = [Request(text, number) for number, text in enumerate(texts)]
        self.stages = TranslationStages(translator, self.requests, job.options)
        self.needs_scores = job.needs_scores or bool(job.options.min_confidence)
        self.lines: dict[int, SourceLine] = {}

    def read(self, index: int) -> list[Plan[Any]]:
        line = self.lines[index] = self.stages.read(self.requests[index])
        return [self._search(sentence) for sentence in line.sentences]

    def _search(self, sentence: Sentence) -> Plan[None]:
        yield from self.stages.search([sentence])
        if self.needs_scores:  # those of the whole slice are computed with the first: now, and not when all are joined
            for hypothesis in sentence.hypotheses:
                _ = hypothesis.token_logps

    def join(self, index: int) -> Translation:
        return self.stages.join(self.lines.pop(index))
