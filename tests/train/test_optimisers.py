"""Every optimiser by its name: what it does to weights, and what of it a checkpoint holds."""

from typing import Any

import pytest
import torch
from torch import nn

from headway.catalogue import kinds
from headway.errors import ConfigError, HeadwayError
from headway.parts import make_part
from headway.train.checkpoints import optimiser_tensors, restore_optimisers
from headway.train.optimisers import set_rate

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
        set_rate(optimisers, rate)
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
    muon, adam = make_part("optimiser", "muon(others=0.5)").build(model)  # type: ignore[attr-defined]
    assert [id(p) for group in muon.param_groups for p in group["params"]] == [id(model.linear.weight)]
    rest = {id(p) for group in adam.param_groups for p in group["params"]}
    assert rest == {id(model.words.weight), id(model.linear.bias)}
    set_rate([muon, adam], 0.2)
    assert {group["lr"] for group in muon.param_groups} == {0.2}
    assert {group["lr"] for group in adam.param_groups} == {0.1}


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
