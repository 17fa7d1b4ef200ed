"""Shaw's relative positions, with both tables: against numbers from the paper's equations, and what is shared."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import CAUSAL, FULL
from headway.nn.mixers.attention import Attention
from headway.nn.ops.attention import attend
from headway.nn.positions.score_mod import BoundScoreMod, ScoreMod
from headway.nn.positions.shaw import Shaw
from headway.nn.sequence import positions_from_start

CPU = torch.device("cpu")


def scope(width: int, layers: int = 1) -> Scope:
    norm, linear = make_part("norm", "layernorm"), make_part("linear", "dense")
    return Scope(d_model=width, dropout=0.0, norm=norm, linear=linear, layers=layers)


@pytest.mark.parametrize("name", ["full", "causal"])
def test_it_equals_the_papers_equations(name: str) -> None:
    tensors, c = golden("shaw")
    around = scope(c["dim"])
    attention = Attention(Attention.Config(heads=c["heads"]), around).double()
    ours = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "output"}
    attention.load_state_dict(
        {f"{our}.{end}": tensors[f"w.{their}.{end}"] for their, our in ours.items() for end in ("weight", "bias")}
    )
    width = c["dim"] // c["heads"]
    shaw = Shaw(Shaw.Config(max_distance=c["k"], heads=c["heads"], d_k=width, d_v=width), around).double()
    shaw.load_state_dict({"keys": tensors["w.rel_k"][None, None], "values": tensors["w.rel_v"][None, None]})
    mask = {"full": FULL, "causal": CAUSAL}[name]
    x, report = tensors["in.x"], ForwardReport(trace={})
    traced = attention(x, Context(positions_from_start(c["n"], None, CPU), report, mask, shaw))
    assert report.trace is not None
    quick = attention(x, Context(positions_from_start(c["n"], None, CPU), ForwardReport(), mask, shaw))
    torch.testing.assert_close(report.trace[".weights"], tensors[f"out.probs_{name}"], rtol=0, atol=1e-11)
    for found in (traced, quick):
        torch.testing.assert_close(found, tensors[f"out.y_{name}"], rtol=0, atol=1e-11)


@pytest.mark.parametrize(("shared", "size"), [("nothing", (2, 4, 5)), ("heads", (2, 1, 5)), ("all", (1, 1, 5))])
def test_what_is_shared(shared: str, size: tuple[int, ...]) -> None:
    config = small(sides={"position": f"shaw(2, '{shared}')"})
    from headway.nn.transformer import Transformer

    model = Transformer(config)
    for stack in model.stacks.values():
        (position,) = stack.positions  # type: ignore[union-attr, misc]
        assert position.keys.shape == position.values.shape == (*size, 4)
        assert 0.01 < position.keys.std() < 0.03
    assert config.parameter_count() == sum(p.numel() for p in model.parameters())


def test_gradients_reach_both_tables_of_every_layer() -> None:
    from headway.nn.transformer import Transformer

    model = Transformer(small(encoder=0, sides={"position": "shaw(2)"})).double()
    model.decode(torch.arange(7)[None]).square().sum().backward()
    (position,) = model.stacks["decoder"].positions  # type: ignore[union-attr, misc]
    for table in (position.keys, position.values):
        assert (table.grad[:, :, :3].abs().amax((-1, -2)) > 0).all()  # behind, and here
        assert (table.grad[:, :, 3:] == 0).all()  # nobody looks ahead


def bend_of(q: Tensor, hear: Any = None) -> BoundScoreMod:
    places = positions_from_start(q.shape[2], None, CPU)
    asks = torch.randn(*q.shape[:3], 5, dtype=q.dtype)
    return BoundScoreMod(
        ScoreMod("ask", query_bias=asks, bucket=lambda q, k: (k - q).clamp(-2, 2) + 2, value_bias=hear),
        places,
        places,
        2,
    )


def test_what_a_query_asks_is_the_same_by_every_kernel() -> None:
    q, k, v = torch.randn(3, 2, 2, 9, 4, dtype=torch.float64)
    bend = bend_of(q)
    asks = bend.score_mod.query_bias
    assert asks is not None
    expected = torch.zeros_like(q)
    for b, h, i in torch.cartesian_prod(*map(torch.arange, (2, 2, 9))).tolist():
        row = torch.stack([q[b, h, i] @ k[b, h, j] / 2 + asks[b, h, i, min(max(j - i, -2), 2) + 2] for j in range(9)])
        expected[b, h, i] = row.softmax(0) @ v[b, h]
    for kernel in ("math", "sdpa", "flex", "auto"):
        torch.testing.assert_close(attend(q, k, v, score_mod=bend, kernel=kernel), expected, rtol=0, atol=1e-12)  # type: ignore[call-overload]


@pytest.mark.parametrize("kernel", ["sdpa", "flex"])
def test_a_kernel_without_weights_is_refused(kernel: Any) -> None:
    q, k, v = torch.randn(3, 2, 2, 9, 4)
    with pytest.raises(ValueError, match="returns no weights, and ask needs them: use 'math'"):
        attend(q, k, v, score_mod=bend_of(q, hear=lambda weights, columns: weights), kernel=kernel)
    with pytest.raises(ConfigError, match='shaw needs attention weights, which the kernel "[a-z]+" does not return'):
        small(sides={"position": "shaw", "mixer": f"attention(4, kernel='{kernel}')"}).resolved()


def test_layers_that_share_it_are_alike() -> None:
    with pytest.raises(
        ConfigError, match="shaw is shared by all layers, but they have d_k = 4 and 8. Give them the same"
    ):
        small(sides={"position": "shaw", "mixer": ["attention(4)", "attention(4, d_k=8, d_v=4)"]}).resolved()
    apart = small(sides={"position": ["shaw", "shaw"], "mixer": ["attention(4)", "attention(2)"]}).resolved()
    assert [part.d_k for part in apart.encoder.position] == [4, 8]  # type: ignore[attr-defined]


@pytest.mark.parametrize("position", ["shaw(heads=3)", "shaw(d_k=7)", "transformer_xl(heads=3)", "t5(heads=3)"])
def test_what_the_mixers_decide_is_not_decided_here(position: str) -> None:
    with pytest.raises(ConfigError, match="= [37] differs from the mixers' 4. Leave it out"):
        small(sides={"position": position}).resolved()
