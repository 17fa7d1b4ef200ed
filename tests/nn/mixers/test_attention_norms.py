"""Norms and biases inside attention: what they change, what they cost, what is refused."""

import pytest
import torch
import torch.nn.functional as F

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.context import Context, ForwardReport
from headway.nn.mixers.attention import Attention
from headway.nn.sequence import positions_from_start


@torch.no_grad()
def test_queries_and_keys_of_each_head_are_normed() -> None:
    """By PyTorch's own norm and attention, from the same weights."""
    scope = Scope(d_model=8, dropout=0.0, norm=make_part("norm", "none"), linear=make_part("linear", "dense"))
    config = make_part("mixer", "attention(2, qk_norm='rmsnorm(0.1)', output_norm='layernorm', output_bias=false)")
    attention = Attention(config, scope).double()  # type: ignore[arg-type]
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    q, k, v = (F.linear(x, part.weight, part.bias) for part in (attention.query, attention.key, attention.value))
    q, k, v = (part.view(1, 5, 2, 4).transpose(1, 2) for part in (q, k, v))
    q = F.rms_norm(q, (4,), attention.query_norm.gain, 0.1)  # type: ignore[union-attr, arg-type]
    k = F.rms_norm(k, (4,), attention.key_norm.gain, 0.1)  # type: ignore[union-attr, arg-type]
    heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    norm = attention.output_norm
    normed = F.layer_norm(heads, (8,), norm.gain, norm.bias, 1e-5)  # type: ignore[union-attr, arg-type]
    ctx = Context(positions_from_start(5, None, x.device), ForwardReport())
    wanted = F.linear(normed, attention.output.weight)  # type: ignore[arg-type]
    torch.testing.assert_close(attention(x, ctx), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("slot", "written"),
    [
        ("mixer", "attention(4, qk_norm='batchnorm')"),
        ("mixer", "attention(4, output_norm='instancenorm')"),
        ("feedforward", "swiglu(output_norm='batchnorm')"),
    ],
)
def test_a_norm_of_the_stream_is_refused(slot: str, written: str) -> None:
    with pytest.raises(ConfigError, match="single vectors.* is a norm of the residual stream"):
        make_part(slot, written)
