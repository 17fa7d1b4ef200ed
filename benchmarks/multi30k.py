"""Multi30k English to German: train with several seeds, score, compare with the published 41.02 BLEU.

    python benchmarks/multi30k.py --data DIR --work DIR [--seeds 1 2 3] [--together]

Prints a table; the published number is lower-cased and Moses-tokenised, so both are scored that way and cased.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

PUBLISHED = 41.02
CONFIG = Path(__file__).parents[1] / "configs" / "multi30k-en-de.toml"


def start_training(seed: int, data: Path, work: Path) -> subprocess.Popen[bytes]:
    files = {"source": "train.en", "target": "train.de", "valid-source": "val.en", "valid-target": "val.de"}
    flags = [part for name, file in files.items() for part in (f"--{name}", str(data / file))]
    command = [sys.executable, "-m", "headway", "train", *flags, "--config", str(CONFIG), "--seed", str(seed)]
    log = (work / f"seed-{seed}.log").open("wb")
    return subprocess.Popen([*command, "--out", str(work / f"seed-{seed}")], stderr=log)


def score_outputs(seed: int, test: str, data: Path, work: Path) -> tuple[float, float, float, list[float]]:
    """Moses-tokenised lower-cased BLEU, its brevity penalty, cased sacreBLEU and precisions, of saved hypotheses."""
    from headway.text.metrics import compute_scores
    from headway.translate.options import TranslateOptions
    from headway.translate.translator import load_translator

    translator = load_translator(work / f"seed-{seed}")
    source, target = ((data / f"{test}.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("en", "de"))
    hypotheses = [result.text for result in translator.translate(source, TranslateOptions(split_sentences=False))]
    (work / f"seed-{seed}.{test}.txt").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
    moses = compute_scores(hypotheses, target, lowercase=True, tokenize="moses:de")
    return moses.bleu, moses.brevity_penalty, compute_scores(hypotheses, target).bleu, list(moses.precisions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--together", action="store_true", help="all seeds at once, on one device")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    began = time.time()
    running = []
    for seed in options.seeds:
        running.append(start_training(seed, options.data, options.work))
        if not options.together:
            running[-1].wait()
    if any(process.wait() for process in running):
        sys.exit("a training failed: see the logs in " + str(options.work))
    print(f"training, all seeds: {time.time() - began:.0f} s")
    print("| test | seed | BLEU (lower-cased, Moses) | brevity | precisions | sacreBLEU (cased) | training |")
    print("|---|---|---|---|---|---|---|")
    for test in ("val", "test_2016_flickr", "test_2017_flickr"):
        found = []
        for seed in options.seeds:
            moses, brevity, cased, precisions = score_outputs(seed, test, options.data, options.work)
            end = json.loads((options.work / f"seed-{seed}" / "history.jsonl").read_text().splitlines()[-1])
            words = "/".join(f"{value:.1f}" for value in precisions)
            print(f"| {test} | {seed} | {moses:.2f} | {brevity:.3f} | {words} | {cased:.2f} | {end['seconds']:.0f} s |")
            found.append((moses, cased))
        means = [statistics.mean(column) for column in zip(*found)]
        print(f"| {test} | mean | **{means[0]:.2f}** | | | **{means[1]:.2f}** | |", flush=True)
    print(f"published, test_2016_flickr: {PUBLISHED}")


if __name__ == "__main__":
    main()
