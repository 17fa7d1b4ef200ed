"""What retrieval brings a language model at equal parameters: perplexity with and without it, and by leakage.

    python benchmarks/retrieval.py --data ../shared/data --work WORK --corpus manpages
    python benchmarks/retrieval.py --data ../shared/data --work WORK --corpus europarl

Two models read the same tokens in the same steps: RETRO, and a decoder alone, deeper, with about as many parameters.
Both have the tokenizer of the index, which holds the training text. The test text is other pages of the same manual, or
other days of Parliament. RETRO reads it with its neighbours, and without any; no neighbour is from a document that
begins like that of the chunk. A chunk's overlap is the longest run of its tokens that one of the ten chunks of the
index nearest to it has, too. The defaults are those of two busy cores: models of a third of a million weights, trained
for minutes."""

import argparse
import json
import lzma
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import headway
from headway.retrieval.chunk_index import open_chunk_index
from headway.translate.language_model import LanguageModel
from headway.translate.text_vectors import load_embedder
from headway.workflows.indexing import ChunkIndexRequest, index_chunks
from headway.workflows.leakage import measure_leakage

TITLE = re.compile(r"^[\w.+-]+(?:, [\w.+-]+)* - ")  # of a manual page
TEST_SHARE = 0.05
SETTINGS = {
    "model.d_model": 64, "model.decoder.mixer": "attention(4)", "model.decoder.feedforward": "gelu(256)",
    "model.dropout": 0.0, "train.max_tokens": 64, "train.batch_tokens": 1024, "train.validate_every": 100_000,
}  # fmt: skip
HEADER = ("overlap at most", "of the chunks", "RETRO", "RETRO, no neighbours", "decoder alone")


def read_english(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        yield from (line.split("\t")[0].strip() for line in file)


def read_documents(data: Path, corpus: str, count: int) -> tuple[list[str], list[str]]:
    """The documents to train on, and those to test on."""
    if corpus == "europarl":
        training = list(islice(read_english(data / "en-de/europarl.part1.tsv.xz"), 25 * count))
        return training, list(islice(read_english(data / "en-de/europarl.test.tsv.xz"), 300))
    pages: list[list[str]] = []
    for line in read_english(data / "en-de/manpages.tsv.xz"):
        if TITLE.match(line) or not pages:
            pages.append([])
        pages[-1].append(line)
    texts = ["\n".join(page) + "\n" for page in pages[:count]]
    is_test = np.random.default_rng(0).random(len(texts)) < TEST_SHARE
    chosen = [[text for text, test in zip(texts, is_test) if test == wanted] for wanted in (False, True)]
    return chosen[0], chosen[1]


def train(work: Path, name: str, steps: int, **more: Any) -> LanguageModel:
    out = work / name
    settings = {**SETTINGS, "train.schedule": "cosine(0.003, warmup=50)", **more.pop("set", {})}
    given: dict[str, Any] = {"preset": "tiny_lm", "steps": steps, "set": settings, "device": "cpu", **more}
    headway.train(str(work / "train.txt"), out, valid=str(work / "valid.txt"), **given)
    model = headway.load(out, device="cpu")
    assert isinstance(model, LanguageModel)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpus", choices=["manpages", "europarl"], default="manpages")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--chunk", type=int, default=16)
    parser.add_argument(
        "--documents", type=int, default=250, help="pages of the manual, or 25 lines each of Parliament"
    )
    parser.add_argument("--layers", type=int, nargs=2, default=(3, 6), help="of RETRO's decoder, and of the one alone")
    given = parser.parse_args()
    work = given.work / given.corpus
    work.mkdir(parents=True, exist_ok=True)
    training, test = read_documents(given.data, given.corpus, given.documents)
    for name, documents in (("train", training), ("valid", test[:20]), ("test", test)):
        (work / f"{name}.txt").write_text("\n".join(documents) + "\n", encoding="utf-8")
    index = work / "index"
    counts = index_chunks(
        ChunkIndexRequest(
            files=[str(work / "train.txt")], out=index, chunk_tokens=given.chunk, vocabulary=2048, width=256
        )
    )
    print(json.dumps(counts))
    retro = train(
        work, "retro", given.steps, index=index,
        set={"model.decoder.layers": given.layers[0], "model.decoder.retrieval.first": 2},
    )  # fmt: skip
    plain = train(
        work, "plain", given.steps, tokenizer=index / "tokenizer.json", set={"model.decoder.layers": given.layers[1]}
    )
    sizes = {"retro": retro, "plain": plain}
    print(json.dumps({name: model.config.model.parameter_count() for name, model in sizes.items()}))
    text = (work / "test.txt").read_text(encoding="utf-8")
    models = [retro, retro.with_index("none"), plain]
    rows = measure_leakage(models, text, open_chunk_index(index, load_embedder))
    print(f"| {' | '.join(HEADER)} |\n{'| --- ' * len(HEADER)}|")
    for row in rows:
        numbers = " | ".join(f"{value:.2f}" for value in row.perplexities)
        print(f"| {row.limit:.1%} | {row.share:.1%} | {numbers} |")


if __name__ == "__main__":
    main()
