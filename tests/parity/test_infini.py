"""Infini-attention: the layer of infini-transformer-pytorch; a plain loop over the definition; attention with a mask
where there is no memory; what it keeps, what it costs, what it refuses."""

import math
from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from tensor_sizes import max_numel
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config import catalogue
from headway.config.config import read_config
from headway.config.schema import from_dict, make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.cache.kv import TruncationError
from headway.nn.context import Context, ForwardReport
from headway.nn.mixers.infini import InfiniAttention
from headway.nn.ops.compressive_memory import feature_map, read_memory, write_memory
from headway.nn.positions.positions import Rope
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer, valid_mask

CPU = torch.device("cpu")
NEAR = {"rtol": 0.0, "atol": 1e-12}
UPDATES = {"linear": "linear", "delta": "delta", "delta_learned": "learned_delta"}  # theirs: ours


def layer(mixer: str, width: int = 16) -> InfiniAttention:
    scope = Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense"))
    part: Any = make_part("mixer", mixer)
    module = InfiniAttention(part, scope).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    return module


def model(mixer: str, position: str = "rope", mask: str = "causal", **changes: Any) -> Transformer:
    side = {"layers": 2, "mixer": mixer, "position": position, "mask": mask, "feedforward": "relu(24)"}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": side}
    torch.manual_seed(5)
    return Transformer(from_dict(Transformer.Config, {**table, **changes})).double().eval()


# ---- Against others


@pytest.mark.parametrize("pieces", ["whole", "by segment", "across segments"])
@pytest.mark.parametrize("update", UPDATES)
@torch.no_grad()
def test_the_layer_is_the_references(update: str, pieces: str) -> None:
    theirs, c = golden("infini")
    length, tokens = c["seg"], c["seg"] * c["segments"]
    module = layer(f"infini({c['heads']}, {length}, update='{UPDATES[update]}', d_k={c['dim_head']})", c["dim"])
    query, key, value = theirs["w.to_qkv.weight"].chunk(3)
    weights = {"query.weight": query, "key.weight": key, "value.weight": value}
    weights |= {"output.weight": theirs["w.to_out.weight"], "gate": theirs["w.fastweight_mem.head_gates"]}
    if update == "delta_learned":
        weights["forget.weight"] = theirs["w.to_learned_delta_update_weights.0.weight"]
    module.load_state_dict(weights)
    x = theirs["in.x"]
    x = x / x.norm(dim=-1, keepdim=True) * c["dim"] ** 0.5 * theirs["w.norm.gamma"]
    expected = torch.cat([theirs[f"out.{update}_seg{n}"] for n in range(c["segments"])], 1)
    rope = Rope(Rope.Config(), Scope(d_model=c["dim"], dropout=0, norm=None, linear=None))
    state = module.new_cache(len(x), x.device)
    sizes = {"whole": [tokens], "by segment": [length] * c["segments"], "across segments": [length + 3, 1, 5]}[pieces]
    outputs, places = [], positions_from_start(tokens, None, x.device)
    for part in x.split([*sizes, *[tokens - sum(sizes)] * (sum(sizes) < tokens)], 1):
        start = int(state.lengths[0])
        here = places._replace(positions=places.positions[:, start : start + part.shape[1]], in_order=start == 0)
        outputs.append(module(part, Context(here, position=rope), cache=state))
        if int(state.lengths[0]) % length == 0:
            number, memory = int(state.lengths[0]) // length - 1, state.values["memory"]
            for found, name in ((memory[..., :-1], "kv"), (memory[..., -1], "norm")):
                torch.testing.assert_close(
                    found, theirs[f"out.{update}_mem_{name}_after_seg{number}"], rtol=0, atol=1e-11
                )
            assert not state.values["pending"].any()
    torch.testing.assert_close(torch.cat(outputs, 1), expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(module(x, Context(places, position=rope)), expected, rtol=0, atol=1e-11)
    assert int(state.lengths[0]) == tokens


def defined(module: InfiniAttention, x: Tensor) -> Tensor:
    """One row, token by token, head by head, number by number."""
    c, outputs = module.config, []
    heads, segment = c.heads, c.segment
    q, k, v = (project(x).view(len(x), heads, -1) for project in (module.query, module.key, module.value))
    memory = [torch.zeros(q.shape[-1], v.shape[-1], dtype=x.dtype) for _ in range(heads)]
    norm = [torch.zeros(q.shape[-1], dtype=x.dtype) for _ in range(heads)]

    def sigma(t: Tensor) -> Tensor:
        return torch.where(t > 0, t + 1, t.exp())

    for t in range(len(x)):
        start = t // segment * segment
        if start == t and t:
            read = list(zip(memory, norm))
            for s in range(t - segment, t):
                for h in range(heads):
                    feature, new = sigma(k[s, h]), v[s, h]
                    if c.update != "linear" and s >= segment:
                        new = new - feature @ read[h][0] / (feature @ read[h][1])
                    if module.forget is not None:
                        new = new * (1 - torch.sigmoid(module.forget(x[s])[h]))
                    memory[h] = memory[h] + torch.outer(feature, new)
                    norm[h] = norm[h] + feature
        found = []
        for h in range(heads):
            scores = torch.stack([q[t, h] @ k[s, h] / math.sqrt(q.shape[-1]) for s in range(start, t + 1)])
            local = scores.softmax(0) @ v[start : t + 1, h]
            if start:
                feature, gate = sigma(q[t, h]), torch.sigmoid(module.gate[h])
                local = gate * local + (1 - gate) * (feature @ memory[h]) / (feature @ norm[h])
            found.append(local)
        outputs.append(module.output(torch.cat(found)))
    return torch.stack(outputs)


@pytest.mark.parametrize("length", [1, 3, 4, 7, 13])
@pytest.mark.parametrize("update", UPDATES.values())
def test_it_is_a_plain_loop_with_its_gradients(update: str, length: int) -> None:
    module = layer(f"infini(2, segment=3, update='{update}', d_v=5, bias=true)")
    x = torch.randn(2, length, 16, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(2, length, 16, dtype=torch.float64)
    found = module(x, Context(positions_from_start(length, None, x.device)))
    expected = torch.stack([defined(module, row) for row in x])
    torch.testing.assert_close(found, expected, **NEAR)
    leaves = [x, *module.parameters()]
    ours, theirs = (torch.autograd.grad((y * towards).sum(), leaves, materialize_grads=True) for y in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def decoding_positions() -> list[str]:
    """Those that attention takes in a decoder."""
    found = []
    for kind in catalogue.kinds("position"):
        try:
            small(encoder=0, decoder={"position": kind}).resolved()
        except ConfigError:
            continue
        found.append(kind)
    return found


@pytest.mark.parametrize("position", decoding_positions())
@torch.no_grad()
def test_a_closed_gate_leaves_attention_within_segments(position: str) -> None:
    """Every position does within a segment what it does in attention whose mask shows the same keys; those that are
    added count from the start of the text."""
    theirs, ours = (
        model("attention(4, bias=false)", position, "causal & segments(4, 0)"),
        model("infini(4, 4)", position),
    )
    weights = theirs.state_dict()
    gates = {name: torch.full_like(x, 60.0) for name, x in ours.state_dict().items() if name.endswith("self.gate")}
    ours.load_state_dict(weights | gates)
    ids = torch.randint(29, (2, 11))
    torch.testing.assert_close(ours.decode(ids), theirs.decode(ids), **NEAR)


@torch.no_grad()
def test_a_first_segment_is_attention() -> None:
    """The gate is not applied there, whatever it is."""
    theirs, ours = model("attention(4, bias=false)", "alibi"), model("infini(4, 8)", "alibi")
    ours.load_state_dict({**ours.state_dict(), **theirs.state_dict()})
    ids = torch.randint(29, (2, 9))
    torch.testing.assert_close(ours.decode(ids)[:, :8], theirs.decode(ids)[:, :8], **NEAR)
    assert (ours.decode(ids)[:, 8] - theirs.decode(ids)[:, 8]).abs().max() > 1e-3


# ---- The memory


def test_an_empty_memory_reads_as_nothing() -> None:
    features = feature_map(torch.randn(2, 3, 5, 4, requires_grad=True))
    memory = torch.zeros(2, 3, 4, 7, requires_grad=True)
    read = read_memory(memory, features)
    assert not read.any() and read.shape == (2, 3, 5, 6)
    assert torch.autograd.grad(read.sum(), memory)[0].isfinite().all()


def test_delta_writes_only_what_is_not_there_already() -> None:
    feature, value = feature_map(torch.randn(1, 1, 1, 4)), torch.randn(1, 1, 1, 6)
    empty = torch.zeros(1, 1, 4, 7)
    memory = write_memory(empty, feature, value, None, delta=True)
    torch.testing.assert_close(read_memory(memory, feature), value)
    again = write_memory(memory, feature, value, None, delta=True)
    torch.testing.assert_close(again[..., :-1], torch.zeros(1, 1, 4, 6), rtol=0, atol=1e-6)
    torch.testing.assert_close(again[..., -1], feature[..., 0, :])
    twice = write_memory(memory, feature, value, None, delta=False)
    torch.testing.assert_close(twice, memory)


@torch.no_grad()
def test_what_was_said_segments_ago_still_counts() -> None:
    built, ids = model("infini(4, 4)"), torch.randint(29, (2, 21))
    other = ids.clone()
    other[:, 1] = (ids[:, 1] + 1) % 29
    assert (built.decode(ids)[:, 20] - built.decode(other)[:, 20]).abs().max() > 1e-6


@pytest.mark.parametrize("update", UPDATES.values())
@torch.no_grad()
def test_a_state_of_one_size_serves_rows_at_different_places(update: str) -> None:
    built = model(f"infini(4, 5, update='{update}')")
    ids, lengths, sizes = torch.randint(29, (3, 23)), torch.tensor([23, 12, 4]), []
    state = built.new_state(3)
    for start, end in ((0, 7), (7, 8), (8, 19), (19, 23)):
        valid = valid_mask(lengths, 23)[:, start:end]
        hidden = built.decode(ids[:, start:end], valid, state=state)
        for row, length in enumerate(lengths.tolist()):
            whole = built.decode(ids[row : row + 1, :length])[0, start:end]
            torch.testing.assert_close(hidden[row, : len(whole)], whole, **NEAR)
        sizes.append(state.bytes)
    assert set(sizes) == {3 * 8 * built.config.costs()["decoder"].cached_per_text}
    assert built.config.kv_bytes_per_token() == 0
    with pytest.raises(TruncationError, match="snapshot"):
        state.truncate(lengths - 1)


def test_a_text_of_one_segment_gives_every_weight_a_gradient() -> None:
    """Processes that train together exchange those of all weights, whatever texts each has."""
    built = model("infini(4, 8, update='learned_delta')").train()
    built.decode(torch.randint(29, (2, 5))).square().sum().backward()
    assert all(p.grad is not None for p in built.parameters())


@pytest.mark.parametrize("update", UPDATES.values())
def test_bfloat16_keeps_the_memory_in_float32(update: str) -> None:
    built = model(f"infini(4, 8, update='{update}')").float()
    ids, state = torch.randint(29, (2, 50)), built.new_state(2)
    expected = built.decode(ids)
    half = built.to(torch.bfloat16)
    hidden = half.decode(ids, state=state)
    assert (hidden.float() - expected).norm() / expected.norm() < 0.05
    hidden.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in half.parameters())
    for one in state.layers:
        kept = one["self"].values  # type: ignore[attr-defined]
        assert kept["memory"].dtype == kept["pending"].dtype == torch.float32
        assert kept["k"].dtype == kept["v"].dtype == torch.bfloat16


# ---- What it shows, costs and refuses


@pytest.mark.parametrize("chunks", [[11], [2, 6, 1, 2]], ids=["whole", "in chunks"])
@torch.no_grad()
def test_a_trace_shows_weights_within_segments(chunks: list[int]) -> None:
    built, ids = model("infini(4, 4)", "alibi"), torch.randint(29, (2, 11))
    state = built.new_state(2) if len(chunks) > 1 else None
    end = 0
    for part in ids.split(chunks, 1):
        report = ForwardReport(trace={})
        start, end = end, end + part.shape[1]
        hidden = built.decode(part, state=state, report=report)
        torch.testing.assert_close(hidden, built.decode(ids)[:, start:end], **NEAR)
        trace = report.trace
        assert trace is not None
        found = {name: trace[f"decoder.1.self.{name}"] for name in ("weights", "gate", "recalled", "q", "k", "v")}
        base = start // 4 * 4  # keys are counted from the first segment that these tokens stand in
        weights = found["weights"]
        assert weights.shape[:3] == (2, 4, end - start)
        assert weights.shape[3] == 11 if state is None else weights.shape[3] >= end - base
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, end - start, dtype=torch.float64), **NEAR)
        queries, keys = torch.arange(start, end)[:, None], torch.arange(base, base + weights.shape[3])
        seen = (keys <= queries) & (keys // 4 == queries // 4)
        assert (weights[:, :, ~seen] == 0).all() and (weights[:, :, seen] > 0).all()
        assert ((found["gate"] == 1).squeeze() == (torch.arange(start, end) < 4)).all()
        assert not found["recalled"][:, :, : max(0, 4 - start)].any()


@pytest.mark.parametrize("length", [1, 5, 8, 9, 16, 21])
@pytest.mark.parametrize(
    "more", ["update='linear', d_k=3, d_v=7", "update='delta'", "update='learned_delta', bias=true"]
)
def test_costs_are_those_of_the_built_model(length: int, more: str) -> None:
    built = model(f"infini(4, 8, kernel='math', {more})", "none")
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


@pytest.mark.parametrize("length", [5, 8, 16])
def test_distances_are_those_within_a_segment(length: int) -> None:
    built = model("infini(4, 8, kernel='math')", "transformer_xl")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


def test_twice_the_text_is_twice_the_work() -> None:
    config = model("infini(4, 8)", "none").config
    assert config.forward_flops(0, 64_000) < 2.01 * config.forward_flops(0, 32_000)
    module = layer("infini(2, 8)")
    largest = []
    for length in (128, 256):
        x, ctx = torch.randn(1, length, 16, dtype=torch.float64), Context(positions_from_start(length, None, CPU))
        largest.append(max_numel(lambda x=x, ctx=ctx: module(x, ctx)))
    assert largest[1] == 2 * largest[0]


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "decoder.mask", r'only the mask "causal", not "\(causal & local\(4\)\)"'),
        ({"mixer": "infini(3)"}, "decoder.mixer.heads", "d_model = 16 is not a multiple of 3 heads"),
        ({"mixer": "infini(4, d_k=3)", "position": "rope"}, "decoder.position", "d_k must be even"),
        ({"mixer": "infini(4, kernel='sdpa')", "position": "shaw"}, "decoder.position", 'kernel "sdpa" does not'),
        ({"cross": "infini"}, "decoder.cross", 'infini has no cross-attention. Set cross = "attention"'),
    ],
    ids=["mask", "heads", "odd", "weights", "cross"],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "infini(4)", **changes}).resolved()
    assert caught.value.where == where


def test_an_encoder_may_only_look_back() -> None:
    with pytest.raises(ConfigError, match='not "full". Set mask = "causal"') as caught:
        small(encoder={"mixer": "infini"}).resolved()
    assert caught.value.where == "encoder.mask"
    assert small(encoder={"mixer": "infini", "mask": "causal"}).resolved().decoder.mixer[0].kind == "attention"


def test_training_carries_its_memory() -> None:
    side = {"layers": 1, "mixer": "infini(4, 8)", "position": "rope"}
    table = {"model": {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": side}}
    config = read_config({**table, "train": {"objective": "causal(carry=true)", "max_tokens": 8}})
    assert config.train.objective.carry
