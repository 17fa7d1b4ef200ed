"""LoRA: what peft computes, what the formula says, over every linear kind, without a copy of the base."""

from dataclasses import replace

import pytest
import torch
from golden_files import golden
from torch import Tensor, nn

from headway.config.presets import tiny
from headway.config.schema import make_part
from headway.errors import ConfigError, HeadwayError
from headway.nn.layers.linear import Dense
from headway.nn.layers.lora import (
    LoraConfig,
    LoraLinear,
    add_lora,
    linear_names,
    lora_layers,
    merged_state,
    share_weights,
    trained_state,
)
from headway.nn.transformer import Transformer


def small_model(**changes: object) -> Transformer:
    config = replace(tiny(vocabulary=50).model, d_model=16, dropout=0.0, **changes)  # type: ignore[arg-type]
    return Transformer(config).double().eval()


def fill(model: nn.Module) -> None:
    """Adapters that change something."""
    with torch.no_grad():
        for layer in lora_layers(model).values():
            layer.lora_b.normal_()


def outputs(model: Transformer) -> Tensor:
    torch.manual_seed(3)
    source, target = torch.randint(4, 50, (2, 7)), torch.randint(4, 50, (2, 5))
    return model.logits(model(source, target).hidden)


def dense(weight: Tensor, bias: Tensor | None) -> Dense:
    layer = Dense(Dense.Config(), weight.shape[1], weight.shape[0], bias=bias is not None).double()
    layer.weight.data.copy_(weight)
    if layer.bias is not None and bias is not None:
        layer.bias.data.copy_(bias)
    return layer


def test_outputs_gradients_and_merged_weights_are_those_of_peft() -> None:
    tensors, table = golden("peft_lora")
    config = LoraConfig(table["rank"], table["alpha"])
    layers: dict[str, LoraLinear] = {}
    for name in ("q", "o"):
        weight, bias = tensors[f"w.base.{name}.weight"], tensors.get(f"w.base.{name}.bias")
        layers[name] = LoraLinear(dense(weight, bias), config, weight.shape[1], weight.shape[0])
        for part in ("lora_a", "lora_b"):
            getattr(layers[name], part).data.copy_(tensors[f"w.{name}.{part}"])
    y = layers["o"](torch.tanh(layers["q"](tensors["in.x"])))
    torch.testing.assert_close(y, tensors["out.y"], atol=1e-9, rtol=0)
    (y**2).sum().backward()
    for name, layer in layers.items():
        for part in ("lora_a", "lora_b"):
            expected = tensors[f"out.gradient.{name}.{part}"]
            torch.testing.assert_close(getattr(layer, part).grad, expected, atol=1e-9, rtol=0)
        torch.testing.assert_close(layer.weight, tensors[f"out.merged.{name}.weight"], atol=1e-9, rtol=0)


def test_a_new_adapter_changes_nothing_and_only_it_is_trained() -> None:
    model = small_model()
    before = outputs(model)
    total = sum(p.numel() for p in model.parameters())
    add_lora(model, LoraConfig(2))
    assert torch.equal(outputs(model), before)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == set(trained_state(model)) and all(name.rpartition(".")[2].startswith("lora_") for name in trained)
    expected = sum(2 * (layer.lora_a.shape[1] + len(layer.lora_b)) for layer in lora_layers(model).values())
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == expected < total


def test_merged_weights_compute_the_same_and_are_the_formula() -> None:
    model = small_model()
    plain = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fill(add_lora(model, LoraConfig(3, alpha=5)))
    merged = merged_state(model)
    assert merged.keys() == plain.keys()
    for name, layer in lora_layers(model).items():
        expected = plain[f"{name}.weight"] + 5 / 3 * layer.lora_b @ layer.lora_a
        torch.testing.assert_close(merged[f"{name}.weight"], expected, atol=1e-9, rtol=0)
    again = small_model()
    again.load_state_dict(merged)
    torch.testing.assert_close(outputs(again), outputs(model), atol=1e-9, rtol=0)


def test_layers_are_chosen_by_name() -> None:
    names = linear_names(small_model())
    model = add_lora(small_model(), LoraConfig(2, layers="*.encoder.*.query, *.value"))
    chosen = [name for name in names if (".encoder." in name and name.endswith(".query")) or name.endswith(".value")]
    assert list(lora_layers(model)) == chosen and 0 < len(chosen) < len(names)
    with pytest.raises(ConfigError, match=r'no linear layer is named "\*.nothing". They are called stacks'):
        add_lora(small_model(), LoraConfig(2, layers="*.nothing"))


def test_over_ternary_layers_it_runs_and_is_not_merged() -> None:
    model = small_model(linear=make_part("linear", "bitnet"))
    before = outputs(model)
    fill(add_lora(model, LoraConfig(2)))
    assert not torch.allclose(outputs(model), before)
    with pytest.raises(HeadwayError, match="rounds its weights to -1, 0 and 1, so nothing can be added to them"):
        merged_state(model)


def test_packed_layers_have_no_weights_to_adapt() -> None:
    with pytest.raises(HeadwayError, match="is packed, and an adapter needs the float weights"):
        add_lora(small_model(linear=make_part("linear", "bitnet(packed=true)")), LoraConfig(2))


def test_layers_that_read_weights_instead_of_calling_see_the_adapter() -> None:
    """The recurrent mixers do."""
    stack = replace(tiny(vocabulary=50).model.decoder, mixer=(make_part("mixer", "rnn"),), layers=1)
    model = small_model(decoder=stack)
    add_lora(model, LoraConfig(2, layers="*.decoder.*.self.*"))
    before = outputs(model)
    fill(model)
    after = outputs(model)
    assert not torch.allclose(after, before)
    again = small_model(decoder=stack)
    again.load_state_dict(merged_state(model))
    torch.testing.assert_close(outputs(again), after, atol=1e-9, rtol=0)


def test_several_adapters_share_one_base() -> None:
    base = small_model()
    before = outputs(base)
    one, two = (add_lora(share_weights(base), LoraConfig(rank)) for rank in (1, 2))
    fill(one)
    fill(two)
    pointers = {tensor.data_ptr() for tensor in base.state_dict().values()}
    for adapted in (one, two):
        own = [tensor for tensor in adapted.state_dict().values() if tensor.data_ptr() not in pointers]
        assert len(own) == len(trained_state(adapted))
    assert torch.equal(outputs(base), before)
    assert not torch.allclose(outputs(one), outputs(two)) and not lora_layers(base)
    assert all(parameter.requires_grad for parameter in small_model().parameters())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rank": 0}, "lora.rank: must be a whole number of at least 1, not 0"),
        ({"rank": 1.5}, "lora.rank: must be a whole number"),
        ({"rank": True}, "lora.rank: must be a whole number"),
        ({"alpha": -1}, "lora.alpha: must be a number of at least 0, not -1"),
        ({"alpha": float("inf")}, "lora.alpha: must be a number"),
    ],
)
def test_what_is_no_config(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LoraConfig(**given)  # type: ignore[arg-type]
