"""What makes training fast on a GPU equals what it stands for: kernels, the loss in pieces, steps as CUDA graphs.

Run with: pytest -m gpu tests/gpu
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.config.config import read_config
from headway.nn.ops import cross_entropy, fused
from headway.nn.ops.fused import FusedAddDropout, FusedBiasLinear, FusedNorm, FusedReluDropout
from headway.nn.ops.varlen_attention import KeyIntervals, attend_varlen, naive_varlen
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train import checkpoints
from headway.train.dataset import EpochShard
from headway.train.loader import PackedLoader
from headway.train.objectives import Example
from headway.train.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler warns of itself, in each version of something else
]
SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=64)


@pytest.fixture(autouse=True)
def exact() -> Any:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def spans_of(asks: list[int], told: list[int], causal: bool) -> KeyIntervals:
    """Texts one behind the other, of so many queries and so many keys."""
    q, k = (np.cumsum([0, *lengths]) for lengths in (asks, told))
    first, last = np.repeat(k[:-1], asks), np.repeat(k[1:], asks)
    earliest, latest = np.repeat(q[:-1], told), np.repeat(q[1:], told)
    if causal:
        last, earliest = np.minimum(last, np.arange(len(last)) + 1), np.maximum(earliest, np.arange(len(earliest)))
    return KeyIntervals(*(torch.tensor(x, dtype=torch.int32, device="cuda") for x in (first, last, earliest, latest)))


def relative(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("asks", "told", "causal", "heads", "groups", "d", "e"),
    [
        ([5, 70, 13, 1], [5, 70, 13, 1], True, 4, 2, 16, 16),
        ([5, 70, 13], [40, 3, 90], False, 2, 2, 20, 24),
        ([3, 4], [0, 5], False, 2, 1, 16, 16),  # the first text hears nothing
        ([300, 1, 40], [200, 100, 41], False, 8, 8, 64, 64),
        ([129] * 3, [129] * 3, True, 4, 1, 128, 128),
    ],
)
def test_spans(
    asks: list[int], told: list[int], causal: bool, heads: int, groups: int, d: int, e: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    spans = spans_of(asks, told, causal)
    shapes = ((sum(asks), heads, d), (sum(told), groups, d), (sum(told), groups, e))
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype).requires_grad_() for shape in shapes)
    grad = torch.randn(sum(asks), heads, e, device="cuda", dtype=dtype)
    out = attend_varlen(q, k, v, spans, 0.3)
    fast = (out, *torch.autograd.grad(out, (q, k, v), grad))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    expected = naive_varlen(*wide, spans, 0.3)
    plain = (expected, *torch.autograd.grad(expected, wide, grad.double()))
    for one, other in zip(fast, plain):
        assert one.isfinite().all()
        assert relative(one.double(), other) < (1e-6 if dtype == torch.float32 else 1e-2)
    if told[0] == 0:
        assert (out[: asks[0]] == 0).all()


def test_dropped_weights_are_the_same_forwards_and_backwards() -> None:
    """A step along a random direction changes the result as the gradient says, with the same weights dropped."""
    torch.manual_seed(0)
    spans = spans_of([5, 70], [5, 70], True)
    tensors = [torch.randn(75, 2, 16, device="cuda").requires_grad_() for _ in range(3)]
    weight = torch.randn(75, 2, 16, device="cuda")

    def value(changed: list[Tensor]) -> Tensor:
        torch.manual_seed(3)
        return (attend_varlen(*changed, spans, 0.3, 0.5) * weight).sum()

    gradients = torch.autograd.grad(value(tensors), tensors)
    for index, gradient in enumerate(gradients):
        move = torch.randn_like(gradient)
        sides = []
        for sign in (1, -1):
            changed = [x.detach().clone() for x in tensors]
            changed[index] += sign * 1e-2 * move
            sides.append(value(changed))
        assert float((sides[0] - sides[1]) / 2e-2) == pytest.approx(float((gradient * move).sum()), rel=2e-3)


def test_dropped_weights_are_as_many_as_asked_for() -> None:
    spans = spans_of([512], [512], False)
    q = torch.zeros(512, 4, 16, device="cuda")
    values = torch.eye(512, device="cuda")[:, :, None].expand(-1, -1, 1)  # each key says who it is, a head at a time
    share = [attend_varlen(q[:, :1], q[:, :1], values[:, i : i + 1].expand(-1, 1, 16).contiguous(), spans, 1.0, 0.2)
             for i in range(4)]  # fmt: skip
    kept = torch.stack([x[:, 0, 0] for x in share])
    assert float((kept == 0).float().mean()) == pytest.approx(0.2, abs=0.04)
    assert float(kept.max()) == pytest.approx(1 / 512 / 0.8, rel=1e-4)


@pytest.mark.parametrize("at_once", [1 << 28, 97 * 50])
@pytest.mark.parametrize("biased", [True, False])
def test_the_loss_in_pieces(biased: bool, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cross_entropy.LOGITS_PER_CHUNK, "cuda", at_once)
    torch.manual_seed(0)
    x, weight = torch.randn(300, 32, device="cuda"), torch.randn(97, 32, device="cuda")
    bias = torch.randn(97, device="cuda") if biased else None
    labels = torch.randint(0, 97, (300,), device="cuda")
    labels[::7] = -100
    parts = [part.requires_grad_() for part in (x, weight, bias) if part is not None]
    found = []
    for function in (cross_entropy.linear_cross_entropy, cross_entropy.naive):
        loss = function(x, weight, bias, labels, 0.1)
        found.append((loss, *torch.autograd.grad(loss * 0.3, parts)))
    for one, other in zip(*found):
        assert relative(one, other) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "width"), [(37, 48), (5, 512), (3000, 16), (700, 1000)])
def test_norms(rows: int, width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, grad = (torch.randn(2, rows, width, device="cuda", dtype=dtype) for _ in range(2))
    gain, bias = (torch.randn(width, device="cuda") for _ in range(2))
    for parts in ([x, gain, bias], [x, gain]):
        parts = [part.clone().requires_grad_() for part in parts]
        y = FusedNorm.apply(*parts, 1e-5) if len(parts) == 3 else FusedNorm.apply(*parts, None, 1e-5)
        fast = (y, *torch.autograd.grad(y, parts, grad))
        wide = [part.detach().double().requires_grad_() for part in parts]
        norm = torch.nn.functional.layer_norm if len(parts) == 3 else torch.nn.functional.rms_norm
        z = norm(wide[0], (width,), *wide[1:], 1e-5)
        for one, other in zip(fast, (z, *torch.autograd.grad(z, wide, grad.double()))):
            assert relative(one.double(), other) < (2e-6 if dtype == torch.float32 else 1e-2)


def test_dropout_beside_a_sum_and_a_relu() -> None:
    torch.manual_seed(0)
    stream, x = (torch.randn(300, 500, device="cuda").requires_grad_() for _ in range(2))
    out = FusedAddDropout.apply(stream, x, 0.3)
    kept = out != stream
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.01)
    torch.testing.assert_close(out, stream + kept * x / 0.7)
    own, passed = torch.autograd.grad(out.sum(), (stream, x))
    assert (own == 1).all() and torch.equal(passed != 0, kept) and float(passed.max()) == pytest.approx(1 / 0.7)
    y = FusedReluDropout.apply(x, 0.3)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad != 0, y != 0) and float((y[x > 0] == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    torch.testing.assert_close(y[y > 0], x[y > 0] / 0.7)
    assert not torch.equal(FusedReluDropout.apply(x, 0.3), y)


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(300, 50, 60), (1, 8, 8), (5000, 64, 1030)])
def test_a_product_with_its_bias(rows: int, inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    parts = [
        torch.randn(size, device="cuda").requires_grad_() for size in ((rows, inputs), (outputs, inputs), (outputs,))
    ]
    grad = torch.randn(rows, outputs, device="cuda")
    found = [function(*parts) for function in (FusedBiasLinear.apply, torch.nn.functional.linear)]
    for one, other in zip(*((y, *torch.autograd.grad(y, parts, grad)) for y in found)):
        assert relative(one, other) < 1e-6


class Pairs:
    skipped_summary, size = "", 200

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        lengths = random.integers(1, 20, (self.size, 2))
        rows = [[random.integers(4, 64, length) for length in pair] for pair in lengths]
        self.examples = [Example(np.append(source, 2), target) for source, target in rows]

    def epoch(self, number: int) -> Any:
        yield EpochShard(self.examples, np.array([(len(e.source), len(e.target) + 1) for e in self.examples]))

    def close(self) -> None: ...


def make_trainer(device: str = "cuda", dropout: float = 0.0, **train: Any) -> Trainer:
    side = {"layers": 2, "mixer": "attention(2)", "feedforward": "relu(32)", "residual": "pre"}
    model = {"d_model": 32, "vocabulary": 64, "dropout": dropout, "encoder": side, "decoder": side}
    settings = {"batch_tokens": 512, "max_tokens": 32, "schedule": "constant(0.005)", "clip": 1.0, "ema": 0.9, **train}
    config = read_config({"model": model, "train": settings})
    torch.manual_seed(1)
    return Trainer(config, Transformer(config.model), Pairs(), SPECIAL, torch.device(device))


def take(trainer: Trainer, count: int) -> list[float]:
    torch.set_float32_matmul_precision("highest")  # which a trainer lowers
    losses: list[Tensor] = []
    for step in trainer.steps():
        if step:
            losses.append(trainer.step(step, sum(piece.label_count for piece in step)).loss)
        else:
            trainer.end_epoch()
        if len(losses) == count:
            break
    return [float(loss) for loss in losses]


@pytest.mark.parametrize("has_triton", [False, True], ids=["plain", "fused"])
def test_graphs_lines_and_the_cpu_take_the_same_steps(has_triton: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "HAS_TRITON", has_triton)
    graphed, single, cpu = make_trainer(), make_trainer(cuda_graphs="off"), make_trainer("cpu", batches="packed")
    assert isinstance(graphed.loader, PackedLoader) and graphed.graphs is not None and single.graphs is None
    losses = [take(trainer, 20) for trainer in (graphed, single, cpu)]
    assert len(graphed.graphs.captured) == 1
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0] == pytest.approx(losses[2], rel=1e-3)
    assert losses[0][-1] < losses[0][0]
    for name, weight in single.eval_model.state_dict().items():
        torch.testing.assert_close(graphed.eval_model.state_dict()[name], weight, rtol=0, atol=2e-3, msg=name)


def test_compiled_graphs_take_the_same_steps() -> None:
    assert take(make_trainer(compile="on"), 8) == pytest.approx(take(make_trainer(cuda_graphs="off"), 8), rel=1e-4)


def test_the_compiler_never_leaves_its_graph() -> None:
    trainer = make_trainer(cuda_graphs="off")
    loss: Any = trainer.loss
    loss.function = torch.compile(loss.function, backend="eager", fullgraph=True)
    assert np.isfinite(take(trainer, 2)).all()


def test_a_graph_drops_something_else_each_time() -> None:
    trainer = make_trainer(dropout=0.5, schedule="constant(0.0)")
    step = next(trainer.steps())
    losses = [float(trainer.step(step, step[0].label_count).loss) for _ in range(12)]
    assert len(set(losses)) == 12


def test_a_run_with_graphs_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = make_trainer(dropout=0.1)
    losses = take(whole, 16)
    first = make_trainer(dropout=0.1)
    assert take(first, 8) == pytest.approx(losses[:8], rel=1e-5)
    first.save(tmp_path, 0.0, text="")
    saved = checkpoints.read_newest(tmp_path, [])
    assert saved is not None
    second = make_trainer(dropout=0.1)
    second.restore(saved)
    assert take(second, 8) == pytest.approx(losses[8:], rel=1e-4)


def test_a_step_that_is_no_number_changes_nothing_in_a_graph() -> None:
    trainer = make_trainer()
    take(trainer, 6)
    before = {name: x.clone() for name, x in trainer.model.state_dict().items()}
    with torch.no_grad():
        kept = trainer.model.embeddings["decoder"].table.weight.clone()  # type: ignore[union-attr]
        trainer.model.embeddings["decoder"].table.weight.fill_(torch.nan)  # type: ignore[union-attr]
    take(trainer, 2)
    with torch.no_grad():
        trainer.model.embeddings["decoder"].table.weight.copy_(kept)  # type: ignore[union-attr]
    assert all(torch.equal(x, before[name]) for name, x in trainer.model.state_dict().items())
    assert int(trainer.finite_guard.skipped) == 2 and not bool(trainer.finite_guard.finite)
