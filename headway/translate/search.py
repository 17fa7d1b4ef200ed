"""The search for sentences: like lengths together, those with terms by themselves, and again where something went wrong."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from headway.config.search import Search
from headway.decode.batching import batches
from headway.decode.types import Engine, Hypothesis, Recorder
from headway.text import copied, repeated
from headway.text.numbers import keeps_digits, lost_numbers
from headway.text.spans.protect import Protector
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.translate.translator import Translator

LEAST_TOKENS = 64  # a smaller batch is not worth a thread
WIDEST = 32  # beam for terms: each of their tokens wants room of its own


def find(
    translator: "Translator", sentences: list[Sentence], search: Search, record: Recorder | None, mend: bool,
    keeper: Protector | None,
) -> None:  # fmt: skip
    """What each sentence becomes. Of those with protected spans only what keeps them is taken."""
    kept = [s for s in sentences if s.hidden]
    for sentence in sentences:
        if sentence.stays and keeper is not None:
            said = sentence.hidden.original if sentence.hidden else sentence.read
            sentence.found, sentence.said = [Hypothesis([], 0.0, 0.0, [], True)], [said]
    wide = replace(search, n_best=search.beam_size) if kept and not search.sample else search
    # Whoever records a search, or has spans left as they are, wants to see what the model itself says.
    carries = keeper is not None and translator.outline.placeholders and record is None
    finder, told = Finder(translator, wide, record, mend, carries), {s.number: list(s.warnings) for s in kept}
    finder([s for s in sentences if not s.found])
    if kept and keeper:
        from headway.translate.protected_spans import Keeper

        plain = Finder(
            translator, wide, record, mend
        )  # spans go back into what ids say, which carried numbers are not in
        Keeper(translator, keeper, plain, told).keep([s for s in kept if not s.said])
    for sentence in sentences:
        sentence.found, sentence.said = sentence.found[: search.n_best], sentence.said[: search.n_best]
        best = sentence.found[0]
        if not best.finished:
            sentence.warnings.append(f"the output was cut at {len(best.ids)} tokens")
        if sentence.terms:
            from headway.text.glossary import unplaced

            sentence.warnings += unplaced(sentence.terms, translator.tokenizers.target.decode(best.ids))


class Fault(NamedTuple):
    """Something wrong with an output."""

    told: str
    number: bool = False  # it lacks one


class Finder:
    """How one request searches. Each sentence has its hypotheses afterwards."""

    def __init__(
        self, translator: "Translator", search: Search, record: Recorder | None, mend: bool, carries: bool = False
    ) -> None:
        """mend: decode again, otherwise, where the output is a loop, a copy or nothing, or lacks a number
        carries: numbers that are lost all the same are put where their placeholders go"""
        self.translator, self.search, self.record, self.mend = translator, search, record, mend
        self.carries = carries
        self.engine: Engine | None = None  # that of the first search: it looks again, too, so that no other is loaded

    def __call__(self, sentences: list[Sentence]) -> None:
        self._search_all(sentences, self.search)
        if self.mend and not self.search.sample:
            self._mend([s for s in sentences if not s.prefix and self._fault(s, s.found[0])])

    def _search_all(self, sentences: list[Sentence], search: Search, again: bool = False) -> None:
        plain, demanding = [s for s in sentences if not s.terms], [s for s in sentences if s.terms]
        self._search(plain, search, again=again)
        if demanding:
            from headway.decode.constraints import Demands
            from headway.text.glossary import spelled

            target = self.translator.tokenizers.target
            for sentence in demanding:
                phrases = tuple(spelled(term, target) for term in sentence.terms)
                sentence.demands = Demands(phrases, target.inner)
            most = max(sum(map(len, s.demands.phrases)) for s in demanding if s.demands)
            wide = max(search.beam_size, min(2 * (most + 1), WIDEST))
            self._search(demanding, replace(search, beam_size=wide, shortlist=False), demands=True)

    def _search(self, sentences: list[Sentence], search: Search, demands: bool = False, again: bool = False) -> None:
        """No output goes on where the positions of a model end."""
        if not sentences:
            return
        translator, record = self.translator, self.record
        prefixed = any(s.prefix for s in sentences)
        engine = self.engine if again and not demands else None
        if engine is None:
            engine = translator.engines.choose(len(sentences), search, prefixed, record, demands)
        if not demands:
            self.engine = engine
        end = math.inf if translator.positions is None else translator.positions
        long = [s for s in sentences if search.limit(len(s.ids)) > end]
        rest = [s for s in sentences if search.limit(len(s.ids)) <= end]
        work = []
        for part, how in ((long, replace(search, max_length=translator.positions) if long else search), (rest, search)):
            share = math.ceil(sum(len(s.ids) for s in part) / engine.workers)  # so that nobody is without
            budget = min(translator.batch_tokens // max(search.beam_size // 4, 1), max(share, LEAST_TOKENS))
            work += [(batch, how) for batch in batches(part, lambda s: len(s.ids), budget)]
        if record is None:
            engine.each(lambda one: self._search_batch(engine, *one), work)
        else:
            for one in work:
                self._search_batch(engine, *one)

    def _search_batch(self, engine: Engine, batch: Sequence[Sentence], search: Search) -> None:
        prefixes = [self.translator.forced(s.prefix) for s in batch] if any(s.prefix for s in batch) else None
        demands = [s.demands for s in batch if s.demands is not None] or None
        numbers = [s.number for s in batch]
        found = engine.search(
            [s.ids for s in batch], search, prefixes=prefixes, lines=numbers, record=self.record, demands=demands
        )
        for sentence, hypotheses in zip(batch, found):
            sentence.found = hypotheses

    def _fault(self, sentence: Sentence, found: Hypothesis) -> Fault | None:
        outline = self.translator.outline
        if repeated(found.ids) and not repeated(sentence.ids):
            return Fault("the output went round in a loop")
        target = self.translator.tokenizers.target.decode(found.ids)
        if not target.strip() and any(character.isalnum() for character in sentence.read):
            return Fault("the output was empty")
        if "\ufffd" in target and "\ufffd" not in sentence.read:
            return Fault("the output had bytes that are no character")
        if outline.placeholders and "⟦" in target and "⟦" not in sentence.read:
            return Fault("the output had a placeholder that the input has not")
        same = set(outline.source_languages) & set(outline.target_languages)
        if not same and copied(sentence.read, target):
            return Fault("the output was a copy of the input")
        if self._keeps_digits and (lost := lost_numbers(sentence.read, target, outline.target_languages)):
            return Fault(f"the output lacked the number{'s' * (len(lost) > 1)} {', '.join(lost)}", number=True)
        return None

    @functools.cached_property
    def _keeps_digits(self) -> bool:
        return keeps_digits(self.translator.outline.languages)

    def _mend(self, suspects: list[Sentence]) -> None:
        """A wider search, that may not repeat itself if not for a number; what it finds without a fault is taken."""
        if not suspects:
            return
        search = self.search
        before = [(s, fault, s.found) for s in suspects if (fault := self._fault(s, s.found[0]))]
        width = max(8, search.beam_size)
        wide = replace(search, beam_size=width, n_best=width)
        self._search_all([s for s, fault, _ in before if fault.number], wide, again=True)
        others = [s for s, fault, _ in before if not fault.number]
        self._search_all(others, replace(wide, no_repeat_ngram=3), again=True)
        ends, lost = {}, []
        for sentence, fault, first in before:
            sound = [h for h in sentence.found if not self._fault(sentence, h)]
            sentence.found = (sound or first)[: search.n_best]
            ends[sentence.number] = "another was found" if sound else "nothing better was found"
            lost += [sentence] if fault.number and not sound else []
        for sentence in self._carried(lost, wide):
            ends[sentence.number] = "put in afterwards, so check its place"
        for sentence, fault, _ in before:
            sentence.warnings.append(f"{fault.told}; {ends[sentence.number]}")

    def _carried(self, lost: list[Sentence], wide: Search) -> list[Sentence]:
        """Those that have their numbers after all."""
        if not lost or not self.carries:
            return []
        from headway.translate.lost_numbers import carry

        def find(sentences: list[Sentence]) -> None:
            self._search(sentences, wide, again=True)

        return carry(self.translator, lost, find, lambda sentence, found: not self._fault(sentence, found))
