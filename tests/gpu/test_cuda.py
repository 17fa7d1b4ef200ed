"""What only a GPU can show: kernels equal the naive form there, bf16 trains without NaN, decoding agrees with the CPU.

Run with: pytest -m gpu tests/gpu
"""

from typing import Any

import pytest
import torch

from headway.config.search import Search
from headway.decode import decode
from headway.decode.reference.model import ModelStepper
from headway.nn.layers.bitlinear import bit_linear, packed_state_dict, round_to_ternary
from headway.nn.masks.masks import BoundMask, make_mask
from headway.nn.ops.attention import attend
from headway.nn.ops.retention import fixed_log_decay, retain
from headway.nn.ops.scan import scan
from headway.nn.positions.score_mod import BoundScoreMod, ScoreMod
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.loss import batch_loss
from headway.train.objectives import Batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler warns of itself, in each version of something else
]


def small_model(linear: str = "dense") -> Transformer:
    stack = {"layers": 2, "mixer": "attention(4)", "residual": "pre"}
    return Transformer(Transformer.Config(d_model=64, vocabulary=128, linear=linear, encoder=stack, decoder=stack))


RULES = ["causal", "causal & local(64)", "causal & strided(16)", "causal & fixed(48, 4, 2)", "segments(48, 32)"]
RULES += ["bigbird(16, 2, 256)", "causal & bigbird(16, 2, 256, 4)"]


@pytest.mark.parametrize("rule", RULES)
def test_flex_equals_naive_with_gradients(rule: str) -> None:
    device = torch.device("cuda")
    q, k, v = (torch.randn(2, 4, 256, 32, device=device, requires_grad=True) for _ in range(3))
    places = positions_from_start(256, None, device)
    results = []
    for kernel in ("flex", "math"):
        out = attend(q, k, v, mask=BoundMask(make_mask(rule), places, places, 4), kernel=kernel)
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for fast, naive in zip(*results):
        assert (fast - naive).norm() / naive.norm() < 2e-3  # tf32 inside the kernel


def test_flex_looks_up_what_queries_ask_with_gradients() -> None:
    device = torch.device("cuda")
    q, k, v = (torch.randn(2, 4, 256, 32, device=device, requires_grad=True) for _ in range(3))
    table = torch.randn(4, 32, 17, device=device, requires_grad=True)
    places, results = positions_from_start(256, None, device), []
    for kernel in ("flex", "math"):
        score = ScoreMod("bias", query_bias=q @ table, bucket=lambda q, k: (q - k).clamp(0, 16))
        pattern = BoundMask(make_mask("causal & local(64)"), places, places, 4)
        out = attend(q, k, v, mask=pattern, score_mod=BoundScoreMod(score, places, places, 4), kernel=kernel)
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v, table))))
    for fast, naive in zip(*results):
        assert (fast - naive).norm() / naive.norm() < 2e-3  # tf32 inside the kernel


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)], ids=["f32", "bf16"])
def test_forms_of_retention_are_equal_with_gradients(dtype: torch.dtype, near: float) -> None:
    q, k, v = (torch.randn(2, 4, 300, 32, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    decay, results = fixed_log_decay(4, q.device), []
    for form in ("recurrent", "parallel", "chunkwise"):
        output, total = retain(q, k, v, decay, form=form, chunk=64)
        results.append((output, total, *torch.autograd.grad(output.float().square().sum(), (q, k, v))))
    for other in results[1:]:
        for one, expected in zip(other, results[0]):
            assert (one - expected).float().norm() / expected.float().norm() < near


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("length", [9, 300])
def test_forms_of_the_scan_are_equal_with_gradients(length: int, dtype: torch.dtype, near: float) -> None:
    """By Triton where it is installed."""
    a = torch.rand(2, length, 1, 70, device="cuda", dtype=dtype, requires_grad=True)
    b = torch.randn(2, length, 3, 70, device="cuda", dtype=dtype, requires_grad=True)
    initial = torch.randn(2, 3, 70, device="cuda", dtype=dtype, requires_grad=True)
    results = []
    for form in ("recurrent", "chunked"):
        states, final = scan(a, b, initial, form=form)
        loss = states.square().sum() + final.sum()
        results.append((states, final, *torch.autograd.grad(loss, (a, b, initial))))
    for expected, one in zip(*results):
        assert (one - expected).double().norm() / expected.double().norm() < near


def turns(*parts: str) -> dict[str, list[str]]:
    """Masks of a decoder that change from layer to layer; an encoder has them without `causal`."""
    return {"mask": [f"causal & {part}" for part in parts]}


SYSTEMS: dict[str, dict[str, Any]] = {
    "t5": {"position": "t5"},
    "shaw": {"position": "shaw(4)"},
    "transformer-xl": {"position": "transformer_xl"} | turns("segments(4, 4)"),
    "local and strided": turns("local(4)", "strided(3)"),
    "bigbird": turns("bigbird(2, random=1, max_positions=32)"),
    "retention": {"mixer": "retention(4, chunk=4)", "mask": "causal", "position": "rope"},
    "gated retention": {"mixer": "retention(4, chunk=4, gated=true)", "mask": "causal", "position": "rope"},
    "rwkv4": {"mixer": "rwkv4", "feedforward": "rwkv_channel_mix", "mask": "causal", "position": "none"},
    "rwkv7": {
        "mixer": "rwkv7(2)",
        "feedforward": "rwkv_channel_mix(gated=false)",
        "mask": "causal",
        "position": "none",
    },
    "linear attention": {"mixer": "linear_attention(4, chunk=4)", "cross": "linear_attention(4)"},
    "performer": {"mixer": "performer(4, chunk=4)"},
    "mamba": {"mixer": "mamba(chunk=4)", "mask": "causal", "position": "none"},
    "mingru": {"mixer": "mingru", "mask": "causal", "position": "none"},
    "ssru": {"mixer": "ssru", "mask": "causal", "position": "none"},
    "residual_dual": {"residual": "residual_dual"},
    "deepnorm": {"residual": "deepnorm"},
    "experts": {"feedforward": "moe(4, 2)"},
    "shared": {"mixer": ["attention(4)", "shared_kv(4)"]} | turns("local(4)", "full"),
}


def learned(model: Transformer) -> list[float]:
    """The loss of each step of a short training in bfloat16."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    source, target = torch.randint(4, 128, (2, 16, 12), device="cuda")
    valid = torch.arange(12, device="cuda") < torch.randint(3, 13, (16, 1), device="cuda")
    batch = Batch(source, valid, target, valid, target.masked_fill(~valid, -100), int(valid.sum()), 0)
    losses = []
    for _ in range(60):
        with torch.autocast("cuda", torch.bfloat16):
            loss = batch_loss(model, batch, 0.0).loss / batch.label_count
        loss.backward()
        assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize("linear", ["dense", "bitnet", "bitnet(norm='rmsnorm')"])
def test_bf16_trains_without_nan(linear: str) -> None:
    torch.manual_seed(0)
    losses = learned(small_model(linear).cuda())
    assert all(loss == loss for loss in losses) and losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_trains_in_bf16_and_decodes_as_on_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    decoder = {"layers": 2, "mixer": "attention(4)", "residual": "pre"} | SYSTEMS[name]
    encoder = {key: value for key, value in decoder.items() if key not in ("mask", "cross") or value == "causal"}
    model = Transformer(Transformer.Config(d_model=64, vocabulary=128, encoder=encoder, decoder=decoder)).cuda()
    losses = learned(model)
    assert all(loss == loss for loss in losses) and losses[-1] < 0.5 * losses[0]
    source = torch.randint(4, 128, (8, 9))
    special, search = SpecialTokens(start=1, end=2, suppress=(0, 3)), Search(beam_size=4, max_length=20)
    there = decode(ModelStepper(model.eval()), source.cuda(), special_tokens=special, search=search)
    here = decode(ModelStepper(model.cpu()), source, special_tokens=special, search=search)
    assert sum(a[0].ids == b[0].ids for a, b in zip(here, there)) >= 7  # a tie may fall the other way


def test_decoding_agrees_with_the_cpu() -> None:
    torch.manual_seed(0)
    model = small_model().eval()
    source = torch.randint(4, 128, (8, 9))
    special, search = SpecialTokens(start=1, end=2, suppress=(0, 3)), Search(beam_size=4, max_length=20)
    here = decode(ModelStepper(model), source, special_tokens=special, search=search)
    there = decode(ModelStepper(model.cuda()), source.cuda(), special_tokens=special, search=search)
    assert [row[0].ids for row in here] == [row[0].ids for row in there]


@torch.no_grad()
def test_bitnets_product_is_exact_whatever_the_units() -> None:
    """Whole numbers up to 127 fit TF32 and bfloat16, and their sums fit float32: the GPU gives the CPU's numbers."""
    torch.manual_seed(0)
    q = torch.randint(-127, 128, (40, 4096)).float()
    weight, scale = round_to_ternary(torch.randn(512, 4096))
    expected = torch.nn.functional.linear(q, weight)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            assert torch.equal(torch.nn.functional.linear(q.cuda(), weight.cuda()).cpu(), expected)
    finally:
        torch.set_float32_matmul_precision(before)
    x = torch.randn(40, 4096)
    exact = bit_linear(x.cuda(), weight.cuda(), scale.cuda())
    with torch.autocast("cuda", torch.bfloat16):
        narrow = bit_linear(x.cuda(), weight.cuda(), scale.cuda())
    assert narrow.dtype == torch.bfloat16
    assert ((narrow.float() - exact).abs() <= 2**-7 * exact.abs()).all()


@torch.no_grad()
def test_a_packed_bitnet_gives_the_same_to_the_bit() -> None:
    whole, packed = small_model("bitnet").cuda().eval(), small_model("bitnet(packed=true)").cuda().eval()
    packed.load_state_dict(packed_state_dict(whole))
    ids = torch.randint(4, 128, (8, 12), device="cuda")
    assert torch.equal(packed(ids, ids).hidden, whole(ids, ids).hidden)
