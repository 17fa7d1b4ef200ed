"""Additive attention: the numbers of joeynmt's BahdanauAttention, its scores in pieces, what it refuses."""

import pytest
import torch
from golden_files import golden
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from headway.nn.ops import additive
from headway.nn.ops.additive import additive_scores, naive
from parity.mixing import identity, make_mixer, refusal, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}


def test_it_computes_the_numbers_of_joeynmt() -> None:
    tensors, config = golden("recurrent_attention")
    width = config["d_model"]
    module = make_mixer(f"additive(1, d_k={config['hidden']}, d_v={width}, bias=false)", width)
    names = {"query": "query_layer", "key": "key_layer", "energy": "energy_layer"}
    weights = {name: tensors[f"w.additive.{theirs}.weight"] for name, theirs in names.items()}
    module.load_state_dict(
        {
            "query.weight": weights["query"],
            "key.weight": weights["key"],
            "energy": weights["energy"][..., None],
            "value.weight": identity(width),
            "output.weight": identity(width),
        }
    )
    found = run_mixer(module, tensors["in.query"], source=tensors["in.values"], valid=tensors["in.valid"])
    torch.testing.assert_close(found.output, tensors["out.additive.context"], **EXACT)
    torch.testing.assert_close(found.trace["weights"][:, 0], tensors["out.additive.weights"], **EXACT)


def test_heads_are_small_networks_of_their_own() -> None:
    """By definition, number by number: eᵀ tanh(xW_q + yW_k) for each head."""
    module = make_mixer("additive(2, d_k=3, d_v=5)", 8)
    x, y = (torch.randn(1, length, 8, dtype=torch.float64) for length in (3, 4))
    found = run_mixer(module, x, source=y).trace["scores"]
    q, k = module.query(x).view(3, 2, 3), module.key(y).view(4, 2, 3)
    for head in range(2):
        for t in range(3):
            for s in range(4):
                score = (module.energy[head, :, 0] * torch.tanh(q[t, head] + k[s, head])).sum()
                torch.testing.assert_close(found[0, head, t, s], score, **EXACT)


def pairs(queries: int, keys: int) -> list[Tensor]:
    q, k = (torch.randn(2, 3, length, 4, dtype=torch.float64) for length in (queries, keys))
    return [x.requires_grad_() for x in (q, k, torch.randn(3, 4, 1, dtype=torch.float64))]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 5), (12, 13), (1, 30)])
@pytest.mark.parametrize("rows", [1, 3, 5, 100])
def test_pieces_are_the_whole(queries: int, keys: int, rows: int) -> None:
    inputs = pairs(queries, keys)
    towards = torch.randn(2, 3, queries, keys, dtype=torch.float64)
    whole = naive(*inputs)
    ours = additive_scores(*inputs, max_numbers=rows * 2 * 3 * keys * 4)
    torch.testing.assert_close(ours, whole, **EXACT)
    for one, other in zip(*(torch.autograd.grad((x * towards).sum(), inputs) for x in (ours, whole))):
        torch.testing.assert_close(one, other, **EXACT)
    with torch.no_grad():
        torch.testing.assert_close(additive_scores(*inputs, max_numbers=1), whole, **EXACT)


def test_no_piece_is_larger_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither forwards nor on the way back, when the tanh is computed again."""
    sizes = []

    def measured(q: Tensor, k: Tensor, e: Tensor) -> Tensor:
        sizes.append(q.numel() * k.shape[2])
        return naive(q, k, e)

    monkeypatch.setattr(additive, "naive", measured)
    monkeypatch.setattr(additive, "checkpoint", lambda function, *inputs, **how: checkpoint(measured, *inputs, **how))
    additive_scores(*pairs(40, 50), max_numbers=8000).sum().backward()
    assert max(sizes) <= 8000
    assert len(sizes) == 2 * 7, "each of the pieces twice: 6 queries of 1200 numbers at a time"


def test_what_a_piece_computed_is_not_kept_for_the_way_back() -> None:
    """Counted by what autograd saves: with pieces, no more than queries, keys and scores."""
    saved: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    inputs = pairs(40, 50)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        naive(*inputs)
        whole, _ = sum(saved.values()), saved.clear()
        additive_scores(*inputs, max_numbers=8000)
    assert whole > 2 * 3 * 40 * 50 * 4 * 8
    assert sum(saved.values()) < whole / 4


def test_it_refuses_rotations() -> None:
    error = refusal("additive(4)", position="rope")
    assert error.where == "decoder.position"
    assert "additive attention has no products" in error.message
