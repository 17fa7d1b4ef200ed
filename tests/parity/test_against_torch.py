"""torch.nn.Transformer with our weights gives our numbers: post- and pre-norm, causal and padding masks, gradients."""

import pytest
import torch
from torch import Tensor, nn

from headway.nn.transformer import Transformer, valid_mask
from parity.copying import from_torch

SOURCES, TARGETS = torch.tensor([9, 4, 6]), torch.tensor([7, 3, 1])
NEAR = {"rtol": 1e-9, "atol": 1e-9}


def theirs(norm_first: bool) -> nn.Transformer:
    """Two encoder and three decoder layers, every parameter random. The post-norm one has no norms at its ends, as the
    paper's has none; nn.Transformer would add them."""
    how = {"d_model": 12, "nhead": 3, "dim_feedforward": 20, "dropout": 0.0, "batch_first": True}
    how |= {"norm_first": norm_first, "layer_norm_eps": 1e-3}
    ends = [nn.LayerNorm(12, eps=1e-3) if norm_first else None for _ in range(2)]
    model = nn.Transformer(
        d_model=12,
        nhead=3,
        batch_first=True,
        custom_encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(**how), 2, ends[0], enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**how), 3, ends[1]),
    ).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 0.5, 0.4)
    return model.eval()


def both(norm_first: bool, padded: bool) -> tuple[nn.Transformer, Transformer, Tensor, Tensor, Tensor]:
    """Their model, ours, their output, ours, and where it is real."""
    model = theirs(norm_first)
    ours = from_torch(model, 50)
    source, target = torch.randint(50, (3, 9)), torch.randint(50, (3, 7))
    heard, seen = (valid_mask(SOURCES, 9), valid_mask(TARGETS, 7)) if padded else (None, None)
    words = ours.output_embedding
    hidden = model(
        words[source],
        words[target],
        tgt_mask=~torch.ones(7, 7, dtype=torch.bool).tril(),
        src_key_padding_mask=None if heard is None else ~heard,
        tgt_key_padding_mask=None if seen is None else ~seen,
        memory_key_padding_mask=None if heard is None else ~heard,
    )
    real = torch.ones(3, 7, dtype=torch.bool) if seen is None else seen
    return model, ours, hidden, ours(source, target, heard, seen).hidden, real


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_outputs_and_gradients(norm_first: bool, padded: bool) -> None:
    model, ours, hidden, mine, real = both(norm_first, padded)
    torch.testing.assert_close(mine[real], hidden[real], **NEAR)
    assert hidden[real].std() > 0.1

    hidden[real].square().sum().backward(retain_graph=True)
    words = ours.output_embedding.grad
    ours.output_embedding.grad = None
    mine[real].square().sum().backward()
    torch.testing.assert_close(ours.output_embedding.grad, words, rtol=1e-8, atol=1e-8)
    for index, layer in enumerate(model.decoder.layers):
        cross = ours.stacks["decoder"].blocks[index].sublayers["cross"]
        joined = torch.cat([cross.query.weight.grad, cross.key.weight.grad, cross.value.weight.grad])
        torch.testing.assert_close(joined, layer.multihead_attn.in_proj_weight.grad, rtol=1e-8, atol=1e-8)
        ff = ours.stacks["decoder"].blocks[index].sublayers["feedforward"]
        torch.testing.assert_close(ff.inner.weight.grad, layer.linear1.weight.grad, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_the_encoder_alone(norm_first: bool) -> None:
    model = theirs(norm_first)
    ours = from_torch(model, 50)
    source, valid = torch.randint(50, (3, 9)), valid_mask(SOURCES, 9)
    hidden = model.encoder(ours.output_embedding[source], src_key_padding_mask=~valid)
    torch.testing.assert_close(ours.encode(source, valid).values[valid], hidden[valid], **NEAR)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_step_by_step(norm_first: bool) -> None:
    """Their whole pass is our decoding, a token at a time."""
    model = theirs(norm_first)
    ours = from_torch(model, 50)
    source, target = torch.randint(50, (3, 9)), torch.randint(50, (3, 7))
    words = ours.output_embedding
    whole = model(words[source], words[target], tgt_mask=~torch.ones(7, 7, dtype=torch.bool).tril())
    state = ours.new_state(3, ours.encode(source))
    steps = torch.cat([ours.decode(target[:, t : t + 1], state=state) for t in range(7)], dim=1)
    torch.testing.assert_close(steps, whole, **NEAR)
