"""Hugging Face's Mixtral and Switch, tiny and random in every parameter: Mixtral's experts and all of Switch in float64
to 1e-9; Mixtral's router, its balance loss and the whole model, which take float32 steps always, in float32 to 1e-5."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func
from transformers.models.switch_transformers import modeling_switch_transformers as switch

from headway.config.schema import make_part
from headway.nn.build import Scope
from headway.nn.context import Context, ForwardReport
from headway.nn.layers.moe import MixtureOfExperts, balance_loss, route, z_loss
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from parity.copying import Pouring, from_llama

VALID = valid_mask(torch.tensor([9, 4, 6]), 9)
EXACT = {"rtol": 1e-9, "atol": 1e-9}
NEAR = {"rtol": 1e-5, "atol": 1e-5}
SCOPE = Scope(d_model=16, dropout=0.0, norm=make_part("norm", "rmsnorm"), linear=make_part("linear", "dense"))


def settings(experts: int, top: int) -> Any:
    return transformers.MixtralConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=20, max_position_embeddings=32, rms_norm_eps=1e-3, rope_theta=500.0, sliding_window=None,
        num_local_experts=experts, num_experts_per_tok=top, experts_implementation="eager",
        output_router_logits=True,
    )  # fmt: skip


def stirred(model: Any, dtype: torch.dtype) -> Any:
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 0.5, 0.25)
    return model.to(dtype).eval()


def pour_experts(pouring: Pouring, ours: str, theirs: str) -> None:
    """Theirs lie in one tensor; of each, the gate lies before the inner weights."""
    pouring.linear(f"{ours}.router", f"{theirs}.gate")
    both, outer = pouring.take(f"{theirs}.experts.gate_up_proj"), pouring.take(f"{theirs}.experts.down_proj")
    for index in range(len(both)):
        names = ("gate", "inner", "outer")
        for name, weight in zip(names, (*both[index].chunk(2), outer[index])):
            pouring.ours[f"{ours}.experts.{index}.{name}.weight"] = weight


def from_mixtral(theirs: Any) -> Transformer:
    """transformers.MixtralForCausalLM: Llama with experts where its feed-forward was."""
    c = theirs.config
    experts = {
        "kind": "moe", "experts": c.num_local_experts, "top": c.num_experts_per_tok,
        "expert": f"swiglu({c.intermediate_size})", "balance": 1.0,
    }  # fmt: skip
    return from_llama(theirs, experts, pour_experts)


def both_blocks(experts: int, top: int, dtype: torch.dtype) -> tuple[Any, MixtureOfExperts]:
    theirs = stirred(MixtralSparseMoeBlock(settings(experts, top)), dtype)
    ours = MixtureOfExperts(MixtureOfExperts.Config(experts=experts, top_k=top, expert="swiglu(20)"), SCOPE).to(dtype)
    pouring = Pouring(nn.ModuleDict({"it": theirs}))
    pour_experts(pouring, "it", "it")
    assert not pouring.left
    nn.ModuleDict({"it": ours}).load_state_dict(pouring.ours)
    return theirs, ours.eval()


def context(report: ForwardReport | None = None) -> Context:
    return Context(positions_from_start(9, None, torch.device("cpu")), report or ForwardReport(), path="it")


@pytest.mark.parametrize(("experts", "top"), [(8, 2), (4, 3), (3, 3)])
def test_the_experts_and_their_gradients(experts: int, top: int) -> None:
    theirs, ours = both_blocks(experts, top, torch.float64)
    x, report = torch.randn(3, 9, 16, dtype=torch.float64, requires_grad=True), ForwardReport(trace={})
    found = ours(x, context(report))
    trace = {name: value.flatten(0, 1) for name, value in (report.trace or {}).items()}
    expected = theirs.experts(x.flatten(0, 1), trace["it.chosen"], trace["it.shares"]).view_as(x)
    torch.testing.assert_close(found, expected, **EXACT)
    scale = torch.randn_like(found)
    one = torch.autograd.grad((found * scale).sum(), [x, *ours.experts.parameters()])
    other = torch.autograd.grad((expected * scale).sum(), [x, *theirs.experts.parameters()])
    stacked = zip(*(iter(one[1:]),) * 3)
    torch.testing.assert_close(torch.stack([torch.cat([gate, inner]) for gate, inner, _ in stacked]), other[1], **EXACT)
    torch.testing.assert_close(torch.stack(one[3::3]), other[2], **EXACT)


@pytest.mark.parametrize(("experts", "top"), [(8, 2), (4, 3), (3, 3)])
@torch.no_grad()
def test_the_whole_block(experts: int, top: int) -> None:
    theirs, ours = both_blocks(experts, top, torch.float32)
    x = torch.randn(3, 9, 16)
    expected = theirs(x)
    torch.testing.assert_close(ours(x, context()), expected, **NEAR)
    assert expected.std() > 0.1


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize(("experts", "top"), [(8, 2), (5, 1)])
def test_the_balance_loss_and_its_gradient(experts: int, top: int, padded: bool) -> None:
    logits = (2 * torch.randn(27, experts)).requires_grad_()
    valid = VALID.flatten() if padded else None
    mine = balance_loss(route(logits, top, "all", valid))
    theirs = load_balancing_loss_func((logits,), experts, top, VALID if padded else None)
    assert isinstance(theirs, Tensor)
    torch.testing.assert_close(mine, theirs, **NEAR)
    torch.testing.assert_close(torch.autograd.grad(mine, logits), torch.autograd.grad(theirs, logits), **NEAR)


@pytest.mark.parametrize("capacity", [64, 2], ids=["room for all", "crowded"])
@torch.no_grad()
def test_switch(capacity: int) -> None:
    """One expert a token, counting as much as it is likely; where there is room for all. Where there is not, Switch
    drops a token and gives 0."""
    config = transformers.SwitchTransformersConfig(
        d_model=16, d_ff=20, num_experts=5, expert_capacity=capacity, dropout_rate=0.0
    )
    theirs = stirred(switch.SwitchTransformersSparseMLP(config), torch.float64)
    theirs.router.dtype = torch.float64  # its config has no word for it
    pouring = Pouring(theirs)
    pouring.linear("router", "router.classifier")
    for index in range(5):
        pouring.linears(f"experts.{index}", f"experts.expert_{index}", {"inner": "wi", "outer": "wo"})
    ours = (
        MixtureOfExperts(MixtureOfExperts.Config(experts=5, top_k=1, expert="relu(20, false)"), SCOPE).double().eval()
    )
    ours.load_state_dict(pouring.ours)
    x, report = torch.randn(3, 9, 16, dtype=torch.float64), ForwardReport()
    mine, expected = ours(x, context()), theirs(x)
    dropped = (expected == 0).all(-1)
    assert dropped.any() == (capacity == 2) and not (mine == 0).all(-1).any()
    torch.testing.assert_close(mine[~dropped], expected[~dropped], **EXACT)
    _, _, logits = theirs.router(x)
    routing = route(logits.flatten(0, 1), 1)
    torch.testing.assert_close(z_loss(routing), torch.as_tensor(switch.router_z_loss_func(logits)), **EXACT)
    ours.train()(x, context(report))
    whole = switch.load_balancing_loss_func(logits.softmax(-1).view(1, 27, 5), logits.argmax(-1).view(1, 27))
    [(_, loss)] = report.losses
    torch.testing.assert_close(loss, 0.01 * torch.as_tensor(whole), **EXACT)


@torch.no_grad()
def test_the_whole_model() -> None:
    theirs = stirred(transformers.MixtralForCausalLM(settings(6, 2)), torch.float32)
    ours, text = from_mixtral(theirs), torch.randint(3, 40, (3, 9))
    told = theirs(input_ids=text, attention_mask=VALID.long())
    torch.testing.assert_close(ours.logits(ours.decode(text, VALID))[VALID], told.logits[VALID], **NEAR)
    state = ours.new_state(3)
    steps = torch.cat([ours.decode(text[:, t : t + 1], state=state) for t in range(9)], dim=1)
    torch.testing.assert_close(ours.logits(steps), theirs(input_ids=text).logits, **NEAR)
    # Their balance loss joins the tokens of all layers first; ours is one for each layer.
    report = ForwardReport()
    ours.train().decode(text, VALID, report=report)
    by_layer = [load_balancing_loss_func((logits,), 6, 2, VALID) for logits in told.router_logits]
    assert [name for name, _ in report.losses] == ["balance"] * 3
    torch.testing.assert_close(torch.stack([loss for _, loss in report.losses]), torch.stack(by_layer), **NEAR)
