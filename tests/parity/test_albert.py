"""Layers that share weights: Hugging Face's ALBERT, and the same model with the weights written out for each layer."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from nn.building import small
from safetensors.torch import load_file, save_file

from headway.config.schema import from_dict, make_part
from headway.decode.cpu.decoder import unsupported
from headway.decode.stored_config import UnsupportedModelError, check_fields
from headway.errors import ConfigError
from headway.inspect.model_summary import summarise_blocks
from headway.nn.context import ForwardReport
from headway.nn.layers.int8 import Int8Linear, quantise_model
from headway.nn.transformer import Transformer, valid_mask
from parity.copying import Pouring, around, block

EXACT = {"rtol": 0.0, "atol": 1e-9}
NEAR = {"rtol": 0.0, "atol": 1e-12}


def albert(inner: int) -> Any:
    config = transformers.AlbertConfig(
        vocab_size=40, embedding_size=16, hidden_size=16, num_hidden_layers=3, inner_group_num=inner,
        num_attention_heads=4, intermediate_size=20, max_position_embeddings=32, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.AlbertModel(config, add_pooling_layer=False).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    # Embeddings as wide as the model: the projection between them is left out.
    torch.nn.init.eye_(model.encoder.embedding_hidden_mapping_in.weight)
    torch.nn.init.zeros_(model.encoder.embedding_hidden_mapping_in.bias)
    return model


def ours_of(theirs: Any) -> Transformer:
    c = theirs.config
    projection = [f"encoder.embedding_hidden_mapping_in.{end}" for end in ("weight", "bias")]
    pouring = Pouring(theirs, ignored=["embeddings.position_ids", *projection])
    for index in range(c.inner_group_num):
        layer = f"encoder.albert_layer_groups.0.albert_layers.{index}"
        names = {"query": "query", "key": "key", "value": "value", "output": "dense"}
        pouring.linears(block("encoder", index, "self"), f"{layer}.attention", names)
        pouring.norm(around("encoder", index, "self"), f"{layer}.attention.LayerNorm")
        pouring.linears(block("encoder", index, "feedforward"), layer, {"inner": "ffn", "outer": "ffn_output"})
        pouring.norm(around("encoder", index, "feedforward"), f"{layer}.full_layer_layer_norm")
    pouring.norm("embeddings.encoder.norm", "embeddings.LayerNorm")
    for our, their in {"words": "word_embeddings", "segments": "token_type_embeddings"}.items():
        pouring.ours[f"embeddings.encoder.{our}.weight"] = pouring.take(f"embeddings.{their}.weight")
    pouring.ours["stacks.encoder.positions.0.table.weight"] = pouring.take("embeddings.position_embeddings.weight")
    return pouring.into(
        {
            "d_model": c.hidden_size,
            "vocabulary": c.vocab_size,
            "norm": f"layernorm({c.layer_norm_eps})",
            "embedding": {"scale": False, "norm": True, "segments": c.type_vocab_size},
            "encoder": {
                "layers": c.num_hidden_layers * c.inner_group_num,
                "distinct_layers": c.inner_group_num,
                "position": f"learned({c.max_position_embeddings})",
                "mixer": f"attention({c.num_attention_heads})",
                "feedforward": f"gelu_tanh({c.intermediate_size})",
            },
            "decoder": {"layers": 0},
        }
    )


@pytest.mark.parametrize("inner", [1, 2], ids=["one for all", "two in turn"])
@torch.no_grad()
def test_albert(inner: int) -> None:
    theirs = albert(inner)
    ours, ids, segments = ours_of(theirs), torch.randint(40, (3, 9)), torch.randint(2, (3, 9))
    valid = valid_mask(torch.tensor([9, 5, 2]), 9)
    expected = theirs(input_ids=ids, attention_mask=valid.long(), token_type_ids=segments).last_hidden_state
    torch.testing.assert_close(ours.encode(ids, valid, segments=segments).values[valid], expected[valid], **EXACT)


SIDE = {
    "layers": 6,
    "mixer": ["attention(4)", "attention(2)"],
    "mask": ["causal", "causal & local(3)", "causal & local(5)"],  # masks and positions may differ
    "position": ["rope", "alibi"],
    "feedforward": "relu(24)",
}


def model_with(distinct: int | None) -> Transformer:
    torch.manual_seed(2)
    side = SIDE if distinct is None else SIDE | {"distinct_layers": distinct}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": side}
    return Transformer(from_dict(Transformer.Config, table)).double().eval()


def written_out(shared: Transformer) -> Transformer:
    """The same without sharing: each layer with its own copy of the weights."""
    distinct, state = len(shared.stacks["decoder"].blocks), {}  # type: ignore[arg-type]
    model = model_with(None)
    for name in model.state_dict():
        words = name.split(".")
        if words[2:3] == ["blocks"]:
            words[3] = str(int(words[3]) % distinct)
        state[name] = shared.state_dict()[".".join(words)]
    model.load_state_dict(state, strict=True)
    return model


@pytest.mark.parametrize("distinct", [2, 6])
def test_it_is_the_model_with_its_weights_written_out(distinct: int) -> None:
    """Outputs; and the gradient of a shared weight is the sum over its layers."""
    shared = model_with(distinct)
    plain, ids = written_out(shared), torch.randint(29, (2, 8))
    outputs = [model.decode(ids) for model in (shared, plain)]
    torch.testing.assert_close(*outputs, **NEAR)
    towards = torch.randn_like(outputs[0])
    for output in outputs:
        (output * towards).sum().backward()
    name = "stacks.decoder.blocks.1.sublayers.feedforward.inner.weight"
    layers = range(1, 6, distinct)
    total = sum(plain.get_parameter(name.replace("blocks.1", f"blocks.{layer}")).grad for layer in layers)  # type: ignore[misc]
    torch.testing.assert_close(shared.get_parameter(name).grad, total, **NEAR)


@torch.no_grad()
def test_every_layer_has_its_own_cache() -> None:
    model, ids = model_with(2), torch.randint(29, (2, 8))
    state = model.new_state(2)
    steps = torch.cat([model.decode(ids[:, t : t + 1], state=state) for t in range(8)], dim=1)
    torch.testing.assert_close(steps, model.decode(ids), **NEAR)
    assert len(state.layers) == 6 and len({id(layer["self"]) for layer in state.layers}) == 6
    assert model.config.kv_bytes_per_token() == model_with(None).config.kv_bytes_per_token()
    last = model.decode(ids, last=True)
    torch.testing.assert_close(last, model.decode(ids)[:, -1:], **NEAR)


def test_weights_exist_once(tmp_path: Path) -> None:
    """In the model, in its cost, in a file, and for an optimiser."""
    shared, plain = model_with(2), model_with(None)
    own = [parameter for name, parameter in shared.named_parameters() if ".blocks." in name]
    assert 3 * sum(p.numel() for p in own) == sum(p.numel() for n, p in plain.named_parameters() if ".blocks." in n)
    for model in (shared, plain):
        assert model.config.parameter_count() == sum(p.numel() for p in model.parameters())
        assert sum(b.parameters for b in summarise_blocks(model.config, 7, 7)) == model.config.parameter_count()
    assert shared.config.forward_flops(0, 7) == plain.config.forward_flops(0, 7)
    for kind in ("adam", "muon"):
        optimisers = make_part("optimiser", kind).build(shared)  # type: ignore[attr-defined]
        trained = [id(p) for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]]
        assert sorted(trained) == sorted(map(id, shared.parameters()))
    save_file(shared.state_dict(), tmp_path / "model.safetensors")  # which refuses tensors that share memory
    other = model_with(2)
    other.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=True)
    ids = torch.randint(29, (1, 5))
    assert torch.equal(other.decode(ids), shared.decode(ids))


@torch.no_grad()
def test_it_runs_in_eight_bits_and_is_traced_by_layer() -> None:
    model = model_with(2).float()
    int8, ids = quantise_model(model), torch.randint(29, (2, 5))
    layers = [module for module in int8.stacks.modules() if isinstance(module, Int8Linear)]
    assert len(layers) == 2 * 6
    ours, theirs = int8.decode(ids), model.decode(ids)
    assert 0 < (ours - theirs).norm() < 0.1 * theirs.norm()
    report = ForwardReport(trace={})
    model.decode(ids, report=report)
    assert report.trace is not None and "decoder.5.self.weights" in report.trace


def test_as_many_distinct_layers_as_layers_are_none_shared() -> None:
    """Such a config is that of a plain model, which every engine knows."""
    assert small(decoder=0, encoder={"layers": 2, "distinct_layers": 2}).resolved().encoder.distinct_layers is None
    assert small(decoder=0, encoder={"layers": 2, "distinct_layers": 1}).resolved().encoder.distinct_layers == 1


def test_other_engines_leave_it_to_torch() -> None:
    model = Transformer(small(encoder={"layers": 2, "distinct_layers": 1})).eval()
    assert unsupported(model) == "its layers share weights"
    with pytest.raises(UnsupportedModelError, match="its layers share weights"):
        check_fields("encoder", model.config.to_dict()["encoder"])


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"layers": 6, "distinct_layers": 4}, "4 does not divide 6 layers"),
        ({"layers": 2, "distinct_layers": 3}, "3 does not divide 2 layers"),
        (
            {"layers": 6, "distinct_layers": 3, "mixer": ["attention(4)", "attention(2)"]},
            "layers 1 and 4 have the same weights, so they need the same mixer",
        ),
        (
            {"layers": 4, "distinct_layers": 1, "feedforward": ["relu(24)", "none"]},
            "layers 1 and 2 .* same feedforward",
        ),
        ({"layers": 4, "distinct_layers": 2, "mixer": "rwkv7"}, "rwkv7 has other weights in its first layer"),
        ({"layers": 4, "distinct_layers": 0}, "at least 1"),
    ],
)
def test_what_is_refused(side: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(encoder=0, decoder=side).resolved()
