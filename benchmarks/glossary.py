"""Glossaries: how many of the terms are used, and what happens to the rest of the sentence.

    python benchmarks/glossary.py --model DIR --source test.en --target test.de \\
        --train-source train.en --train-target train.de

Each line gets up to two terms: words that, by a statistical aligner, the reference translates by each other. BLEU and
chrF should therefore rise, because the model is given words of the reference; they fall if the words around them
suffer.
"""

import argparse
import random
from dataclasses import replace

from headway.files.text_files import read_pairs
from headway.text.align.aligner import train_aligner
from headway.text.align.words import split_words
from headway.text.glossary import UNIT, Glossary
from headway.text.metrics import compute_scores
from headway.translate.options import TranslateOptions
from headway.translate.results import Translation
from headway.translate.translator import load_translator

MIN_TERM_LETTERS = 4
TERMS_PER_LINE = 2


def pick_terms(pair: tuple[str, str], links: list[tuple[int, int]], rng: random.Random) -> dict[str, str]:
    """Words with exactly one link, on both sides."""
    source, target = (split_words(side) for side in pair)
    alone = [
        (source[i], target[j])
        for i, j in links
        if sum(i in link[:1] for link in links) == 1 == sum(j in link[1:] for link in links)
    ]
    usable = [(a, b) for a, b in alone if a.isalpha() and b.isalpha() and len(a) >= MIN_TERM_LETTERS]
    return dict(rng.sample(usable, min(TERMS_PER_LINE, len(usable))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "source", "target", "train-source", "train-target"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--to", default="", help="the target language, where the model has several")
    parser.add_argument("--lines", type=int, default=150)
    given = parser.parse_args()
    pairs = list(read_pairs(given.source, given.target))[: given.lines]
    aligner = train_aligner(read_pairs(given.train_source, given.train_target), max_pairs=20_000)
    translator = load_translator(given.model, device="cpu", engine="torch")
    rng = random.Random(0)
    line_terms = [pick_terms(pair, links.tolist(), rng) for pair, links in zip(pairs, aligner.align(pairs))]
    options = TranslateOptions(target=given.to)
    plain = [one.text for one in translator.translate([source for source, _ in pairs], options)]
    found: list[Translation] = []
    for (source, _), terms in zip(pairs, line_terms):
        found += translator.translate([source], replace(options, glossary=Glossary(terms)))
    print("| | terms used | BLEU | chrF | lines with a warning |")
    print("|---|---|---|---|---|")
    wanted = sum(map(len, line_terms))
    for name, texts in (("without a glossary", plain), ("with it", [one.text for one in found])):
        used = sum(term in UNIT.findall(text) for text, terms in zip(texts, line_terms) for term in terms.values())
        scores = compute_scores(texts, [target for _, target in pairs])
        warned = str(sum(bool(one.warnings) for one in found)) if texts is not plain else ""
        print(
            f"| {name} | {used} of {wanted} ({used / wanted:.1%}) | {scores.bleu:.1f} | {scores.chrf:.1f} | {warned} |"
        )


if __name__ == "__main__":
    main()
