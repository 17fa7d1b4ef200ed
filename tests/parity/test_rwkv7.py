"""RWKV-7: the numbers of its authors' two implementations, layer by layer in float64 and as a whole model; two forms of
the delta rule; the value residual between layers; what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from golden_files import golden
from nn.building import small
from torch import Tensor

from headway.config.schema import from_dict
from headway.data.ragged import ragged_from_arrays
from headway.errors import ConfigError, HeadwayError
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context, ForwardReport
from headway.nn.ops.delta_rule import MAX_CHUNK_TOKENS, MIN_LOG_DECAY, DeltaInputs, apply_delta_rule
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer
from headway.train.objectives import pack_sequences

GOLDEN_NEAR = {"rtol": 0.0, "atol": 1e-11}
NEAR = {"rtol": 1e-9, "atol": 1e-9}
SHARES = {"receptance": "r", "decay": "w", "key": "k", "value": "v", "rate": "a", "gate": "g"}
PAIRS = {"decay": "w", "rate": "a", "gate": "g", "first_share": "v"}


def model(config: dict[str, Any], ranks: dict[str, int], layers: int, vocabulary: int, **mixer: Any) -> Transformer:
    """RWKV-7 as a config says it: the norm of the embedding is `ln0`, that of the end `ln_out`."""
    names = {"decay_rank": "w", "rate_rank": "a", "value_rank": "v", "gate_rank": "g"}
    own = {"kind": "rwkv7", "heads": config["heads"], **{name: ranks[theirs] for name, theirs in names.items()}}
    side = {
        "layers": layers,
        "mixer": own | mixer,
        "feedforward": {"kind": "rwkv_channel_mix", "hidden": config["ff"], "gated": False},
        "residual": "pre",
        "position": "none",
    }
    table = {
        "d_model": config["dim"],
        "vocabulary": vocabulary,
        "dropout": 0.0,
        "embedding": {"tied": "none", "scale": False, "norm": True},
        "encoder": {"layers": 0},
        "decoder": side,
    }
    return Transformer(from_dict(Transformer.Config, table)).double().eval()


def mixer_weights(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    weights = {"erase_scale": "k_k", "rate_scale": "k_a", "bonus": "r_k", "gain": "ln_x.weight", "bias": "ln_x.bias"}
    weights |= {f"shares.{ours}": f"x_{name}" for ours, name in SHARES.items()}
    weights |= {f"{ours}.bias": f"{name}0" for ours, name in PAIRS.items()}
    found = {ours: theirs[name].flatten() for ours, name in weights.items() if name in theirs}
    for ours in ("receptance", "key", "value", "output"):
        found[f"{ours}.weight"] = theirs[f"{ours}.weight"]
    for ours, name in PAIRS.items():
        if f"{name}1" in theirs:
            found |= {f"{ours}.inner.weight": theirs[f"{name}1"].T, f"{ours}.outer.weight": theirs[f"{name}2"].T}
    return found


def block_weights(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    weights = {f"sublayers.self.{name}": value for name, value in mixer_weights(below(theirs, "att.")).items()}
    for ours, name in (("inner_share", "x_k"), ("inner.weight", "key.weight"), ("outer.weight", "value.weight")):
        weights[f"sublayers.feedforward.{ours}"] = theirs[f"ffn.{name}"]
    for ours, norm in (("self", "ln1"), ("feedforward", "ln2")):
        weights[f"residuals.{ours}.norm.gain"] = theirs[f"{norm}.weight"]
        weights[f"residuals.{ours}.norm.bias"] = theirs[f"{norm}.bias"]
    return weights


def below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def one_dialect(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The names of the numpy code, as those of the package."""
    found = {}
    for name, value in tensors.items():
        name = name.replace("ln_x_", "ln_x.")
        matrix = name.endswith((".receptance", ".key", ".value", ".output"))
        found[f"{name}.weight" if matrix else name] = value
    return found


@pytest.fixture(scope="module")
def reference() -> tuple[dict[str, Tensor], dict[str, Any], dict[str, int]]:
    tensors, config = golden("rwkv7")
    return one_dialect(tensors), config, dict.fromkeys("wavg", config["rank"])


@pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
@torch.no_grad()
def test_parts_are_those_of_the_numpy_code(
    reference: tuple[dict[str, Tensor], dict[str, Any], dict[str, int]], form: str
) -> None:
    tensors, config, ranks = reference
    built = model(config, ranks, 1, 5, form=form, chunk=16)
    sublayers: Any = built.stacks["decoder"].blocks[0].sublayers
    sublayers["self"].load_state_dict(mixer_weights(below(tensors, "w.0.att.")))
    x = tensors["in.x"]
    ctx, cache = Context(positions_from_start(x.shape[1], None, x.device)), RecurrentState(len(x), x.device)
    torch.testing.assert_close(sublayers["self"](x, ctx, cache=cache), tensors["out.time_mix0"], **GOLDEN_NEAR)
    torch.testing.assert_close(cache.values["state"], tensors["out.time_mix0_state"], **GOLDEN_NEAR)
    if "out.channel_mix0" in tensors:  # not in the committed file, which is small; the whole model below has one
        own = {name: value for name, value in block_weights(below(tensors, "w.0.")).items() if "feedforward" in name}
        sublayers["feedforward"].load_state_dict(below(own, "sublayers.feedforward."))
        torch.testing.assert_close(sublayers["feedforward"](x, ctx), tensors["out.channel_mix0"], **GOLDEN_NEAR)


@torch.no_grad()
def test_a_stack_is_that_of_the_numpy_code(
    reference: tuple[dict[str, Tensor], dict[str, Any], dict[str, int]],
) -> None:
    """Where the file has one: the committed one has a layer alone, to be small."""
    tensors, config, ranks = reference
    layers = len({name.split(".")[1] for name in tensors if name.startswith("w.")})
    assert (layers > 1) == ("out.stack" in tensors)
    if layers == 1:
        return
    x = tensors["in.x"]
    built = model(config, ranks, layers, len(x) * x.shape[1])
    weights = built.state_dict()
    weights["embeddings.decoder.words.weight"] = x.flatten(0, 1)
    weights["embeddings.decoder.norm.gain"] = tensors["w.0.ln0.weight"]
    weights["embeddings.decoder.norm.bias"] = tensors["w.0.ln0.bias"]
    for number in range(layers):
        own = block_weights(below(tensors, f"w.{number}."))
        weights |= {f"stacks.decoder.blocks.{number}.{name}": value for name, value in own.items()}
    built.load_state_dict(weights)
    ids, trace = torch.arange(len(x) * x.shape[1]).view(x.shape[:2]), {}
    hidden = built.decode(ids, report=ForwardReport(trace=trace))
    torch.testing.assert_close(trace[f"decoder.{layers - 1}.feedforward.stream"], tensors["out.stack"], **GOLDEN_NEAR)
    state = built.new_state(len(ids))
    steps = [built.decode(ids[:, t : t + 1], state=state) for t in range(ids.shape[1])]
    torch.testing.assert_close(torch.cat(steps, 1), hidden, **GOLDEN_NEAR)
    check_state(state.layers, tensors["out.stack_state"], tensors["out.stack_shift"], **GOLDEN_NEAR)


def check_state(layers: list[Any], states: Tensor, shifts: Tensor, **near: float) -> None:
    """states (B, layers, H, E, D), shifts (B, layers, 2, d)."""
    assert states.shape[1] == shifts.shape[1] == len(layers)
    for number, layer in enumerate(layers):
        torch.testing.assert_close(layer["self"].values["state"], states[:, number], **near)
        torch.testing.assert_close(layer["self"].values["last"], shifts[:, number, 0], **near)
        torch.testing.assert_close(layer["feedforward"].values["last"], shifts[:, number, 1], **near)


@torch.no_grad()
def test_a_whole_model_is_that_of_the_authors_package() -> None:
    """Which computes in float32."""
    tensors, config = golden("rwkv7_model")
    theirs = {name: value.double() for name, value in below(tensors, "w.").items()}
    layers, ids = config["layers"], tensors["in.ids"]
    built = model(config, config["ranks"], layers, config["vocabulary"])
    weights = {"embeddings.decoder.words.weight": theirs["emb.weight"], "head.weight": theirs["head.weight"]}
    for ours, name in (("embeddings.decoder", "blocks.0.ln0"), ("stacks.decoder.ends", "ln_out")):
        weights |= {f"{ours}.norm.gain": theirs[f"{name}.weight"], f"{ours}.norm.bias": theirs[f"{name}.bias"]}
    for number in range(layers):
        own = block_weights(below(theirs, f"blocks.{number}."))
        weights |= {f"stacks.decoder.blocks.{number}.{name}": value for name, value in own.items()}
    built.load_state_dict(weights)
    expected = tensors["out.logits"].double()
    near = {"rtol": 0.0, "atol": 1e-5 * float(expected.abs().max())}
    torch.testing.assert_close(built.logits(built.decode(ids)), expected, **near)
    state = built.new_state(1)
    pieces = [built.decode(piece, state=state) for piece in ids.split([20, 1, 1, ids.shape[1] - 22], 1)]
    torch.testing.assert_close(built.logits(torch.cat(pieces, 1)), expected, **near)
    shifts = torch.stack([tensors["out.time_shift"], tensors["out.channel_shift"]], 2).double()
    check_state(state.layers, tensors["out.state"].double(), shifts, **near)


def some(length: int, *, strong: bool = False, dtype: torch.dtype = torch.float64, width: int = 5) -> DeltaInputs:
    """strong: the fastest decay that there is, in every channel."""
    r, k, erase = torch.randn(3, 2, 3, length, width, dtype=dtype)
    rate, decay = torch.rand(2, 2, 3, length, width, dtype=dtype)
    decay = torch.ones_like(decay) if strong else decay
    v = torch.randn(2, 3, length, 4, dtype=dtype)
    return DeltaInputs(r, k, v, F.normalize(erase, dim=-1), rate, MIN_LOG_DECAY * decay)


def test_the_recurrence_is_the_product_of_matrices() -> None:
    given, state = some(6), torch.randn(2, 3, 4, 5, dtype=torch.float64)
    found, last = apply_delta_rule(given, state, form="recurrent")
    for b, h in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        s = state[b, h]
        for t in range(6):
            r, k, v, erase, rate, log_decay = (x[b, h, t] for x in given)
            s = s @ (log_decay.exp().diag() - torch.outer(erase, rate * erase)) + torch.outer(v, k)
            torch.testing.assert_close(found[b, h, t], s @ r, rtol=0, atol=1e-12)
        torch.testing.assert_close(last[b, h], s, rtol=0, atol=1e-12)


@pytest.mark.parametrize("state", [False, True], ids=["from nothing", "after something"])
@pytest.mark.parametrize("strong", [False, True], ids=["any decay", "the fastest decay"])
@pytest.mark.parametrize(("length", "chunk"), [(1, 4), (13, 4), (16, 16), (29, 1), (131, MAX_CHUNK_TOKENS)])
def test_forms_are_equal_with_their_gradients(length: int, chunk: int, strong: bool, state: bool) -> None:
    given, start = some(length, strong=strong), torch.randn(2, 3, 4, 5, dtype=torch.float64)
    leaves = [x.requires_grad_() for x in (*given, *([start] if state else []))]
    towards, last = torch.randn(2, 3, length, 4, dtype=torch.float64), torch.randn(2, 3, 4, 5, dtype=torch.float64)
    results = []
    for form in ("recurrent", "chunkwise"):
        output, after = apply_delta_rule(given, start if state else None, form=form, chunk=chunk)  # type: ignore[arg-type]
        loss = (output * towards).sum() + (after * last).sum()
        results.append((output, after, *torch.autograd.grad(loss, leaves)))
    torch.testing.assert_close(results[1], results[0], **NEAR)
    assert length == 1 or all(gradient.abs().max() > 1e-6 for gradient in results[0][2:])


@pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
def test_a_token_that_adds_and_erases_nothing_is_not_there(form: Any) -> None:
    given = some(11)
    real = torch.tensor([1, 2, 5, 9])
    padding = torch.ones(11, 1, dtype=torch.bool)
    padding[real] = False
    blank = {name: getattr(given, name).masked_fill(padding, 0.0) for name in ("k", "erase", "log_decay")}
    found, state = apply_delta_rule(given._replace(**blank), form=form, chunk=4)
    expected, left = apply_delta_rule(DeltaInputs(*(x[:, :, real] for x in given)), form="recurrent")
    torch.testing.assert_close(found[:, :, real], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(state, left, rtol=0, atol=1e-12)


@pytest.mark.parametrize("strong", [False, True], ids=["any decay", "the fastest decay"])
def test_float32_is_precise_in_the_longest_chunks(strong: bool) -> None:
    """The factors of the exponentials there reach e^39: their products are still as precise as a float32."""
    given = some(200, strong=strong, dtype=torch.float32, width=64)
    expected, _ = apply_delta_rule(DeltaInputs(*(x.double() for x in given)), form="recurrent")
    leaves = [x.requires_grad_() for x in given]
    found, _ = apply_delta_rule(given, chunk=MAX_CHUNK_TOKENS)
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(found.square().sum(), leaves))


def test_memory_in_training_is_linear() -> None:
    kept = {}
    for length in (256, 1024):
        given, saved = DeltaInputs(*(x.requires_grad_() for x in some(length, dtype=torch.float32))), {}

        def pack(x: Tensor, saved: dict[int, int] = saved) -> Tensor:
            saved[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            apply_delta_rule(given)
        kept[length] = sum(saved.values())
    assert kept[1024] < 4.2 * kept[256]


def layer(built: Transformer, number: int, side: str = "decoder") -> Any:
    return built.stacks[side].blocks[number].sublayers["self"]  # type: ignore[union-attr, index]


@torch.no_grad()
def test_later_layers_take_over_values_of_the_first() -> None:
    """Of the first layer of the kind, wherever it stands; each side of a model has its own."""
    mixers = ["attention(4)", "rwkv7(4)", "attention(2)", "rwkv7(2)"]
    built = Transformer(small(encoder={"mixer": "rwkv7(4)", "mask": "causal"}, decoder={"layers": 4, "mixer": mixers}))
    built = built.double().eval()
    assert [layer(built, number).first_share is None for number in (1, 3)] == [True, False]
    assert [layer(built, number, "encoder").first_share is None for number in (0, 1)] == [True, False]
    layer(built, 3).first_share.bias.normal_()
    trace: dict[str, Tensor] = {}
    inputs: list[Tensor] = []
    layer(built, 3).register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    ids = torch.randint(29, (2, 7))
    built(ids, ids, report=ForwardReport(trace=trace))
    (x,) = inputs
    mixed = x + (F.pad(x, (0, 0, 1, -1)) - x) * layer(built, 3).shares["value"]
    own, share = layer(built, 3).value(mixed), torch.sigmoid(layer(built, 3).first_share(mixed))
    first = trace["decoder.1.self.v"].transpose(1, 2).flatten(2)
    expected = own + (first - own) * share
    torch.testing.assert_close(trace["decoder.3.self.v"].transpose(1, 2).flatten(2), expected, **NEAR)
    assert share.std() > 0.05 and (first - own).abs().mean() > 0.1


@pytest.fixture
def no_onednn() -> Iterator[None]:
    """Its bfloat16 products end the process ("illegal instruction") on some processors without AVX-512."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@pytest.mark.filterwarnings("ignore:.*TF32")
@pytest.mark.usefixtures("no_onednn")
def test_bfloat16_keeps_its_state_in_float32() -> None:
    built = model({"dim": 32, "heads": 2, "ff": 24}, dict.fromkeys("wavg", 8), 2, 29).float()
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
    assert all(one["self"].tensors()["state"].dtype == torch.float32 for one in state.layers)


def test_ranks_are_those_of_the_published_models() -> None:
    """Of 768 channels, with heads of 64."""
    table = {"d_model": 768, "vocabulary": 9, "encoder": {"layers": 0}, "decoder": {"mixer": "rwkv7(12)"}}
    mixer = from_dict(Transformer.Config, table).resolved().decoder.mixer[0]
    assert (mixer.decay_rank, mixer.rate_rank, mixer.value_rank, mixer.gate_rank) == (64, 64, 32, 128)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "where", "message"),
    [
        ({"mask": "causal & local(3)"}, "decoder.mask", 'rwkv7 supports only the mask "causal"'),
        ({"position": "rope"}, "decoder.position", "rope changes queries, keys or scores, and rwkv7 has none"),
        ({"mixer": "rwkv7(3)"}, "decoder.mixer.heads", "d_model = 16 is not a multiple of 3 heads"),
        ({"mixer": "rwkv7(chunk=65)"}, "decoder.mixer.chunk", "65"),
    ],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        small(encoder=0, decoder={"mixer": "rwkv7(4)"} | changes).resolved()
    assert caught.value.where == where


def test_packed_texts_are_refused() -> None:
    built = Transformer(small(encoder={"mixer": "rwkv7", "mask": "causal"}, decoder=0)).eval()
    ids, where = pack_sequences(ragged_from_arrays([torch.arange(4).numpy(), torch.arange(3).numpy()]), 8, 0, 8)
    with pytest.raises(HeadwayError, match="rwkv7 would mix packed texts with each other"):
        built.encode(ids, where)
