"""Minimum Bayes risk decoding: of the candidates of a sentence, the one that agrees best with all of them.

    search: n_best samples, or the n-best of a beam ──► expected utility by a metric ──► hypotheses, best first

It is done sentence by sentence, after protected spans are back in their places and before sentences are joined, so that
lines, documents and the server have it alike."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.decode.types import Hypothesis
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.translate.translator import Translator

FindFault = Callable[[Sentence, Hypothesis], str | None]


def rank_by_utility(translator: "Translator", sentences: list[Sentence], metric: str, find_fault: FindFault) -> None:
    """The hypotheses of each sentence, and their outputs, in the order of their expected utility. Those with a fault (a
    loop, a copy, a lost number) come after all others, though they count as references."""
    from headway.text.utilities import CandidateGroup, expected_utilities

    several = [sentence for sentence in sentences if len(sentence.hypotheses) > 1]
    texts = [
        list(sentence.outputs) or [decode_output(translator, sentence, one) for one in sentence.hypotheses]
        for sentence in several
    ]
    groups = [CandidateGroup(own, sentence.text) for own, sentence in zip(texts, several)]
    for sentence, utilities in zip(several, expected_utilities(metric, groups, translator.device)):
        faults = [bool(find_fault(sentence, hypothesis)) for hypothesis in sentence.hypotheses]
        order = sorted(range(len(faults)), key=lambda index: (faults[index], -utilities[index]))
        sentence.hypotheses = [sentence.hypotheses[index] for index in order]
        sentence.outputs = [sentence.outputs[index] for index in order] if sentence.outputs else []


def decode_output(translator: "Translator", sentence: Sentence, hypothesis: Hypothesis) -> str:
    return sentence.restore_case(translator.tokenizers.target.decode(hypothesis.ids).strip())
