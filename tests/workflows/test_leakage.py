"""How much of a text stands in an index: runs by their definition, and the loss of chunks with much or little of it."""

import math
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.cli.app import main
from headway.retrieval.chunk_index import open_chunk_index
from headway.translate.language_model import LanguageModel
from headway.translate.text_vectors import load_embedder
from headway.workflows.leakage import LIMITS, chunk_losses, longest_common_runs, measure_leakage, measure_overlaps


def naive_run(first: list[int], second: list[int]) -> int:
    pieces = {tuple(second[i:j]) for i in range(len(second)) for j in range(i + 1, len(second) + 1)}
    lengths = [j - i for i in range(len(first)) for j in range(i + 1, len(first) + 1) if tuple(first[i:j]) in pieces]
    return max(lengths, default=0)


def test_longest_common_runs() -> None:
    random = np.random.default_rng(0)
    first, second = random.integers(0, 4, (50, 9)), random.integers(0, 4, (50, 14))
    second[:10, 8:] = -1
    expected = [naive_run(a.tolist(), b[b >= 0].tolist()) for a, b in zip(first, second)]
    assert longest_common_runs(first, second).tolist() == expected
    nothing = np.full((2, 3), -1)
    assert longest_common_runs(nothing, nothing).tolist() == [0, 0]


def test_chunks_by_their_overlap(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    pages = [" ".join(random.choice([f"w{n}" for n in range(50)], 20)) for _ in range(30)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(pages) + "\n")
    words = ["--chunk-tokens", "8", "--vocabulary", "384", "--width", "64"]
    assert main(["index", str(tmp_path / "corpus.txt"), "--out", str(tmp_path / "index"), *words]) == 0
    settings = {
        "model.d_model": 16, "model.decoder.layers": 2, "model.decoder.mixer": "attention(2)", "train.max_tokens": 16,
        "model.dropout": 0.0,
    }  # fmt: skip
    headway.train(
        str(tmp_path / "corpus.txt"), tmp_path / "model", index=tmp_path / "index", preset="tiny_lm", steps=1,
        set=settings, device="cpu", progress=False,
    )  # fmt: skip
    model = headway.load(tmp_path / "model", device="cpu")
    assert isinstance(model, LanguageModel)
    index = open_chunk_index(tmp_path / "index", load_embedder)
    copied = "something new " + pages[3]  # not from its beginning, by which a document is known
    text = f"{copied}\n\n{' '.join(f'x{n}y' for n in range(30))}\n"
    rows = measure_leakage([model, model.with_index("none")], text, index)
    assert [row.limit for row in rows] == list(LIMITS) and rows[-1].share == 1
    assert 0 < rows[0].share < 1 or 0 < rows[1].share < 1
    shares = [row.share for row in rows]
    assert shares == sorted(shares)
    for number, own in enumerate((model, model.with_index("none"))):
        assert rows[-1].perplexities[number] == pytest.approx(own.perplexity(text).perplexity, rel=0.1)
    assert rows[-1].perplexities[0] != rows[-1].perplexities[1]
    assert np.median(measure_overlaps(index, index.text)) < 0.8, "no chunk gets its own document"
    losses = chunk_losses(model, index.text, index)
    assert len(losses) == len(index.text.ids) // 8 and np.isfinite(losses).all()
    whole = model.perplexity((tmp_path / "corpus.txt").read_text()).loss
    assert math.isclose(losses.mean(), whole, rel_tol=0.02)
