"""The losses of tasks against their definitions, example by example."""

from typing import Any

import numpy as np
import pytest
import torch

from headway.config.schema import from_dict, make_part
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.loss import batch_loss
from headway.train.objectives import Example
from headway.train.task_objectives import group_rows

SPECIAL = SpecialTokens(start=1, end=2)


def encoder(head: str, segments: int = 0) -> Transformer:
    table = {
        "d_model": 16, "vocabulary": 50, "dropout": 0.0, "head": head, "decoder": {"layers": 0},
        "encoder": {"layers": 1, "mixer": "attention(2)", "feedforward": "relu(16)"},
        "embedding": {"segments": segments},
    }  # fmt: skip
    return Transformer(from_dict(Transformer.Config, table)).eval().double()


def text(*ids: int) -> np.ndarray:
    return np.array(ids, np.int64)


def loss_of(model: Transformer, objective: Any, examples: list[Example], smoothing: float = 0.0) -> tuple[float, int]:
    batch = objective.collate(examples, SPECIAL, np.random.default_rng(1))
    return float(batch_loss(model, batch, smoothing, objective=objective).loss.detach()), batch.label_count


def vector(model: Transformer, ids: np.ndarray) -> torch.Tensor:
    return model.encode(torch.tensor(ids)[None]).values  # (1, T, d)


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_classify(pooling: str) -> None:
    model = encoder(f"pooled(3, pooling='{pooling}')")
    objective = make_part("objective", "classify(weights=[1.0, 2.0, 0.5])")
    texts, labels = [text(5, 6, 7), text(8), text(9, 5)], [2, 1, IGNORE_INDEX]
    found, count = loss_of(model, objective, [Example(ids, text(label)) for ids, label in zip(texts, labels)])
    scores = [model.logits(vector(model, ids))[0].log_softmax(-1) for ids in texts[:2]]
    assert found == pytest.approx(float(-0.5 * scores[0][2] - 2 * scores[1][1]), abs=1e-5) and count == 2


@torch.no_grad()
def test_tags_count_at_first_tokens_only() -> None:
    model, objective = encoder("tags(2)"), make_part("objective", "tag")
    labels = [text(IGNORE_INDEX, 1, IGNORE_INDEX, 0), text(IGNORE_INDEX, 1)]
    texts = [text(5, 6, 7, 8), text(9, 5)]
    found, count = loss_of(model, objective, [Example(*pair) for pair in zip(texts, labels)])
    scores = [model.logits(vector(model, ids))[0].log_softmax(-1) for ids in texts]
    assert found == pytest.approx(float(-scores[0][1, 1] - scores[0][3, 0] - scores[1][1, 1]), abs=1e-5) and count == 3


@torch.no_grad()
def test_match_reads_segments_and_learns_scores() -> None:
    model, objective = encoder("pooled(1)", segments=2), make_part("objective", "match")
    examples = [
        Example(text(5, 6, 7, 8), np.array([0.25], np.float32), None, (text(2),)),
        Example(text(5, 9), np.array([1.0], np.float32), None, (text(1),)),
    ]
    found, _ = loss_of(model, objective, examples)
    expected = 0.0
    for example, segments in zip(examples, ([0, 0, 1, 1], [0, 1])):
        hidden = model.encode(torch.tensor(example.source)[None], segments=torch.tensor([segments])).values
        expected += float((model.logits(hidden)[0, 0] - example.target[0]) ** 2)
    assert found == pytest.approx(expected, abs=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("symmetric", [False, True])
def test_embed_is_contrastive(symmetric: bool) -> None:
    model = encoder("embedding")
    objective = make_part("objective", f"embed(0.1, symmetric={str(symmetric).lower()})")
    anchors = [text(5, 6), text(7, 8, 9), text(5, 6), text(12)]  # the third has the first's text
    positives = [text(10), text(11, 12), text(13, 14), text(15)]
    negatives = [(text(20, 21),), (), (), (text(22), text(23, 24, 25))]
    rows = [Example(a, p, None, n) for a, p, n in zip(anchors, positives, negatives)]
    found, count = loss_of(model, objective, rows)
    head: Any = model.head
    texts = [ids for row in rows for ids in (row.source, row.target, *row.others)]
    made = {ids.tobytes(): head.vector(vector(model, ids))[0] for ids in texts}

    def score(a: np.ndarray, b: np.ndarray) -> float:
        return float(made[a.tobytes()] @ made[b.tobytes()] / 0.1)

    forward, back = 0.0, 0.0
    for i, row in enumerate(rows):
        others = [j for j in range(4) if j == i or {i, j} != {0, 2}]
        candidates = [score(row.source, rows[j].target) for j in others]
        candidates += [score(row.source, n) for j in others for n in rows[j].others]
        forward -= score(row.source, row.target) - float(torch.tensor(candidates).logsumexp(0))
        mirrored = [score(rows[j].source, row.target) for j in others]
        back -= score(row.source, row.target) - float(torch.tensor(mirrored).logsumexp(0))
    assert found == pytest.approx((forward + back) / 2 if symmetric else forward, abs=1e-4) and count == 4


def test_rows_with_a_text_in_common_are_one_group() -> None:
    pairs = [(1, 2), (3, 4), (5, 2), (5, 6), (7, 8)]
    groups = group_rows([Example(text(a), text(b)) for a, b in pairs])
    assert groups[0] == groups[2] == groups[3] and len({groups[0], groups[1], groups[4]}) == 3


def test_padding_changes_no_loss() -> None:
    model = encoder("pooled(2, pooling='mean')")
    objective = make_part("objective", "classify")
    one, other = Example(text(5, 6), text(0)), Example(text(7, 8, 9, 10, 11), text(1))
    together = loss_of(model, objective, [one, other])[0]
    assert together == pytest.approx(loss_of(model, objective, [one])[0] + loss_of(model, objective, [other])[0])
