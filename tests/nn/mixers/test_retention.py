"""Retention: three forms of one function, equal to a plain loop over the definition; the layer of the reference
implementation; what it remembers, what it refuses, what it costs."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from golden_files import golden
from nn.building import small
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config.schema import from_dict, make_part
from headway.decode import Search, SpecialTokens, decode
from headway.decode.reference.model import ModelStepper
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.cache.kv import TruncationError
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context, ForwardReport
from headway.nn.mixers.retention import Retention
from headway.nn.ops import retention as retain_module
from headway.nn.ops.retention import chunkwise, decay_matrix, fixed_log_decay, parallel, recurrent, retain
from headway.nn.positions.positions import Rope, rotate
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer, valid_mask

NEAR = {"rtol": 0.0, "atol": 1e-12}
FORMS = ("recurrent", "parallel", "chunkwise")


def defined(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sums themselves, number by number."""
    B, H, T, _ = q.shape
    gamma = log_decay.exp().expand(B, H, T)
    output = torch.zeros_like(v)
    last = torch.zeros(B, H, k.shape[3], v.shape[3], dtype=q.dtype)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                for s in range(t + 1):
                    output[b, h, t] += gamma[b, h, s + 1 : t + 1].prod() * (q[b, h, t] @ k[b, h, s]) * v[b, h, s]
                if total is not None:
                    output[b, h, t] += gamma[b, h, : t + 1].prod() * q[b, h, t] @ total[b, h]
            for s in range(T):
                last[b, h] += gamma[b, h, s + 1 :].prod() * torch.outer(k[b, h, s], v[b, h, s])
            if total is not None:
                last[b, h] += gamma[b, h].prod() * total[b, h]
    return output, last


def inputs(length: int, *, gated: bool, total: bool, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    q, k = torch.randn(2, 2, 3, length, 4, dtype=dtype)
    gates = F.logsigmoid(torch.randn(2, 3, length, dtype=dtype)) / 4
    return {
        "q": q,
        "k": k,
        "v": torch.randn(2, 3, length, 6, dtype=dtype),
        "log_decay": gates if gated else fixed_log_decay(3),
        "total": torch.randn(2, 3, 4, 6, dtype=dtype) if total else None,
    }


@pytest.mark.parametrize("total", [False, True], ids=["from nothing", "after something"])
@pytest.mark.parametrize("gated", [False, True], ids=["fixed", "gated"])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_every_form_is_the_definition(length: int, gated: bool, total: bool) -> None:
    given = inputs(length, gated=gated, total=total)
    expected = defined(**given)
    for found in (recurrent(**given), parallel(**given), chunkwise(**given, chunk=2), chunkwise(**given, chunk=3)):
        torch.testing.assert_close(found, expected, **NEAR)


@pytest.mark.parametrize("total", [False, True], ids=["from nothing", "after something"])
@pytest.mark.parametrize("gated", [False, True], ids=["fixed", "gated"])
@pytest.mark.parametrize(("length", "chunk"), [(13, 4), (16, 4), (29, 1), (31, 5), (12, 12), (9, 20)])
def test_forms_are_equal_with_their_gradients(
    monkeypatch: pytest.MonkeyPatch, length: int, chunk: int, gated: bool, total: bool
) -> None:
    monkeypatch.setattr(retain_module, "CHUNKS_PER_MATRIX", 3)  # chunks joined by several matrices
    given = inputs(length, gated=gated, total=total)
    leaves = [x.requires_grad_() for x in given.values() if x is not None]
    towards, last = torch.randn(2, 3, length, 6, dtype=torch.float64), torch.randn(2, 3, 4, 6, dtype=torch.float64)
    results = []
    for form in FORMS:
        output, left = retain(**given, form=form, chunk=chunk)
        loss = (output * towards).sum() + (left * last).sum()
        results.append((output, left, *torch.autograd.grad(loss, leaves)))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_a_token_without_key_and_decay_is_not_there(form: Any) -> None:
    """Padding anywhere: what is left over is what the others alone would have left."""
    given = inputs(11, gated=True, total=True)
    real = torch.tensor([0, 2, 3, 6, 9])
    padding = torch.ones(11, dtype=torch.bool)
    padding[real] = False
    padded = {**given, "k": given["k"].masked_fill(padding[:, None], 0.0)}
    padded["log_decay"] = given["log_decay"].masked_fill(padding, 0.0)
    output, left = retain(**padded, form=form, chunk=4)
    alone = {name: x[:, :, real] for name, x in given.items() if name != "total"}
    expected, expected_left = recurrent(**alone, total=given["total"])
    torch.testing.assert_close(output[:, :, real], expected, **NEAR)
    torch.testing.assert_close(left, expected_left, **NEAR)


def test_auto_goes_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def noted(name: str, form: Any) -> Any:
        return lambda *given: (called.append(name), form(*given))[1]

    for name in FORMS:
        monkeypatch.setattr(retain_module, name, noted(name, getattr(retain_module, name)))
    for length in (1, 4, 8):
        retain(**inputs(length, gated=False, total=False), chunk=4)
    assert called == ["recurrent", "chunkwise", "parallel", "chunkwise"]


def test_long_texts_stay_exact_in_float32() -> None:
    """Differences of sums that are as large as the text is long, though what they say is about neighbours."""
    torch.manual_seed(3)
    given = inputs(3000, gated=True, total=False)
    expected, left = recurrent(**given)
    single = {name: None if x is None else x.float() for name, x in given.items()}
    for form in FORMS:
        output, rest = retain(**single, form=form, chunk=64)
        assert (output.double() - expected).norm() / expected.norm() < 1e-6
        assert (rest.double() - left).norm() / left.norm() < 1e-6


def test_heads_forget_at_their_own_rates() -> None:
    assert fixed_log_decay(8).exp().flatten().tolist() == pytest.approx(
        [1 - 2.0 ** (-5 - h) for h in range(8)], abs=1e-15
    )
    faded = decay_matrix(fixed_log_decay(2).expand(1, 2, 4), torch.float64)[0]
    assert faded[0, 3].tolist() == pytest.approx([(31 / 32) ** n for n in (3, 2, 1, 0)], abs=1e-15)
    assert (faded.triu(1) == 0).all()


# ---- The layer


def layer(mixer: str, width: int = 16) -> Retention:
    scope = Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense"))
    part: Any = make_part("mixer", mixer)
    module = Retention(part, scope)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return module.double()


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_the_layer_is_torchscales(form: str) -> None:
    theirs, c = golden("retnet")
    heads, chunk, eps = c["heads"], c["chunk"], c["eps"]
    module = layer(
        f"retention({heads}, d_v={c['value_dim'] // heads}, form='{form}', chunk={chunk}, eps={eps})", c["dim"]
    )
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "gate": "g_proj", "output": "out_proj"}
    weights = {f"{ours}.weight": theirs[f"w.{name}.weight"] for ours, name in names.items()}
    module.load_state_dict(weights)
    places = positions_from_start(c["n"], None, torch.device("cpu"))
    position = Rope(Rope.Config(spacing="closed"), Scope(d_model=32, dropout=0, norm=None, linear=None))
    state = module.new_cache(2, torch.device("cpu"))
    output = module(theirs["in.x"], Context(places, position=position), cache=state)
    torch.testing.assert_close(output, theirs[f"out.{form}"], rtol=0, atol=1e-9)
    total = theirs["out.recurrent_state"].mT * theirs["out.recurrent_scale"].sqrt()[None, :, None, None]
    torch.testing.assert_close(state.values["total"], total, rtol=0, atol=1e-9)


@pytest.mark.parametrize("bias", ["false", "true"])
@torch.no_grad()
def test_a_gated_layer_is_a_plain_loop(bias: str) -> None:
    """γ = sigmoid(xW)^(1/16), one number for each head and token."""
    module = layer(f"retention(2, gated=true, chunk=4, bias={bias})")
    x = torch.randn(1, 9, 16, dtype=torch.float64)
    expected, total = [], torch.zeros(2, 8, 16, dtype=torch.float64)
    for t in range(9):
        q, k = module.query(x[0, t]).view(2, 8), module.key(x[0, t]).view(2, 8) / 8**0.5
        v, gamma = module.value(x[0, t]).view(2, 16), torch.sigmoid(module.decay(x[0, t])) ** (1 / 16)
        heard = []
        for h in range(2):
            total[h] = gamma[h] * total[h] + torch.outer(k[h], v[h])
            o = q[h] @ total[h]
            heard.append(o / (o.square().mean() + 1e-6).sqrt())
        expected.append(module.output(F.silu(module.gate(x[0, t])) * torch.cat(heard)))
    output = module(x, Context(positions_from_start(9, None, x.device)))
    torch.testing.assert_close(output[0], torch.stack(expected), **NEAR)


def test_closed_spacing_has_both_ends() -> None:
    x = torch.zeros(1, 1, 1, 8, dtype=torch.float64)
    x[..., 0::2] = 1
    turned = rotate(x, torch.tensor([[3]]), 10000, "interleaved", "closed")[0, 0, 0]
    angles = 3 * 10000 ** -(torch.arange(4, dtype=torch.float64) / 3)
    torch.testing.assert_close(turned, torch.stack([angles.cos(), angles.sin()], -1).flatten(), **NEAR)
    assert rotate(x[..., :2], torch.tensor([[3]]), 10000, "halves", "closed").isfinite().all(), "one pair has one end"


def model(mixer: str = "retention(4)", position: str = "rope(spacing='closed')", **changes: Any) -> Transformer:
    side = {"layers": 2, "mixer": mixer, "position": position, "feedforward": "relu(24)", "residual": "pre"}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": side}
    torch.manual_seed(5)
    return Transformer(from_dict(Transformer.Config, {**table, **changes})).eval()


@pytest.mark.parametrize("mixer", ["retention(4, chunk=4)", "retention(4, gated=true, chunk=4)"])
@torch.no_grad()
def test_a_state_of_one_size_serves_any_length(mixer: str) -> None:
    built = model(mixer).double()
    ids, state = torch.randint(29, (2, 40)), built.new_state(2)
    whole, sizes = built.decode(ids), []
    for part in ids.split([17, 1, 1, 6, 1, 14], dim=1):
        before = int(state.lengths[0])
        hidden = built.decode(part, state=state)
        torch.testing.assert_close(hidden, whole[:, before : before + part.shape[1]], **NEAR)
        sizes.append(state.bytes)
    assert set(sizes) == {2 * built.config.costs()["decoder"].cached_per_text * 8}
    assert built.config.kv_bytes_per_token() == 0
    with pytest.raises(TruncationError, match="snapshot"):
        state.truncate(torch.tensor([40, 39]))


@torch.no_grad()
def test_a_state_goes_to_disk_and_back() -> None:
    built = model().double()
    ids, state = torch.randint(29, (2, 9)), built.new_state(2)
    built.decode(ids[:, :5], state=state)
    saved = [{name: x.clone() for name, x in one["self"].tensors().items()} for one in state.layers]
    assert [sorted(one) for one in saved] == [["lengths", "total"]] * 2
    expected = built.decode(ids[:, 5:], state=state)
    fresh = built.new_state(2)
    fresh.lengths, fresh.end = torch.tensor([5, 5]), 5
    for one, tensors in zip(fresh.layers, saved):
        assert isinstance(one["self"], RecurrentState)
        one["self"].load(tensors)
        assert one["self"].lengths.tolist() == [5, 5]
    assert torch.equal(built.decode(ids[:, 5:], state=fresh), expected)


@pytest.mark.parametrize("encoder", [0, 1], ids=["goes on", "translates"])
@torch.no_grad()
def test_a_beam_is_searched_as_over_whole_passes(encoder: int) -> None:
    """The hypotheses that share a state are those that a search without one would score."""
    side = {"layers": encoder, "mixer": "attention(2)", "feedforward": "relu(24)"}
    built = model("retention(4, chunk=4)", encoder=side)
    with torch.no_grad():
        built.embeddings["decoder"].words.weight.mul_(4)
    source = torch.randint(2, 29, (5, 6)) if encoder else None
    search = Search(beam_size=4, n_best=4, max_length=12)
    prefixes = [[5, 6, 7][: row % 4] for row in range(5)]
    found = decode(
        ModelStepper(built), source, special_tokens=SpecialTokens(start=0, end=1), search=search, prefixes=prefixes
    )
    for row, hypotheses in enumerate(found):
        memory = built.encode(source[row : row + 1]) if encoder and source is not None else None
        for hypothesis in hypotheses:
            ids = [0, *hypothesis.ids, *[1] * hypothesis.finished]
            logps = built.logits(built.decode(torch.tensor([ids[:-1]]), memory=memory))[0].log_softmax(-1)
            given = logps[torch.arange(len(ids) - 1), ids[1:]][hypothesis.prefix :]
            assert hypothesis.token_logps == pytest.approx(given.tolist(), abs=1e-4)
    assert len({tuple(hypothesis.ids) for row in found for hypothesis in row}) > 10


@pytest.mark.parametrize("mixer", ["retention(4)", "retention(4, gated=true)"])
def test_a_language_model_learns(mixer: str) -> None:
    built = model(mixer).train()
    optimiser = torch.optim.Adam(built.parameters(), lr=1e-2)
    ids = torch.randint(29, (4, 12))
    valid = valid_mask(torch.tensor([12, 9, 4, 12]), 12)
    losses = []
    for _ in range(40):
        logits = built.logits(built.decode(ids[:, :-1], valid[:, :-1]))
        loss = F.cross_entropy(logits[valid[:, 1:]], ids[:, 1:][valid[:, 1:]])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in built.parameters())


@pytest.fixture
def no_onednn() -> Iterator[None]:
    """Its bfloat16 products end the process ("illegal instruction") on some processors without AVX-512."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


@pytest.mark.usefixtures("no_onednn")
@pytest.mark.parametrize("mixer", ["retention(4, chunk=8)", "retention(4, gated=true, chunk=8)"])
def test_bfloat16_keeps_totals_in_float32(mixer: str) -> None:
    built = model(mixer)
    ids, state = torch.randint(29, (2, 50)), built.new_state(2)
    expected = built.decode(ids)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = built.decode(ids, state=state)
        hidden.float().square().sum().backward()
        step = built.decode(ids[:, :1], state=state)
    assert (hidden.float() - expected).norm() / expected.norm() < 0.05
    assert step.isfinite().all()
    assert all(one["self"].values["total"].dtype == torch.float32 for one in state.layers)  # type: ignore[attr-defined]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())
    half = built.to(torch.bfloat16)
    state = half.new_state(2)
    with torch.no_grad():
        assert half.decode(ids, state=state).isfinite().all()
    assert all(one["self"].values["total"].dtype == torch.float32 for one in state.layers)  # type: ignore[attr-defined]


# ---- What it is made of, what it costs, what it refuses


@pytest.mark.parametrize("length", [1, 5, 8, 13, 21, 40])
@pytest.mark.parametrize("form", ["auto", *FORMS])
@pytest.mark.parametrize("more", ["", ", gated=true, bias=true", ", d_k=3, d_v=7"])
def test_costs_are_those_of_the_built_model(monkeypatch: pytest.MonkeyPatch, length: int, form: str, more: str) -> None:
    monkeypatch.setattr(retain_module, "CHUNKS_PER_MATRIX", 2)
    built = model(f"retention(4, form='{form}', chunk=8{more})", "none")
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


def test_a_trace_has_scores_and_no_weights() -> None:
    built = model("retention(4, form='recurrent', gated=true)").double()
    ids, report = torch.randint(29, (2, 7)), ForwardReport(trace={})
    torch.testing.assert_close(built.decode(ids, report=report), built.decode(ids), **NEAR)
    trace = report.trace
    assert trace is not None and not any(name.endswith("weights") for name in trace)
    found = {name: trace[f"decoder.1.self.{name}"] for name in ("q", "k", "v", "scores", "decay", "output")}
    assert found["decay"].shape == (2, 4, 7) and ((found["decay"] > 0) & (found["decay"] < 1)).all()
    torch.testing.assert_close(
        found["scores"], found["q"] @ found["k"].mT * decay_matrix(found["decay"].log(), torch.float64), **NEAR
    )
    assert (found["scores"] < 0).any(), "signed: no distribution"
    heard = recurrent(found["q"], found["k"], found["v"], found["decay"].log())[0]
    torch.testing.assert_close(found["scores"] @ found["v"], heard, **NEAR)


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        (
            {"mask": "causal & local(4)"},
            "decoder.mask",
            r'supports only the mask "causal", not "\(causal & local\(4\)\)"',
        ),
        (
            {"position": "alibi"},
            "decoder.position",
            "alibi changes attention scores, and retention has none",
        ),
        ({"position": "t5"}, "decoder.position", "t5 changes attention scores"),
        ({"mixer": "retention(3)"}, "decoder.mixer.heads", "d_model = 16 is not a multiple of 3 heads"),
        ({"mixer": "retention(4, d_k=3)", "position": "rope"}, "decoder.position", "rotates pairs.*d_k must be even"),
        ({"cross": "retention"}, "decoder.cross", 'retention has no cross-attention. Set cross = "attention"'),
    ],
    ids=["mask", "alibi", "t5", "heads", "odd", "cross"],
)
def test_what_it_would_drop_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "retention(4)", **changes}).resolved()
    assert caught.value.where == where


def test_an_encoder_may_only_look_back() -> None:
    with pytest.raises(ConfigError, match='only the mask "causal", not "full". Set mask = "causal"') as caught:
        small(encoder={"mixer": "retention"}).resolved()
    assert caught.value.where == "encoder.mask"
    assert small(encoder={"mixer": "retention", "mask": "causal"}).resolved().decoder.mixer[0].kind == "attention"


def test_what_listens_to_the_source_is_attention() -> None:
    config = small(decoder={"mixer": "retention"}).resolved()
    assert [part.kind for part in config.decoder.cross or ()] == ["attention"]
