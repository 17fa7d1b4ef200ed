"""What a shortlist costs: BLEU and the number of candidates, without one, with several sizes, and pruned for all lines.

    python benchmarks/shortlist.py --model DIR --source test.en --target test.de --train train.en train.de

The lexicon is counted once, in the two files of --train; every row of the table translates the whole test text. "has
all" is the share of test lines whose reference translation consists of candidates only, "tokens" the share of their
tokens that are candidates. The search scores the whole vocabulary and then bans tokens, so the seconds do not show what
a shortlist saves.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headway.data.corpora import open_parallel
from headway.data.parallel_files import ParallelFiles
from headway.files.text_files import read_pairs
from headway.text.align.lexicon import make_shortlist
from headway.text.shortlist import Shortlist
from headway.text.tokenizer.pair import Tokenizers
from headway.train.shortlist import LexicalShortlist, count_lexicons
from headway.translate.options import TranslateOptions
from headway.translate.translator import load_translator
from headway.workflows.evaluation import compare_evaluations, evaluate

LEXICAL_SIZES = [(10, 100), (20, 100), (50, 100), (100, 100), (100, 500)]  # best, frequent
PRUNED_SIZES = [1000, 2000, 4000]  # of the vocabulary, for every sentence


class Trial(NamedTuple):
    name: str
    shortlist: Shortlist | None


class Coverage(NamedTuple):
    candidates: float  # a sentence
    tokens: float  # shares
    lines: float


def make_trials(tokenizers: Tokenizers, train: tuple[str, str], max_pairs: int) -> Iterator[Trial]:
    yield Trial("all words", None)
    part = LexicalShortlist.Config(best=max(best for best, _ in LEXICAL_SIZES), pairs=max_pairs)
    lexicons = count_lexicons(part, [open_parallel(ParallelFiles(*train, "", ""))], tokenizers, ())
    for best, frequent in LEXICAL_SIZES:
        yield Trial(f"lexical({best}, {frequent})", make_shortlist(lexicons, best, frequent))
    for kept in PRUNED_SIZES:
        yield Trial(f"frequent({kept})", make_shortlist(lexicons, 0, kept))


def measure_coverage(shortlist: Shortlist | None, tokenizers: Tokenizers, pairs: list[tuple[str, str]]) -> Coverage:
    if shortlist is None:
        return Coverage(tokenizers.target.size, 1.0, 1.0)
    sizes, hits = [], []
    for source, target in pairs:
        candidates = shortlist.candidates([*tokenizers.source.encode(source), tokenizers.source.end])
        sizes.append(len(candidates))
        hits.append(np.isin(tokenizers.target.encode(target), candidates))
    return Coverage(
        float(np.mean(sizes)), float(np.concatenate(hits).mean()), float(np.mean([hit.all() for hit in hits]))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--train", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--at-most", type=int, default=200_000, help="maximum number of pairs to count")
    parser.add_argument("--beam-size", type=int, help="default: the model's")
    given = parser.parse_args()
    translator = load_translator(given.model, device="cpu")
    pairs = list(read_pairs(given.source, given.target))
    sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
    print("| candidates from | BLEU | difference | p | same lines | candidates | tokens | has all | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    first = None
    for trial in make_trials(translator.tokenizers, tuple(given.train), given.at_most):
        translator.stepper.shortlist = trial.shortlist
        search = translator.search(beam_size=given.beam_size, shortlist=trial.shortlist is not None)
        found = evaluate(translator, sources, targets, TranslateOptions(search=search))
        first = first or found
        chance = (
            compare_evaluations(first, found, targets, lowercase=False, tokenize="13a").p_value
            if found is not first
            else 1.0
        )
        same = np.mean([one == other for one, other in zip(first.hypotheses, found.hypotheses)])
        covered = measure_coverage(trial.shortlist, translator.tokenizers, pairs)
        print(
            f"| {trial.name} | {found.scores.bleu:.2f} | {found.scores.bleu - first.scores.bleu:+.2f} | {chance:.3f} "
            f"| {same:.1%} | {covered.candidates:.0f} | {covered.tokens:.1%} | {covered.lines:.1%} "
            f"| {found.seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
