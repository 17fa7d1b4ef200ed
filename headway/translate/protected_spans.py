"""Protected spans through a translation: checked in what a search has found, and put back where it has lost them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.text.spans.protect import Hidden, Protector
from headway.text.spans.restore import Links, bare, put_back
from headway.text.spans.uppercase import calmed
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.decode.types import Hypothesis
    from headway.translate.translator import Translator

Find = Callable[[list[Sentence]], None]


@dataclass(frozen=True)
class Keeper:
    """With what spans are kept by one translator."""

    translator: "Translator"
    protector: Protector
    find: Find  # searches for sentences, and mends them
    told: dict[int, list[str]]  # what was to be said of each before that

    def keep(self, sentences: list[Sentence]) -> None:
        """Each has been searched for, with more hypotheses than were asked for: those with all spans are taken."""
        lost = []
        for sentence in sentences:
            sound = [pair for h in sentence.found if (pair := (h, self._said(sentence, h)))[1] is not None]
            if not sound:
                lost.append(sentence)
                continue
            sentence.found = [hypothesis for hypothesis, _ in sound]
            sentence.said = [text for _, text in sound if text is not None]
        if lost:
            self._put_back(lost)

    def _said(self, sentence: Sentence, found: "Hypothesis") -> str | None:
        """What a hypothesis says; None if a span is missing, or one too many."""
        assert sentence.hidden is not None
        text = sentence.spelled(self.translator.tokenizers.target.decode(found.ids).strip())
        hidden = sentence.hidden
        if self.translator.outline.placeholders:
            return None if hidden.missing(text) else hidden.said(text)
        return None if self.protector.missing(hidden.spans, text) else text

    def _put_back(self, lost: list[Sentence]) -> None:
        """Translate without the spans, and put them where the words around them have gone."""
        reader = self.translator.tokenizers.source
        stripped = []
        for sentence in lost:
            text, _ = bare(hidden_of(sentence))
            calm = calmed(text, reader) if sentence.capitals else text
            ids = [*sentence.lead, *reader.encode(calm), reader.end]
            stripped.append(
                Sentence("", text, ids, sentence.number, sentence.prefix, lead=sentence.lead, terms=sentence.terms)
            )
        self.find(stripped)
        links = iter(self._links(stripped))
        for sentence, found in zip(lost, stripped):
            sentence.found, sentence.said = found.found, []
            unsure: list[str] = []
            for hypothesis in found.found:
                text = sentence.spelled(self.translator.tokenizers.target.decode(hypothesis.ids).strip())
                text, doubted = put_back(hidden_of(sentence), text, next(links))
                sentence.said.append(text)
                unsure = unsure or doubted
            sentence.warnings = self.told[sentence.number] + found.warnings
            if unsure:
                sentence.warnings.append(f"put back by alignment, so check the place of: {' '.join(unsure)}")

    def _links(self, sentences: list[Sentence]) -> list[Links]:
        """Of all hypotheses; none where the model has no attention to read them from."""
        from headway.translate.alignment import align_ids, likeliest

        found = [(s.ids, h.ids) for s in sentences for h in s.found]
        try:
            return list(align_ids(self.translator, [ids for ids, _ in found], [ids for _, ids in found], likeliest))
        except HeadwayError:
            return [[] for _ in found]


def hidden_of(sentence: Sentence) -> Hidden:
    assert sentence.hidden is not None
    return sentence.hidden
