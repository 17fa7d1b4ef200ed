"""What a config says it costs is what the built model costs: parameters, matrix products of a forward pass, and the
bytes that decoding keeps. The paper's two models by formula."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway import catalogue
from headway.errors import ConfigError
from headway.nn.state import KV
from headway.nn.transformer import Transformer
from headway.parts import from_dict
from nn.building import NN_ENTRIES, named, small, with_kind

SPREAD = {
    "plain": small(),
    "one matrix for target and output": small(embedding={"tied": "target"}),
    "three matrices": small(embedding={"tied": "none"}),
    "two vocabularies": small(embedding={"tied": "target"}, source_vocabulary=41),
    "two vocabularies, three matrices": small(embedding={"tied": "none"}, source_vocabulary=41),
    "encoder only": small(decoder=0),
    "encoder only, own output": small(decoder=0, embedding={"tied": "none"}),
    "decoder only": small(encoder=0),
    "decoder only, own output": small(encoder=0, embedding={"tied": "none"}),
    "different depths": small(encoder=3, decoder=1),
    "grouped": small(sides={"mixer": "attention(4, 2)"}),
    "one key head": small(sides={"mixer": "attention(4, 1)"}),
    "wide values": small(sides={"mixer": "attention(4, d_k=3, d_v=7)"}),
    "no biases": small(sides={"mixer": "attention(4, bias=false)", "feedforward": "relu(24, bias=false)"}),
    "own cross": small(decoder={"cross": "attention(2, 1, d_k=6)"}),
    "lists": small(sides={"feedforward": ["relu(24)", "swiglu(8)"], "position": ["learned(10)", "rope"]}),
    "experts": small(sides={"feedforward": "moe(4, 2, 'relu(24)')"}),
    "one expert of five, wide": small(sides={"feedforward": ["moe(5, 1, 'swiglu(8, true)')", "gelu(7)"]}),
    "shared positions": small(sides={"position": ["learned(10)", "learned(10)"]}),
    "two learned positions": small(sides={"position": ["learned(10)", "learned(11)"]}),
    "segments and embedding norm": small(decoder=0, embedding={"segments": 2, "norm": True}),
    "segments on both sides": small(embedding={"segments": 3, "norm": True, "tied": "none"}),
    "biased logits": small(head="logits(true)"),
    "masked": small(decoder=0, head="masked"),
    "masked, own output": small(decoder=0, head="masked", embedding={"tied": "none"}),
    "masked over a decoder": small(head="masked", norm="rmsnorm"),
    "pooled": small(decoder=0, head="pooled(5)"),
    "pre, rmsnorm": small(sides={"residual": "pre"}, norm="rmsnorm"),
    "no norm": small(norm="none"),
}


def built(config: Transformer.Config) -> Transformer:
    with torch.device("meta"):
        return Transformer(config)


@pytest.mark.parametrize("name", SPREAD)
def test_parameters_of_many_models(name: str) -> None:
    assert SPREAD[name].parameter_count() == sum(p.numel() for p in built(SPREAD[name]).parameters())


@pytest.mark.parametrize("entry", NN_ENTRIES, ids=named)
def test_parameters_of_every_kind(entry: catalogue.Entry) -> None:
    config = with_kind(entry)
    assert config.parameter_count() == sum(p.numel() for p in built(config).parameters())


@pytest.mark.parametrize(
    ("d", "ff", "heads", "count"),
    [(512, 2048, 8, 63_082_496), (1024, 4096, 16, 214_245_376)],
    ids=["base", "big"],
)
def test_the_papers_models(d: int, ff: int, heads: int, count: int) -> None:
    """The paper says 65 and 213 million."""
    attention, feedforward, norm = 4 * d * d + 4 * d, 2 * d * ff + ff + d, 2 * d
    encoder = attention + feedforward + 2 * norm
    decoder = 2 * attention + feedforward + 3 * norm
    formula = 37000 * d + 6 * encoder + 6 * decoder
    side = {"mixer": {"heads": heads}}
    table = {"vocabulary": 37000, "encoder": side, "decoder": side} | ({} if d == 512 else {"d_model": d})
    config = from_dict(Transformer.Config, table)
    assert config.parameter_count() == formula == count
    assert sum(p.numel() for p in built(config).parameters()) == count


def counted(config: Transformer.Config, source: int, target: int) -> int:
    model = Transformer(config).eval()
    ids = [torch.zeros(1, length, dtype=torch.long) for length in (source, target)]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hidden = model(*(i if s in config.sides else None for i, s in zip(ids, ("encoder", "decoder")))).hidden
        model.logits(hidden)
    return counter.get_total_flops()


def slow(config: Transformer.Config) -> Transformer.Config:
    """Every product in sight of the counter: attention by the naive kernel."""
    table = config.resolved().to_dict()
    for side in ("encoder", "decoder"):
        for name in ("mixer", "cross"):
            for part in table[side].get(name, []):
                if "kernel" in part:
                    part["kernel"] = "math"
    return from_dict(Transformer.Config, table)


@pytest.mark.parametrize("name", SPREAD)
def test_flops_of_many_models(name: str) -> None:
    config = slow(SPREAD[name])
    assert config.forward_flops(7, 5) == counted(config, 7, 5)
    assert config.forward_flops(1, 9) == counted(config, 1, 9)


@pytest.mark.parametrize("entry", NN_ENTRIES, ids=named)
def test_flops_of_every_kind(entry: catalogue.Entry) -> None:
    config = slow(with_kind(entry))
    assert config.forward_flops(7, 5) == counted(config, 7, 5)


@pytest.mark.parametrize("name", [name for name in SPREAD if SPREAD[name].decoder.layers])
def test_bytes_kept_for_each_token(name: str) -> None:
    config = SPREAD[name]
    model = Transformer(config).eval()
    ids = torch.zeros(3, 4, dtype=torch.long)
    with torch.no_grad():
        state = model.new_state(3, model.encode(ids) if config.encoder.layers else None)
        kept = []
        for length in (4, 2):
            model.decode(ids[:, :length], state=state)
            states = [layer["self"] for layer in state.layers]
            assert all(isinstance(one, KV) for one in states)
            kept.append(sum(x[:, :, : one.end].nbytes for one in states for x in one.buffers))
    assert kept == [3 * 4 * config.kv_bytes_per_token(), 3 * 6 * config.kv_bytes_per_token()]
    assert config.kv_bytes_per_token(2) * 2 == config.kv_bytes_per_token()


def test_grouped_keys_keep_less() -> None:
    assert SPREAD["plain"].kv_bytes_per_token() == 2 * 2 * 16 * 4  # layers · (k, v) · width · float32
    assert SPREAD["grouped"].kv_bytes_per_token() * 2 == SPREAD["plain"].kv_bytes_per_token()
    assert SPREAD["one key head"].kv_bytes_per_token() * 4 == SPREAD["plain"].kv_bytes_per_token()


def test_costs_need_a_vocabulary() -> None:
    with pytest.raises(ConfigError, match="vocabulary"):
        Transformer.Config().parameter_count()
