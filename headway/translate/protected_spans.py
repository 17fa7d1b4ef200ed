"""Keep protected spans (URLs, tags, placeholders, code) through a translation.

Hypotheses that contain every span are preferred. Where none does, the sentence is translated without its spans, and
they are inserted by word alignment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.text.spans.protect import MaskedText, Protector
from headway.text.spans.restore import Links, remove_spans, restore_spans
from headway.text.spans.uppercase import lowercased
from headway.translate.search_calls import AlignCall, Plan
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.decode.types import Hypothesis
    from headway.translate.translator import Translator

SearchSentences = Callable[[list[Sentence]], Plan[None]]


@dataclass(frozen=True)
class SpanKeeper:
    """Chooses, or makes, hypotheses that contain all protected spans."""

    translator: "Translator"
    protector: Protector
    search: SearchSentences  # with retries
    find_fault: Callable[[Sentence, "Hypothesis"], str | None]  # what else is wrong with a hypothesis
    earlier_warnings: dict[int, list[str]]  # by sentence number: those from before the first search

    def keep_spans(self, sentences: list[Sentence]) -> Plan[None]:
        """Keep the hypotheses that have all spans. The search before this one had the whole beam as n-best."""
        lost = []
        for sentence in sentences:
            restored = [(h, text) for h in sentence.hypotheses if (text := self._restore(sentence, h)) is not None]
            if not restored:
                lost.append(sentence)
                continue
            faults = [self.find_fault(sentence, hypothesis) for hypothesis, _ in restored]
            if faults[0] and None in faults:
                restored = [pair for pair, fault in zip(restored, faults) if fault is None]
            elif faults[0] and not any(faults[0] in warning for warning in sentence.warnings):
                sentence.warnings.append(f"{faults[0]}; nothing better was found")
            sentence.hypotheses = [hypothesis for hypothesis, _ in restored]
            sentence.outputs = [text for _, text in restored]
        if lost:
            yield from self.insert_spans(lost)

    def _restore(self, sentence: Sentence, hypothesis: "Hypothesis") -> str | None:
        """The text of a hypothesis with its spans; None if a span is missing, or there is one too many."""
        spans = require_spans(sentence)
        text = self._decode(sentence, hypothesis)
        if self.translator.summary.placeholders:
            return None if spans.find_missing(text) else spans.restore(text)
        return None if self.protector.find_missing(spans.spans, text) else text

    def insert_spans(self, lost: list[Sentence]) -> Plan[None]:
        """Translate without the spans, and insert them where the words around them have gone."""
        tokenizer = self.translator.tokenizers.source
        stripped = []
        for sentence in lost:
            text, _ = remove_spans(require_spans(sentence))
            lowercase = lowercased(text, tokenizer) if sentence.all_caps else text
            ids = sentence.direction.wrap_source(tokenizer.encode(lowercase))
            stripped.append(
                Sentence(
                    "",
                    text,
                    ids,
                    sentence.number,
                    sentence.prefix,
                    direction=sentence.direction,
                    terms=sentence.terms,
                )
            )
        yield from self.search(stripped)
        links = iter((yield from self._align_hypotheses(stripped)))
        for sentence, found in zip(lost, stripped):
            sentence.hypotheses = found.hypotheses
            sentence.outputs = []
            uncertain: list[str] = []
            for hypothesis in found.hypotheses:
                text, doubtful = restore_spans(require_spans(sentence), self._decode(sentence, hypothesis), next(links))
                sentence.outputs.append(text)
                uncertain = uncertain or doubtful
            sentence.warnings = [*self.earlier_warnings.get(sentence.number, ()), *found.warnings]
            if uncertain:
                sentence.warnings.append(f"restored by word alignment; check the position of: {' '.join(uncertain)}")

    def _decode(self, sentence: Sentence, hypothesis: "Hypothesis") -> str:
        return sentence.restore_case(self.translator.tokenizers.target.decode(hypothesis.ids).strip())

    def _align_hypotheses(self, sentences: list[Sentence]) -> Plan[list[Links]]:
        """Links of all hypotheses; empty where the model has no attention to read them from."""
        from headway.translate.alignment import link_by_argmax

        found = [(s, h) for s in sentences for h in s.hypotheses]
        directions = [s.direction for s, _ in found]
        call = AlignCall(
            [s.ids for s, _ in found], [h.ids for _, h in found], directions, link_by_argmax, optional=True
        )
        yield call
        return call.links


def require_spans(sentence: Sentence) -> MaskedText:
    """The protected spans of a sentence that is known to have some."""
    assert sentence.spans is not None
    return sentence.spans
