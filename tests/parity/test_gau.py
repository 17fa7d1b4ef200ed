"""The gated attention unit against FLASH-pytorch; how its weights are normalised; layers without a feed-forward."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor

from headway.config.schema import from_dict, make_part
from headway.decode.cpu.decoder import unsupported
from headway.errors import ConfigError
from headway.inspect.model_summary import summarise_blocks
from headway.nn.build import Scope
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import CAUSAL, FULL, BoundMask, Mask, make_mask
from headway.nn.mixers.attention import Attention
from headway.nn.mixers.gau import squared_relu_weights
from headway.nn.sequence import positions_from_start
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer
from headway.train.muon import Muon

EXACT = {"rtol": 0.0, "atol": 1e-12}
TENSORS, CONFIG = golden("gau")
MASKS = {"full": FULL, "causal": CAUSAL}


def poured(name: str) -> Stack:
    """A layer of our own with the reference's weights: pre-norm, the unit alone, and T5's bias."""
    side = "decoder" if name == "causal" else "encoder"
    norm, linear = make_part("norm", "layernorm"), make_part("linear", "dense")
    scope = Scope(d_model=CONFIG["dim"], dropout=0.0, norm=norm, linear=linear, side=side)  # type: ignore[arg-type]
    table = {
        "layers": 1, "residual": "pre", "position": "t5", "feedforward": "none",
        "mixer": {"kind": "gau", "d_k": CONFIG["query_key_dim"], "hidden": CONFIG["hidden"], "divisor": CONFIG["n"]},
    }  # fmt: skip
    stack = Stack(from_dict(Stack.Config, table).resolved(scope, None), scope).double().eval()
    theirs = {key.removeprefix(f"w.gau_{name}."): x for key, x in TENSORS.items() if key.startswith(f"w.gau_{name}.")}
    unit = "blocks.0.sublayers.self"
    weights = {
        "positions.0.table": theirs.pop("rel_pos_bias.relative_attention_bias.weight") * CONFIG["dim"] ** 0.5,
        f"{unit}.scales": theirs.pop("offsetscale.gamma")[:, None],
        f"{unit}.offsets": theirs.pop("offsetscale.beta")[:, None],
        "blocks.0.residuals.self.norm.gain": theirs.pop("norm.weight"),
        "blocks.0.residuals.self.norm.bias": theirs.pop("norm.bias"),
    }
    for part in ("weight", "bias"):
        value, gate = theirs.pop(f"to_hidden.0.{part}").chunk(2)
        weights |= {f"{unit}.value.{part}": value, f"{unit}.gate.{part}": gate}
        weights[f"{unit}.shared.{part}"] = theirs.pop(f"to_qk.0.{part}")
        weights[f"{unit}.output.{part}"] = theirs.pop(f"to_out.0.{part}")
    assert not theirs
    missing, unexpected = stack.load_state_dict(weights, strict=False)
    assert not unexpected and all(key.startswith("ends.") for key in missing)
    return stack


def run(stack: Stack, x: Tensor, mask: Mask, valid: Tensor | None = None) -> Tensor:
    """The layer, without the norm after the last."""
    ctx = Context(positions_from_start(x.shape[1], valid, x.device))
    position: Any = stack.positions[0]
    output: Tensor = stack.blocks[0](x, ctx.for_sublayer("layer", mask, position), None)
    return output


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", MASKS)
@torch.no_grad()
def test_it_computes_the_numbers_of_flash_pytorch(name: str, padded: bool) -> None:
    """With its divisor, the length of the padded rows; theirs returns the output without the residual."""
    x, valid = TENSORS["in.x"], ~TENSORS["in.pad"]
    found = run(poured(name), x, MASKS[name], valid if padded else None) - x
    expected = TENSORS[f"out.gau_{name}{'_padded' if padded else ''}"]
    seen = valid if padded else torch.ones_like(valid)
    torch.testing.assert_close(found[seen], expected[seen], **EXACT)


def bound(mask: Mask, queries: int, valid: Tensor | None = None) -> BoundMask:
    tokens = positions_from_start(queries, valid, torch.device("cpu"))
    return BoundMask(mask, tokens, tokens, 1)


@pytest.mark.parametrize("mask", ["full", "causal", "causal & local(3)", "strided(2)"])
def test_weights_are_those_of_the_formula(mask: str) -> None:
    """Each by itself; divided by how many keys the query sees, padding not counted."""
    q, k = torch.randn(2, 2, 1, 7, 4, dtype=torch.float64)
    valid = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
    rule = make_mask(mask)
    found = squared_relu_weights(q, k, bound(rule, 7, valid))
    zero = torch.zeros((), dtype=torch.long)
    for row in range(2):
        for t in range(7):
            keys = [s for s in range(7) if valid[row, s] and rule(zero, zero, torch.tensor(t), torch.tensor(s))]
            for s in range(7):
                score = float(q[row, 0, t] @ k[row, 0, s]) / max(len(keys), 1)
                expected = max(0.0, score) ** 2 if s in keys else 0.0
                assert float(found[row, 0, t, s]) == pytest.approx(expected, abs=1e-12)


def test_a_divisor_is_the_same_for_all_queries() -> None:
    q, k = torch.randn(2, 1, 1, 6, 4, dtype=torch.float64)
    counted, fixed = (squared_relu_weights(q, k, bound(CAUSAL, 6), divisor=divisor) for divisor in (None, 3))
    counts = torch.arange(1, 7, dtype=torch.float64)[:, None]
    torch.testing.assert_close(fixed, counted * (counts / 3) ** 2, **EXACT)
    full = squared_relu_weights(q, k, bound(FULL, 6))
    torch.testing.assert_close(full, (q @ k.mT / 6).relu().square(), **EXACT)


def test_weights_are_in_float32_at_least() -> None:
    """Squares of small scores: 16 bits would lose them."""
    q, k = torch.full((2, 1, 1, 5, 1), 2.0**-9).half()
    assert (q @ k.mT).square().max() == 0
    found = squared_relu_weights(q, k, bound(FULL, 5))
    assert found.dtype == torch.float32 and (found > 0).all()


@torch.no_grad()
def test_scores_are_recorded_and_are_no_weights() -> None:
    """Their rows do not sum to 1, so that no page shows them as attention."""
    model = Transformer(small(encoder=0, decoder={"mixer": "gau(8)", "feedforward": "none"})).eval()
    report = ForwardReport(trace={})
    model.decode(torch.randint(29, (2, 6)), report=report)
    assert report.trace is not None
    scores = report.trace["decoder.1.self.scores"]
    assert scores.shape == (2, 1, 6, 6) and (scores >= 0).all() and (scores.triu(1) == 0).all()
    assert "decoder.1.self.weights" not in report.trace


def test_muon_leaves_scales_and_offsets_to_adam() -> None:
    model = Transformer(small(decoder=0, sides={"mixer": "gau(8)", "feedforward": "none"}))
    muon, *_ = make_part("optimiser", "muon").build(model)  # type: ignore[attr-defined]
    assert isinstance(muon, Muon)
    taken = {id(p) for group in muon.param_groups for p in group["params"]}
    names = {name.rpartition(".")[2] for name, p in model.named_parameters() if ".self." in name and id(p) in taken}
    assert names == {"weight"}


def test_cross_attention_beside_it_is_attention_with_the_usual_heads() -> None:
    """Its one head is no model for cross-attention."""
    cross = small(encoder={"mixer": "attention(4)"}, decoder={"mixer": "gau(8)"}).resolved().decoder.cross
    assert cross is not None and isinstance(cross[0], Attention.Config)
    assert (cross[0].heads, cross[0].d_k) == (4, 4)


@pytest.mark.parametrize("residual", ["post", "pre", "deepnorm", "residual_dual", "crate"])
@torch.no_grad()
def test_a_layer_without_a_feedforward_is_its_mixer(residual: str) -> None:
    """No norm, no parameters and no row of the summary are left of it."""
    config = small(decoder=0, sides={"feedforward": ["none", "relu(24)"], "residual": residual})
    model = Transformer(config).eval()
    first, second = model.stacks["encoder"].blocks  # type: ignore[misc]
    assert list(first.sublayers) == list(first.residuals) == ["self"]
    assert list(second.sublayers) == ["self", "feedforward"]
    names = [block.name for block in summarise_blocks(config, 5, 5)]
    assert "encoder.0.feedforward" not in names and "encoder.1.feedforward" in names
    assert sum(block.parameters for block in summarise_blocks(config, 5, 5)) == config.parameter_count()


def test_fast_paths_leave_such_layers_to_torch() -> None:
    model = Transformer(small(sides={"feedforward": "none"})).eval()
    assert unsupported(model) == "it has layers without a feed-forward"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sides": {"mixer": "gau"}, "norm": "none"}, "norm: without norms the outputs of gau would grow"),
        ({"sides": {"mixer": "gau(7)", "position": "rope"}}, "d_k must be even, not 7"),
        ({"sides": {"mixer": "gau(8, divisor=0)"}}, "at least 1"),
        ({"decoder": {"cross": "gau(8)"}}, "gau has no cross-attention"),
        ({"sides": {"feedforward": "moe(4, 2, 'none')"}}, 'an expert is a feed-forward, not "none"'),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(**changes).resolved()
