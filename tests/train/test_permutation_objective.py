"""The permutation objective: orders, what is predicted, and runs of training with it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.sequence import FactorisationOrder
from headway.text.lm_text import encode_text
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.objectives import Batch, Example
from headway.train.training import prepare

SPECIAL = SpecialTokens(start=1, end=2, pad=0, mask=3, vocabulary=500)
NOTHING = np.zeros(0, np.int64)
MUTUAL = "permutation(context='mutual')"


def collate(objective: str, *lengths: int, seed: int = 0) -> Batch:
    random = np.random.default_rng(seed)
    examples = [Example(NOTHING, random.integers(5, 500, length)) for length in lengths]
    part: Any = make_part("objective", objective)
    batch: Batch = part.collate(examples, SPECIAL, random)
    return batch


def order_of(batch: Batch) -> FactorisationOrder:
    assert isinstance(batch.inputs_valid, FactorisationOrder)
    return batch.inputs_valid


@pytest.mark.parametrize("objective", ["permutation", "permutation(1)", "permutation(0.5, 1)", MUTUAL])
def test_labels_are_the_last_tokens_of_the_order(objective: str) -> None:
    batch = collate(objective, 1, 2, 7, 40, 64)
    order, ids = order_of(batch), batch.inputs
    assert ids is not None
    assert batch.label_count == int((batch.labels != IGNORE_INDEX).sum())
    for row in range(len(ids)):
        count = int((batch.labels[row] != IGNORE_INDEX).sum())
        length = int(order.valid[row].sum())
        places, ranks = order.predicted[row, :count], order.ranks[row, :length]
        assert 1 <= count <= length
        assert batch.labels[row, :count].tolist() == ids[row, places].tolist()
        assert len(set(places.tolist())) == count
        others = sorted(set(range(length)) - set(places.tolist()))
        assert all(ranks[others] < ranks[places].min())
        assert len(set(ranks[places].tolist())) == count
        if objective == MUTUAL:
            assert all(ranks[others] == 0)
        else:
            assert sorted(ranks.tolist()) == list(range(length))


@pytest.mark.parametrize(("share", "span"), [(1 / 6, 5), (0.3, 1), (0.15, 10), (0.9, 3), (1.0, 5)])
def test_shares_and_spans(share: float, span: int) -> None:
    part: Any = make_part("objective", f"permutation({share}, {span})")
    random = np.random.default_rng(1)
    rows = [part.draw_predicted(512, random) for _ in range(200)]
    assert np.mean(rows) == pytest.approx(share, rel=0.05)
    if share < 0.5:
        runs = [len(run) for row in rows for run in "".join("x" if p else " " for p in row).split()]
        assert max(runs) >= span and min(runs) == 1
        assert np.quantile(runs, 0.9) <= 2 * span  # two spans may meet


def test_orders_are_drawn_anew_and_evenly() -> None:
    orders = [order_of(collate("permutation(1)", 3, seed=seed)).ranks[0].tolist() for seed in range(600)]
    counts = {tuple(order): orders.count(order) for order in orders}
    assert len(counts) == 6 and min(counts.values()) > 60  # of 100 each


def test_a_row_that_goes_on_leaves_out_the_token_with_which_the_next_begins() -> None:
    batch = collate("permutation(carry=true)", 9, 1)
    assert order_of(batch).valid.sum(1).tolist() == [8, 0]
    assert (batch.labels[1] == IGNORE_INDEX).all()


def test_padded_to_a_shape_it_is_the_same() -> None:
    batch = collate("permutation", 5, 11)
    padded = batch.pad_to(4, 16)
    order, more = order_of(batch), order_of(padded)
    assert more.valid.shape == (4, 16) and more.predicted.shape == padded.labels.shape
    assert more.valid.sum() == order.valid.sum()
    assert (padded.labels != IGNORE_INDEX).sum() == batch.label_count
    assert torch.equal(more.ranks[:2, : order.ranks.shape[1]], order.ranks)


LINES = [f"the {a} dog sees the {b} cat by the {c} river" for a in ["old", "young"] for b in ["red", "wet"]
         for c in ["deep", "cold", "wide"]]  # fmt: skip
SMALL: dict[str, Any] = {
    "tokenizer.kind": "bytes",
    "model.d_model": 32,
    "model.decoder.layers": 2,
    "model.decoder.mixer": "attention(2)",
    "model.decoder.feedforward": "relu(64)",
    "train.max_tokens": 32,
    "train.batch_tokens": 256,
    "train.schedule": "inverse_sqrt(0.01, warmup=5)",
}


def train(out: Path, objective: str, steps: int, **settings: Any) -> headway.TrainingResult:
    changed = {**SMALL, "train.objective": objective, **settings}
    return headway.train(
        LINES * 10, out, valid=LINES, preset="tiny_lm", set={**changed, "model.decoder.streams": 2},
        steps=steps, progress=False, device="cpu",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("objective", "mask"), [("permutation(1)", "causal"), ("permutation(0.5, carry=true)", "causal & segments(32, 32)")]
)
def test_it_learns_writes_and_resumes_exactly(tmp_path: Path, objective: str, mask: str) -> None:
    settings = {"model.decoder.mask": mask, "model.decoder.position": "transformer_xl", "train.validate_every": 10}
    whole = train(tmp_path / "whole", objective, 20, **settings)
    train(tmp_path / "parts", objective, 10, **settings)
    parts = train(tmp_path / "parts", objective, 20, **settings)
    assert parts.step == 20 and parts.result.loss == whole.result.loss
    assert whole.result.loss < 4.5  # nothing learned: 5.5
    model = parts.language_model
    text = " ".join(LINES)[:90]
    ids = torch.from_numpy(encode_text(text, model.tokenizer))[None]
    chunks = [ids[:, start : start + 33] for start in range(0, ids.shape[1] - 1, 32)]
    state = model.model.new_state(1) if "carry" in objective else None
    with torch.no_grad():
        logps = [model.model.logits(model.model.decode(part[:, :-1], state=state)).log_softmax(-1) for part in chunks]
    picked = [part[0].gather(1, ids_[0, 1:, None]) for part, ids_ in zip(logps, chunks)]
    assert model.perplexity(text).loss == pytest.approx(-float(torch.cat(picked).mean()), rel=1e-5), "left to right"
    assert model.perplexity(text).tokens == ids.shape[1] - 1
    greedy = {"length": 12, "sample": False}
    assert model("the old", **greedy) == "the old" + "".join(model.stream("the old", **greedy))
    measured = model.perplexity(LINES[0][:24])  # from left to right
    state, ids = model.model.new_state(1), torch.tensor(encode_text(LINES[0][:24], model.tokenizer))[None]
    with torch.no_grad():
        steps = [model.model.decode(ids[:, n : n + 1], state=state) for n in range(ids.shape[1] - 1)]
        logits = model.model.logits(torch.cat(steps, 1))[0]
    expected = torch.nn.functional.cross_entropy(logits, ids[0, 1:])
    assert measured.tokens == ids.shape[1] - 1 and measured.loss == pytest.approx(float(expected), abs=1e-5)


def test_auto_takes_a_decoder_with_two_streams(tmp_path: Path) -> None:
    setup = prepare(LINES * 10, valid=LINES, objective="permutation", device="cpu", progress=False)
    assert setup.config.model.decoder.streams == 2
    assert setup.config.train.objective.kind == "permutation"


def test_needs_two_streams(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two streams"):
        headway.train(LINES * 10, tmp_path / "out", preset="tiny_lm", set={"train.objective": "permutation"})
