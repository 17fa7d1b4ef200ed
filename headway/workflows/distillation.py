"""Sequence-level distillation: a teacher translates the text that a smaller model, its student, is trained on."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from headway.data.parallel_files import JSONL_SUFFIXES, TSV_SUFFIXES, strip_compression
from headway.translate.options import TranslateOptions
from headway.translate.results import Guess, Translation, to_one_line
from headway.translate.translator import Translator
from headway.workflows.back_translation import PairFilter, RejectReason, SyntheticPair, format_pairs, translate_lines


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Makes pairs of a given source and the teacher's translation of it.

    A line is a source or, with a tab between them, a source and its reference."""

    translator: Translator
    options: TranslateOptions
    pair_filter: PairFilter
    min_chrf: float = 0.0  # against the reference
    closest: bool = False  # choose, of the n-best, what is most like the reference instead of the most probable

    def pairs(self, lines: Sequence[str], first: int = 0) -> list[SyntheticPair | RejectReason]:
        """For each line a pair, or why there is none. `first`: the number of the first line, for sampling."""
        rows = [line.partition("\t") for line in lines]
        texts = [row[0].strip() for row in rows]
        references = [row[2].strip() for row in rows]
        return [
            attempt.reason or self._make_pair(attempt.ids, attempt.translation, reference)
            for attempt, reference in zip(translate_lines(self, texts, first), references)
        ]

    def _make_pair(self, ids: Sequence[int], translation: Translation, reference: str) -> SyntheticPair | RejectReason:
        """The first guess that the filter lets through; only the best is tried unless `closest`."""
        guesses = translation.guesses
        if self.closest and reference:
            guesses = sort_by_reference_bleu(reference, guesses)
        reasons: list[RejectReason] = []
        for guess in guesses if self.closest else guesses[:1]:
            reason = self.pair_filter.reject_translation(ids, replace(translation, guesses=[guess]))
            if reason is None:
                unlike = self.min_chrf and reference and sentence_chrf_score(guess.text, reference) < self.min_chrf
                return "unlike" if unlike else SyntheticPair(translation.source, to_one_line(guess.text).strip())
            reasons.append(reason)
        return reasons[0]


def sort_by_reference_bleu(reference: str, guesses: Sequence[Guess]) -> list[Guess]:
    """Most like the reference first, by sentence BLEU; of equal ones the most probable."""
    if len(guesses) == 1:
        return list(guesses)
    return sorted(guesses, key=lambda guess: -_bleu().sentence_score(guess.text, [reference]).score)


def sentence_chrf_score(output: str, reference: str) -> float:
    """From 0 to 100."""
    return float(_chrf().sentence_score(output, [reference]).score)


@functools.cache
def _bleu() -> BLEU:
    return BLEU(effective_order=True)  # a short sentence has no 4-gram


@functools.cache
def _chrf() -> CHRF:
    return CHRF()


def has_both_sides(path: str) -> bool:
    """Whether a file of this name holds pairs; else it holds translations alone."""
    return Path(strip_compression(path)).suffix.lower() in (*TSV_SUFFIXES, *JSONL_SUFFIXES)


def format_distilled(found: Sequence[SyntheticPair | RejectReason], path: str) -> str:
    """Rows of pairs; or the translations alone, line by line beside their text, blank where there is none."""
    if not path or has_both_sides(path):
        return format_pairs(found, path)
    return "".join(f"{one.target}\n" if isinstance(one, SyntheticPair) else "\n" for one in found)
