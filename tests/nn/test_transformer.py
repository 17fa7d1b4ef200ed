"""The whole model: its three shapes, what a forward pass returns, the names of its weights (other people's checkpoints
depend on them), copies, and what is refused when it is built."""

import copy

import pytest
import torch

from headway.config import presets
from headway.errors import ConfigError
from headway.nn.context import ForwardReport
from headway.nn.transformer import Transformer, valid_mask
from nn.building import small


def test_names_of_weights() -> None:
    """A change here breaks saved models: it needs a new format version and a way to read the old one."""
    side = {"layers": 1, "position": "learned(8)"}
    names = Transformer(small(encoder=side, decoder=side | {"residual": "pre"})).state_dict()
    attention = [f"{name}.{end}" for name in ("query", "key", "value", "output") for end in ("weight", "bias")]
    expected = ["embeddings.decoder.words.weight"]
    for name, parts in (("encoder", ("self", "feedforward")), ("decoder", ("self", "cross", "feedforward"))):
        expected.append(f"stacks.{name}.positions.0.table.weight")
        for part in parts:
            inside = attention if part != "feedforward" else FEEDFORWARD
            expected += [f"stacks.{name}.blocks.0.sublayers.{part}.{end}" for end in inside]
            expected += [f"stacks.{name}.blocks.0.residuals.{part}.norm.{end}" for end in ("gain", "bias")]
    expected += [f"stacks.decoder.ends.norm.{end}" for end in ("gain", "bias")]
    assert sorted(names) == sorted(expected)


FEEDFORWARD = ("inner.weight", "inner.bias", "outer.weight", "outer.bias")


@pytest.mark.parametrize(("encoder", "decoder"), [(2, 1), (0, 2), (2, 0)], ids=["both", "decoder", "encoder"])
def test_three_shapes(encoder: int, decoder: int) -> None:
    model = Transformer(small(encoder=encoder, decoder=decoder)).eval()
    source = torch.randint(29, (2, 7)) if encoder else None
    target = torch.randint(29, (2, 5)) if decoder else None
    output = model(source, target)
    assert output.hidden.shape == (2, 5 if decoder else 7, 16)
    assert output.losses == []
    assert model.logits(output.hidden).shape == (*output.hidden.shape[:2], 29)
    assert list(model.stacks) == list(model.embeddings) and set(model.stacks) == set(model.config.sides)


def test_forward_is_encode_then_decode() -> None:
    model = Transformer(small()).eval()
    source, target = torch.randint(29, (3, 7)), torch.randint(29, (3, 5))
    heard, seen = valid_mask(torch.tensor([7, 2, 4]), 7), valid_mask(torch.tensor([1, 5, 3]), 5)
    memory = model.encode(source, heard)
    assert torch.equal(model(source, target, heard, seen).hidden, model.decode(target, seen, memory=memory))


def test_what_layers_add_to_the_objective_comes_out() -> None:
    model = Transformer(small()).eval()

    def add(module: torch.nn.Module, arguments: tuple[object, ...]) -> None:
        arguments[1].report.losses.append(("balance", torch.tensor(0.5)))

    for stack in model.stacks.values():
        for block in stack.blocks:
            block.sublayers["feedforward"].register_forward_pre_hook(add)
    ids = torch.randint(29, (2, 5))
    assert [(name, float(loss)) for name, loss in model(ids, ids).losses] == [("balance", 0.5)] * 4
    report = ForwardReport()
    model.encode(ids, report=report)
    assert len(report.losses) == 2


def test_a_copy_keeps_its_ties() -> None:
    model = Transformer(small())
    twin = copy.deepcopy(model)
    assert twin.embeddings["encoder"].table is twin.embeddings["decoder"].words
    assert twin.embeddings["encoder"].table is not model.embeddings["decoder"].words
    twin.double()
    ids = torch.randint(29, (2, 5))
    assert twin.eval()(ids, ids).hidden.dtype == torch.float64
    twin.load_state_dict(model.state_dict(), assign=True)
    assert twin.output_embedding is twin.embeddings["encoder"].table.weight


def test_lengths_become_places() -> None:
    assert valid_mask(torch.tensor([0, 2, 3]), 3).int().tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_a_model_needs_a_vocabulary() -> None:
    with pytest.raises(ConfigError, match=r"model\.vocabulary is not set. Set it, or train a tokenizer first"):
        Transformer(Transformer.Config())


def test_training_reaches_every_weight() -> None:
    model = Transformer(small(sides={"position": "learned(8)", "residual": "pre"}, head="logits(true)"))
    source, target = torch.arange(29)[None, :8].repeat(2, 1), torch.arange(8, 16)[None].repeat(2, 1)
    model.logits(model(source, target).hidden).square().sum().backward()
    lazy = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # A bias of keys moves all scores of a query alike, which the softmax does not see.
    assert [name for name in lazy if not name.endswith("key.bias")] == []


@pytest.mark.parametrize(("name", "count"), [("base", 63_082_496), ("big", 214_245_376)])
def test_presets_are_the_papers_models(name: str, count: int) -> None:
    model = getattr(presets, name)().model
    assert model.parameter_count() == count
    assert (model.embedding.tied, model.encoder.residual.kind, model.norm.kind) == ("all", "post", "layernorm")
    assert model.dropout == {"base": 0.1, "big": 0.3}[name]
