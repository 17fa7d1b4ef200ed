"""BitNet's linear layer by its formulas: rounding, gradients, packing, precision; whole models that are built of it."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from nn.building import small

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.layers.bitlinear import (
    BitLinear,
    bit_linear,
    pack_ternary,
    packed_state_dict,
    round_to_int8,
    round_to_ternary,
    unpack_ternary,
)
from headway.nn.transformer import Transformer
from headway.train.optimisers import MuonOptimiser

EXACT = {"rtol": 0.0, "atol": 1e-12}


def layer(inputs: int = 24, outputs: int = 10, bias: bool = True, **fields: Any) -> BitLinear:
    made = BitLinear(BitLinear.Config(**fields), inputs, outputs, bias=bias)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, parameter.mean().item(), 0.4)
    return made


def twin(model: Any, packed: Any) -> Any:
    """The same weights in a module that was built packed."""
    packed.load_state_dict(packed_state_dict(model))
    return packed.eval()


def model(linear: str = "bitnet", **changes: Any) -> Transformer:
    torch.manual_seed(1)
    return Transformer(small(linear=linear, **changes)).eval()


# ---- rounding


def test_ternary_by_hand() -> None:
    weight = torch.tensor([[0.2, -0.9, 0.0], [1.6, -0.25, 0.65]])
    rounded, scale = round_to_ternary(weight)
    assert abs(scale - 0.6) < 1e-6  # the mean of the absolute values
    assert rounded.tolist() == [[0, -1, 0], [1, 0, 1]]  # 0.33, -1.5, 0; 2.67, -0.42, 1.08


def test_eight_bits_by_hand() -> None:
    x = torch.tensor([[0.5, -1.27, 0.006, 0.0], [3.0, 0.0, 1.5, -3.0]], dtype=torch.float64)
    q, scale = round_to_int8(x)
    torch.testing.assert_close(scale, torch.tensor([[0.01], [3 / 127]], dtype=torch.float64), **EXACT)
    assert q.tolist() == [[50, -127, 1, 0], [127, 0, 64, -127]]  # 63.5 goes to the even 64


def test_a_vector_is_rounded_by_itself_and_by_half_a_step_at_most() -> None:
    x = torch.randn(5, 7, 33, dtype=torch.float64) * torch.logspace(-3, 3, 7, dtype=torch.float64)[:, None]
    q, scale = round_to_int8(x)
    assert ((q * scale - x).abs() <= scale / 2 + 1e-12).all()
    assert (q.abs().amax(-1) == 127).all() and torch.equal(q, q.round())
    alone, _ = round_to_int8(x[2:3, 4:5])
    assert torch.equal(alone[0, 0], q[2, 4])


def test_nothing_is_divided_by_nothing() -> None:
    for rounded, scale in (round_to_ternary(torch.zeros(3, 4)), round_to_int8(torch.zeros(3, 4))):
        assert (rounded == 0).all() and (scale > 0).all()
    made = layer(bias=False)
    x = torch.zeros(2, 24, requires_grad=True)
    made(x).sum().backward()
    assert (made(x) == 0).all() and x.grad.isfinite().all()


# ---- the layer


@pytest.mark.parametrize("norm", ["none", "rmsnorm", "layernorm"])
def test_it_is_a_product_of_rounded_numbers(norm: str) -> None:
    """By the naive form: round, put the scales back, multiply."""
    made, x = layer(norm=norm).double(), torch.randn(3, 5, 24, dtype=torch.float64)
    (q, step), (t, scale) = round_to_int8(made.norm(x)), round_to_ternary(made.weight)
    torch.testing.assert_close(made(x), F.linear(q * step, t * scale, made.bias), **EXACT)
    assert not torch.allclose(made(x), F.linear(made.norm(x), made.weight, made.bias), atol=0.01)


@pytest.mark.parametrize("norm", ["none", "rmsnorm"])
def test_gradients_pass_as_if_nothing_had_been_rounded(norm: str) -> None:
    made, x = layer(norm=norm).double(), torch.randn(3, 24, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(3, 10, dtype=torch.float64)
    inputs = made.norm(x)
    (q, step), (t, scale) = round_to_int8(inputs.detach()), round_to_ternary(made.weight.detach())
    of_inputs = towards @ (t * scale)
    wanted = [torch.autograd.grad(inputs, x, of_inputs)[0], towards.T @ (q * step), towards.sum(0)]
    found = torch.autograd.grad((made(x) * towards).sum(), [x, made.weight, made.bias])
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, **EXACT)


def test_in_float32_the_product_is_exact() -> None:
    """So the order of sums, and with it the number of rows, changes not a bit."""
    made, x = layer(4096, 64), torch.randn(50, 4096)
    q, step = round_to_int8(x)
    weight, scale = made.ternary_weight()
    whole = F.linear(q.long().double(), weight.double()).float() * (step * scale) + made.bias
    assert torch.equal(made(x), whole)
    assert torch.equal(made(x[7:8]), whole[7:8])


# ---- packed


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 8, 10])
def test_packing_loses_nothing(outputs: int) -> None:
    weight = torch.randint(-1, 2, (outputs, 7)).float()
    before = weight.clone()
    packed = pack_ternary(weight)
    assert packed.dtype == torch.uint8 and packed.shape == (-(-outputs // 4), 7)
    assert torch.equal(unpack_ternary(packed, outputs), weight) and torch.equal(weight, before)
    assert unpack_ternary(packed, outputs, torch.float64).dtype == torch.float64


def test_packing_by_hand() -> None:
    """Four rows in one byte, the first in its lowest bits; 0, 1, 2 for -1, 0, 1."""
    assert pack_ternary(torch.tensor([[-1.0], [0.0], [1.0], [1.0]])).tolist() == [[0b10_10_01_00]]


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_packed_gives_the_same_to_the_bit(bias: bool) -> None:
    made = layer(bias=bias, norm="rmsnorm")
    packed = twin(made, BitLinear(BitLinear.Config(norm="rmsnorm", packed=True), 24, 10, bias=bias))
    x = torch.randn(2, 5, 24)
    assert torch.equal(packed(x), made(x))
    # Its scale has been float32, so in float64 it is as near as that.
    torch.testing.assert_close(packed.double()(x.double()), made.double()(x.double()), rtol=0, atol=1e-5)
    assert packed(x.double()).dtype == torch.float64


@pytest.mark.parametrize("linear", ["bitnet", "bitnet(norm='rmsnorm')"])
@torch.no_grad()
def test_a_packed_model_gives_the_same_to_the_bit(linear: str) -> None:
    whole = model(linear)
    packed = twin(whole, Transformer(small(linear={**whole.config.linear.to_dict(), "packed": True})))
    source, target = torch.randint(29, (3, 7)), torch.randint(29, (3, 5))
    logits = whole.logits(whole(source, target).hidden)
    assert torch.equal(packed.logits(packed(source, target).hidden), logits)
    assert whole.state_dict().keys() != packed.state_dict().keys()


def test_what_is_packed_is_counted_as_weights_and_stored_as_bytes() -> None:
    whole = model()
    packed = Transformer(small(linear="bitnet(packed=true)"))
    assert packed.config.parameter_count() == whole.config.parameter_count()
    left = sum(p.numel() for p in packed.parameters())
    layers = [module for module in packed.modules() if isinstance(module, BitLinear)]
    assert left + sum(one.outputs * one.packed.shape[1] for one in layers) == packed.config.parameter_count()
    matrices = [p for name, p in whole.named_parameters() if "sublayers" in name and p.dim() == 2]
    assert len(matrices) == len(layers) == 2 * 6 + 2 * 10  # 4 a mixer, 2 a feed-forward
    assert sum(one.packed.nbytes for one in layers) * 16 == sum(p.nbytes for p in matrices)


def test_nothing_of_a_packed_model_starts_at_random() -> None:
    packed = Transformer(small(linear="bitnet(packed=true)", sides={"residual": "deepnorm"}))
    codes = [buffer for name, buffer in packed.named_buffers() if name.endswith("packed")]
    assert codes and all((code == 0).all() for code in codes)


# ---- where it stands


def test_it_stands_for_every_linear_layer_and_for_nothing_else() -> None:
    for head in ("masked", "pooled"):
        built = model(decoder=0, head=head)
        layers = {name for name, module in built.named_modules() if isinstance(module, BitLinear)}
        matrices = {name.removesuffix(".weight") for name, p in built.named_parameters() if p.dim() == 2}
        assert matrices - layers == {"embeddings.encoder.words"}
        assert len(layers) == 12 + (1 if head == "masked" else 2)


def test_it_starts_as_a_dense_layer_does() -> None:
    for residual in ("post", "deepnorm"):
        ours, dense = (model(kind, sides={"residual": residual}).state_dict() for kind in ("bitnet", "dense"))
        assert ours.keys() == dense.keys()
        assert all(torch.equal(ours[name], dense[name]) for name in dense)


def test_its_norms_are_weights_too() -> None:
    plain, normed = small(linear="bitnet").resolved(), small(linear="bitnet(norm='rmsnorm')").resolved()
    widths = 2 * (5 * 16 + 24) + 2 * (9 * 16 + 24)  # what each layer reads
    assert normed.parameter_count() - plain.parameter_count() == widths
    assert normed.parameter_count() == sum(p.numel() for p in Transformer(normed).parameters())


def test_muon_takes_its_matrices() -> None:
    built = model()
    muon, rest = MuonOptimiser.Config().build(built)
    taken = {id(p) for group in muon.param_groups for p in group["params"]}
    assert taken == {id(module.weight) for module in built.modules() if isinstance(module, BitLinear)}
    assert {id(p) for group in rest.param_groups for p in group["params"]} | taken == set(map(id, built.parameters()))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="eps: 0.0 is out of range: it must be at least 1e-12"):
        BitLinear.Config(eps=0.0)
    with pytest.raises(ConfigError, match='norm: "rms" is not a kind of norm'):
        make_part("linear", "bitnet('rms')")


# ---- precision and learning


def steps(built: Transformer, count: int) -> list[float]:
    """The losses of learning a few texts by heart, turned around."""
    torch.manual_seed(3)
    optimiser = torch.optim.Adam(built.parameters(), lr=5e-3)
    source = torch.randint(2, 29, (8, 6))
    target = torch.cat([torch.ones(8, 1, dtype=torch.long), source.flip(1)], dim=1)
    losses = []
    for _ in range(count):
        logits = built.logits(built(source, target[:, :-1]).hidden)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), target[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("linear", ["bitnet", "bitnet(norm='rmsnorm')"])
def test_it_learns(linear: str) -> None:
    losses = steps(model(linear, encoder=1, decoder=1, sides={"residual": "pre"}), 120)
    assert losses[0] > 3 and max(losses[-5:]) < 1


# oneDNN's kernels for bfloat16 stop with an illegal instruction on processors without AVX-512.
without_onednn = pytest.mark.filterwarnings("ignore:TF32 acceleration")


@without_onednn
def test_it_learns_in_bfloat16_and_its_weights_stay_float() -> None:
    built = model(encoder=1, decoder=1, sides={"residual": "pre"})
    before = [p.detach().clone() for p in built.parameters()]
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        losses = steps(built, 30)
    assert losses[-1] < losses[0] - 1
    assert all(p.dtype == torch.float32 and not torch.equal(p, old) for p, old in zip(built.parameters(), before))


@without_onednn
@torch.no_grad()
def test_sixteen_bits_round_the_result_and_not_the_rounding() -> None:
    made, x = layer(256, 64), torch.randn(9, 256)
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        narrow = made(x)
    assert narrow.dtype == torch.bfloat16
    difference = (narrow.float() - made(x)).abs()
    assert (difference <= 2**-7 * (made(x) - made.bias).abs() + 2**-8 * made(x).abs()).all()  # the product's, the sum's
    for dtype in (torch.bfloat16, torch.float16):  # a whole model in it; whole sums would not fit into float16
        want = bit_linear(x.to(dtype).float(), *made.ternary_weight(), made.bias)
        found = bit_linear(x.to(dtype), *made.ternary_weight(), made.bias)
        assert found.dtype == dtype and torch.equal(found, want.to(dtype))
