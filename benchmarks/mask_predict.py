"""Quality and speed of mask-predict beside beam search, on one test set.

    python benchmarks/mask_predict.py --source test.en --target test.de --at-once CMLM --one-by-one TRANSLATOR

Prints BLEU and lines a second of greedy search and beam search with one model, and of mask-predict with 1, 4 and 10
iterations with the other; each in float32 by torch, and the translator also by the engine that it would have (`auto`).
The speed is that of the faster of two runs, after one that is not counted."""

import argparse
from typing import Any

from headway import TranslateOptions, load_translator
from headway.files.text_files import read_pairs
from headway.workflows.evaluation import evaluate

ITERATIONS = (1, 4, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--at-once", required=True, help="trained by masked_target")
    parser.add_argument("--one-by-one", required=True, help="trained by translation")
    parser.add_argument("--length-beam", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    pairs = list(read_pairs(given.source, given.target))
    sources = [source for source, _ in pairs]
    targets = [target for _, target in pairs]
    runs: list[tuple[str, str, str, dict[str, Any]]] = []
    for engine in ("torch", "auto"):
        for beam in (1, 5):
            runs.append((f"beam search, {beam}", given.one_by_one, engine, {"beam_size": beam}))
    for count in ITERATIONS:
        method = f"mask_predict({count}, {given.length_beam})"
        runs.append((method, given.at_once, "torch", {"method": method}))
    print("| search | engine | BLEU | lines/s |\n|---|---|---|---|")
    for name, model, engine, settings in runs:
        translator = load_translator(model, engine=engine, device=given.device)  # type: ignore[arg-type]
        options = TranslateOptions(search=translator.search(**settings), split_sentences=False, retry=False)
        translator.translate(sources[:32], options)
        found = [evaluate(translator, sources, targets, options) for _ in range(2)]
        speed = max(one.sentences_per_second for one in found)
        print(f"| {name} | {translator.engines.describe()} | {found[0].scores.bleu:.2f} | {speed:.1f} |", flush=True)


if __name__ == "__main__":
    main()
