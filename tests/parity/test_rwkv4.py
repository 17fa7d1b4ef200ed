"""RWKV-4: the numbers of Hugging Face's implementation, part by part and as a whole model; two forms of one average;
the token before each, whatever padding and packing surround it; what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from golden_files import golden
from nn.building import small
from torch import Tensor
from transformers import RwkvConfig, RwkvForCausalLM
from transformers.models.rwkv import modeling_rwkv

from headway.config.schema import from_dict
from headway.data.ragged import ragged_from_arrays
from headway.errors import ConfigError, HeadwayError
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context, ForwardReport
from headway.nn.ops import wkv as wkv_module
from headway.nn.ops.token_shift import shift_tokens
from headway.nn.ops.wkv import NO_WEIGHT, WeightedAverage, wkv, wkv_weights
from headway.nn.sequence import TokenPositions, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from headway.train.objectives import pack_sequences

GOLDEN_NEAR = {"rtol": 0.0, "atol": 1e-11}
NEAR = {"rtol": 1e-10, "atol": 1e-10}
FORMS = ("recurrent", "chunkwise")


def model(d: int, hidden: int, vocabulary: int, layers: int = 2, eps: float = 1e-5) -> Transformer:
    """RWKV-4 as a config says it: the norm of the embedding is `ln0`, that of the end `ln_out`."""
    side = {
        "layers": layers,
        "mixer": "rwkv4",
        "feedforward": f"rwkv_channel_mix({hidden})",
        "residual": "pre",
        "position": "none",
    }
    table = {
        "d_model": d,
        "vocabulary": vocabulary,
        "dropout": 0.0,
        "norm": f"layernorm({eps})",
        "embedding": {"tied": "none", "scale": False, "norm": True},
        "encoder": {"layers": 0},
        "decoder": side,
    }
    return Transformer(from_dict(Transformer.Config, table)).double().eval()


def block_weights(theirs: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """Those of one of their blocks under our names. They weigh the token itself, we the one before."""
    attention, feedforward = "attention", "feed_forward"
    weights = {
        "sublayers.self.log_decay": theirs[f"{attention}.time_decay"],
        "sublayers.self.bonus": theirs[f"{attention}.time_first"],
        "sublayers.feedforward.inner_share": 1 - theirs[f"{feedforward}.time_mix_key"].flatten(),
        "sublayers.feedforward.gate_share": 1 - theirs[f"{feedforward}.time_mix_receptance"].flatten(),
        "sublayers.feedforward.inner.weight": theirs[f"{feedforward}.key.weight"],
        "sublayers.feedforward.gate.weight": theirs[f"{feedforward}.receptance.weight"],
        "sublayers.feedforward.outer.weight": theirs[f"{feedforward}.value.weight"],
    }
    for name in ("receptance", "key", "value"):
        weights[f"sublayers.self.{name}_share"] = 1 - theirs[f"{attention}.time_mix_{name}"].flatten()
    for name in ("receptance", "key", "value", "output"):
        weights[f"sublayers.self.{name}.weight"] = theirs[f"{attention}.{name}.weight"]
    for ours, norm in (("self", "ln1"), ("feedforward", "ln2")):
        weights[f"residuals.{ours}.norm.gain"] = theirs[f"{norm}.weight"]
        weights[f"residuals.{ours}.norm.bias"] = theirs[f"{norm}.bias"]
    return {f"stacks.decoder.blocks.{number}.{name}": value for name, value in weights.items()}


def below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


@pytest.fixture(scope="module")
def reference() -> tuple[Transformer, dict[str, Tensor], Tensor]:
    """A model with the golden weights, whose embeddings are the golden inputs; the file; the ids of its inputs."""
    tensors, config = golden("rwkv4")
    x = tensors["in.x"]
    layers = len({name.split(".")[1] for name in tensors if name.startswith("w.")})
    built = model(config["dim"], config["ff"], len(x) * x.shape[1], layers)
    weights = built.state_dict()
    weights["embeddings.decoder.words.weight"] = x.flatten(0, 1)
    weights["embeddings.decoder.norm.gain"] = tensors["w.0.pre_ln.weight"]
    weights["embeddings.decoder.norm.bias"] = tensors["w.0.pre_ln.bias"]
    for number in range(layers):
        weights |= block_weights(below(tensors, f"w.{number}."), number)
    built.load_state_dict(weights)
    return built, tensors, torch.arange(len(x) * x.shape[1]).view(x.shape[:2])


def sublayer(built: Transformer, name: str) -> Any:
    return built.stacks["decoder"].blocks[0].sublayers[name]  # type: ignore[union-attr, index]


@torch.no_grad()
def test_parts_are_those_of_the_reference(reference: tuple[Transformer, dict[str, Tensor], Tensor]) -> None:
    built, tensors, _ = reference
    x, trace = tensors["in.x"], {}
    ctx = Context(positions_from_start(x.shape[1], None, x.device), ForwardReport(trace=trace), path="here")
    torch.testing.assert_close(sublayer(built, "self")(x, ctx), tensors["out.att"], **GOLDEN_NEAR)
    torch.testing.assert_close(trace["here.wkv"], tensors["out.wkv"], **GOLDEN_NEAR)
    torch.testing.assert_close(sublayer(built, "feedforward")(x, ctx), tensors["out.ffn"], **GOLDEN_NEAR)


@torch.no_grad()
def test_blocks_are_those_of_the_reference(reference: tuple[Transformer, dict[str, Tensor], Tensor]) -> None:
    """The stream after the last sub-layer of each block, in one pass and token by token, and what is left in the
    state."""
    built, tensors, ids = reference
    trace: dict[str, Tensor] = {}
    hidden = built.decode(ids, report=ForwardReport(trace=trace))
    torch.testing.assert_close(trace["decoder.0.feedforward.stream"], tensors["out.block0"], **GOLDEN_NEAR)
    state, steps = built.new_state(len(ids)), []
    for t in range(ids.shape[1]):
        steps.append(built.decode(ids[:, t : t + 1], state=state))
    torch.testing.assert_close(torch.cat(steps, 1), hidden, **GOLDEN_NEAR)
    if "out.stack" not in tensors:  # the committed file has one block, to be small
        assert len(state.layers) == 1
        return
    last = trace[f"decoder.{len(state.layers) - 1}.feedforward.stream"]
    for name in ("out.stack", "out.stack_recurrent"):
        torch.testing.assert_close(last, tensors[name], **GOLDEN_NEAR)
    for number, layer in enumerate(state.layers):
        own, feedforward = (one.tensors() for one in (layer["self"], layer["feedforward"]))
        num, den, largest = (tensors[f"out.state_{name}"][..., number] for name in ("num", "den", "max"))
        torch.testing.assert_close(own["mean"], num / den, **GOLDEN_NEAR)
        torch.testing.assert_close(own["log_weight"], largest + den.log(), **GOLDEN_NEAR)
        torch.testing.assert_close(own["last"], tensors["out.state_att_shift"][..., number], **GOLDEN_NEAR)
        torch.testing.assert_close(feedforward["last"], tensors["out.state_ffn_shift"][..., number], **GOLDEN_NEAR)


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hugging Face's loop rounds keys and states to float32: not here."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(modeling_rwkv.torch, "float32", torch.float64)


@pytest.mark.usefixtures("in_float64")
@torch.no_grad()
def test_a_whole_model_is_that_of_hugging_face() -> None:
    config = RwkvConfig(
        vocab_size=31, hidden_size=24, num_hidden_layers=3, intermediate_size=40, layer_norm_epsilon=1e-5,
        context_length=64, rescale_every=0, use_cache=False,
    )  # fmt: skip
    theirs = RwkvForCausalLM(config).double().eval()
    for weights in theirs.parameters():
        torch.nn.init.normal_(weights, float(weights.mean()), 0.3)
    ours = model(24, 40, 31, 3)
    source = theirs.state_dict()
    weights = {
        "embeddings.decoder.words.weight": source["rwkv.embeddings.weight"],
        "embeddings.decoder.norm.gain": source["rwkv.blocks.0.pre_ln.weight"],
        "embeddings.decoder.norm.bias": source["rwkv.blocks.0.pre_ln.bias"],
        "stacks.decoder.ends.norm.gain": source["rwkv.ln_out.weight"],
        "stacks.decoder.ends.norm.bias": source["rwkv.ln_out.bias"],
        "head.weight": source["head.weight"],
    }
    for number in range(3):
        weights |= block_weights(below(source, f"rwkv.blocks.{number}."), number)
    ours.load_state_dict(weights)
    ids = torch.randint(31, (2, 41))
    expected = theirs(ids).logits
    torch.testing.assert_close(ours.logits(ours.decode(ids)), expected, rtol=0, atol=1e-10)
    state = ours.new_state(2)
    pieces = [ours.decode(piece, state=state) for piece in ids.split([17, 1, 1, 22], 1)]
    torch.testing.assert_close(ours.logits(torch.cat(pieces, 1)), expected, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_the_average_is_that_of_hugging_face(form: Any, scale: float) -> None:
    """Keys of all sizes: nothing overflows."""
    k, v = torch.randn(2, 2, 23, 5, dtype=torch.float64)
    k, log_decay, bonus = scale * k, torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    nothing = [torch.zeros(2, 5, dtype=torch.float64) for _ in range(2)] + [torch.full((2, 5), -1e38).double()]
    expected, (num, den, largest) = modeling_rwkv.rwkv_linear_attention_cpu(log_decay, bonus, k, v, nothing, True)
    found, state = wkv(k, v, log_decay.exp()[None, None], bonus, form=form)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(state.mean, num / den, rtol=0, atol=1e-12)
    torch.testing.assert_close(state.log_weight, largest + den.log(), rtol=1e-13, atol=1e-12)


def inputs(length: int, *, by_token: bool, state: bool) -> dict[str, Any]:
    k, v = torch.randn(2, 2, length, 3, dtype=torch.float64)
    earlier = WeightedAverage(*torch.randn(2, 2, 3, dtype=torch.float64))
    return {
        "k": 3 * k,
        "v": v,
        "decay": torch.rand(*((2, length) if by_token else (1, 1)), 3, dtype=torch.float64) * 4,
        "bonus": torch.randn(3, dtype=torch.float64),
        "state": earlier if state else None,
    }


def defined(k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor, state: WeightedAverage | None) -> Tensor:
    """The sums themselves, number by number."""
    decay, output = decay.expand_as(k), torch.zeros_like(v)
    for b, t, c in torch.cartesian_prod(*map(torch.arange, k.shape)).tolist():
        p = [(k[b, s, c] - decay[b, s + 1 : t, c].sum()).exp() for s in range(t)] + [(k[b, t, c] + bonus[c]).exp()]
        total, weight = sum(p[s] * v[b, s, c] for s in range(t + 1)), sum(p)
        if state is not None:
            old = (state.log_weight[b, c] - decay[b, :t, c].sum()).exp()
            total, weight = total + old * state.mean[b, c], weight + old
        output[b, t, c] = total / weight
    return output


@pytest.mark.parametrize("state", [False, True], ids=["from nothing", "after something"])
@pytest.mark.parametrize("by_token", [False, True], ids=["one decay", "own decays"])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_every_form_is_the_definition(length: int, by_token: bool, state: bool) -> None:
    given = inputs(length, by_token=by_token, state=state)
    expected = defined(**given)
    for form in FORMS:
        torch.testing.assert_close(wkv(**given, form=form)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("state", [False, True], ids=["from nothing", "after something"])
@pytest.mark.parametrize("by_token", [False, True], ids=["one decay", "own decays"])
@pytest.mark.parametrize("length", [3, 16, 29, 48])
def test_forms_are_equal_with_their_gradients(length: int, by_token: bool, state: bool) -> None:
    given = inputs(length, by_token=by_token, state=state)
    leaves = [x.requires_grad_() for name, x in given.items() if name != "state"]
    leaves += [x.requires_grad_() for x in given["state"] or ()]
    towards, last = torch.randn(2, length, 3, dtype=torch.float64), torch.randn(2, 2, 3, dtype=torch.float64)
    results = []
    for form in FORMS:
        output, after = wkv(**given, form=form)
        loss = (output * towards).sum() + sum((a * b).sum() for a, b in zip(after, last))
        results.append((output, *after, *torch.autograd.grad(loss, leaves)))
    torch.testing.assert_close(results[1], results[0], **NEAR)
    assert all(gradient.abs().max() > 1e-6 for gradient in results[0][3:])


@pytest.mark.parametrize("form", FORMS)
def test_a_token_without_weight_and_decay_is_not_there(form: Any) -> None:
    """Padding anywhere, first of all: what is left over is to the bit what the others alone leave, and its own
    gradient is 0."""
    given = inputs(13, by_token=True, state=False)
    real = torch.tensor([2, 3, 6, 11])
    padding = torch.ones(13, dtype=torch.bool)
    padding[real] = False
    given["v"].requires_grad_()
    padded = given | {
        "k": given["k"].masked_fill(padding[:, None], NO_WEIGHT),
        "decay": given["decay"].masked_fill(padding[:, None], 0.0),
    }
    output, state = wkv(**padded, form=form)
    alone = {name: x[:, real] if name in ("k", "v", "decay") else x for name, x in given.items()}
    expected, left = wkv(**alone, form="recurrent")
    torch.testing.assert_close(output[:, real], expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(state, left, rtol=0, atol=1e-13)
    (gradient,) = torch.autograd.grad(output[:, real].sum() + state.mean.sum(), given["v"])
    assert gradient.isfinite().all() and not gradient[:, padding].any()


def test_long_texts_take_few_steps_and_linear_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, combine = 0, wkv_module.combine

    def counted(*arguments: WeightedAverage) -> WeightedAverage:
        nonlocal calls
        calls += 1
        return combine(*arguments)

    monkeypatch.setattr(wkv_module, "combine", counted)
    kept = {}
    for length in (1000, 4000):
        calls, saved = 0, {}
        k, v = torch.randn(2, 1, length, 2).requires_grad_().unbind()

        def pack(x: Tensor, saved: dict[int, int] = saved) -> Tensor:
            saved[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            output, _ = wkv(k, v, torch.rand(1, 1, 2), torch.rand(2))
        kept[length] = sum(saved.values())
        assert calls < 4 * length**0.5
        output.sum().backward()
    assert kept[4000] < 4.5 * kept[1000]


def test_weights_are_the_shares_of_the_average() -> None:
    """Where there is one channel they give its output; in all, rows sum to 1, less what earlier calls weigh."""
    given = inputs(9, by_token=True, state=False)
    k, v, decay, bonus = (given[name] for name in ("k", "v", "decay", "bonus"))
    channels = [wkv_weights(k[..., c : c + 1], decay[..., c : c + 1], bonus[c : c + 1]) for c in range(3)]
    torch.testing.assert_close(
        torch.stack([(w @ v[..., c : c + 1])[..., 0] for c, w in enumerate(channels)], -1), wkv(**given)[0], **NEAR
    )
    weights = wkv_weights(k, decay, bonus)
    torch.testing.assert_close(weights, torch.stack(channels).mean(0), **NEAR)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 9, dtype=torch.float64), **NEAR)
    assert (weights >= 0).all() and not weights.triu(1).any()
    after = wkv_weights(k, decay, bonus, inputs(9, by_token=True, state=True)["state"])
    assert (after.sum(-1) < 1).all() and (after > 0).any()


def tokens(valid: Tensor | None, length: int) -> TokenPositions:
    return positions_from_start(length, valid, torch.device("cpu"))


def test_the_token_before_skips_padding() -> None:
    x = torch.arange(1.0, 6.0)[None, :, None]  # 1 2 3 4 5
    previous, last = shift_tokens(x, tokens(None, 5))
    assert previous.flatten().tolist() == [0, 1, 2, 3, 4] and last.item() == 5
    valid = torch.tensor([[False, True, False, True, False]])
    previous, last = shift_tokens(x, tokens(valid, 5), torch.tensor([[9.0]]))
    assert previous[valid].flatten().tolist() == [9, 2] and last.item() == 4
    _, last = shift_tokens(x, tokens(torch.zeros(1, 5, dtype=torch.bool), 5), torch.tensor([[9.0]]))
    assert last.item() == 9, "nothing was said"


@torch.no_grad()
def test_packed_texts_do_not_see_each_other() -> None:
    """The feed-forward, beside attention, may stand in a packed row; the mixer says that it may not."""
    side = {"layers": 2, "mixer": "attention(4)", "feedforward": "rwkv_channel_mix(24)"}
    built = Transformer(small(encoder=side, decoder=0)).double().eval()
    texts = [torch.randint(29, (length,)) for length in (4, 1, 6)]
    ids, where = pack_sequences(ragged_from_arrays([text.numpy() for text in texts]), 16, 0, 16)
    packed = built.encode(ids, where).values[0]
    start = 0
    for text in texts:
        alone = built.encode(text[None]).values[0]
        torch.testing.assert_close(packed[start : start + len(text)], alone, rtol=0, atol=1e-12)
        start += len(text)
    recurrent = Transformer(small(encoder={"mixer": "rwkv4", "mask": "causal"}, decoder=0)).eval()
    with pytest.raises(HeadwayError, match=r'rwkv4 would mix packed texts.*train\.batches = "padded"'):
        recurrent.encode(ids, where)


@torch.no_grad()
def test_a_feedforward_with_a_cache_needs_all_tokens() -> None:
    """Above shared keys and values only the last token is computed, unless a later one needs the others."""
    plain, mixing = (
        Transformer(small(encoder=0, decoder={"mixer": "shared_kv(4)", "feedforward": feedforward})).double().eval()
        for feedforward in ("relu(24)", "rwkv_channel_mix(24)")
    )
    assert plain.stacks["decoder"].first_uncached == 0 and mixing.stacks["decoder"].first_uncached == 2
    ids = torch.randint(29, (2, 7))
    valid = valid_mask(torch.tensor([7, 4]), 7)
    state = mixing.new_state(2)
    mixing.decode(ids[:, :3], state=state)
    last = mixing.decode(ids[:, 3:], valid[:, 3:], state=state, last=True)
    whole = mixing.decode(ids, valid)
    torch.testing.assert_close(last[:, 0], whole[torch.arange(2), torch.tensor([6, 3])], rtol=0, atol=1e-12)
    assert isinstance(state.layers[0]["feedforward"], RecurrentState)
    assert set(plain.new_state(2).layers[1]) == set(), "nothing to keep"


@pytest.fixture
def no_onednn() -> Iterator[None]:
    """Its bfloat16 products end the process ("illegal instruction") on some processors without AVX-512."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@pytest.mark.filterwarnings("ignore:.*TF32")
@pytest.mark.usefixtures("no_onednn")
def test_bfloat16_keeps_its_state_in_float32() -> None:
    built = model(16, 24, 29).float()
    ids, state = torch.randint(29, (2, 50)), built.new_state(2)
    expected = built.decode(ids)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = built.decode(ids, state=state)
        hidden.float().square().sum().backward()
    assert (hidden.float() - expected).norm() / expected.norm() < 0.05
    assert all(p.grad is not None and p.grad.isfinite().all() for n, p in built.named_parameters() if "head" not in n)
    half = built.to(torch.bfloat16)
    state = half.new_state(2)
    with torch.no_grad():
        assert half.decode(ids, state=state).isfinite().all()
    for layer in state.layers:
        kept = layer["self"].tensors()
        assert kept["mean"].dtype == kept["log_weight"].dtype == torch.float32


@torch.no_grad()
def test_deeper_layers_start_with_less_of_the_previous_token() -> None:
    built = model(32, 24, 29, layers=4)
    blocks: Any = built.stacks["decoder"].blocks
    shares = [float(block.sublayers["self"].key_share.mean()) for block in blocks]
    assert shares == sorted(shares, reverse=True) and shares[0] > 2 * shares[-1]
    slowest, fastest = (blocks[0].sublayers["self"].log_decay[index].exp() for index in (0, -1))
    assert slowest < 0.01 and fastest > 10


@pytest.mark.parametrize(
    ("changes", "where", "message"),
    [
        ({"mask": "causal & local(3)"}, "decoder.mask", 'rwkv4 supports only the mask "causal"'),
        ({"position": "rope"}, "decoder.position", "rope changes queries, keys or scores, and rwkv4 has none"),
        ({"position": "alibi"}, "decoder.position", "alibi changes queries, keys or scores, and rwkv4 has none"),
        ({"feedforward": "moe(expert='rwkv_channel_mix')"}, "decoder.feedforward.expert", "tokens out of order"),
    ],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        small(encoder=0, decoder={"mixer": "rwkv4", "feedforward": "relu(24)"} | changes).resolved()
    assert caught.value.where == where


def test_an_encoder_needs_a_causal_mask() -> None:
    with pytest.raises(ConfigError, match='only the mask "causal", not "full"'):
        small(encoder={"mixer": "rwkv4"}, decoder=0).resolved()


def test_the_gate_can_be_left_out() -> None:
    """RWKV-7's channel mixing is that of RWKV-4 without the gate."""
    torch.manual_seed(1)
    gated, plain = (
        Transformer(small(encoder={"feedforward": f"rwkv_channel_mix(24{more})"}, decoder=0)).double()
        for more in ("", ", gated=false")
    )
    one, other = (part.stacks["encoder"].blocks[0].sublayers["feedforward"] for part in (gated, plain))  # type: ignore[index, union-attr]
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    ctx = Context(tokens(None, 5))
    other.load_state_dict({name: value for name, value in one.state_dict().items() if "gate" not in name})
    gate = torch.sigmoid(F.linear(x + (F.pad(x, (0, 0, 1, -1)) - x) * one.gate_share, one.gate.weight))
    torch.testing.assert_close(one(x, ctx), gate * other(x, ctx))
