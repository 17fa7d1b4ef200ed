"""RETRO: against the numbers of retro-pytorch; any chunking is the whole; what a state keeps, what it costs, shows and
refuses."""

import itertools
from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config.config import read_config
from headway.config.schema import from_dict
from headway.convert.export.ctranslate2.kinds import find_unsupported_kind
from headway.convert.export.traced.support import unsupported as graph_unsupported
from headway.decode.cuda.decoder import unsupported
from headway.errors import ConfigError, HeadwayError
from headway.inspect.model_summary import summarise_blocks
from headway.nn.cache.kv import TruncationError
from headway.nn.context import Context, ForwardReport
from headway.nn.layers.int8 import quantise_model
from headway.nn.positions.positions import rotate
from headway.nn.sequence import EmbeddedNeighbours, Neighbours, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from parity.copying import Pouring

EXACT = {"rtol": 0.0, "atol": 1e-9}
NEAR = {"rtol": 0.0, "atol": 1e-12}
BATCH, LENGTH, CHUNK = 3, 18, 4


def make_model(decoder: dict[str, Any] | None = None, **retrieval: Any) -> Transformer:
    own = {"kind": "retro", "chunk": CHUNK, "neighbours": 2, "first": 2, "every": 2, **retrieval}
    side = {"layers": 4, "position": "rope", "residual": "pre", **(decoder or {}), "retrieval": own}
    torch.manual_seed(3)
    model = Transformer(small(encoder=0, decoder=side)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return model


def draw(batch: int = BATCH, length: int = LENGTH, vocabulary: int = 29) -> tuple[Tensor, Neighbours]:
    """A text, and neighbours of which some are short and some are missing."""
    shape = (batch, length // CHUNK, 2, 2 * CHUNK)
    lengths = torch.randint(0, 2 * CHUNK + 1, shape[:3])
    neighbours = Neighbours(torch.randint(vocabulary, shape), torch.arange(2 * CHUNK) < lengths[..., None])
    neighbours.valid[0, 1] = False
    return torch.randint(vocabulary, (batch, length)), neighbours


def take(neighbours: Neighbours, start: int, stop: int) -> Neighbours | None:
    return Neighbours(*(part[:, start:stop] for part in neighbours)) if stop > start else None


# ---- Against another


def from_retro_pytorch(position: str = "none") -> tuple[Transformer, dict[str, Tensor], dict[str, Any]]:
    tensors, sizes = golden("retro")
    pouring = Pouring(torch.nn.Module())
    pouring.left = {name.removeprefix("w."): value for name, value in tensors.items() if name.startswith("w.")}
    pouring.ours["embeddings.decoder.words.weight"] = pouring.take("token_emb.weight")
    pouring.ours["stacks.decoder.positions.0.table.weight"] = pouring.take("pos_emb.weight")
    pouring.linear("head", "to_logits")
    first, *others = sizes["dec_cross_attn_layers"]
    names = {"query": "to_q", "key": "to_k", "value": "to_v", "output": "to_out"}

    def layer(ours: str, theirs: str, parts: list[tuple[str, str]]) -> None:
        for index, (name, inner) in enumerate(parts):
            if f"{theirs}.{index}.norm.gamma" not in pouring.left:
                continue
            if name == "feedforward":
                pouring.linears(f"{ours}.sublayers.{name}", f"{theirs}.{index}.fn.ff", {"inner": "0", "outer": "3"})
            else:
                pouring.linears(f"{ours}.sublayers.{name}{inner}", f"{theirs}.{index}.fn{NESTED[inner]}", names)
            pouring.ours[f"{ours}.residuals.{name}.norm.gain"] = pouring.take(f"{theirs}.{index}.norm.gamma")

    for index in range(sizes["dec_depth"]):
        parts = [("self", ""), ("neighbours", ".attention"), ("feedforward", "")]
        layer(f"stacks.decoder.blocks.{index}", f"decoder.layers.{index}", parts)
    for index in range(sizes["enc_depth"]):
        parts = [("self", ""), ("cross", ""), ("feedforward", "")]
        layer(f"stacks.decoder.retrieval.encoder.blocks.{index}", f"encoder.layers.{index}", parts)
    pouring.ours["stacks.decoder.ends.norm.gain"] = pouring.take("decoder.norm_out.gamma")
    pouring.ours["stacks.decoder.retrieval.encoder.ends.norm.gain"] = pouring.take("encoder.norm_out.gamma")
    heads = {"heads": sizes["heads"], "d_k": sizes["dim_head"], "bias": False, "output_bias": True}
    retrieval = {
        "kind": "retro", "chunk": sizes["chunk_size"], "neighbours": sizes["neighbours"], "first": first,
        "every": others[0] - first, "layers": sizes["enc_depth"], "position": position,
    }  # fmt: skip
    decoder = {
        "layers": sizes["dec_depth"],
        "mixer": {"kind": "attention", **heads},
        "feedforward": f"gelu({4 * sizes['dec_dim']})",
        "position": f"learned({sizes['max_seq_len']})",
        "residual": "pre",
        "retrieval": retrieval,
    }
    model = pouring.into(
        {
            "d_model": sizes["dec_dim"],
            "vocabulary": sizes["num_tokens"],
            "dropout": 0.0,
            "norm": "rmsnorm(1e-16)",
            "encoder": {"layers": 0},
            "decoder": decoder,
            "embedding": {"tied": "none", "scale": False},
            "head": "logits(bias=true)",
        }
    )
    return model, tensors, sizes


NESTED = {"": "", ".attention": ".cross_attn"}


@torch.no_grad()
def test_it_is_retro_pytorch() -> None:
    model, tensors, sizes = from_retro_pytorch()
    ids, retrieved = tensors["in.ids"], tensors["in.retrieved"]
    neighbours = Neighbours(retrieved, retrieved != sizes["pad_id"])
    torch.testing.assert_close(model.logits(model.decode(ids, neighbours=neighbours)), tensors["out.logits"], **EXACT)
    torch.testing.assert_close(model.logits(model.decode(ids)), tensors["out.without"], **EXACT)
    state, steps = model.new_state(len(ids)), []
    for step in range(ids.shape[1]):
        own = take(neighbours, step // sizes["chunk_size"], (step + 1) // sizes["chunk_size"])
        steps.append(model.decode(ids[:, step : step + 1], state=state, neighbours=own))
    torch.testing.assert_close(model.logits(torch.cat(steps, 1)), tensors["out.logits"], **EXACT)


@torch.no_grad()
def test_the_encoder_of_neighbours_rotates_as_that_of_retro_pytorch() -> None:
    model, tensors, sizes = from_retro_pytorch("rope(layout='halves')")
    retrieved, chunks = tensors["in.retrieved"], tensors["in.chunks"]
    valid = retrieved != sizes["pad_id"]
    given = EmbeddedNeighbours(model.embeddings["decoder"].table(retrieved), valid)  # type: ignore[operator]
    retro: Any = model.stacks["decoder"].retrieval
    ctx = Context(positions_from_start(1, None, chunks.device))
    found, kept = retro._encode(given, chunks.unflatten(0, valid.shape[:2]), ctx)
    expected = tensors["out.encoded"].view_as(found)
    torch.testing.assert_close(found[kept], expected[kept], **EXACT)


def naive_cross(model: Transformer, layer: int, x: Tensor, encoded: Tensor, valid: Tensor) -> Tensor:
    """Token by token. x (B, T, d), encoded (B, C, K, R, d)."""
    cross: Any = model.stacks["decoder"].blocks[layer].sublayers["neighbours"].attention  # type: ignore[index]
    heads = cross.config.heads
    output = torch.zeros_like(x)
    for row, t in itertools.product(range(len(x)), range(x.shape[1])):
        chunk = (t + 1) // CHUNK - 1
        if chunk < 0 or not valid[row, chunk].any():
            continue
        keys, real = encoded[row, chunk], valid[row, chunk]  # (K, R, d), (K, R)
        q = cross.query(x[row, t]).view(1, heads, 1, -1)
        k = cross.key(keys).unflatten(2, (heads, -1)).transpose(1, 2)  # (K, H, R, D)
        v = cross.value(keys).unflatten(2, (heads, -1)).transpose(1, 2)
        q = rotate(q, torch.tensor([[t - chunk * CHUNK]]), 10000.0, "interleaved")
        k = rotate(k, torch.arange(2 * CHUNK)[None], 10000.0, "interleaved")
        scores = torch.stack([(q[0] @ one.transpose(1, 2))[:, 0] for one in k], 1) * cross.config.scale  # (H, K, R)
        weights = scores.masked_fill(~real, -torch.inf).flatten(1).softmax(1).view_as(scores)
        output[row, t] = cross.output(torch.einsum("hkr,khrd->hd", weights, v).flatten())
    return output


@torch.no_grad()
def test_a_token_attends_to_the_neighbours_of_the_last_chunk_that_is_complete_with_it() -> None:
    model = make_model()
    ids, neighbours = draw()
    for layer in (1, 3):
        seen: dict[str, Any] = {}
        sublayer: Any = model.stacks["decoder"].blocks[layer].sublayers["neighbours"]  # type: ignore[index]
        hook = sublayer.register_forward_hook(lambda module, given, output, s=seen: s.update(x=given[0], y=output))
        retro: Any = model.stacks["decoder"].retrieval
        kept = retro.encoder.register_forward_hook(lambda module, given, output, s=seen: s.update(encoded=output))
        model.decode(ids, neighbours=neighbours)
        hook.remove(), kept.remove()
        encoded = seen["encoded"].view(*neighbours.ids.shape, -1)
        expected = naive_cross(model, layer, seen["x"], encoded, neighbours.valid)
        torch.testing.assert_close(seen["y"], expected, **NEAR)
        assert not seen["y"][:, : CHUNK - 1].any() and not seen["y"][0, 2 * CHUNK - 1 : 3 * CHUNK - 1].any()


# ---- States

CHUNKINGS = ([1] * LENGTH, [LENGTH], [3, 1, 5, 2, 7], [4, 4, 4, 6], [5, 13])


@pytest.mark.parametrize(
    ("decoder", "retrieval"),
    [
        ({}, {}),
        ({"position": "sinusoidal", "residual": "residual_dual"}, {"position": "sinusoidal", "conditioned": False}),
        ({"mixer": "retention(4)", "position": "none"}, {"position": "none", "first": 1, "every": 1, "layers": 1}),
        ({"mixer": "shared_kv(4)", "feedforward": "swiglu(12)"}, {"attention": "attention(2, 1)", "position": "none"}),
        ({"mask": "causal & local(5)", "position": "alibi", "residual": "post"}, {"first": 4}),
    ],
)
@torch.no_grad()
def test_any_chunking_is_the_whole(decoder: dict[str, Any], retrieval: dict[str, Any]) -> None:
    model = make_model(decoder, **retrieval)
    ids, neighbours = draw()
    whole = model.decode(ids, neighbours=neighbours)
    assert not torch.allclose(whole[:, CHUNK - 1 :], model.decode(ids)[:, CHUNK - 1 :])
    torch.testing.assert_close(model.decode(ids, neighbours=neighbours, last=True), whole[:, -1:], **NEAR)
    for sizes in CHUNKINGS:
        state, parts, start = model.new_state(BATCH), [], 0
        for part in ids.split(sizes, 1):
            stop = start + part.shape[1]
            own = take(neighbours, start // CHUNK, stop // CHUNK)
            parts.append(model.decode(part, state=state, neighbours=own))
            start = stop
        torch.testing.assert_close(torch.cat(parts, 1), whole, **NEAR)


@torch.no_grad()
def test_rows_of_different_lengths_are_as_each_by_itself() -> None:
    """They complete their chunks at different steps; some begin with one token, some with a complete chunk."""
    model = make_model()
    ids, neighbours = draw(4)
    lengths = torch.tensor([9, 3, 4, 1])
    valid = valid_mask(lengths, 9)
    state = model.new_state(4)
    first = Neighbours(neighbours.ids[:, :2], neighbours.valid[:, :2])
    got = [
        [part[:length] for part, length in zip(model.decode(ids[:, :9], valid, state=state, neighbours=first), lengths)]
    ]
    whole = model.decode(ids[:, :9], valid, neighbours=first)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(got[0][row], whole[row, :length], **NEAR)
    for step in range(8):
        reached = lengths + step
        chunk = ((reached + 1) // CHUNK - 1).clamp(min=0)  # of which some are complete with this token, others not
        rows = torch.arange(4)
        own = Neighbours(neighbours.ids[rows, chunk][:, None], neighbours.valid[rows, chunk][:, None])
        got.append(list(model.decode(ids[rows, reached][:, None], state=state, neighbours=own)))
    for row, length in enumerate(lengths.tolist()):
        own = Neighbours(*(part[row : row + 1] for part in neighbours))
        expected = model.decode(ids[row : row + 1, : length + 8], neighbours=own)[0]
        torch.testing.assert_close(torch.cat([part[row] for part in got]), expected, **NEAR)


@torch.no_grad()
def test_a_state_is_reordered_truncated_and_stored() -> None:
    model = make_model()
    ids, neighbours = draw()
    rows = torch.tensor([2, 0, 0])
    whole = model.decode(ids[rows], neighbours=Neighbours(*(part[rows] for part in neighbours)))
    state = model.new_state(BATCH)
    model.decode(ids[:, :10], state=state, neighbours=take(neighbours, 0, 2))
    model.decode(ids[:, 10:11], state=state)  # which fills the caches of keys and values
    state.select(rows)
    saved, stored = state.snapshot(), model.new_state(BATCH)
    stored.load({name: tensor.clone() for name, tensor in state.tensors().items()})
    rest = Neighbours(*(part[rows, 2:] for part in neighbours))
    for one in (state, stored):
        torch.testing.assert_close(model.decode(ids[rows, 11:], state=one, neighbours=rest), whole[:, 11:], **NEAR)
    state.restore(saved)
    state.truncate(torch.tensor([8, 8, 8]))
    torch.testing.assert_close(model.decode(ids[rows, 8:10], state=state), whole[:, 8:10], **NEAR)
    with pytest.raises(TruncationError, match=r"the shortest possible lengths are \[8, 8, 8\]"):
        state.truncate(torch.tensor([7, 8, 8]))
    assert state.bytes > 0 and state.min_length.tolist() == [8, 8, 8]
    retrieval: Any = state.layers[1]["retrieval"]
    state.detach()
    assert retrieval.bytes == sum(x.nbytes for x in (retrieval.pending, retrieval.neighbours, retrieval.valid))


@torch.no_grad()
def test_padding_and_what_is_no_neighbour_change_nothing() -> None:
    model = make_model()
    ids, neighbours = draw()
    valid = valid_mask(torch.tensor([18, 11, 5]), LENGTH)
    whole = model.decode(ids, valid, neighbours=neighbours)
    other = Neighbours(torch.where(neighbours.valid, neighbours.ids, 7), neighbours.valid)
    changed = model.decode(torch.where(valid, ids, 3), valid, neighbours=other)
    assert torch.equal(changed[valid], whole[valid])
    nothing = Neighbours(neighbours.ids, torch.zeros_like(neighbours.valid))
    assert torch.equal(model.decode(ids, neighbours=nothing), model.decode(ids)), "the decoder alone"
    assert torch.equal(model.decode(ids[:, :3], neighbours=take(neighbours, 0, 1)), model.decode(ids[:, :3]))
    state = model.new_state(BATCH)
    steps = [model.decode(ids[:, t : t + 1], state=state) for t in range(LENGTH)]
    torch.testing.assert_close(torch.cat(steps, 1), model.decode(ids), **NEAR)


def test_gradients_reach_everything_and_no_future_is_seen() -> None:
    model = make_model()
    ids, neighbours = draw()
    neighbours.valid[:] = True
    found = model.decode(ids, neighbours=neighbours)
    found[:, -1].sum().backward()
    assert all(p.grad is not None and p.grad.any() for n, p in model.named_parameters() if "retrieval" in n)
    for chunk in range(LENGTH // CHUNK):
        other = Neighbours(neighbours.ids.clone(), neighbours.valid)
        other.ids[:, chunk] = (other.ids[:, chunk] + 1) % 29
        with torch.no_grad():
            differs = (model.decode(ids, neighbours=other) - found).abs().amax((0, 2)) > 1e-9
        assert differs.tolist() == [t >= (chunk + 1) * CHUNK - 1 for t in range(LENGTH)]


# ---- What it costs, shows and refuses


@pytest.mark.parametrize(
    "retrieval", [{}, {"conditioned": False, "layers": 1, "first": 1, "every": 1}, {"neighbours": 3}]
)
def test_the_cost_is_what_is_computed(retrieval: dict[str, Any]) -> None:
    math = {"mixer": "attention(4, kernel='math')"}
    model = make_model(math, **retrieval)
    assert model.config.parameter_count() == sum(p.numel() for p in model.parameters())
    count = retrieval.get("neighbours", 2)
    ids = torch.randint(29, (1, 16))
    neighbours = Neighbours(torch.randint(29, (1, 4, count, 8)), torch.ones(1, 4, count, 8, dtype=torch.bool))
    side = {"layers": 4, "position": "rope", "residual": "pre", **math}
    plain = Transformer(small(encoder=0, decoder=side)).double()
    counted = []
    for one, given in ((model, neighbours), (plain, None)):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            one.decode(ids, neighbours=given)
        counted.append(counter.get_total_flops())
    difference = model.config.forward_flops(0, 16) - plain.config.forward_flops(0, 16)
    assert difference == counted[0] - counted[1]
    state = model.new_state(1)
    with torch.no_grad():
        model.decode(ids, state=state, neighbours=neighbours)
        model.decode(ids[:, :1], state=state)
    own = model.config.costs()["decoder"]
    kept = [tensor for name, tensor in state.tensors().items() if tensor.is_floating_point()]
    assert sum(tensor.numel() for tensor in kept) == own.cached_per_text + 17 * own.cached_per_token


@torch.no_grad()
def test_a_trace_shows_whom_each_token_attends_to() -> None:
    model = make_model()
    ids, neighbours = draw()
    whole, report = model.decode(ids, neighbours=neighbours), ForwardReport(trace={})
    torch.testing.assert_close(model.decode(ids, neighbours=neighbours, report=report), whole, **NEAR)
    trace = report.trace
    assert trace is not None
    part = {name: trace[f"decoder.1.neighbours.{name}"] for name in ("q", "k", "v", "scores", "weights")}
    size = LENGTH // CHUNK * 2 * 2 * CHUNK
    assert part["weights"].shape == (BATCH, 4, LENGTH, size) and part["k"].shape == (BATCH, 4, size, 4)
    sums = part["weights"].sum(-1)
    assert not sums[:, :, : CHUNK - 1].any() and not sums[0, :, 7:11].any()
    torch.testing.assert_close(sums[1, :, -1], torch.ones_like(sums[1, :, -1]), **NEAR)
    chunk = part["weights"].unflatten(3, (-1, 4 * CHUNK))
    seen = chunk.sum((1, 4))[1] > 0  # (T, chunks)
    assert all(not seen[t, c] or c == (t + 1) // CHUNK - 1 for t in range(LENGTH) for c in range(4))
    seen_scores = part["scores"].isfinite()
    products = part["q"] @ part["k"].transpose(-1, -2) / 2
    torch.testing.assert_close(part["scores"][seen_scores], products[seen_scores], **NEAR)
    state, steps = model.new_state(BATCH), []
    for t in range(LENGTH):
        report = ForwardReport(trace={})
        own = take(neighbours, t // CHUNK, (t + 1) // CHUNK)
        model.decode(ids[:, t : t + 1], state=state, neighbours=own, report=report)
        assert report.trace is not None
        steps.append(report.trace["decoder.1.neighbours.output"])
    torch.testing.assert_close(torch.cat(steps, 1), trace["decoder.1.neighbours.output"], **NEAR)


@torch.no_grad()
def test_in_8_bits_it_is_nearly_the_same() -> None:
    model = make_model().float()
    ids, neighbours = draw()
    whole, int8 = (one.decode(ids, neighbours=neighbours) for one in (model, quantise_model(model)))
    assert (whole - int8).abs().max() < 0.2 * whole.std() and not torch.equal(whole, int8)


@pytest.mark.parametrize(
    ("sides", "where", "words"),
    [
        ({"encoder": {"retrieval": "retro", "layers": 2}}, "encoder.retrieval", "only a decoder without an encoder"),
        ({"encoder": {"layers": 1}, "decoder": {"retrieval": "retro"}}, "decoder.retrieval", "only a decoder without"),
        ({"decoder": {"retrieval": "retro", "memory_tokens": "prefix(2)"}}, "decoder.retrieval", "with memory_tokens"),
        ({"decoder": {"retrieval": "retro", "streams": 2}}, "decoder.retrieval", "a decoder with streams"),
        ({"decoder": {"retrieval": "retro", "distinct_layers": 1}}, "decoder.retrieval", "with distinct_layers"),
        ({"decoder": {"retrieval": "retro(position='alibi')"}}, "decoder.retrieval.position", "alibi changes scores"),
        ({"decoder": {"retrieval": "retro(attention='retention(4)')"}}, "decoder.retrieval.attention", "cannot attend"),
        ({"decoder": {"retrieval": "retro(first=3)"}}, "decoder.retrieval.first", "and there are 2. Lower it"),
    ],
)
def test_what_does_not_fit_is_refused(sides: dict[str, Any], where: str, words: str) -> None:
    table = {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": {}, **sides}
    for side in ("encoder", "decoder"):
        table[side] = {"layers": 2, "mixer": "attention(4)", **table[side]}
    with pytest.raises(ConfigError, match=words) as caught:
        from_dict(Transformer.Config, table).resolved()
    assert caught.value.where == where


def test_engines_that_cannot_retrieve_say_so() -> None:
    model = make_model()
    assert unsupported(model, 20) == "it has a ChunkedCross"
    config = read_config({"model": model.config.to_dict(), "train": {"objective": "causal", "max_tokens": 16}})
    assert 'decoder.retrieval is "retro"' in graph_unsupported(config)
    table = {name: value for name, value in config.to_dict()["model"].items() if name != "dropout"}
    assert find_unsupported_kind(table) == "decoder has retrieval"
    blocks = summarise_blocks(model.config, 0, LENGTH)
    assert sum(block.parameters for block in blocks) == model.config.parameter_count()
    assert sum(block.flops for block in blocks) == model.config.forward_flops(0, LENGTH)
    assert [block.kind for block in blocks if block.name == "decoder.retrieval"] == ["retro"]


def test_neighbours_must_fit() -> None:
    ids, neighbours = draw()
    with pytest.raises(ValueError, match="4 chunks are complete, and there are neighbours of 3"):
        make_model().decode(ids, neighbours=take(neighbours, 0, 3))
    with pytest.raises(HeadwayError, match="this model retrieves nothing"):
        Transformer(small(encoder=0)).decode(ids, neighbours=neighbours)
