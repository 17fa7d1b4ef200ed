"""Word alignment: the error on the toy corpus, whose links are known, and ten pairs of Multi30k to inspect.

    python benchmarks/alignment.py --work DIR
    python benchmarks/alignment.py --work DIR --multi30k DIR [--model DIR]

The first trains two translators on the toy corpus, as `make demo` does but for a fixed number of steps, one with guided
alignment and one without, and prints the alignment error rate 1 - 2|A ∩ G| / (|A| + |G|) on its test pairs. The second
aligns pairs of test_2016_flickr with a statistical aligner trained on train.en and train.de, or with a model. Data:
train.{en,de} and test_2016_flickr.{en,de}, one sentence per line, plain or compressed.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from headway.data.toy import write_toy
from headway.files.text_files import read_pairs
from headway.text.align.aligner import train_aligner
from headway.text.align.words import split_words

Links = set[tuple[int, int]]
SHOWN_PAIRS = range(0, 1000, 100)


def train(toy: Path, out: Path, alignment: str, steps: int) -> float:
    """Train a translator; the seconds it took."""
    files = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
    flags = [part for name, file in files.items() for part in (f"--{name}", str(toy / file))]
    settings = [f"train.alignment={alignment}", f"train.steps={steps}"]
    sets = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "headway", "-q", "train", *flags, "--preset", "tiny", *sets, "--out", str(out)]
    began = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - began


def measure_links(found: Sequence[Links], gold: Sequence[Links]) -> tuple[float, float, float]:
    """Error rate, precision, recall, in per cent."""
    right = sum(len(one & other) for one, other in zip(found, gold))
    given, wanted = sum(map(len, found)), sum(map(len, gold))
    return 100 - 200 * right / (given + wanted), 100 * right / given, 100 * right / wanted


def run_toy(work: Path, steps: int) -> None:
    from headway.text.metrics import compute_scores
    from headway.translate.translator import load_translator

    toy = work / "toy"
    write_toy(toy)
    test = list(read_pairs(toy / "test.en", toy / "test.qtx"))
    lines = (toy / "test.align").read_text().split("\n")[:-1]
    gold = [{(int(i), int(j)) for i, j in (link.split("-") for link in line.split())} for line in lines]
    print("| aligned by | AER | precision | recall | BLEU | training |")
    print("|---|---|---|---|---|---|")
    began = time.monotonic()
    aligner = train_aligner(read_pairs(toy / "train.en", toy / "train.qtx"))
    seconds = time.monotonic() - began
    found = [{(i, j) for i, j in links.tolist()} for links in aligner.align(test)]
    numbers = " | ".join(f"{rate:.2f} %" for rate in measure_links(found, gold))
    print(f"| statistical aligner | {numbers} | | {seconds:.1f} s |", flush=True)
    for name, alignment in (("guided head", "guided"), ("no guided alignment", "none")):
        seconds = train(toy, work / alignment, alignment, steps)
        translator = load_translator(work / alignment)
        numbers = " | ".join(
            f"{rate:.2f} %" for rate in measure_links([set(links) for links in translator.align(test)], gold)
        )
        bleu = compute_scores(translator([source for source, _ in test]), [target for _, target in test]).bleu
        print(f"| {name} | {numbers} | {bleu:.2f} | {seconds:.0f} s |", flush=True)


def run_multi30k(data: Path, model: Path | None) -> None:
    """Ten pairs, a link a word: read each as source-target."""
    pairs = list(read_pairs(*(find_file(data, f"test_2016_flickr.{side}") for side in ("en", "de"))))
    shown = [pairs[number] for number in SHOWN_PAIRS]
    if model:
        from headway.translate.translator import load_translator

        links = load_translator(model).align(shown)
    else:
        began = time.monotonic()
        aligner = train_aligner(read_pairs(*(find_file(data, f"train.{side}") for side in ("en", "de"))))
        print(f"learned in {time.monotonic() - began:.1f} s")
        links = [[(i, j) for i, j in own.tolist()] for own in aligner.align(shown)]
    for (source, target), own in zip(shown, links):
        source_words, target_words = split_words(source), split_words(target)
        print(f"{source}\n{target}\n    {' '.join(f'{source_words[i]}-{target_words[j]}' for i, j in own)}")


def find_file(folder: Path, name: str) -> Path:
    return next(
        folder / f"{name}{ending}" for ending in ("", ".xz", ".gz", ".zst") if (folder / f"{name}{ending}").exists()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--multi30k", type=Path)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.multi30k:
        run_multi30k(options.multi30k, options.model)
    else:
        run_toy(options.work, options.steps)


if __name__ == "__main__":
    main()
