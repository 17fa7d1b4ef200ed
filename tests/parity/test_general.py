"""Luong's general attention: the numbers of joeynmt's LuongAttention; queries are channels of the input."""

import torch
from golden_files import golden

from headway.nn.ops.attention import attend
from parity.mixing import identity, make_mixer, refusal, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}


def test_it_computes_the_numbers_of_joeynmt() -> None:
    tensors, config = golden("recurrent_attention")
    width = config["d_model"]
    module = make_mixer("general(1, bias=false)", width)
    key = tensors["w.general.key_layer.weight"]
    module.load_state_dict({"key.weight": key, "value.weight": identity(width), "output.weight": identity(width)})
    found = run_mixer(module, tensors["in.query"], source=tensors["in.values"], valid=tensors["in.valid"])
    torch.testing.assert_close(found.output, tensors["out.general.context"], **EXACT)
    torch.testing.assert_close(found.trace["weights"][:, 0], tensors["out.general.weights"], **EXACT)


def test_each_head_asks_with_its_own_channels() -> None:
    module = make_mixer("general(2, d_v=3, scale=0.5)", 8)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    k, v = module.key(x), module.value(x)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    heads = [
        attend(x[:, None, :, 4 * h : 4 * h + 4], k[:, None, :, 4 * h : 4 * h + 4], v[:, None, :, 3 * h : 3 * h + 3],
               mask=causal, scale=0.5, kernel="math")[:, 0]
        for h in range(2)
    ]  # fmt: skip
    expected = module.output(torch.cat(heads, dim=-1))
    torch.testing.assert_close(run_mixer(module, x, mask="causal").output, expected, **EXACT)


def test_a_query_has_no_width_of_its_own() -> None:
    error = refusal("general(4, d_k=5)")
    assert error.where == "decoder.mixer.d_k"
    assert "d_k = d_model / heads = 4, not 5" in error.message
    assert refusal("general(16)", position="rope").where == "decoder.position"  # heads of one channel: no pairs
