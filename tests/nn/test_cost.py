"""What a config says it costs is what the built model costs: parameters, matrix products of a forward pass, and the
bytes that decoding keeps. The paper's two models by formula."""

import pytest
import torch

from headway.config import catalogue
from headway.config.schema import from_dict
from headway.contracts.costs import check_parameters, count_flops, use_naive_kernels
from headway.errors import ConfigError
from headway.inspect.model_summary import summarise_blocks
from headway.nn.cache.kv import KVCache
from headway.nn.transformer import Transformer
from nn.building import NN_ENTRIES, named, small, with_kind

SPREAD = {
    "plain": small(),
    "one matrix for target and output": small(embedding={"tied": "target"}),
    "one matrix for source and target": small(embedding={"tied": "inputs"}),
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
    "gated": small(sides={"feedforward": ["geglu(24)", "geglu_tanh(8, true)"]}),
    "normed inside": small(
        sides={
            "feedforward": "reglu_squared(24, output_norm='layernorm')",
            "mixer": "attention(4, 2, qk_norm='rmsnorm', output_norm='rmsnorm', output_bias=false)",
        }
    ),
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
    "embedding": small(decoder=0, head="embedding(dense=true)"),
    "pre, rmsnorm": small(sides={"residual": "pre"}, norm="rmsnorm"),
    "no norm": small(norm="none"),
    "layers that share weights": small(
        encoder={"layers": 4, "distinct_layers": 2, "feedforward": ["relu(24)", "none"]}, decoder={"distinct_layers": 1}
    ),
}


def built(config: Transformer.Config) -> Transformer:
    with torch.device("meta"):
        return Transformer(config)


@pytest.mark.parametrize("name", SPREAD)
def test_parameters_of_many_models(name: str) -> None:
    assert SPREAD[name].parameter_count() == sum(p.numel() for p in built(SPREAD[name]).parameters())


@pytest.mark.parametrize("entry", NN_ENTRIES, ids=named)
def test_parameters_of_every_kind(entry: catalogue.Entry) -> None:
    check_parameters(with_kind(entry))


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


@pytest.mark.parametrize("name", SPREAD)
def test_flops_of_many_models(name: str) -> None:
    config = use_naive_kernels(SPREAD[name])
    assert config.forward_flops(7, 5) == count_flops(config, 7, 5)
    assert config.forward_flops(1, 9) == count_flops(config, 1, 9)


@pytest.mark.parametrize("entry", NN_ENTRIES, ids=named)
def test_flops_of_every_kind(entry: catalogue.Entry) -> None:
    config = use_naive_kernels(with_kind(entry))
    lengths = (3, 2) if entry.slot == "mask" else (7, 5)  # within the smallest window
    assert config.forward_flops(*lengths) == count_flops(config, *lengths)


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
            assert all(isinstance(one, KVCache) for one in states)
            kept.append(sum(x[:, :, : one.end].nbytes for one in states for x in one.buffers))
    assert kept == [3 * 4 * config.kv_bytes_per_token(), 3 * 6 * config.kv_bytes_per_token()]
    assert config.kv_bytes_per_token(2) * 2 == config.kv_bytes_per_token()


def grown(config: Transformer.Config, short: int, long: int) -> tuple[int, int]:
    """Bytes that decoding keeps of one row: at first, and for each token beyond."""
    model = Transformer(config).eval()
    state, kept = model.new_state(1), []
    with torch.no_grad():
        for more in (short, long - short):
            model.decode(torch.zeros(1, more, dtype=torch.long), state=state)
            states = [one for layer in state.layers for one in layer.values()]
            kept.append(
                sum(
                    x[:, :, : one.end].nbytes if isinstance(one, KVCache) else x.nbytes
                    for one in states
                    for x in one.buffers
                )
            )
    return kept[0], (kept[1] - kept[0]) // (long - short)


WINDOWS = {
    "every other layer": {"mask": ["causal & local(8)", "causal"]},
    "all layers": {"mask": "causal & local(8)"},
    "segments": {"mask": "causal & segments(4, 6)"},
    "two windows": {"mask": "causal & (local(3) | local(8))"},
    "strided": {"mask": ["causal & strided(4)", "causal & local(8)"]},
    "shared windows": {"mixer": "shared_kv(4, 2)", "mask": ["causal & local(3)", "causal & local(8)"]},
    "shared, one without": {"mixer": "shared_kv(4, 2)", "mask": ["causal & local(3)", "causal"]},
    "below shared": {"mixer": ["attention(4)", "shared_kv(4)"], "mask": ["causal & local(3)", "causal"]},
    "beside retention": {"mixer": ["attention(4)", "retention(4)"], "mask": ["causal & local(3)", "causal"]},
}


@pytest.mark.parametrize("name", [name for name in WINDOWS if "retention" not in name])
def test_what_looks_back_only_so_far_keeps_no_more_of_a_longer_text(name: str) -> None:
    config = small(encoder=0, decoder=WINDOWS[name])
    at_first, a_token = grown(config, 32, 64)
    assert a_token == config.kv_bytes_per_token()
    assert at_first == 4 * config.costs()["decoder"].cached_per_text + 32 * config.kv_bytes_per_token()


def test_a_window_of_64() -> None:
    def kept(mask: str | list[str]) -> int:
        side = {"layers": 4, "mask": mask}
        return from_dict(
            Transformer.Config, {"d_model": 128, "vocabulary": 9, "encoder": {"layers": 0}, "decoder": side}
        ).kv_bytes_per_token()

    assert kept("causal") == 4096
    assert kept(["causal & local(64)", "causal"]) == 2048
    assert kept("causal & local(64)") == 0


@pytest.mark.parametrize(
    ("side", "mask", "seen"),
    [
        ("decoder", "causal & local(4)", 4),
        ("decoder", "causal & segments(4, 3)", 7),
        ("decoder", "causal & (local(3) | local(5))", 5),
        ("encoder", "local(4)", 7),
        ("encoder", "segments(4, 3)", 7),
        ("encoder", "local(3) & segments(9, 2)", 5),
    ],
)
def test_flops_of_a_window(side: str, mask: str, seen: int) -> None:
    """The naive kernel computes every pair; those beyond what any one query sees are not counted."""
    config = use_naive_kernels(small(**({"encoder": 0, "decoder": 0} | {side: {"mask": mask}})))

    def hidden(length: int) -> int:
        lengths = (length, 0) if side == "encoder" else (0, length)
        return count_flops(config, *lengths) - config.forward_flops(*lengths)

    assert hidden(20) == 2 * 2 * 16 * 2 * 20 * (20 - seen)  # layers · (k, v) · width · multiply and add · pairs
    assert hidden(3) == 0


@pytest.mark.parametrize("mask", ["causal", "full", "strided(4)", "local(3) | strided(4)", "bigbird(2, 1, 32)"])
def test_flops_of_what_may_see_far(mask: str) -> None:
    config = use_naive_kernels(small(encoder={"mask": mask}, decoder=0))
    assert config.forward_flops(20, 0) == count_flops(config, 20, 0)


@pytest.mark.parametrize("mask", ["causal", "full", "local(4)", "causal & segments(4, 3)"])
def test_distances_of_xl_are_those_of_the_mask(mask: str) -> None:
    """An encoder that looks back alone has half of them, and a window those within it."""
    for length in (3, 20):
        plain, bent = (
            use_naive_kernels(small(encoder={"mask": mask, "position": position}, decoder=0))
            for position in ("none", "transformer_xl")
        )
        more = count_flops(bent, length, 0) - count_flops(plain, length, 0)
        assert bent.forward_flops(length, 0) - plain.forward_flops(length, 0) == more


@pytest.mark.parametrize("name", WINDOWS)
def test_blocks_add_up_under_windows(name: str) -> None:
    config = small(decoder=WINDOWS[name])
    assert sum(block.flops for block in summarise_blocks(config, 30, 40)) == config.forward_flops(30, 40)


def test_grouped_keys_keep_less() -> None:
    assert SPREAD["plain"].kv_bytes_per_token() == 2 * 2 * 16 * 4  # layers · (k, v) · width · float32
    assert SPREAD["grouped"].kv_bytes_per_token() * 2 == SPREAD["plain"].kv_bytes_per_token()
    assert SPREAD["one key head"].kv_bytes_per_token() * 4 == SPREAD["plain"].kv_bytes_per_token()


def test_costs_need_a_vocabulary() -> None:
    with pytest.raises(ConfigError, match="vocabulary"):
        Transformer.Config().parameter_count()
