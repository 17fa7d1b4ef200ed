"""DCMHA: the layer of the reference implementation; the composition of heads by its definition; plain attention where
nothing is composed."""

import itertools
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
from headway.nn.masks.masks import CAUSAL, local
from headway.nn.mixers.attention import Attention
from headway.nn.mixers.dcmha import ComposedAttention, HeadMixing, compose_heads
from headway.nn.positions.positions import Rope
from headway.nn.sequence import Memory, positions_from_start
from headway.nn.transformer import Transformer, valid_mask

NEAR = {"rtol": 0.0, "atol": 1e-12}
STREAMS = ("pre_query", "pre_key", "post_query", "post_key")


def scope_of(width: int) -> Scope:
    return Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense"))


def layer(mixer: str, width: int = 16) -> ComposedAttention:
    part: Any = make_part("mixer", mixer)
    module = ComposedAttention(part, scope_of(width))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.5)
    return module.double()


@torch.no_grad()
def test_the_layer_is_dcformers() -> None:
    theirs, c = golden("dcmha")
    x, (q, k, v), output = theirs["in.x"], theirs["w.wqkv.weight"].chunk(3), theirs["w.wo.weight"]
    rank = theirs["w.dyn_w_proj.qkw"].shape[3] // 2
    module = layer(f"dcmha({c['heads']}, {rank}, d_k={len(q) // c['heads']})", x.shape[2])
    weights = {"query.weight": q, "key.weight": k, "value.weight": v}
    for number, name in enumerate(STREAMS):
        weights[f"mixers.{name}.hidden.weight"] = theirs["w.dyn_w_proj.dw1"][:, 0, number].T
        weights[f"mixers.{name}.mix.weight"] = theirs["w.dyn_w_proj.qkw"][0, number].flatten(1).T
        weights[f"mixers.{name}.gate.weight"] = theirs["w.dyn_w_proj.dd"][:, 0].chunk(4, -1)[number].T
    weights["output.weight"] = torch.zeros_like(module.output.weight)
    weights["output.weight"][: len(output)] = output[: x.shape[2]]  # a cut file has fewer channels, in and out
    module.load_state_dict(weights)
    position = Rope(Rope.Config(base=c["rope_base"], layout="halves"), scope_of(x.shape[2]))
    # The reference's window counts the keys before the query, and `local` counts the query too.
    for name, mask in (("causal", CAUSAL), ("window", CAUSAL & local(c["window"] + 1))):
        ctx = Context(positions_from_start(x.shape[1], None, x.device), mask=mask, position=position)
        expected = theirs[f"out.{name}"]
        torch.testing.assert_close(module(x, ctx)[..., : expected.shape[2]], expected, rtol=0, atol=1e-11)
    assert not torch.equal(theirs["out.causal"], theirs["out.window"])


def test_heads_are_composed_by_the_definition() -> None:
    B, H, T, S, R = 2, 3, 4, 5, 2
    x = torch.randn(B, H, T, S, dtype=torch.float64, requires_grad=True)
    mixings = [
        HeadMixing(
            *(torch.randn(B, n, *size, dtype=torch.float64, requires_grad=True) for size in ((R, H), (R, H), (H,)))
        )
        for n in (T, S)
    ]
    query, key = mixings
    expected = torch.zeros_like(x)
    for b, t, s in itertools.product(range(B), range(T), range(S)):
        matrix = torch.eye(H, dtype=torch.float64)  # from heads to heads, for this pair
        for one, place in ((query, t), (key, s)):
            matrix = matrix + one.down[b, place].T @ one.up[b, place] + torch.diag(one.gate[b, place])
        expected[b, :, t, s] = x[b, :, t, s] @ matrix
    composed = compose_heads(x, query, key)
    torch.testing.assert_close(composed, expected, **NEAR)
    leaves, towards = [x, *query, *key], torch.randn_like(x)
    ours, theirs = (torch.autograd.grad((result * towards).sum(), leaves) for result in (composed, expected))
    torch.testing.assert_close(ours, theirs, **NEAR)


@pytest.mark.parametrize("position", ["rope", "alibi", "shaw", "transformer_xl"])
@torch.no_grad()
def test_without_composition_it_is_attention(position: str) -> None:
    models = []
    for mixer in ("dcmha(4, bias=true)", "attention(4)"):
        torch.manual_seed(3)
        side = {"mixer": mixer, "position": position}
        models.append(Transformer(small(encoder={"layers": 0}, decoder=side)).double().eval())
    ours, theirs = models
    for name, weight in ours.named_parameters():
        if ".mix." in name or (".mixers." in name and ".gate." in name):
            weight.zero_()
    theirs.load_state_dict({name: x for name, x in ours.state_dict().items() if ".mixers." not in name})
    ids = torch.randint(29, (2, 9))
    torch.testing.assert_close(ours.decode(ids), theirs.decode(ids), **NEAR)


@torch.no_grad()
def test_it_starts_near_attention() -> None:
    """The paper's small first weights: heads are composed a little, and none of it is 0."""
    torch.manual_seed(3)
    model = Transformer(small(encoder={"mixer": "dcmha(4)"}, decoder=0)).eval()
    report = ForwardReport(trace={})
    model.encode(torch.randint(29, (2, 9)), report=report)
    trace = report.trace
    assert trace is not None
    for name in ("scores", "weights"):
        plain, composed = trace[f"encoder.0.self.{name}"], trace[f"encoder.0.self.composed_{name}"]
        assert 0 < (composed - plain).norm() < 0.1 * plain.norm()
    mixing = model.stacks["encoder"].blocks[0].sublayers["self"].mixers["pre_key"]  # type: ignore[union-attr,index]
    bound = (6 / (16 + 16)) ** 0.5
    assert 0.9 < mixing.mix.weight.abs().max() / (0.01 * bound) <= 1
    assert 0.9 < mixing.hidden.weight.abs().max() / bound <= 1


@torch.no_grad()
def test_a_trace_tells_weights_from_composed_weights() -> None:
    module = layer("dcmha(4)")
    x, report = torch.randn(2, 7, 16, dtype=torch.float64), ForwardReport(trace={})
    valid = valid_mask(torch.tensor([7, 4]), 7)
    output = module(x, Context(positions_from_start(7, valid, x.device), report, CAUSAL, path="self"))
    found = {name.removeprefix("self."): value for name, value in (report.trace or {}).items()}
    weights, composed = found["weights"], found["composed_weights"]
    assert weights.shape == composed.shape == (2, 4, 7, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 7, dtype=torch.float64), **NEAR)
    assert (weights >= 0).all() and (composed < 0).any(), "composed weights are of either sign"
    assert (composed.sum(-1) - 1).abs().max() > 0.1, "and are not normed again"
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1) | ~valid[:, None, None]
    assert (composed.masked_select(hidden) == 0).all(), "but what is masked stays masked"
    torch.testing.assert_close(module.output((composed @ found["v"]).transpose(1, 2).flatten(2)), output, **NEAR)
    assert found["k"].shape == (2, 4, 7, 4) and found["scores"].shape == found["composed_scores"].shape


@torch.no_grad()
def test_cross_attention_mixes_by_query_and_source() -> None:
    """Two of four mixers read the source: another token there changes what every query makes of it."""
    module = layer("dcmha(2, hidden=3)")
    x, source = torch.randn(1, 3, 16, dtype=torch.float64), torch.randn(1, 5, 16, dtype=torch.float64)
    ctx = Context(positions_from_start(3, None, x.device))
    memory = Memory(source, positions_from_start(5, None, x.device))
    whole = module(x, ctx, source=memory)
    cache: Any = module.new_cache(1, x.device, cross=True)
    torch.testing.assert_close(module(x, ctx, source=memory, cache=cache), whole, **NEAR)
    torch.testing.assert_close(module(x, ctx, cache=cache), whole, **NEAR)  # from the cache alone
    plain = Attention(Attention.Config(heads=2, bias=False), scope_of(16)).double()
    plain.load_state_dict({name: w for name, w in module.state_dict().items() if "mixers" not in name})
    assert not torch.allclose(plain(x, ctx, source=memory), whole)


@torch.no_grad()
def test_bfloat16_is_finite_and_near() -> None:
    torch.manual_seed(3)
    model = Transformer(small(encoder={"mixer": "dcmha(4)", "position": "rope"}, decoder=0)).eval()
    ids = torch.randint(29, (2, 30))
    exact = model.encode(ids).values
    rounded = model.bfloat16().encode(ids).values.float()
    assert (rounded - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mixer": "dcmha(3)"}, "mixer.heads", "not a multiple of 3 heads"),
        ({"mixer": "dcmha(4, d_k=3)", "position": "rope"}, "position", "d_k must be even"),
    ],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(encoder=changes).resolved()
    assert caught.value.where == f"encoder.{where}"


def test_a_cache_keeps_what_keys_mix_by() -> None:
    config = small(encoder=0, decoder={"mixer": "dcmha(4, 3)"})
    plain = small(encoder=0, decoder={"mixer": "attention(4)"})
    more = config.kv_bytes_per_token(1) - plain.kv_bytes_per_token(1)
    assert more == 2 * 4 * 2 * (3 + 3 + 1)  # layers, heads, pre and post, (down, up, gate)


def padded(x: Tensor, length: int) -> Tensor:
    return torch.cat([x, torch.randn(1, length - x.shape[1], 16, dtype=x.dtype)], 1)


@torch.no_grad()
def test_padding_mixes_nothing() -> None:
    module, x = layer("dcmha(4)"), torch.randn(1, 5, 16, dtype=torch.float64)
    alone = module(x, Context(positions_from_start(5, None, x.device)))
    valid = valid_mask(torch.tensor([5]), 9)
    together = module(padded(x, 9), Context(positions_from_start(9, valid, x.device)))
    torch.testing.assert_close(together[:, :5], alone, **NEAR)
