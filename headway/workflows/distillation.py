"""Distillation: a teacher translates the text that a smaller model, its student, then learns from."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from headway.config.search import Search
from headway.data.parallel_files import OBJECTS, TABLES, unpacked
from headway.translate.results import Guess, Translation, one_line
from headway.translate.translator import Translator
from headway.workflows.back_translation import Pair, Reason, Standards, attempts, written


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """How lines become pairs. A line is a source or, with a tab between them, a source and its reference."""

    translator: Translator
    search: Search
    standards: Standards
    to: str = ""
    split: bool = True
    least_chrf: float = 0.0  # against the reference
    closest: bool = False  # of all that was found, what is most like the reference, and not the likeliest

    def pairs(self, lines: Sequence[str], first: int = 0) -> list[Pair | Reason]:
        """For each line a pair, or why there is none. `first`: the number of the first line, for the draws."""
        rows = [line.partition("\t") for line in lines]
        texts, references = [row[0].strip() for row in rows], [row[2].strip() for row in rows]
        return [
            one.reason or self._pair(one.ids, one.made, reference)
            for one, reference in zip(attempts(self, texts, first), references)
        ]

    def _pair(self, line: Sequence[int], made: Translation, reference: str) -> Pair | Reason:
        guesses = by_likeness(reference, made.guesses) if self.closest and reference else made.guesses
        faults: list[Reason] = []
        for guess in guesses if self.closest else guesses[:1]:
            fault = self.standards.fault(line, replace(made, guesses=[guess]))
            if fault is None:
                unlike = self.least_chrf and reference and chrf(guess.text, reference) < self.least_chrf
                return "unlike" if unlike else Pair(made.source, one_line(guess.text).strip())
            faults.append(fault)
        return faults[0]


def by_likeness(reference: str, guesses: Sequence[Guess]) -> list[Guess]:
    """Most alike first, by BLEU of the sentence; of equal ones the likeliest."""
    if len(guesses) == 1:
        return list(guesses)
    return sorted(guesses, key=lambda guess: -_bleu().sentence_score(guess.text, [reference]).score)


def chrf(output: str, reference: str) -> float:
    return float(_chrf().sentence_score(output, [reference]).score)


@functools.cache
def _bleu() -> BLEU:
    return BLEU(effective_order=True)  # a short sentence has no run of four words


@functools.cache
def _chrf() -> CHRF:
    return CHRF()


def has_both_sides(path: str) -> bool:
    """Whether a file of this name holds pairs; else it holds translations alone."""
    return Path(unpacked(path)).suffix.lower() in (*TABLES, *OBJECTS)


def written_out(found: Sequence[Pair | Reason], path: str) -> str:
    """Rows of pairs; or translations line by line beside their text, with a blank line where there is none."""
    if not path or has_both_sides(path):
        return written(found, path)
    return "".join(f"{one.target}\n" if isinstance(one, Pair) else "\n" for one in found)
