"""Linformer: the attention of the package `linformer`, to its own text and to a context; by the definition where heads
have projections of their own; as long as it learned to be, at a cost linear in the text."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from tensor_sizes import max_numel
from torch.utils.flop_counter import FlopCounterMode

from headway.config.config import read_config
from headway.errors import ConfigError, HeadwayError
from headway.nn.context import Context
from headway.nn.mixers.linformer import project_length
from headway.nn.sequence import Memory, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from parity.mixing import make_mixer, refusal, run_mixer

NEAR = {"rtol": 0.0, "atol": 1e-12}


@torch.no_grad()
def test_the_layer_is_the_packages() -> None:
    theirs, c = golden("linformer_attention")
    x, context = theirs["in.x"], theirs["in.context"]
    projections = [theirs[f"w.proj_{name}"].T[None] for name in "kv"]  # (1, K, N)
    names = [name for name in theirs if name.startswith("out.")]
    assert len(names) >= 4
    for name in names:
        shared = name.removeprefix("out.").removesuffix("_context")
        projected, length = projections[0].shape[1:]
        module = make_mixer(f"linformer({c['heads']}, {projected}, {length}, '{shared}')", x.shape[2])
        weights = {
            f"{ours}.weight": theirs[f"w.to_{short}.weight"] for ours, short in zip(("query", "key", "value"), "qkv")
        }
        biases = {f"{ours}.bias": torch.zeros(x.shape[2], dtype=torch.float64) for ours in ("query", "key", "value")}
        output = {f"output.{end}": theirs[f"w.to_out.{end}"] for end in ("weight", "bias")}
        projection = torch.stack(projections if shared == "heads" else projections[:1])
        module.load_state_dict({**weights, **biases, **output, "projection": projection})
        found = run_mixer(module, x, source=context if name.endswith("context") else None)
        torch.testing.assert_close(found.output, theirs[name], **NEAR)


@pytest.mark.parametrize("shared", ["none", "heads", "kv"])
def test_each_key_is_a_sum_over_all_tokens(shared: str) -> None:
    """Number by number; with padding, and with gradients into every weight."""
    module: Any = make_mixer(f"linformer(2, 3, 8, '{shared}', d_k=4, d_v=5)", 6)
    x = torch.randn(2, 7, 6, dtype=torch.float64)
    lengths = [7, 4]
    found = run_mixer(module, x, valid=valid_mask(torch.tensor(lengths), 7))
    for b, length in enumerate(lengths):
        q, k, v = (layer(x[b, :length]).view(length, 2, -1) for layer in (module.query, module.key, module.value))
        heads = []
        for h in range(2):
            place = h if shared == "none" else 0
            for_keys, for_values = module.projection[0, place], module.projection[-1, place]
            keys = [sum(for_keys[i, s] * k[s, h] for s in range(length)) for i in range(3)]
            values = [sum(for_values[i, s] * v[s, h] for s in range(length)) for i in range(3)]
            weights = (q[:, h] @ torch.stack(keys).T / 2).softmax(-1)
            torch.testing.assert_close(found.trace["projected_weights"][b, h, :length], weights.detach(), **NEAR)
            heads.append(weights @ torch.stack(values))
        torch.testing.assert_close(found.output[b, :length], module.output(torch.cat(heads, -1)), **NEAR)
    assert "weights" not in found.trace, "they are not of tokens"
    found.output.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in module.parameters())


@torch.no_grad()
def test_more_padding_changes_nothing() -> None:
    """Not even beyond the longest text."""
    module = make_mixer("linformer(2, 3, 8)", 6)
    x = torch.randn(1, 12, 6, dtype=torch.float64)
    expected = run_mixer(module, x[:, :5]).output
    for longer in (6, 8, 12):
        found = run_mixer(module, x[:, :longer], valid=valid_mask(torch.tensor([5]), longer))
        torch.testing.assert_close(found.output[:, :5], expected, **NEAR)


@torch.no_grad()
def test_a_decoder_keeps_few_keys_of_a_long_source() -> None:
    module: Any = make_mixer("linformer(2, 3, 64)", 6)
    source = torch.randn(1, 50, 6, dtype=torch.float64)
    memory = Memory(source, positions_from_start(50, None, source.device))
    cache, x = module.new_cache(1, source.device, cross=True), torch.randn(1, 4, 6, dtype=torch.float64)
    steps = [
        module(x[:, t : t + 1], Context(positions_from_start(1, None, x.device)), source=memory, cache=cache)
        for t in range(4)
    ]
    torch.testing.assert_close(torch.cat(steps, 1), run_mixer(module, x, source=source).output, **NEAR)
    assert cache.bytes == 8 * 2 * 3 * 6  # float64, keys and values, K, width


def test_time_and_memory_grow_with_the_text() -> None:
    def largest(length: int) -> int:
        x = torch.randn(1, 2, length, 4, requires_grad=True)
        return max_numel(lambda: project_length(x, torch.ones(1, 5, 4096), None))

    assert largest(4096) == 2 * largest(2048) == 2 * 5 * 4096
    config = small(encoder={"mixer": "linformer(4)"}, decoder=0)
    assert config.forward_flops(1000, 0) == 2 * config.forward_flops(500, 0)


@pytest.mark.parametrize("shared", ["none", "heads", "kv"])
def test_costs_are_those_of_the_built_model(shared: str) -> None:
    config = small(sides={"mixer": "attention(4)"}, encoder={"mixer": f"linformer(4, 3, 20, '{shared}', d_k=2, d_v=5)"},
                   decoder={"cross": f"linformer(2, 5, 20, '{shared}', bias=false)"})  # fmt: skip
    model = Transformer(config).eval()
    assert config.parameter_count() == sum(p.numel() for p in model.parameters())
    plain = small(sides={"mixer": "attention(4)"}, encoder={"mixer": f"linformer(4, 3, 20, '{shared}', d_k=2, d_v=5)"},
                  decoder=0)  # fmt: skip
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        Transformer(plain).eval().encode(torch.zeros(1, 11, dtype=torch.long))
    assert plain.costs()["encoder"].flops(11, 11) == counter.get_total_flops()
    cross, ids = model.stacks["decoder"].blocks[0].sublayers["cross"], torch.zeros(1, 7, 16)  # type: ignore[union-attr,index]
    memory = Memory(torch.zeros(1, 13, 16), positions_from_start(13, None, ids.device))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        cross(ids, Context(positions_from_start(7, None, ids.device)), source=memory)
    assert config.costs()["cross"].flops(7, 13) == 2 * counter.get_total_flops()  # of two layers


@torch.no_grad()
def test_bfloat16_is_finite_and_near() -> None:
    torch.manual_seed(3)
    model = Transformer(small(encoder={"mixer": "linformer(4, 8, 64)", "position": "rope"}, decoder=0)).eval()
    ids = torch.randint(29, (2, 50))
    exact = model.encode(ids).values
    assert (model.bfloat16().encode(ids).values.float() - exact).norm() < 0.05 * exact.norm()


def test_a_longer_text_is_refused() -> None:
    module, x = make_mixer("linformer(2, 3, 8)", 6), torch.randn(1, 9, 6, dtype=torch.float64)
    with pytest.raises(HeadwayError, match="project 8 positions and was given 9 tokens. Shorten"):
        run_mixer(module, x)
    table = {"model": {"encoder": {"mixer": "linformer(8, 64, 100)"}}, "train": {"max_tokens": 200}}
    with pytest.raises(ConfigError, match="100 learned positions are too few") as caught:
        read_config(table)
    assert caught.value.where == "model.encoder.mixer"


@pytest.mark.parametrize(
    ("mixer", "slots", "where", "says"),
    [
        ("linformer(4)", {"side": "decoder"}, "decoder.mask", "each of its keys mixes all tokens, later ones too"),
        ("linformer(4)", {"mask": "local(3)"}, "encoder.mask", r'only the mask "full", not "local\(3\)"'),
        ("linformer(4)", {"position": "alibi"}, "encoder.position", "alibi changes the score of a query and a token"),
        ("linformer(4, d_k=3)", {"position": "rope"}, "encoder.position", "d_k must be even"),
        ("linformer(3)", {}, "encoder.mixer.heads", "not a multiple of 3 heads"),
    ],
)
def test_what_it_cannot_do_is_refused(mixer: str, slots: dict[str, Any], where: str, says: str) -> None:
    error = refusal(mixer, **{"side": "encoder", **slots})
    assert error.where == where
    with pytest.raises(ConfigError, match=says):
        raise error
