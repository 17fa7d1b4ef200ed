"""Every optimiser by its name: what it does to weights, and what of it a checkpoint holds."""

from typing import Any

import pytest
import torch
from torch import nn

from headway.config.catalogue import kinds
from headway.config.schema import from_dict, make_part
from headway.errors import ConfigError, HeadwayError
from headway.nn.transformer import Transformer
from headway.train.checkpoints import optimiser_tensors, restore_optimisers
from headway.train.muon import Muon
from headway.train.optimisers import set_learning_rate

RATES = {"sgd": 0.3, "momentum": 0.05, "adagrad": 0.3, "muon": 0.05}


class Small(nn.Module):
    """Words, a matrix and a bias: what optimisers tell apart."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(6, 4)
        self.linear = nn.Linear(4, 6)

    def loss(self) -> torch.Tensor:
        ids = torch.arange(6)
        return nn.functional.cross_entropy(self.linear(self.words(ids)), ids)


def steps(model: Small, optimisers: list[torch.optim.Optimizer], count: int, rate: float) -> list[float]:
    losses = []
    for _ in range(count):
        set_learning_rate(optimisers, rate)
        loss = model.loss()
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("kind", kinds("optimiser"))
def test_every_optimiser_lowers_the_loss(kind: str) -> None:
    model = Small()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    losses = steps(model, make_part("optimiser", kind).build(model), 40, RATES.get(kind, 0.03))  # type: ignore[attr-defined]
    assert losses[-1] < 0.5 * losses[0]
    assert all(not torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_all_that_the_paper_and_the_specification_name_are_there() -> None:
    assert {"adam", "adamw", "sgd", "momentum", "adagrad", "rmsprop", "muon"} <= set(kinds("optimiser"))


@pytest.mark.parametrize("kind", kinds("optimiser"))
def test_what_an_optimiser_remembers_is_saved_and_restored(kind: str) -> None:
    rate = RATES.get(kind, 0.03)
    straight, model = Small(), Small()
    model.load_state_dict(straight.state_dict())
    once = make_part("optimiser", kind).build(straight)  # type: ignore[attr-defined]
    steps(straight, once, 10, rate)

    first = make_part("optimiser", kind).build(model)  # type: ignore[attr-defined]
    steps(model, first, 5, rate)
    tensors = {name: tensor.clone() for name, tensor in optimiser_tensors(first).items()}
    second = make_part("optimiser", kind).build(model)  # type: ignore[attr-defined]
    restore_optimisers(second, tensors)
    steps(model, second, 5, rate)
    for name, weight in straight.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name]), name


def test_adam_is_the_papers() -> None:
    [adam] = make_part("optimiser", "adam").build(Small())  # type: ignore[attr-defined]
    assert (adam.defaults["betas"], adam.defaults["eps"]) == ((0.9, 0.98), 1e-9)


def test_only_matrices_decay() -> None:
    [adamw] = make_part("optimiser", "adamw(0.3)").build(Small())  # type: ignore[attr-defined]
    decays = {tuple(p.shape): group["weight_decay"] for group in adamw.param_groups for p in group["params"]}
    assert decays == {(6, 4): 0.3, (6,): 0.0}


def test_muon_takes_matrices_and_leaves_words_and_vectors_to_adamw() -> None:
    model = Small()
    muon, adam = make_part("optimiser", "muon(adamw_rate=0.5)").build(model)  # type: ignore[attr-defined]
    assert [id(p) for group in muon.param_groups for p in group["params"]] == [id(model.linear.weight)]
    rest = {id(p) for group in adam.param_groups for p in group["params"]}
    assert rest == {id(model.words.weight), id(model.linear.bias)}
    set_learning_rate([muon, adam], 0.2)
    assert {group["lr"] for group in muon.param_groups} == {0.2}
    assert {group["lr"] for group in adam.param_groups} == {0.1}


NAMES = {
    "the output's words": (
        {"embedding": {"tied": "none"}, "decoder": {"layers": 1, "position": "t5"}},
        {"head.weight", "embeddings.decoder.words.weight", "stacks.decoder.positions.0.table"},
    ),
    "a head that guesses words": (
        {"embedding": {"tied": "none"}, "encoder": {"layers": 1}, "decoder": {"layers": 0}, "head": "masked"},
        {"head.logits.weight", "embeddings.encoder.words.weight"},
    ),
    "a head that tells classes": (
        {"encoder": {"layers": 1}, "decoder": {"layers": 0}, "head": "pooled(3)"},
        {"head.classify.weight", "embeddings.encoder.words.weight"},
    ),
    "experts": (
        {"decoder": {"layers": 1, "position": "shaw", "feedforward": "moe(2, expert='relu')"}},
        {
            "embeddings.decoder.words.weight",
            "stacks.decoder.blocks.0.sublayers.feedforward.router.weight",
            "stacks.decoder.positions.0.keys",
            "stacks.decoder.positions.0.values",
        },
    ),
}


@pytest.mark.parametrize("case", NAMES)
def test_muon_leaves_lists_of_words_classes_experts_and_places_to_adamw(case: str) -> None:
    """All else that is no vector is Muon's."""
    table, left = NAMES[case]
    config = from_dict(Transformer.Config, {"d_model": 16, "vocabulary": 64, "encoder": {"layers": 0}, **table})
    model = Transformer(config)
    muon, adam = make_part("optimiser", "muon").build(model)  # type: ignore[attr-defined]
    names = {id(p): name for name, p in model.named_parameters()}
    taken, rest = ({names[id(p)] for g in one.param_groups for p in g["params"] if p.ndim > 1} for one in (muon, adam))
    assert rest == left
    assert taken == {name for name, p in model.named_parameters() if p.ndim > 1} - left


SHAPES = [(4, 6), (6, 4), (4, 6), (5, 5)]


def matrices(dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    made = torch.Generator().manual_seed(3)
    return [nn.Parameter(torch.randn(*shape, generator=made, dtype=dtype)) for shape in SHAPES]


def slopes(number: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(100 + number)
    return [torch.randn(*shape, generator=made, dtype=dtype) for shape in SHAPES]


def test_muon_is_what_it_is_defined_as() -> None:
    """Matrix by matrix, and in powers of singular values, where the polynomial is one of plain numbers."""
    moved, plain = matrices(), [m.detach().clone() for m in matrices()]
    means = [torch.zeros_like(m) for m in plain]
    muon = Muon(moved, lr=0.1, momentum=0.9, weight_decay=0.01)
    for number in range(3):
        for place, slope in enumerate(slopes(number)):
            moved[place].grad = slope.clone()
            means[place] = 0.9 * means[place] + 0.1 * slope
            u, s, v = torch.linalg.svd(0.1 * slope + 0.9 * means[place], full_matrices=False)
            s = s / s.norm()
            for _ in range(5):
                s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
            rows, columns = slope.shape
            rate = 0.1 * max(1, rows / columns) ** 0.5
            plain[place] = plain[place] * (1 - 0.1 * 0.01) - rate * (u * s) @ v
        muon.step()
    for found, expected in zip(moved, plain):
        torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-9)


def test_muon_is_pytorchs() -> None:
    """Which computes in bfloat16, whatever the weights are: so does this one, in the same order."""
    ours, theirs = matrices(torch.float32), matrices(torch.float32)
    mine = Muon(ours, lr=0.05, momentum=0.95, weight_decay=0.1)
    known = torch.optim.Muon(theirs, lr=0.05, momentum=0.95, weight_decay=0.1)
    for number in range(4):
        for own, other, slope in zip(ours, theirs, slopes(number, torch.float32)):
            own.grad, other.grad = slope.clone(), slope.clone()
        mine.step()
        known.step()
    for own, other in zip(ours, theirs):
        torch.testing.assert_close(own.detach(), other.detach(), rtol=0, atol=1e-5)


def test_muon_leaves_a_step_out_when_told_to() -> None:
    moved = matrices(torch.float32)
    muon = Muon(moved, lr=torch.tensor(0.1), momentum=0.9, weight_decay=0.0)  # type: ignore[arg-type]
    for number, bad in enumerate((0.0, 1.0)):
        before = [m.detach().clone() for m in moved]
        kept = {place: muon.state[m]["momentum_buffer"].clone() for place, m in enumerate(moved) if muon.state[m]}
        for matrix, slope in zip(moved, slopes(number, torch.float32)):
            matrix.grad = slope * torch.nan if bad else slope
        muon.found_inf = torch.tensor(bad)
        muon.step()
        assert all(torch.equal(m, old) == bool(bad) for m, old in zip(moved, before))
    assert all(torch.equal(muon.state[m]["momentum_buffer"], kept[place]) for place, m in enumerate(moved))


def test_frozen_weights_are_left_alone() -> None:
    model = Small()
    model.words.weight.requires_grad_(False)
    [adam] = make_part("optimiser", "adam").build(model)  # type: ignore[attr-defined]
    assert len(adam.param_groups[0]["params"]) == 2


def test_the_memory_of_another_optimiser_is_refused() -> None:
    [adam] = make_part("optimiser", "adam").build(Small())  # type: ignore[attr-defined]
    with pytest.raises(HeadwayError, match=r"this checkpoint belongs to another optimiser. Choose another --out"):
        restore_optimisers([adam], {"optimiser.0.9.exp_avg": torch.zeros(1)})


@pytest.mark.parametrize("written", ["adam(beta1=1.0)", "adamw(beta2=1)", "momentum(0)", "muon(-0.1)", "adam(1.5)"])
def test_what_pytorch_would_refuse_later_is_refused_now(written: str) -> None:
    with pytest.raises(ConfigError, match=r"is out of range"):
        make_part("optimiser", written)


@pytest.mark.parametrize("written", ["muon(1.0)", "rmsprop(1.0)", "momentum(1.0)"])
def test_what_never_forgets_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match=r"1.0 is out of range: it must be at least .* and at most 0.999999"):
        make_part("optimiser", written)


def test_a_wrong_name_is_refused_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match=r'"adamww" is not a kind of optimiser. Did you mean "adamw"'):
        make_part("optimiser", "adamww")


def test_nesterov_looks_ahead() -> None:
    results: list[Any] = []
    for written in ("momentum(0.9)", "momentum(0.9, nesterov=true)"):
        torch.manual_seed(0)
        model = Small()
        steps(model, make_part("optimiser", written).build(model), 3, 0.05)  # type: ignore[attr-defined]
        results.append(model.linear.weight.detach().clone())
    assert not torch.equal(*results)
