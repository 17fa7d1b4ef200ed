"""Transformer-XL: against the authors' code with its memory, and a whole XLNet read from left to right."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from parity.copying import Pouring, around, block
from parity.xlnet import sinusoids_in_float64
from torch import Tensor, nn

from headway.config.schema import from_dict
from headway.nn.layers.norms import NoNorm
from headway.nn.transformer import Transformer

EXACT = {"rtol": 0.0, "atol": 1e-9}


def authors_model(residual: str) -> tuple[Transformer, dict[str, Tensor], dict[str, Any]]:
    tensors, c = golden("transformer_xl")
    table = {
        "d_model": c["d_model"], "vocabulary": c["vocab"], "dropout": 0.0, "norm": "layernorm(1e-5)",
        "encoder": {"layers": 0},
        "decoder": {
            "layers": c["layers"], "position": "transformer_xl",
            "mask": f"causal & segments({c['seg']}, {c['mem_len']})",
            "mixer": f"attention({c['heads']}, bias=false)", "feedforward": f"relu({c['d_inner']})",
            "residual": residual,
        },
    }  # fmt: skip
    ours = {"embeddings.decoder.words.weight": tensors["w.word_emb.emb_layers.0.weight"]}
    position = "stacks.decoder.positions.0"
    for name, their in (("to_keys", "r_w_bias"), ("to_distances", "r_r_bias")):
        ours[f"{position}.{name}"] = tensors[f"w.{their}"][None, :, None]
    for i in range(c["layers"]):
        their = f"w.layers.{i}"
        thirds = tensors[f"{their}.dec_attn.qkv_net.weight"].chunk(3)
        for name, weight in zip(("query", "key", "value"), thirds):
            ours[f"{block('decoder', i, 'self')}.{name}.weight"] = weight
        ours[f"{block('decoder', i, 'self')}.output.weight"] = tensors[f"{their}.dec_attn.o_net.weight"]
        ours[f"{position}.project.{i}.weight"] = tensors[f"{their}.dec_attn.r_net.weight"]
        for end, gain in (("weight", "gain"), ("bias", "bias")):
            ours[f"{around('decoder', i, 'self')}.{gain}"] = tensors[f"{their}.dec_attn.layer_norm.{end}"]
            ours[f"{around('decoder', i, 'feedforward')}.{gain}"] = tensors[f"{their}.pos_ff.layer_norm.{end}"]
            for name, number in (("inner", 0), ("outer", 3)):
                place = f"{block('decoder', i, 'feedforward')}.{name}.{end}"
                ours[place] = tensors[f"{their}.pos_ff.CoreNet.{number}.{end}"]
    model = Transformer(from_dict(Transformer.Config, table)).double().eval()
    if residual == "pre":
        model.stacks["decoder"].ends.norm = NoNorm(NoNorm.Config(), c["d_model"])  # type: ignore[union-attr]  # theirs has none
    model.load_state_dict(ours)
    return model, tensors, c


@pytest.mark.parametrize(("residual", "outputs"), [("post", "out.hidden_seg"), ("pre", "out.pre_hidden_seg")])
@pytest.mark.parametrize("trainable", [False, True], ids=["decoding", "training"])
@torch.no_grad()
def test_segments_with_their_memory_equal_the_authors(residual: str, outputs: str, trainable: bool) -> None:
    """And the whole text at once, and token by token, equal the segments."""
    model, tensors, c = authors_model(residual)
    ids, size = tensors["in.ids"], c["seg"]
    state = model.new_state(len(ids), trainable=trainable)
    segments = [model.decode(ids[:, i : i + size], state=state) for i in range(0, ids.shape[1], size)]
    for number, hidden in enumerate(segments):
        torch.testing.assert_close(hidden, tensors[f"{outputs}{number}"], **EXACT)
    torch.testing.assert_close(model.decode(ids), torch.cat(segments, 1), **EXACT)
    state = model.new_state(len(ids), trainable=trainable)
    steps = [model.decode(ids[:, i : i + 1], state=state) for i in range(ids.shape[1])]
    torch.testing.assert_close(torch.cat(steps, 1), torch.cat(segments, 1), **EXACT)


def test_memory_holds_what_the_layers_were_given() -> None:
    model, tensors, c = authors_model("post")
    state = model.new_state(2, trainable=True)
    for number in range(c["segments"]):
        model.decode(tensors["in.ids"][:, number * c["seg"] : (number + 1) * c["seg"]], state=state)
        wanted = tensors[f"out.mems_after_seg{number}"]  # (layers + 1, B, M, d): the last is read by nobody
        end = (number + 1) * c["seg"]
        for layer, memory in zip(state.layers, wanted):
            held: Any = layer["self"]
            slots = torch.arange(end - memory.shape[1], end) % held.size
            torch.testing.assert_close(held.buffers[0][:, 0, slots], memory, **EXACT)


def test_no_gradient_crosses_the_boundary_and_weights_learn_from_what_is_remembered() -> None:
    model = Transformer(
        small(encoder=0, decoder={"layers": 2, "position": "transformer_xl", "mask": "causal & segments(4, 4)"})
    ).double()
    ids, state = torch.randint(29, (2, 8)), model.new_state(2, trainable=True)
    words = model.embeddings["decoder"].table  # type: ignore[union-attr]
    first = model.decode(ids[:, :4], state=state)
    (reached,) = torch.autograd.grad(first.sum(), words.weight, retain_graph=True)
    assert reached.abs().sum() > 0
    state.detach()
    ids[:, 4:] = 28  # a word that the first segment does not have
    ids[:, :4] %= 28
    second = model.decode(ids[:, 4:], state=state)
    keys = model.stacks["decoder"].blocks[0].sublayers["self"].key.weight  # type: ignore[union-attr, index]
    words_grad, keys_grad = torch.autograd.grad(second.square().sum(), [words.weight, keys], retain_graph=True)
    assert (words_grad[:28] == 0).all() and words_grad[28].abs().sum() > 0
    alone = model.decode(ids[:, 4:], state=_later(model))
    (without,) = torch.autograd.grad(alone.square().sum(), keys)
    assert not torch.allclose(keys_grad, without)


def _later(model: Transformer) -> Any:
    """A state at position 4 that remembers nothing."""
    state = model.new_state(2, trainable=True)
    state.lengths, state.end = torch.full((2,), 4), 4
    return state


@torch.no_grad()
def test_a_whole_xlnet_that_reads_from_left_to_right(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import XLNetConfig, XLNetModel

    monkeypatch.setattr(XLNetModel, "positional_embedding", staticmethod(sinusoids_in_float64))
    torch.manual_seed(5)
    config = XLNetConfig(
        vocab_size=50, d_model=32, n_layer=3, n_head=4, d_inner=48, ff_activation="relu", untie_r=True,
        attn_type="uni", dropout=0.0, layer_norm_eps=1e-5, mem_len=None, use_mems_eval=False,
    )  # fmt: skip
    theirs = XLNetModel(config).double().eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    unread = [f"layer.{i}.rel_attn.{name}" for i in range(3) for name in ("r_s_bias", "seg_embed")]  # no segments
    pouring = Pouring(theirs, ignored=["mask_emb", *unread])
    pouring.ours["embeddings.decoder.words.weight"] = pouring.take("word_embedding.weight")
    position = "stacks.decoder.positions.0"
    biases: dict[str, list[Tensor]] = {"to_keys": [], "to_distances": []}
    for i in range(3):
        layer = f"layer.{i}.rel_attn"
        for name, their in (("query", "q"), ("key", "k"), ("value", "v")):
            pouring.ours[f"{block('decoder', i, 'self')}.{name}.weight"] = pouring.take(f"{layer}.{their}").flatten(1).T
        pouring.ours[f"{block('decoder', i, 'self')}.output.weight"] = pouring.take(f"{layer}.o").flatten(1)
        pouring.ours[f"{position}.project.{i}.weight"] = pouring.take(f"{layer}.r").flatten(1).T
        biases["to_keys"].append(pouring.take(f"{layer}.r_w_bias"))
        biases["to_distances"].append(pouring.take(f"{layer}.r_r_bias"))
        pouring.norm(around("decoder", i, "self"), f"{layer}.layer_norm")
        pouring.linears(block("decoder", i, "feedforward"), f"layer.{i}.ff", {"inner": "layer_1", "outer": "layer_2"})
        pouring.norm(around("decoder", i, "feedforward"), f"layer.{i}.ff.layer_norm")
    pouring.ours |= {f"{position}.{name}": torch.stack(values)[:, :, None] for name, values in biases.items()}
    ours = pouring.into(
        {
            "d_model": 32, "vocabulary": 50, "dropout": 0.0, "norm": "layernorm(1e-5)", "embedding": {"scale": False},
            "encoder": {"layers": 0},
            "decoder": {"layers": 3, "position": "transformer_xl(tied=false)", "mixer": "attention(4, bias=false)",
                        "feedforward": "relu(48)"},
        }
    )  # fmt: skip
    ids = torch.randint(50, (2, 17))
    torch.testing.assert_close(ours.decode(ids), theirs(ids).last_hidden_state, **EXACT)
