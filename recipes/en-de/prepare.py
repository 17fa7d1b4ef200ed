"""Step 1, on any machine: clean text in pieces, held-out text, pairs with placeholders, and two tokenizers.

    python recipes/en-de/prepare.py --data DIR --work WORK

DIR holds the corpora as *.tsv.xz and, in ../multi30k, the captions, which are only for testing. Writes
WORK/clean/NAME.N.en-de.tsv.xz, WORK/held/NAME.en-de.tsv and WORK/tokenizer-{8,16}k.json. Takes about a quarter of an
hour on two cores; what exists already is not made again.
"""

import argparse
import lzma
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import chain, islice, repeat
from multiprocessing import get_context
from pathlib import Path
from random import Random

from recipe import HERE, LANGUAGES, PLACED, TARGETS, Corpus, corpora, headway, rows

TESTS = ("newstest2013", "newstest2015", "europarl.test", "tatoeba.valid", "newstest2012", "europarl.valid")
CAPTIONS = "test_2016_flickr"
SIZES = {"8k": 8000, "16k": 16_000}
PLACEHOLDER_SHARE = 0.25  # of the first pieces, with placeholders
PLACEHOLDER_LINES = 20_000  # for the tokenizer, which would otherwise spell placeholders in bytes
MAX_SAMPLE_PAIRS = 400_000  # of a corpus, that a tokenizer is trained on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--lines", type=int, help="maximum number of lines of each file, to try it out")
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
            hold_out_and_split(corpus, Path(folder) / "clean.en-de.tsv", given.work)
    for name in ("newstest2012", "europarl.valid"):
        table = rows(given.data / f"{name}.tsv.xz")
        write(given.work / "held" / f"{name}.en-de.tsv", ["\t".join(row) + "\n" for row in islice(table, 1000)])
    with ProcessPoolExecutor(len(TARGETS), get_context("spawn")) as pool:  # a core for each direction
        list(pool.map(write_placeholder_pairs, [given.work] * 2, [corpora(given.corpora)] * 2, TARGETS))
    for name in given.sizes.split(","):
        train_tokenizer(given.work, corpora(given.corpora), name)


def clean(corpus: Corpus, given: argparse.Namespace, folder: Path) -> None:
    """Clean a corpus: without faulty pairs, and without the test texts."""
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


def hold_out_and_split(corpus: Corpus, path: Path, work: Path) -> None:
    """Hold out random lines, and deal the rest to pieces in turn, so that each is a fair sample."""
    with path.open("rb") as file:
        count = sum(1 for _ in file)
    chosen = Random(1).sample(range(count), corpus.held_out + corpus.tested)
    validating, testing = set(chosen[: corpus.held_out]), set(chosen[corpus.held_out :])
    for name, numbers in ((corpus.name, validating), (f"{corpus.name}.test", testing)):
        if numbers:
            write(work / "held" / f"{name}.en-de.tsv", [line for n, line in number_lines(path) if n in numbers])

    out_of_it = validating | testing

    def pack(number: int) -> None:
        out = work / "clean" / f"{corpus.parts[number]}.en-de.tsv.xz"
        partial = out.with_name(f".{out.name}.partial")
        own = (line for n, line in number_lines(path) if n % corpus.pieces == number and n not in out_of_it)
        with lzma.open(partial, "wb", preset=8) as file:
            while some := list(islice(own, 10_000)):
                file.write("".join(some).encode("utf-8"))
        partial.replace(out)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # packing does not hold Python's lock
        list(pool.map(pack, range(corpus.pieces)))


def number_lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from enumerate(file)


def write(path: Path, lines: list[str]) -> Path:
    """Write a few lines atomically."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes("".join(lines).encode("utf-8"))
    partial.replace(path)
    return path


def write_placeholder_pairs(work: Path, all_corpora: list[Corpus], to: str) -> None:
    """Pairs with placeholders, beside the same ones without: see docs/protecting.md. They are made of the true
    translations, so that no GPU waits for it later."""
    from headway.data.corpora import open_parallel
    from headway.data.parallel_files import ParallelFiles
    from headway.text.align.aligner import train_aligner
    from headway.train.alignment_links import sample_pairs
    from headway.train.placeholders import insert_into_share

    out = work / "clean" / f"{PLACED}.1.{TARGETS[to]}.tsv.xz"
    if out.exists():
        return
    files = [str(work / "clean" / f"{corpus.parts[0]}.en-de.tsv.xz") for corpus in all_corpora if corpus.taught]
    texts = [open_parallel(ParallelFiles(path, "", *(LANGUAGES if to == "de" else LANGUAGES[::-1]))) for path in files]
    aligner = train_aligner(sample_pairs(texts))
    pairs = (
        "\t".join(new) + "\n"
        for text in texts
        for old, new in zip(text.read(), insert_into_share(text.read(), aligner, PLACEHOLDER_SHARE))
        if old != new
    )
    partial = out.with_name(f".{out.name}.partial")
    with lzma.open(partial, "wt", preset=8, encoding="utf-8", newline="\n") as file:
        file.writelines(pairs)
    partial.replace(out)


def train_tokenizer(work: Path, all_corpora: list[Corpus], name: str) -> None:
    """A vocabulary for both languages with a tag for each, from a sample of everything, some of it as people type."""
    from headway.data.corpora import open_parallel
    from headway.data.noise import add_noise
    from headway.data.parallel_files import ParallelFiles
    from headway.text.spans.protect import format_placeholder
    from headway.text.tokenizer.pair import Tokenizers
    from headway.text.tokenizer.tokenizer import Tokenizer

    out = work / f"tokenizer-{name}.json"
    if out.exists():
        return
    first = [
        open_parallel(ParallelFiles(str(work / "clean" / f"{c.parts[0]}.en-de.tsv.xz"), "", *LANGUAGES))
        for c in all_corpora
    ]
    texts = [*first, *(add_noise(text, 0.05) for text in first)]
    lines = (side for text in texts for pair in islice(text.read(), MAX_SAMPLE_PAIRS) for side in pair)
    placeholders = repeat(" ".join(format_placeholder(number) for number in range(10)), PLACEHOLDER_LINES)
    size = int(SIZES.get(name) or name)
    tokenizer = Tokenizer.train(chain(lines, placeholders), f"bpe({size})", tags=["de", "en"])
    Tokenizers(tokenizer, tokenizer).save(out)
    print(f"{out}: {tokenizer}", file=sys.stderr)


if __name__ == "__main__":
    main()
