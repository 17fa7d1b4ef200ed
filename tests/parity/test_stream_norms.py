"""Batch, instance and group norm: PyTorch's numbers where nothing is padded, and there alone: padding enters no mean.
Running averages are PyTorch's too, and go wherever weights go."""

import copy
from typing import Any

import pytest
import torch
from nn.building import small
from torch import Tensor, nn

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope, build_norm, make_norm, make_stream_norm
from headway.nn.layers.int8 import quantise_model
from headway.nn.layers.norms import LayerNorm
from headway.nn.layers.residual import PostNorm, PreNorm
from headway.nn.layers.stream_norms import BatchNorm, GroupNorm, InstanceNorm
from headway.nn.sequence import PackedPositions, PackedTexts, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from headway.storage.model_dir import average_weights
from headway.train.trainer import averaged_tensors

CPU, EXACT = torch.device("cpu"), {"rtol": 0.0, "atol": 1e-12}
WIDTH = 6


def made(kind: str) -> Any:
    torch.manual_seed(1)
    norm = make_stream_norm(scope(kind)).double()
    for parameter in norm.parameters():
        nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    return norm


def scope(kind: str) -> Scope:
    return Scope(d_model=WIDTH, dropout=0.0, norm=make_part("norm", kind), linear=make_part("linear", "dense"))


def with_weights(theirs: Any, ours: Any) -> Any:
    theirs = theirs.double()
    theirs.load_state_dict({"weight": ours.gain.data, "bias": ours.bias.data}, strict=False)
    return theirs


def gradients(output: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    towards = torch.arange(output.numel(), dtype=output.dtype).view_as(output).sin()
    return torch.autograd.grad((output * towards).sum(), inputs)


def test_batch_norm_is_pytorchs() -> None:
    """In training, in evaluation, and the running averages between them; gradients too."""
    ours = made("batchnorm(eps=0.01, momentum=0.3)")
    theirs = with_weights(nn.BatchNorm1d(WIDTH, eps=0.01, momentum=0.3), ours)
    for _ in range(3):
        x = torch.randn(4, 7, WIDTH, dtype=torch.float64, requires_grad=True) * 2 + 1
        one, other = ours(x), theirs(x.flatten(0, 1)).view_as(x)
        torch.testing.assert_close(one, other, **EXACT)
        for mine, yours in zip(
            gradients(one, [x, ours.gain, ours.bias]), gradients(other, [x, theirs.weight, theirs.bias])
        ):
            torch.testing.assert_close(mine, yours, **EXACT)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean, **EXACT)
        torch.testing.assert_close(ours.running_var, theirs.running_var, **EXACT)
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x.flatten(0, 1)).view_as(x), **EXACT)


def test_instance_norm_is_pytorchs() -> None:
    ours = made("instancenorm(0.01)")
    theirs = with_weights(nn.InstanceNorm1d(WIDTH, eps=0.01, affine=True), ours)
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64, requires_grad=True)
    one, other = ours(x), theirs(x.mT).mT
    torch.testing.assert_close(one, other, **EXACT)
    for mine, yours in zip(
        gradients(one, [x, ours.gain, ours.bias]), gradients(other, [x, theirs.weight, theirs.bias])
    ):
        torch.testing.assert_close(mine, yours, **EXACT)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm_is_pytorchs_of_each_token(groups: int) -> None:
    ours = made(f"groupnorm({groups}, 0.01)")
    theirs = with_weights(nn.GroupNorm(groups, WIDTH, eps=0.01), ours)
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x.flatten(0, 1)).view_as(x), **EXACT)
    if groups == 1:
        layer = LayerNorm(LayerNorm.Config(eps=0.01), WIDTH).double()
        layer.load_state_dict(ours.state_dict())
        torch.testing.assert_close(ours(x), layer(x), **EXACT)


def test_padding_is_in_no_mean_over_the_batch() -> None:
    lengths = [7, 3, 1]
    x, tokens = (
        torch.randn(3, 7, WIDTH, dtype=torch.float64),
        positions_from_start(7, valid_mask(torch.tensor(lengths), 7), CPU),
    )
    assert tokens.valid is not None
    alone, padded, other = made("batchnorm"), made("batchnorm"), made("batchnorm")
    expected = alone(torch.cat([row[:length] for row, length in zip(x, lengths)])[None])[0]
    torch.testing.assert_close(padded(x, tokens)[tokens.valid], expected, **EXACT)
    noise = torch.where(tokens.valid[..., None], x, torch.inf)
    assert torch.equal(other(noise, tokens)[tokens.valid], padded(x, tokens)[tokens.valid])
    torch.testing.assert_close(other.running_mean, alone.running_mean, **EXACT)
    torch.testing.assert_close(other.running_var, alone.running_var, **EXACT)


def test_padding_is_in_no_mean_over_a_text() -> None:
    lengths = [7, 3, 1]
    x, valid = torch.randn(3, 7, WIDTH, dtype=torch.float64), valid_mask(torch.tensor(lengths), 7)
    norm = made("instancenorm")
    padded = norm(torch.where(valid[..., None], x, torch.nan), positions_from_start(7, valid, CPU))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(padded[row, :length], norm(x[row : row + 1, :length])[0], **EXACT)
    torch.testing.assert_close(padded[2, 0], norm.bias.detach(), **EXACT)  # a text of one token has no variance


def test_packed_texts_have_means_of_their_own() -> None:
    x, norm = torch.randn(1, 6, WIDTH, dtype=torch.float64), made("instancenorm")
    ints = {"dtype": torch.int32}
    texts = PackedTexts(torch.tensor([[0, 0, 0, 1, 1, 2]], **ints), torch.tensor([0, 3, 5, 0], **ints),
                        torch.tensor([3, 5, 6, 0], **ints))  # fmt: skip
    packed = PackedPositions(torch.tensor([[0, 1, 2, 0, 1, 0]]), torch.tensor([[True] * 5 + [False]]), texts, 3)
    found = norm(x, positions_from_start(6, packed, CPU))
    for first, last in ((0, 3), (3, 5)):
        torch.testing.assert_close(found[:, first:last], norm(x[:, first:last]), **EXACT)


def test_a_batch_that_is_not_finite_leaves_the_running_averages_alone() -> None:
    norm, x = made("batchnorm"), torch.randn(2, 5, WIDTH, dtype=torch.float64)
    norm(x)
    before = copy.deepcopy(norm.state_dict())
    norm(torch.where(torch.arange(WIDTH) < 2, torch.inf, x))
    for name in ("running_mean", "running_var"):
        assert torch.equal(norm.state_dict()[name][:2], before[name][:2])
        assert norm.state_dict()[name].isfinite().all()
    norm(x[:1, :1])  # one token: no unbiased variance
    assert norm.running_var.isfinite().all()


@pytest.mark.parametrize("kind", ["batchnorm", "instancenorm", "groupnorm(2)"])
def test_bfloat16_is_normalised_in_the_precision_of_the_weights(kind: str) -> None:
    norm, x = made(kind).float(), torch.randn(2, 9, WIDTH)
    low = norm(x.bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), copy.deepcopy(norm)(x.bfloat16().float()), rtol=1e-2, atol=1e-2)


def trained(residual: str = "post", norm: str = "batchnorm", **sides: Any) -> Transformer:
    """A model whose running averages are those of a few padded batches."""
    torch.manual_seed(2)
    model = Transformer(small(norm=norm, sides={"residual": residual}, embedding={"norm": True}, **sides)).double()
    for _ in range(3):
        ids, valid = torch.randint(29, (3, 6)), valid_mask(torch.tensor([6, 4, 1]), 6)
        source, target = ((ids if side in model.config.sides else None) for side in ("encoder", "decoder"))
        model.train()(source, target, valid if source is not None else None, valid)
    return model.eval()


@pytest.mark.parametrize("residual", ["post", "pre", "deepnorm", "residual_dual", "crate"])
@torch.no_grad()
def test_every_norm_of_the_stream_learns_averages_without_padding(residual: str) -> None:
    """Other padding, the same averages; and no norm is left out, neither of a residual nor of the embedding."""
    models = []
    for fill in (0, 1):
        torch.manual_seed(2)
        model = Transformer(small(norm="batchnorm", sides={"residual": residual}, embedding={"norm": True})).double()
        ids, valid = torch.randint(29, (3, 6)), valid_mask(torch.tensor([6, 4, 1]), 6)
        model.train()(ids.masked_fill(~valid, fill), ids.masked_fill(~valid, fill), valid, valid)
        models.append(model)
    norms = [[module for module in model.modules() if isinstance(module, BatchNorm)] for model in models]
    ends = 2 if residual in ("pre", "residual_dual") else 0
    assert len(norms[0]) == len(norms[1]) == 2 + 2 * 2 + 2 * 3 + ends
    for one, other in zip(*norms):
        torch.testing.assert_close(one.running_mean, other.running_mean, **EXACT)
        torch.testing.assert_close(one.running_var, other.running_var, **EXACT)
        assert (one.running_var != 1).all()


@pytest.mark.parametrize("residual", ["post", "pre"])
@torch.no_grad()
def test_a_decoder_steps_as_it_reads(residual: str) -> None:
    model, ids = trained(residual, encoder=0), torch.randint(29, (2, 8))
    state = model.new_state(2)
    steps = torch.cat([model.decode(chunk, state=state) for chunk in ids.split([3, 1, 4], dim=1)], 1)
    torch.testing.assert_close(steps, model.decode(ids), **EXACT)


@pytest.mark.parametrize("residual", ["post", "residual_dual"])
@torch.no_grad()
def test_padding_changes_no_text_of_an_encoder(residual: str) -> None:
    for norm in ("instancenorm", "batchnorm", "groupnorm(4)"):
        model = trained(residual, norm, decoder=0)
        ids, valid = torch.randint(29, (2, 7)), valid_mask(torch.tensor([7, 4]), 7)
        padded = model.encode(ids, valid).values[1, :4]
        torch.testing.assert_close(padded, model.encode(ids[1:, :4]).values[0], **EXACT)


@torch.no_grad()
def test_running_averages_go_where_weights_go() -> None:
    """In state dicts, and so in files, checkpoints and averages of them; 8-bit copies keep them."""
    model, ids = trained(), torch.randint(29, (2, 5))
    other = Transformer(model.config).double().eval()
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(ids, ids).hidden, model(ids, ids).hidden, **EXACT)
    name = "stacks.encoder.blocks.0.residuals.self.norm.running_var"
    assert (model.state_dict()[name] != 1).any()
    shifted = {key: value + 2 for key, value in model.state_dict().items()}
    assert torch.equal(average_weights([model.state_dict(), shifted])[name], model.state_dict()[name] + 1)
    assert torch.equal(quantise_model(model.float()).state_dict()[name], model.state_dict()[name])


def test_inside_a_layer_layer_norm_takes_their_place() -> None:
    for kind, cls in (("batchnorm", BatchNorm), ("instancenorm", InstanceNorm), ("groupnorm(2)", GroupNorm)):
        around = scope(kind)
        assert type(make_stream_norm(around)) is cls
        assert type(make_norm(around)) is type(build_norm(around.norm, 5)) is LayerNorm
        assert around.norm.parameters(5) == LayerNorm.Config().parameters(5)
        for residual in (PostNorm, PreNorm):
            assert type(residual(around, "mixer").norm) is cls


def test_what_they_refuse() -> None:
    with pytest.raises(ConfigError, match=r"norm: instancenorm takes mean .* a decoder must not see the later ones"):
        small(norm="instancenorm").resolved()
    small(norm="instancenorm", decoder=0).resolved()
    with pytest.raises(ConfigError, match="norm: d_model = 16 is not a multiple of 5 groups of channels"):
        small(norm="groupnorm(5)").resolved()
    with pytest.raises(ConfigError, match='a linear layer normalises single vectors, and "batchnorm" is a norm of the'):
        make_part("linear", "bitnet(norm='batchnorm')")


def test_an_encoder_with_instance_norm_learns() -> None:
    """Which token of the text is the largest: a property of the whole text, at every position."""
    torch.manual_seed(3)
    model = Transformer(small(norm="instancenorm", decoder=0, encoder={"residual": "pre"}))
    optimiser, losses = torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(60):
        ids = torch.randint(29, (16, 8))
        logits = model.logits(model.encode(ids).values)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.amax(1, keepdim=True).expand(-1, 8).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < 0.75 * sum(losses[:5])


def test_a_moving_average_of_weights_has_running_averages_too() -> None:
    model = trained()
    tensors = averaged_tensors(model)
    for module in model.modules():
        if isinstance(module, BatchNorm):
            assert any(module.running_mean is tensor for tensor in tensors)
            assert any(module.running_var is tensor for tensor in tensors)
    assert all(any(weights is tensor for tensor in tensors) for weights in model.parameters())
