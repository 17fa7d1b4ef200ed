"""Longformer attention, with projections for global tokens: Hugging Face's numbers, with and without padding."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import make_mask
from headway.nn.mixers.longformer import LongformerAttention
from headway.nn.sequence import PackedPositions, PackedTexts, positions_from_start
from headway.nn.transformer import Transformer, valid_mask

CPU, EXACT = torch.device("cpu"), {"rtol": 0.0, "atol": 1e-12}
NAMES = {"query": "query", "key": "key", "value": "value"} | {
    f"global_{name}": f"{name}_global" for name in ("query", "key", "value")
}


def with_weights(tensors: dict[str, Tensor], config: dict[str, Any], kernel: str = "auto") -> LongformerAttention:
    """The reference's projections; the output is the identity, as the file has the heads before it."""
    width = config["dim"]
    scope = Scope(d_model=width, dropout=0.0, norm=make_part("norm", "none"), linear=make_part("linear", "dense"))
    mixer = LongformerAttention(LongformerAttention.Config(heads=config["heads"], kernel=kernel), scope).double()
    state = {
        f"{our}.{end}": tensors[f"w.attention.self.{their}.{end}"]
        for our, their in NAMES.items()
        for end in ("weight", "bias")
    }
    state |= {"output.weight": torch.eye(width), "output.bias": torch.zeros(width)}
    mixer.load_state_dict(state)
    return mixer.eval()


@pytest.mark.parametrize("kernel", ["auto", "math", "blocks"])
def test_it_is_hugging_faces(kernel: str) -> None:
    """Row by row, since each has global tokens of its own. Their window of 16 is 8 positions on either side."""
    tensors, config = golden("longformer")
    mixer, tested = with_weights(tensors, config, kernel), set()
    for name, wanted in tensors.items():
        if not name.startswith("out.attn_global"):
            continue
        for row, x in enumerate(tensors["in.x"]):
            real = ~tensors["in.pad"][row : row + 1] if name.endswith("_padded") else None
            positions = tuple(tensors["in.global"][row].nonzero().flatten().tolist())
            mask = make_mask(f"longformer({config['window'] // 2 + 1}, {positions})")
            tokens = positions_from_start(len(x), real, CPU)
            for trace in (None, {}):
                found = mixer(x[None], Context(tokens, ForwardReport(trace=trace), mask))[0]
                seen = slice(None) if real is None else real[0]
                torch.testing.assert_close(found[seen], wanted[row][seen], **EXACT)
        tested.add(name)
    assert {"out.attn_global", "out.attn_global_padded"} <= tested


def test_without_global_tokens_in_reach_it_is_plain_attention() -> None:
    """Global tokens beyond the end of the text do not exist."""
    tensors, config = golden("longformer")
    mixer, x = with_weights(tensors, config), tensors["in.x"]
    mask = make_mask(f"longformer({config['window'] // 2 + 1}, ({x.shape[1] + 5},))")
    found = mixer(x, Context(positions_from_start(x.shape[1], None, CPU), mask=mask))
    torch.testing.assert_close(found, tensors["out.attn_local"], **EXACT)


def test_weights_of_a_trace_are_those_that_were_used() -> None:
    tensors, config = golden("longformer")
    mixer, x, report = with_weights(tensors, config), tensors["in.x"][:1], ForwardReport(trace={})
    mask = make_mask("longformer(4, (0, 9))")
    output = mixer(x, Context(positions_from_start(x.shape[1], None, CPU), report, mask))
    assert report.trace is not None
    weights = report.trace[".weights"]
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), **EXACT)
    values = {name: getattr(mixer, name)(x).unflatten(-1, (config["heads"], -1)) for name in ("value", "global_value")}
    for position, name in ((0, "global_value"), (5, "value"), (9, "global_value")):
        expected = torch.einsum("hs,shd->hd", weights[0, :, position], values[name][0]).flatten()
        torch.testing.assert_close(output[0, position], expected, **EXACT)


def encoder(**side: Any) -> Transformer:
    torch.manual_seed(1)
    table = {"mixer": "longformer(4)", "mask": "longformer(3, (0, 6))", **side}
    return Transformer(small(decoder=0, encoder=table)).double().eval()


@torch.no_grad()
def test_packed_texts_have_global_tokens_each() -> None:
    model, ids = encoder(position="rope"), torch.randint(29, (1, 17))
    ints = {"dtype": torch.int32}
    texts = PackedTexts(torch.tensor([[0] * 10 + [1] * 7], **ints), torch.tensor([0, 10], **ints),
                        torch.tensor([10, 17], **ints))  # fmt: skip
    places = torch.cat([torch.arange(10), torch.arange(7)])[None]
    packed = PackedPositions(places, torch.ones(1, 17, dtype=torch.bool), texts, 10)
    found = model.encode(ids, packed).values
    alone = torch.cat([model.encode(part).values for part in ids.split([10, 7], dim=1)], 1)
    torch.testing.assert_close(found, alone, **EXACT)


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    model, ids, valid = encoder(), torch.randint(29, (3, 9)), valid_mask(torch.tensor([9, 6, 1]), 9)
    padded = model.encode(ids, valid).values
    for row, length in enumerate((9, 6, 1)):
        torch.testing.assert_close(padded[row, :length], model.encode(ids[row : row + 1, :length]).values[0], **EXACT)


def test_every_projection_learns() -> None:
    model = encoder().train()
    model.encode(torch.randint(29, (2, 9))).values.sin().sum().backward()
    for name, weights in model.named_parameters():
        if ".sublayers.self." in name and not name.endswith("key.bias"):  # which adds the same to all scores of a query
            assert weights.grad is not None and weights.grad.abs().max() > 1e-9, name


def test_what_it_refuses() -> None:
    for mask in ("full", "local(3)", "causal & longformer(3)"):
        with pytest.raises(
            ConfigError, match=r"encoder\.mask: longformer attention needs global tokens that see all of"
        ):
            small(decoder=0, encoder={"mixer": "longformer(4)", "mask": mask}).resolved()
    with pytest.raises(ConfigError, match="alibi changes scores, and those of global tokens are made by other"):
        small(decoder=0, encoder={"mixer": "longformer(4)", "mask": "longformer(3)", "position": "alibi"}).resolved()
    with pytest.raises(ConfigError, match="longformer attention has a key for each of its 4 heads, not 2 groups"):
        small(decoder=0, encoder={"mixer": "longformer(4, 2)", "mask": "longformer(3)"}).resolved()
    with pytest.raises(ConfigError, match="longformer has no cross-attention"):
        small(decoder={"cross": "longformer(4)"}).resolved()
