"""Memory tokens: Hugging Face's GPT-2 run over [memory, segment, memory] in a loop, torch.nn's encoder over [memory,
text]; any chunking is the whole; what a state keeps, what they cost, show and refuse."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from contracts.combining import forms_of
from nn.building import small
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from headway.config import catalogue
from headway.config.config import read_config
from headway.config.schema import from_dict
from headway.decode import Search, SpecialTokens, decode
from headway.decode.cpu.decoder import unsupported as cpu_unsupported
from headway.decode.cuda.decoder import encoder_unsupported, unsupported
from headway.decode.reference.model import ModelStepper
from headway.decode.stored_config import UnsupportedModelError, check_fields
from headway.errors import ConfigError
from headway.inspect.model_summary import summarise_blocks
from headway.nn.cache.kv import TruncationError
from headway.nn.cache.memory_state import MemoryState
from headway.nn.context import ForwardReport
from headway.nn.memory_tokens import MemoryTokens
from headway.nn.transformer import Transformer, valid_mask
from headway.train.loader import PackedLoader
from parity import copying

NEAR = {"rtol": 0.0, "atol": 1e-12}
EXACT = {"rtol": 0.0, "atol": 1e-9}
KINDS = ("prefix(3)", "recurrent(3, 4)")


def model(
    tokens: str, position: str = "rope", mixer: Any = "attention(4)", encoder: int = 0, **side: Any
) -> Transformer:
    side = {
        "layers": 2,
        "mixer": mixer,
        "position": position,
        "feedforward": "relu(24)",
        "memory_tokens": tokens,
        **side,
    }
    other = {"layers": encoder, "mixer": "attention(4, kernel='math')", "feedforward": "relu(24)"}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": other, "decoder": side}
    torch.manual_seed(5)
    return Transformer(from_dict(Transformer.Config, table)).double().eval()


def stirred(module: nn.Module) -> Any:
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 0.5, 0.25)
    return module.double().eval()


def with_tokens(plain: Transformer, side: str, tokens: str) -> tuple[Transformer, Tensor]:
    """The same model with memory tokens, and their vectors."""
    table = plain.config.to_dict()
    table[side]["memory_tokens"] = tokens
    ours = Transformer(from_dict(Transformer.Config, table)).double().eval()
    name = f"stacks.{side}.memory_tokens.vectors"
    vectors = torch.randn_like(ours.state_dict()[name])
    ours.load_state_dict(plain.state_dict() | {name: vectors})
    return ours, vectors


# ---- Against others


@pytest.mark.parametrize(("tokens", "segment"), [("recurrent(3, 4)", 4), ("recurrent(2, 5)", 5), ("prefix(3)", 11)])
def test_a_loop_over_gpt2_is_the_same(tokens: str, segment: int) -> None:
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=12, n_layer=3, n_head=3, n_positions=32, n_inner=20, layer_norm_epsilon=1e-3,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    theirs = stirred(transformers.GPT2LMHeadModel(config))
    with torch.no_grad():
        theirs.transformer.wpe.weight[31] = 0  # the position of memory tokens: none
    ours, vectors = with_tokens(copying.from_gpt2(theirs), "decoder", tokens)
    text = torch.randint(40, (3, 11))
    leaves = ours.stacks["decoder"].memory_tokens.vectors, vectors.requires_grad_()
    memory, outputs = vectors.expand(3, -1, -1), []
    for part in text.split(segment, 1):
        count, size = memory.shape[1], part.shape[1]
        sequence = torch.cat([memory, theirs.transformer.wte(part), memory], 1)
        places = torch.tensor([31] * count + list(range(size)) + [31] * count)[None]
        hidden = theirs.transformer(inputs_embeds=sequence, position_ids=places).last_hidden_state
        outputs.append(hidden[:, count : count + size])
        memory = hidden[:, -count:]
    expected, found = torch.cat(outputs, 1), ours.decode(text)
    torch.testing.assert_close(found, expected, **EXACT)
    towards = torch.randn_like(found)
    gradients = [torch.autograd.grad((y * towards).sum(), leaf)[0] for y, leaf in zip((found, expected), leaves)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        state = ours.new_state(3)
        steps = torch.cat([ours.decode(text[:, t : t + 1], state=state) for t in range(11)], 1)
    torch.testing.assert_close(steps, expected, **EXACT)


@torch.no_grad()
def test_an_encoder_drops_them_at_the_end() -> None:
    how: dict[str, Any] = {"d_model": 12, "nhead": 3, "batch_first": True}
    layer = {**how, "dim_feedforward": 20, "dropout": 0.0, "norm_first": True}
    encoder, decoder = nn.TransformerEncoderLayer(**layer), nn.TransformerDecoderLayer(**layer)
    encoder = nn.TransformerEncoder(encoder, 2, nn.LayerNorm(12), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder, 1, nn.LayerNorm(12))
    theirs = stirred(nn.Transformer(**how, custom_encoder=encoder, custom_decoder=decoder))
    ours, vectors = with_tokens(copying.from_torch(theirs, 40), "encoder", "prefix(4)")
    ids, valid = torch.randint(40, (3, 9)), valid_mask(torch.tensor([9, 4, 6]), 9)
    x = torch.cat([vectors.expand(3, -1, -1), F.embedding(ids, ours.embeddings["encoder"].table.weight)], 1)
    padding = torch.cat([torch.zeros(3, 4, dtype=torch.bool), ~valid], 1)
    expected = theirs.encoder(x, src_key_padding_mask=padding)[:, 4:]
    memory = ours.encode(ids, valid)
    assert memory.values.shape == (3, 9, 12) and memory.positions.length == 9
    torch.testing.assert_close(memory.values[valid], expected[valid], **EXACT)


# ---- States


@pytest.mark.parametrize(
    ("tokens", "position", "mixer"),
    [
        ("prefix(3)", "rope", "attention(4)"),
        ("prefix(2)", "none", "retention(4)"),
        ("recurrent(3, 4)", "rope", "attention(4, 2)"),
        ("recurrent(2, 5)", "sinusoidal", "shared_kv(4)"),
        ("recurrent(3, 4)", "alibi", "attention(4)"),
        ("recurrent(1, 1)", "learned(2)", "attention(4)"),
    ],
)
@torch.no_grad()
def test_any_chunking_is_the_whole(tokens: str, position: str, mixer: str) -> None:
    built, ids = model(tokens, position, mixer), torch.randint(29, (3, 11))
    whole = built.decode(ids)
    for sizes in ([1] * 11, [11], [3, 1, 5, 2], [4, 4, 3]):
        state = built.new_state(3)
        parts = [built.decode(part, state=state) for part in ids.split(sizes, 1)]
        torch.testing.assert_close(torch.cat(parts, 1), whole, **NEAR)
        assert state.lengths.tolist() == [11] * 3
    valid = valid_mask(torch.tensor([11, 6, 1]), 11)
    padded = built.decode(ids, valid)
    for row, length in enumerate((11, 6, 1)):
        torch.testing.assert_close(padded[row, :length], built.decode(ids[row : row + 1, :length])[0], **NEAR)


@pytest.mark.parametrize("tokens", KINDS)
@torch.no_grad()
def test_rows_may_stand_at_different_places(tokens: str) -> None:
    """Padding before, between and after real tokens; rows are reordered on the way, and a state is written down."""
    built, rng = model(tokens), random.Random(1)
    state, rows, found = built.new_state(3), torch.randint(29, (3, 60)), [[], [], []]  # type: ignore[var-annotated]
    fed = [0, 0, 0]
    for size in (3, 1, 5, 2, 1, 4, 1, 9):
        valid, ids = torch.rand(3, size) < 0.6, torch.randint(29, (3, size))
        for row in range(3):
            new = int(valid[row].sum())
            ids[row, valid[row]] = rows[row, fed[row] : fed[row] + new]
            fed[row] += new
        hidden = built.decode(ids, valid, state=state)
        for row in range(3):
            found[row].append(hidden[row, valid[row]])
        order = rng.sample(range(3), 3)
        state.select(torch.tensor(order))
        rows, fed, found = rows[order], [fed[i] for i in order], [found[i] for i in order]
        other = built.new_state(3)
        other.load({name: tensor.clone() for name, tensor in state.tensors().items()})
        state = other
        assert state.lengths.tolist() == fed
    for row in range(3):
        torch.testing.assert_close(torch.cat(found[row]), built.decode(rows[row : row + 1, : fed[row]])[0], **NEAR)


def refusal(**side: Any) -> ConfigError | None:
    try:
        small(encoder=0, decoder={"position": "none", **side}).resolved()
    except ConfigError as error:
        return error
    return None


@pytest.mark.parametrize("tokens", KINDS)
@pytest.mark.parametrize("kind", catalogue.kinds("mixer"))
@torch.no_grad()
def test_every_mixer_works_beside_them_or_is_refused(kind: str, tokens: str) -> None:
    mixer = list(forms_of("mixer", kind)[0])
    if refusal(mixer=mixer) is not None:
        return  # not for decoders
    refused = refusal(mixer=mixer, memory_tokens=tokens)
    if refused is not None:
        assert refused.where == "decoder.memory_tokens" and tokens.startswith("recurrent")
        return
    built, ids = model(tokens, "none", mixer), torch.randint(29, (2, 11))
    whole = built.decode(ids)
    state, rest = built.new_state(2), torch.tensor([9, 5])
    parts = [built.decode(ids[:, :2], state=state), built.decode(ids[:, 2:], valid_mask(rest, 9), state=state)]
    for row, length in enumerate((11, 7)):
        torch.testing.assert_close(torch.cat(parts, 1)[row, :length], whole[row, :length], rtol=0, atol=1e-10)
    follow = torch.randint(29, (2, 3))
    steps = torch.cat([built.decode(follow[:, t : t + 1], state=state) for t in range(3)], 1)
    for row, length in enumerate((11, 7)):
        alone = built.decode(torch.cat([ids[row, :length], follow[row]])[None])[0, length:]
        torch.testing.assert_close(steps[row], alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("cross", ["attention(4)", "linear_attention(4)"])
@torch.no_grad()
def test_the_source_outlives_a_segment(cross: str) -> None:
    built, ids = model("recurrent(2, 3)", encoder=1, cross=cross), torch.randint(29, (2, 8))
    memory = built.encode(torch.randint(29, (2, 6)), valid_mask(torch.tensor([6, 2]), 6))
    state = built.new_state(2, memory)
    parts = [built.decode(part, state=state) for part in ids.split([1, 5, 2], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), built.decode(ids, memory=memory), **NEAR)


@torch.no_grad()
def test_a_state_is_bounded_and_goes_back_by_snapshots() -> None:
    built, ids = model("recurrent(3, 4)"), torch.randint(29, (2, 60))
    state, whole, sizes = built.new_state(2), built.decode(ids), []
    for start in range(0, 40, 10):
        built.decode(ids[:, start : start + 10], state=state)
        sizes.append(state.bytes)
    assert len(set(sizes)) == 1
    assert built.config.kv_bytes_per_token() == 0
    layer = 2 * 16 * (4 + 2 * 3)  # keys and values of a segment and its memory tokens
    assert built.config.costs()["decoder"].cached_per_text == 2 * layer + 3 * 16
    saved = state.snapshot()
    built.decode(ids[:, :7], state=state)
    state.truncate(state.lengths)  # nothing to take back
    with pytest.raises(TruncationError, match="snapshot"):
        state.truncate(state.lengths - 1)
    state.restore(saved)
    torch.testing.assert_close(built.decode(ids[:, 40:], state=state), whole[:, 40:], **NEAR)


def test_detach_stops_gradients_between_steps() -> None:
    built, ids = model("recurrent(3, 4)"), torch.arange(12)[None]
    words, gradients = built.embeddings["decoder"].table.weight, []
    for stops in (False, True):
        state = built.new_state(1)
        built.decode(ids[:, :4], state=state)
        if stops:
            state.detach()
        output = built.decode(ids[:, 4:], state=state)
        gradients.append(torch.autograd.grad(output.square().sum(), words)[0])
    assert (gradients[0][:4].abs().sum(1) > 0).all(), "the memory tells later segments"
    assert not gradients[1][:4].any() and gradients[1][4:11].any(1).all()


@torch.no_grad()
def test_a_decoder_with_an_encoder_searches() -> None:
    built = model("recurrent(2, 3)", encoder=1)
    source, ids = torch.randint(2, 29, (2, 6)), torch.randint(29, (2, 8))
    memory = built.encode(source)
    state = built.new_state(2, memory)
    parts = [built.decode(part, state=state) for part in ids.split([1, 5, 2], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), built.decode(ids, memory=memory), **NEAR)
    last = built.decode(ids, memory=memory, last=True)
    torch.testing.assert_close(last, built.decode(ids, memory=memory)[:, -1:], **NEAR)
    search, special = Search(beam_size=3, n_best=3, max_length=9), SpecialTokens(start=0, end=1)
    for row, hypotheses in enumerate(decode(ModelStepper(built), source, special_tokens=special, search=search)):
        for found in hypotheses:
            given = torch.tensor([[0, *found.ids, *[1] * found.finished]])
            hidden = built.decode(given[:, :-1], memory=built.encode(source[row : row + 1]))
            logps = built.logits(hidden)[0].log_softmax(-1).gather(1, given[0, 1:, None])[:, 0]
            assert found.token_logps == pytest.approx(logps.tolist(), abs=1e-5)


def test_memory_carries_what_a_segment_cannot_see() -> None:
    """The first token of a text decides the last, two segments later: chance without the memory, learned with it."""
    torch.manual_seed(3)
    built = model("recurrent(2, 4)", "rope", residual="pre").float().train()
    optimiser = torch.optim.Adam(built.parameters(), lr=5e-3)
    losses = []
    for _ in range(150):
        bits = torch.randint(2, (32, 1))
        ids = torch.cat([bits, torch.randint(2, 29, (32, 8))], 1)  # the answer is asked for in the third segment
        logits = built.logits(built.decode(ids)[:, -1])
        loss = F.cross_entropy(logits[:, :2], bits[:, 0])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) / 10 < 0.2 < 0.6 < losses[0]


# ---- What they cost, show and refuse


@pytest.mark.parametrize("length", [1, 4, 5, 11])
@pytest.mark.parametrize("tokens", KINDS)
def test_costs_are_those_of_the_built_model(tokens: str, length: int) -> None:
    math = "attention(4, kernel='math')"
    built = model(tokens, "none", math, encoder=1, cross=math)
    config = built.config
    assert config.parameter_count() == sum(p.numel() for p in built.parameters())
    source, target = torch.zeros(1, 7, dtype=torch.long), torch.zeros(1, length, dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built(source, target).hidden)
    assert config.forward_flops(7, length) == counter.get_total_flops()
    blocks = summarise_blocks(config, 7, length)
    assert sum(block.flops for block in blocks) == config.forward_flops(7, length)
    assert sum(block.parameters for block in blocks) == config.parameter_count()


def test_a_segment_costs_the_same_wherever_it_stands() -> None:
    config = model("recurrent(3, 4)", "none").config
    lengths = [config.forward_flops(0, 4 * n) for n in (10, 20, 30)]
    assert lengths[2] - lengths[1] == lengths[1] - lengths[0]


@pytest.mark.parametrize("tokens", KINDS)
@torch.no_grad()
def test_a_trace_shows_the_text_alone(tokens: str) -> None:
    built, ids, report = model(tokens, "alibi"), torch.randint(29, (2, 11)), ForwardReport(trace={})
    torch.testing.assert_close(built.decode(ids, report=report), built.decode(ids), **NEAR)
    trace = report.trace
    assert trace is not None
    assert trace["decoder.0.self.stream"].shape == trace["decoder.1.feedforward.output"].shape == (2, 11, 16)
    weights = trace["decoder.1.self.weights"]
    assert weights.shape == (2, 4, 11, 11) and trace["decoder.1.self.q"].shape == (2, 4, 11, 4)
    queries, keys = torch.arange(11)[:, None], torch.arange(11)
    seen = (keys <= queries) & ((keys // 4 == queries // 4) | (tokens == "prefix(3)"))
    assert (weights[:, :, ~seen] == 0).all() and (weights[:, :, seen] > 0).all()
    assert (weights.sum(-1) < 1).all(), "the rest is that of the memory tokens"


def test_what_is_captured_keeps_its_gradient() -> None:
    """Of the cross-attention of a text of several segments, as alignments need it."""
    built, name = model("recurrent(2, 3)", encoder=1), "decoder.1.cross.weights"
    source, report = torch.randint(29, (2, 6)), ForwardReport(capture=frozenset({name}))
    built.decode(torch.randint(29, (2, 8)), memory=built.encode(source), report=report)
    weights = report.captured[name]
    assert weights.shape == (2, 4, 8, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 8, dtype=torch.float64), **NEAR)
    (gradient,) = torch.autograd.grad(weights[:, :, 0].square().sum(), built.embeddings["decoder"].table.weight)
    assert gradient.any()


def test_a_loss_of_layers_is_the_mean_over_segments() -> None:
    built = model("recurrent(2, 3)", feedforward="moe(4, 2, 'relu(8)')").train()
    report = ForwardReport()
    built.decode(torch.randint(29, (2, 12)), report=report)
    losses = torch.stack([loss.detach() for name, loss in report.losses if name == "balance"])
    assert len(losses) == 2 * 4 and 0.9 * 2 * 0.01 < float(losses.sum()) < 4 * 2 * 0.01
    visits = report.statistics["decoder.0.feedforward.load"]
    assert float(visits.weight) == 2 * 2 * (4 * 3 + 3 * 4 + 2)  # top_k, rows, tokens and memory tokens but the last


@pytest.mark.parametrize(
    ("sides", "where", "says"),
    [
        ({"encoder": {"memory_tokens": "recurrent"}}, "encoder.memory_tokens", "an encoder sees the whole text"),
        ({"decoder": {"mask": "causal & local(4)"}}, "decoder.memory_tokens", "would hide them"),
        ({"encoder": {"memory_tokens": "prefix", "mask": "local(4)"}}, "encoder.memory_tokens", '"local.4." would'),
        ({"decoder": {"mixer": "retention(4)"}}, "decoder.memory_tokens", "retention has a state that goes on"),
        ({"decoder": {"mixer": ["attention(4)", "infini(4)"]}}, "decoder.memory_tokens", "infini has a state"),
        ({"decoder": {"memory_tokens": "recurrent(0)"}}, "decoder.memory_tokens.count", "at least 1|1 or more|from 1"),
    ],
    ids=["encoder", "window", "window of an encoder", "recurrent mixer", "one of two", "none"],
)
def test_what_makes_no_sense_is_refused(sides: dict[str, Any], where: str, says: str) -> None:
    decoder = {"memory_tokens": "recurrent(2, 4)"} | sides.pop("decoder", {})
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder=decoder, **sides).resolved()
    assert caught.value.where == where


def lm_config(tokens: str, max_tokens: int, position: str = "rope", objective: str = "causal(carry=true)") -> Any:
    side = {"layers": 1, "mixer": "attention(4)", "position": position, "memory_tokens": tokens}
    table = {"model": {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": side}}
    return read_config({**table, "train": {"objective": objective, "max_tokens": max_tokens}})


def test_training_carries_the_memory_from_step_to_step() -> None:
    assert lm_config("recurrent(2, 8)", 16, "learned(8)").train.objective.carry
    with pytest.raises(ConfigError, match="must be a multiple of the 8 tokens of a segment") as caught:
        lm_config("recurrent(2, 8)", 12)
    assert caught.value.where == "train.max_tokens"
    with pytest.raises(ConfigError, match="unbounded"):
        lm_config("prefix(2)", 16)


def test_learned_positions_need_only_cover_a_segment() -> None:
    assert lm_config("recurrent(2, 8)", 64, "learned(8)", "causal").train.max_tokens == 64
    for tokens in ("recurrent(2, 9)", "prefix(2)"):
        with pytest.raises(ConfigError, match="8 learned positions are too few"):
            lm_config(tokens, 64, "learned(8)", "causal")


def test_fast_paths_leave_them_alone() -> None:
    side = {"layers": 1, "mixer": "attention(4)", "memory_tokens": "prefix(2)"}
    table = {"d_model": 16, "vocabulary": 29, "encoder": side, "decoder": side}
    built = Transformer(from_dict(Transformer.Config, table)).eval()
    for reason in (cpu_unsupported(built), unsupported(built, 9), encoder_unsupported(built, 2, 5)):
        assert reason == "it has memory tokens"
    config = read_config({"model": table, "train": {"objective": "translation"}})
    assert "before them" in PackedLoader.unsupported(config.train, config.model)
    stored = config.model.resolved().to_dict()["encoder"]
    with pytest.raises(UnsupportedModelError, match="memory tokens are not supported"):
        check_fields("encoder", stored)
    without = replace(config.model.encoder, memory_tokens=None).to_dict()
    assert "memory_tokens" not in without, "stored models without them are as they were"


def test_vectors_follow_from_the_seed_and_are_no_matrix() -> None:
    built: Any = model("prefix(3)").stacks["decoder"].memory_tokens
    again: Any = model("prefix(3)").stacks["decoder"].memory_tokens
    assert isinstance(built, MemoryTokens) and torch.equal(built.vectors, again.vectors)
    assert built.vectors.shape == (1, 3, 16)
    assert isinstance(model("prefix(3)").new_state(1).layers[0]["memory_tokens"], MemoryState)
