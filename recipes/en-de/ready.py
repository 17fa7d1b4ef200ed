"""Beside other steps, to save GPU time: encode text to ids, one process per file, so that training starts at once.

    python recipes/en-de/ready.py teacher --work WORK        # or student, control; files that do not exist are skipped
    python recipes/en-de/ready.py control --work WORK --to de    # for a model of one direction, whose text has no tags

The ids go into the cache of `headway train` (HEADWAY_CACHE).
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from recipe import HERE, LANGUAGES, TARGETS, corpora
from train import NOISE_SHARE, Text, texts_for, unpack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["teacher", "student", "control"])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--tokenizer", default="", help="16k or 8k; default: by the role")
    parser.add_argument("--to", choices=TARGETS, help="only this direction")
    given = parser.parse_args()
    all_corpora, teacher = corpora(given.corpora), given.role == "teacher"
    unpack(given.work, all_corpora)
    size = given.tokenizer or ("16k" if teacher else "8k")
    tags = [] if given.to else sorted(LANGUAGES)
    encode = partial(encode_one, given.work / f"tokenizer-{size}.json", 0.0 if teacher else NOISE_SHARE, tags)
    texts = [text for text in texts_for(given.role, given.work, all_corpora) if text.path.exists()]
    texts = [text for text in texts if given.to in (None, text.to)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(encode, sorted(texts, key=lambda text: -text.path.stat().st_size)))


def encode_one(tokenizer: Path, vary: float, tags: list[str], text: Text) -> None:
    """One file in one direction and, with --noise, as people type it."""
    from headway.data.noise import add_noise
    from headway.text.tokenizer.pair import Tokenizers
    from headway.train.dataset import encode_corpus, make_sides
    from headway.train.sources import TrainingFiles, read_corpora

    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(
        0, {cores[os.getpid() % len(cores)]}
    )  # where there is one core, no further processes are started
    source, target = LANGUAGES if text.to == "de" else LANGUAGES[::-1]
    found = read_corpora(TrainingFiles(pairs=[str(text.path)], source_languages=[source], target_languages=[target]))
    tokenizers = Tokenizers.load(tokenizer)
    for corpus in [*found, *(add_noise(one, vary) for one in found if vary)]:
        encode_corpus(corpus, make_sides(corpus, tokenizers, tags))


if __name__ == "__main__":
    main()
