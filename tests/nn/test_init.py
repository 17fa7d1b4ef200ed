"""Initialisation is the table at the head of headway/nn/init.py, and depends on nothing but the seed."""

import pytest
import torch
from torch import Tensor

from headway.nn.transformer import Transformer
from nn.building import small

CONFIG = small(
    encoder={"layers": 1, "position": "learned(400)", "mixer": "attention(4)", "feedforward": "relu(300)"},
    decoder={"layers": 1, "position": "none", "mixer": "attention(4, 2)", "feedforward": "swiglu(300)"},
    d_model=64,
    vocabulary=2000,
    source_vocabulary=1500,
    embedding={"tied": "none", "segments": 200, "norm": True},
)
DEVIATIONS = {  # name ends with -> normal with this deviation
    "words.weight": 64**-0.5,
    "head.weight": 64**-0.5,
    "positions.0.table.weight": 0.02,
    "segments.weight": 0.02,
}


def of(name: str) -> Tensor:
    torch.manual_seed(7)
    return dict(Transformer(CONFIG).named_parameters())[name].detach()


@pytest.mark.parametrize("name", [name for name, _ in Transformer(CONFIG).named_parameters()])
def test_every_parameter_starts_as_the_table_says(name: str) -> None:
    value = of(name)
    kind = [deviation for end, deviation in DEVIATIONS.items() if name.endswith(end)]
    if kind:
        assert abs(value.std() / kind[0] - 1) < 0.03
        assert abs(value.mean()) < 0.03 * kind[0]
        assert value.abs().max() > 3 * kind[0], "not uniform"
    elif name.endswith("gain"):
        assert (value == 1).all()
    elif name.endswith("bias"):
        assert (value == 0).all()
    else:
        assert value.dim() == 2
        bound = (6 / sum(value.shape)) ** 0.5
        assert 0.98 * bound < value.abs().max() <= bound
        assert abs(value.std() / (bound / 3**0.5) - 1) < 0.03


def test_what_experts_add_to_the_stream_starts_smaller() -> None:
    """DeepNorm's β reaches the weights inside experts, and neither their gate nor the router."""
    weights = {}
    for residual in ("post", "deepnorm"):
        torch.manual_seed(7)
        side = {"residual": residual, "feedforward": "moe(3, 2, 'swiglu(24)')"}
        weights[residual] = dict(Transformer(small(encoder=side, decoder=0)).named_parameters())
    inside = [name for name in weights["post"] if "sublayers.feedforward" in name]
    assert len(inside) == 2 * (1 + 3 * 3)
    for name in inside:
        beta = (8 * 2) ** -0.25 if name.endswith((".inner.weight", ".outer.weight")) else 1.0
        torch.testing.assert_close(weights["deepnorm"][name], beta * weights["post"][name])


def test_all_rows_of_the_table_occur() -> None:
    names = [name for name, _ in Transformer(CONFIG).named_parameters()]
    for end in (*DEVIATIONS, "gain", "bias", "inner.weight"):
        assert any(name.endswith(end) for name in names), end


def test_the_seed_decides() -> None:
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(Transformer(small()).state_dict())
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert not all(torch.equal(models[0][name], models[2][name]) for name in models[0])


def test_tied_words_are_one_matrix() -> None:
    for tied, count in (("all", 1), ("inputs", 1), ("target", 2), ("none", 2)):
        model = Transformer(small(embedding={"tied": tied}))
        names = [name for name in model.state_dict() if name.endswith("words.weight")]
        assert len(names) == count
        assert ("head.weight" in model.state_dict()) == (tied in ("inputs", "none"))
        assert (model.output_embedding is model.embeddings["encoder"].table.weight) == (tied in ("all", "inputs"))
