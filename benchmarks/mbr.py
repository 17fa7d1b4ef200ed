"""Minimum Bayes risk decoding against beam search: BLEU, chrF and time of the bundled model on a test set.

python benchmarks/mbr.py --source test.en --target test.de --lines 200
"""

import argparse
import time
from pathlib import Path
from typing import Any

from headway.text.metric_scores import compute_metric
from headway.text.metrics import paired_bootstrap
from headway.translate.options import TranslateOptions
from headway.translate.translator import load_translator

SEED = 1
SETTINGS: list[tuple[str, str, dict[str, Any]]] = [  # name, metric, search
    ("beam 4", "", {"beam_size": 4}),
    ("one sample, temperature 1", "", {"sample": True, "seed": SEED}),
    ("chrF over the 16 best of a beam of 16", "chrf", {"beam_size": 16, "n_best": 16}),
    ("chrF over 32 samples, temperature 1", "chrf", {"sample": True, "n_best": 32, "seed": SEED}),
    ("chrF over 32 samples, temperature 0.5", "chrf", {"sample": True, "n_best": 32, "temperature": 0.5, "seed": SEED}),
    ("chrF over 32 samples, top-p 0.6", "chrf", {"sample": True, "n_best": 32, "top_p": 0.6, "seed": SEED}),
    ("BLEU over 32 samples, temperature 0.5", "bleu", {"sample": True, "n_best": 32, "temperature": 0.5, "seed": SEED}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="en-de")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--only", nargs="*", help="settings to run after the first, by their names")
    given = parser.parse_args()
    sources, targets = (
        path.read_text(encoding="utf-8").splitlines()[: given.lines] for path in (given.source, given.target)
    )
    translator = load_translator(given.model, source="en", target="de", engine="torch")
    translator(sources[:2])
    print("| search | BLEU | chrF | p (chrF) | TER | seconds |\n|---|---|---|---|---|---|", flush=True)
    first: list[str] = []
    for name, metric, search in SETTINGS:
        if first and given.only is not None and name not in given.only:
            continue
        started = time.perf_counter()
        found = translator.translate(sources, TranslateOptions(mbr=metric, search=translator.search(**search)))
        seconds = time.perf_counter() - started
        texts = [result.text for result in found]
        bleu, chrf, ter = (compute_metric(one, texts, targets).score for one in ("bleu", "chrf", "ter"))
        chance = f"{paired_bootstrap(first, texts, targets, metric='chrf').p_value:.3f}" if first else ""
        first = first or texts
        print(f"| {name} | {bleu:.1f} | {chrf:.1f} | {chance} | {ter:.1f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
