"""The recurrent mixer: the numbers and gradients of torch.nn.GRU and torch.nn.LSTM; both loops equal; padding."""

from typing import Any

import pytest
import torch
from nn.building import small
from torch import Tensor, nn

from headway.errors import HeadwayError
from headway.nn.context import Context
from headway.nn.layers.int8 import quantise_model
from headway.nn.ops.rnn import CellWeights, new_state, reverse_texts, run_fused, run_steps
from headway.nn.sequence import PackedPositions, PackedTexts, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from parity.mixing import make_mixer, refusal, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}
CELLS = ("gru", "lstm")
each_cell = pytest.mark.parametrize("cell", CELLS)
each_kernel = pytest.mark.parametrize("kernel", ["auto", "math"])


def reference(module: Any, width: int) -> nn.RNNBase:
    """torch's module with the weights of ours."""
    c = module.config
    kind = nn.GRU if c.cell == "gru" else nn.LSTM
    theirs = kind(width, c.hidden, bidirectional=c.bidirectional, batch_first=True, bias=c.bias).double()
    weights = {}
    for direction, suffix in zip(module.directions, ("", "_reverse")):
        for name, layer in (("ih", direction.input), ("hh", direction.recurrent)):
            weights[f"weight_{name}_l0{suffix}"] = layer.weight
            weights |= {f"bias_{name}_l0{suffix}": layer.bias} if c.bias else {}
    theirs.load_state_dict(weights)
    return theirs


@each_cell
@each_kernel
@pytest.mark.parametrize("bias", ["true", "false"])
@pytest.mark.parametrize(("side", "mask"), [("encoder", "full"), ("decoder", "causal"), ("encoder", "causal")])
def test_it_is_torchs(cell: str, kernel: str, bias: str, side: str, mask: str) -> None:
    both = "true" if mask == "full" else "false"
    module = make_mixer(f"rnn('{cell}', 5, bidirectional={both}, bias={bias}, kernel='{kernel}')", 6, side)
    theirs = reference(module, 6)
    x, towards = torch.randn(2, 2, 9, 6, dtype=torch.float64)
    for length in (1, 9):
        ours, other = x[:, :length].clone().requires_grad_(), x[:, :length].clone().requires_grad_()
        found, expected = run_mixer(module, ours, mask=mask).output, module.output(theirs(other)[0])
        torch.testing.assert_close(found, expected, **EXACT)
        sums = [(output * towards[:, :length]).sum() for output in (found, expected)]
        torch.testing.assert_close(
            torch.autograd.grad(sums[0], ours)[0], torch.autograd.grad(sums[1], other)[0], **EXACT
        )


@each_cell
@each_kernel
def test_padding_is_no_part_of_a_text_in_either_direction(cell: str, kernel: str) -> None:
    """Each row as torch computes it alone."""
    module = make_mixer(f"rnn('{cell}', 5, kernel='{kernel}')", 6, "encoder")
    theirs, lengths = reference(module, 6), [7, 3, 1]
    x = torch.randn(3, 7, 6, dtype=torch.float64)
    found = run_mixer(module, x, valid=valid_mask(torch.tensor(lengths), 7)).output
    for row, length in enumerate(lengths):
        alone = module.output(theirs(x[row : row + 1, :length])[0])[0]
        torch.testing.assert_close(found[row, :length], alone, **EXACT)


def cell_inputs(cell: str, length: int) -> tuple[Tensor, tuple[Tensor, ...], CellWeights]:
    gates = {"gru": 3, "lstm": 4}[cell] * 5

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64).mul(0.4).requires_grad_()

    weights = CellWeights(leaf(gates, 6), leaf(gates, 5), (leaf(gates), leaf(gates)))
    return leaf(2, length, 6), tuple(leaf(2, 5) for _ in new_state(cell, torch.zeros(2), 5)), weights  # type: ignore[arg-type]


@each_cell
@pytest.mark.parametrize("length", [1, 2, 13])
def test_both_loops_are_one_function(cell: Any, length: int) -> None:
    """Outputs, last state, and gradients of everything, from a state that is not 0."""
    x, state, weights = cell_inputs(cell, length)
    leaves = [x, *state, weights.input, weights.recurrent, *weights.biases]
    found = []
    for fused in (True, False):
        if fused:
            output, after = run_fused(cell, x, state, weights)
        else:
            into = nn.functional.linear(x, weights.input, weights.biases[0])
            output, after = run_steps(
                cell, into, state, lambda h: nn.functional.linear(h, weights.recurrent, weights.biases[1])
            )
        towards = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view_as(output)
        total = (output * towards).sum() + sum(part.square().sum() for part in after)
        found.append([output, *after, *torch.autograd.grad(total, leaves)])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, **EXACT)


def test_reversing_twice_changes_nothing() -> None:
    x, valid = torch.arange(12.0).view(2, 6, 1), valid_mask(torch.tensor([6, 4]), 6)
    once = reverse_texts(x, valid)
    assert once[:, :, 0].tolist() == [[5, 4, 3, 2, 1, 0], [9, 8, 7, 6, 10, 11]]
    assert torch.equal(reverse_texts(once, valid), x) and torch.equal(reverse_texts(x, None), x.flip(1))


@each_cell
@torch.no_grad()
def test_a_long_text_in_bfloat16_keeps_its_state_in_float32(cell: str) -> None:
    model = Transformer(small(encoder=0, decoder={"mixer": f"rnn('{cell}')", "position": "none"})).bfloat16().eval()
    state = model.new_state(1)
    for _ in range(3):
        assert model.decode(torch.randint(29, (1, 200)), state=state).isfinite().all()
    kept = [x for name, x in state.tensors().items() if name.endswith((".h", ".c"))]
    assert {x.dtype for x in kept} == {torch.float32} and len(kept) == 2 * (1 if cell == "gru" else 2)


@torch.no_grad()
def test_in_eight_bits_it_takes_its_own_loop() -> None:
    """The recurrent matrix is rounded too, so PyTorch's loop, which wants a plain one, is not used."""
    torch.manual_seed(1)
    model = Transformer(small(encoder=0, decoder={"mixer": "rnn", "position": "none"})).eval()
    eight, ids = quantise_model(model), torch.randint(29, (2, 12))
    direction = eight.stacks["decoder"].blocks[0].sublayers["self"].directions[0]
    assert direction._fused_weights() is None and direction.recurrent.weight is None
    whole, state = eight.decode(ids), eight.new_state(2)
    steps = torch.cat([eight.decode(ids[:, t : t + 1], state=state) for t in range(12)], 1)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-5)
    assert (whole - model.decode(ids)).norm() < 0.1 * whole.norm()


@pytest.mark.parametrize(
    ("mixer", "slots", "where", "says"),
    [
        ("rnn", {"mask": "causal & local(3)"}, "mask", 'supports only the mask "causal"'),
        ("rnn", {"position": "rope"}, "position", "has none"),
        ("rnn(bidirectional=true)", {}, "mask", "sees the whole text"),
        ("rnn", {"side": "encoder", "mask": "causal"}, "mask", "Set bidirectional = false"),
        ("rnn(bidirectional=false)", {"side": "encoder"}, "mask", 'Set mask = "causal"'),
        ("rnn", {"side": "encoder", "position": "alibi"}, "position", "an rnn has none"),
    ],
)
def test_it_refuses_what_it_cannot_do(mixer: str, slots: dict[str, Any], where: str, says: str) -> None:
    error = refusal(mixer, **slots)
    assert error.where == f"{slots.get('side', 'decoder')}.{where}"
    assert says in error.message


def test_packed_texts_would_run_into_each_other() -> None:
    module, x = make_mixer("rnn", 6), torch.randn(1, 4, 6, dtype=torch.float64)
    index = torch.tensor([[0, 0, 1, 1]], dtype=torch.int32)
    texts = PackedTexts(index, index[0, ::2] * 2, index[0, ::2] * 2 + 2)
    packed = PackedPositions(torch.tensor([[0, 1, 0, 1]]), torch.ones(1, 4, dtype=torch.bool), texts, 2)
    with pytest.raises(HeadwayError, match="would mix packed texts with each other"):
        module(x, Context(positions_from_start(4, packed, x.device)))
