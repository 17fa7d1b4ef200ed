"""Step 1, on any machine: clean text in pieces, what is held out of it, and two tokenizers.

    python recipes/en-de/prepare.py --data DIR --work WORK

DIR holds the corpora as *.tsv.xz and, in ../multi30k, the captions that are only measured on. Written are
WORK/clean/NAME.N.en-de.tsv.xz, WORK/held/NAME.en-de.tsv and WORK/tokenizer-{8,16}k.json. Takes about ten minutes on two
cores; what is there already is not made again."""

import argparse
import lzma
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from random import Random

from recipe import HERE, LANGUAGES, Corpus, corpora, headway, rows

TESTS = ("newstest2013", "newstest2015", "europarl.test", "tatoeba.valid", "newstest2012", "europarl.valid")
CAPTIONS = "test_2016_flickr"
SIZES = {"8k": 8000, "16k": 16_000}
SAMPLE = 400_000  # pairs of a corpus that a tokenizer learns from, at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--lines", type=int, help="of each file at most, to try it out")
    parser.add_argument("--sizes", default=",".join(SIZES), help="of the tokenizers")
    given = parser.parse_args()
    for folder in ("clean", "held"):
        (given.work / folder).mkdir(parents=True, exist_ok=True)
    for corpus in corpora(given.corpora):
        if all((given.work / "clean" / f"{part}.en-de.tsv.xz").exists() for part in corpus.parts):
            print(f"{corpus.name} is there", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            clean(corpus, given, Path(folder))
            divide(corpus, Path(folder) / "clean.en-de.tsv", given.work)
    for name in ("newstest2012", "europarl.valid"):
        table = rows(given.data / f"{name}.tsv.xz")
        write(given.work / "held" / f"{name}.en-de.tsv", ["\t".join(row) + "\n" for row in islice(table, 1000)])
    for name in given.sizes.split(","):
        learn(given.work, corpora(given.corpora), name)


def clean(corpus: Corpus, given: argparse.Namespace, folder: Path) -> None:
    """Without what is no pair, and without what is measured on."""
    words: list[object] = []
    for name in corpus.files:
        path = given.data / f"{name}.tsv.xz"
        if given.lines:
            path = write(folder / f"{name}.tsv", ["\t".join(row) + "\n" for row in islice(rows(path), given.lines)])
        words += ["--pairs", path]
    captions = given.data.parent / "multi30k"
    words += [word for name in TESTS for word in ("--test-pairs", given.data / f"{name}.tsv.xz")]
    words += ["--test-source", captions / f"{CAPTIONS}.en", "--test-target", captions / f"{CAPTIONS}.de"]
    words += [word for name in corpus.keep for word in ("--keep", name)]
    headway("check", *words, "--from", "en", "--to", "de", "--examples", 1, "--clean", folder / "clean.en-de.tsv")


def divide(corpus: Corpus, path: Path, work: Path) -> None:
    """What is held out, and the rest in pieces of as many lines, each line by turns: a piece is a fair sample."""
    with path.open(encoding="utf-8", newline="\n") as file:
        lines = list(file)
    Random(1).shuffle(lines)  # some corpora are sorted
    for name, count in ((corpus.name, corpus.held_out), (f"{corpus.name}.test", corpus.tested)):
        held, lines = lines[:count], lines[count:]
        if held:
            write(work / "held" / f"{name}.en-de.tsv", held)
    jobs = [(work / "clean" / f"{part}.en-de.tsv.xz", lines[n :: corpus.pieces]) for n, part in enumerate(corpus.parts)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # packing does not hold Python's lock
        list(pool.map(write, *zip(*jobs)))


def write(path: Path, lines: list[str]) -> Path:
    """All or nothing."""
    data = "".join(lines).encode("utf-8")
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(lzma.compress(data, preset=6) if path.suffix == ".xz" else data)
    partial.replace(path)
    return path


def learn(work: Path, known: list[Corpus], name: str) -> None:
    """A vocabulary for both languages with a tag for each, from a sample of everything, some of it as people type."""
    from headway.data.parallel import ParallelFiles
    from headway.data.texts import parallel
    from headway.data.variety import varied
    from headway.text import Tokenizer, Tokenizers

    out = work / f"tokenizer-{name}.json"
    if out.exists():
        return
    first = [parallel(ParallelFiles(str(work / "clean" / f"{c.parts[0]}.en-de.tsv.xz"), "", *LANGUAGES)) for c in known]
    texts = [*first, *(varied(text, 0.05) for text in first)]
    lines = (side for text in texts for pair in islice(text.read(), SAMPLE) for side in pair)
    size = int(SIZES.get(name) or name)
    tokenizer = Tokenizer.train(lines, f"bpe({size})", tags=["de", "en"])
    Tokenizers(tokenizer, tokenizer).save(out)
    print(f"{out}: {tokenizer}", file=sys.stderr)


if __name__ == "__main__":
    main()
