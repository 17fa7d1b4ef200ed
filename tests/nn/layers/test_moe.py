"""A mixture of experts: the sparse form equals the naive one, which equals its definition; padding goes nowhere and
enters no loss; balance pushes the busy experts down; what cannot be is refused."""

from typing import Any

import pytest
import torch
from nn.building import small
from torch import Tensor, nn

from headway.config.schema import from_dict, make_part
from headway.errors import ConfigError
from headway.nn.build import Scope, make
from headway.nn.context import Context, ForwardReport
from headway.nn.layers.moe import MixtureOfExperts, balance_loss, naive, route, sparse, z_loss
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer, valid_mask

SCOPE = Scope(d_model=8, dropout=0.0, norm=make_part("norm", "layernorm"), linear=make_part("linear", "dense"))
EXACT = {"rtol": 0.0, "atol": 1e-12}


def layer(written: str, dtype: torch.dtype = torch.float64) -> MixtureOfExperts:
    part: Any = make_part("feedforward", written)
    module = make("feedforward", part.resolved(SCOPE), SCOPE)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.0, 0.5)
    assert isinstance(module, MixtureOfExperts)
    return module.to(dtype)


def context(length: int, valid: Tensor | None = None) -> Context:
    return Context(positions_from_start(length, valid, torch.device("cpu")), path="encoder.3.feedforward")


def runners(module: MixtureOfExperts) -> list[Any]:
    return [lambda part, run=expert: run(part, context(1)) for expert in module.experts]


@pytest.mark.parametrize("over", ["chosen", "all"])
@pytest.mark.parametrize("expert", ["relu(5)", "gelu(5)", "swiglu(5)"])
def test_it_is_the_weighted_sum_of_the_chosen(expert: str, over: str) -> None:
    """Token by token, expert by expert, as one would do it by hand."""
    module = layer(f"moe(5, 3, '{expert}', weights='{over}')").eval()
    x = torch.randn(2, 4, 8, dtype=torch.float64)
    found = module(x, context(4))
    for b in range(2):
        for t in range(4):
            token = x[b, t]
            logits = (module.router.weight @ token).detach()
            best = sorted(range(5), key=lambda e: -float(logits[e]))[:3]
            powers = {e: float(logits[e].exp()) for e in range(5)}
            whole = sum(powers[e] for e in (best if over == "chosen" else range(5)))
            expected = sum(powers[e] / whole * module.experts[e](token[None], context(1))[0] for e in best)
            torch.testing.assert_close(found[b, t], expected, **EXACT)


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("tokens", [1, 2, 17])
@pytest.mark.parametrize("padded", [False, True])
def test_sparse_equals_naive(tokens: int, padded: bool, learning: bool) -> None:
    """Outputs and the gradients of everything; few tokens leave experts without any, and the last one is never
    liked."""
    module = layer("moe(6, 2, 'swiglu(7, true)')")
    x = torch.randn(tokens, 8, dtype=torch.float64)
    valid = torch.arange(tokens) % 3 != 1 if padded else None
    outputs, gradients = [], []
    for form in (naive, sparse):
        start = x.clone().requires_grad_()
        with torch.set_grad_enabled(learning):
            logits = start @ module.router.weight.T - 99 * torch.eye(6, dtype=torch.float64)[5]
            result = form(start, route(logits, 2, "chosen", valid), runners(module))
        outputs.append(result)
        if learning:
            gradients.append(torch.autograd.grad((result * torch.arange(8)).sum(), [start, *module.parameters()]))
    torch.testing.assert_close(*outputs, **EXACT)
    assert outputs[0].abs().max() > 0.1
    for one, other in zip(*gradients) if learning else ():
        torch.testing.assert_close(one, other, **EXACT)
    if padded:
        assert (outputs[1][~valid] == 0).all()


def test_an_expert_without_tokens_has_a_gradient_of_zero() -> None:
    """Not none at all: processes that train together wait for everyone's."""
    module = layer("moe(8, 2, 'relu(4)')")
    module(torch.randn(1, 1, 8, dtype=torch.float64), context(1)).sum().backward()
    idle = [expert for expert in module.experts if not expert.inner.weight.grad.any()]
    assert len(idle) >= 6
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_nothing_but_padding() -> None:
    module, nobody = layer("moe(4, 2, 'relu(4)', z_loss=1.0)"), torch.zeros(2, 3, dtype=torch.bool)
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    with torch.no_grad():
        assert (module.eval()(x, context(3, nobody)) == 0).all()
    ctx = context(3, nobody)
    result = module.train()(x, ctx)
    (result.sum() + sum(loss for _, loss in ctx.report.losses)).backward()
    assert [float(loss.detach()) for _, loss in ctx.report.losses] == [0.0, 0.0]
    assert float(ctx.report.statistics["encoder.3.feedforward.load"].weight) == 0
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


def test_padding_enters_neither_losses_nor_statistics() -> None:
    module, valid = layer("moe(4, 2, 'relu(4)', z_loss=0.1)").train(), valid_mask(torch.tensor([5, 2, 0]), 5)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    told = []
    for where, places in ((x, context(5, valid)), (torch.where(valid[..., None], x, 1e3), context(5, valid))):
        module(where, places)
        told.append(places.report)
    real = context(7)
    module(x[valid][None], real)
    for report in told:
        assert [name for name, _ in report.losses] == ["balance", "z"]
        for (_, one), (_, other) in zip(report.losses, real.report.losses):
            torch.testing.assert_close(one, other, **EXACT)
        load = report.statistics["encoder.3.feedforward.load"]
        assert torch.equal(load.total, real.report.statistics["encoder.3.feedforward.load"].total)
        assert int(load.weight) == 7 * 2 == int(load.total.sum())


def test_an_even_load_costs_what_it_must_and_a_crowd_more() -> None:
    even = route(torch.eye(4, dtype=torch.float64).repeat(3, 1) * 5, 1)
    assert float(balance_loss(even)) == pytest.approx(1.0)
    crowd = route(torch.tensor([[9.0, 0, 0, 0]]).repeat(12, 1).double(), 1)
    assert float(balance_loss(crowd)) > 3.9
    assert float(balance_loss(route(torch.zeros(12, 4), 2))) == pytest.approx(2.0)  # whoever is chosen
    assert float(z_loss(route(torch.zeros(12, 4), 2))) == pytest.approx(float(torch.tensor(4.0).log() ** 2))


def test_balance_pushes_the_busy_expert_down() -> None:
    module = layer("moe(4, 1, 'relu(4)', balance_loss=1.0)").train()
    x = torch.randn(1, 40, 8, dtype=torch.float64)
    x[..., 0] = 1.0
    with torch.no_grad():
        module.router.weight[:, 0] = torch.tensor([0.0, 0.0, 5.0, 0.0])  # every token likes the third best
    shares = []
    for _ in range(200):
        ctx = context(40)
        module(x, ctx)
        [(name, loss)] = ctx.report.losses
        load = ctx.report.statistics["encoder.3.feedforward.load"].value()
        shares.append(max(load))  # type: ignore[arg-type]
        [gradient] = torch.autograd.grad(loss, [module.router.weight])
        if len(shares) == 1:
            assert name == "balance" and load[2] > 0.9  # type: ignore[index]
            assert gradient[2, 0] > 0 and (gradient[[0, 1, 3], 0] < 0).all()
        with torch.no_grad():
            module.router.weight -= gradient
    assert shares[0] > 0.9 and max(shares[-20:]) < 0.4


@pytest.mark.parametrize("written", ["moe", "moe(8, 1)", "moe(4, 4, 'relu(9)')"])
def test_it_tells_only_in_training(written: str) -> None:
    model = Transformer(small(sides={"feedforward": written}))
    ids = torch.randint(29, (2, 5))
    names = [f"{side}.{n}.feedforward.load" for side in ("encoder", "decoder") for n in range(2)]
    output = model.train()(ids, ids)
    assert [name for name, _ in output.losses] == ["balance"] * 4
    assert list(output.statistics) == names
    for mean in output.statistics.values():
        assert sum(mean.value()) == pytest.approx(1.0)  # type: ignore[arg-type]
    output = model.eval()(ids, ids)
    assert output.losses == [] and output.statistics == {}


def test_without_a_weight_there_is_no_loss_and_still_the_load() -> None:
    module, ctx = layer("moe(4, 2, 'relu(4)', balance_loss=0)").train(), context(6)
    module(torch.randn(1, 6, 8, dtype=torch.float64), ctx)
    assert ctx.report.losses == [] and len(ctx.report.statistics) == 1


def test_one_expert_of_many_still_teaches_the_router() -> None:
    module = layer("moe(4, 1, 'relu(4)')").eval()
    assert module.config.weights == "all"
    module(torch.randn(1, 6, 8, dtype=torch.float64), context(6)).square().sum().backward()
    assert module.router.weight.grad.abs().max() > 1e-6


def test_bfloat16_routes_in_float32() -> None:
    """Under autocast and as weights; the choice is that of float32 weights, and nothing is NaN."""
    module, x = layer("moe(8, 2, 'swiglu(16)')", torch.float32).train(), torch.randn(2, 30, 8) * 30
    plain, cast = context(30), context(30)
    for ctx in (plain, cast):
        ctx.report.trace = {}
    expected = module(x, plain)
    with torch.autocast("cpu", torch.bfloat16):
        found = module(x, cast)
        loss = found.float().square().mean() + sum(loss for _, loss in cast.report.losses)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
    for name in ("router", "chosen", "shares"):
        name = f"encoder.3.feedforward.{name}"
        assert torch.equal(cast.report.trace[name], plain.report.trace[name])  # type: ignore[index]
    assert (found.float() - expected).abs().max() < 0.03 * expected.abs().max()
    half = context(30)
    assert module.bfloat16()(x.bfloat16(), half).dtype == torch.bfloat16
    assert all(value.dtype == torch.float32 and value.isfinite() for _, value in half.report.losses)


def test_a_trace_says_who_went_where() -> None:
    module, ctx = layer("moe(4, 2, 'relu(4)')").eval(), context(6)
    ctx.report = ForwardReport(trace={})
    module(torch.randn(3, 6, 8, dtype=torch.float64), ctx)
    shapes = {name.rpartition(".")[2]: tuple(value.shape) for name, value in ctx.report.trace.items()}  # type: ignore[union-attr]
    assert shapes == {"router": (3, 6, 4), "chosen": (3, 6, 2), "shares": (3, 6, 2)}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("moe(2, 3)", r"feedforward.top_k: top_k = 3 exceeds experts = 2. Lower top_k, or raise experts."),
        ("moe(expert='moe')", "feedforward.expert: an expert cannot itself be a mixture of experts. Choose another"),
        (
            "moe(8, 1, weights='chosen')",
            r"feedforward.weights: with top_k = 1 the softmax over the chosen expert is always 1",
        ),
        ("moe(1)", "experts: 1 is out of range: it must be at least 2"),
    ],
)
def test_what_cannot_be_is_refused(written: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(sides={"feedforward": written}).resolved()


def test_where_an_expert_is_wrong_is_said() -> None:
    class Odd(type(make_part("feedforward", "relu"))):  # type: ignore[misc]
        def resolved(self, scope: Scope) -> Any:
            raise ConfigError("cannot be.", "hidden")

    with pytest.raises(ConfigError, match=r"encoder.feedforward.expert.hidden: cannot be."):
        small(sides={"feedforward": MixtureOfExperts.Config(expert=Odd())}).resolved()


def test_it_is_written_in_a_config_like_any_part() -> None:
    table = {"kind": "moe", "experts": 4, "expert": {"hidden": 9}}
    config = from_dict(Transformer.Config, {"vocabulary": 9, "encoder": {"feedforward": table}}).resolved()
    [part] = config.encoder.feedforward
    assert part.to_dict() == {
        "kind": "moe",
        "experts": 4,
        "top_k": 2,
        "expert": {"kind": "swiglu", "hidden": 9, "bias": False, "dropout": 0.1},
        "weights": "chosen",
        "balance_loss": 0.01,
        "z_loss": 0.0,
    }
    assert from_dict(Transformer.Config, config.to_dict()).resolved() == config
