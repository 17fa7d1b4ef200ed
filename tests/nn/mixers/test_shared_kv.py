"""YOCO: keys and values made once, against torch's own attention; a prompt that stops half-way up; what is refused."""

from typing import Any

import pytest
import torch
from nn.building import small
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from headway.errors import ConfigError
from headway.nn.transformer import Transformer, valid_mask

HALVES = {
    "layers": 4,
    "mixer": ["attention(4)", "attention(4)", "shared_kv(4)", "shared_kv(4)"],
    "mask": ["causal & local(3)", "causal & local(3)", "causal", "causal"],
    "residual": "pre",
}


def yoco(**changes: Any) -> Transformer:
    model = Transformer(small(encoder=0, decoder=HALVES | changes)).double().eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    return model


def torchs_attention(query: Any, shared: Any, output: Any, heads: int) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(16, heads, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([query.weight, shared.key.weight, shared.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([query.bias, shared.key.bias, shared.value.bias]))
        theirs.out_proj.load_state_dict(output.state_dict())
    return theirs


@torch.no_grad()
def test_upper_layers_are_torchs_attention_over_the_stream_below_them() -> None:
    from headway.nn.context import ForwardReport

    model, ids = yoco(), torch.randint(29, (2, 9))
    report = ForwardReport(trace={})
    hidden = model.decode(ids, report=report)
    trace: Any = report.trace
    stack: Any = model.stacks["decoder"]
    hidden_below: Tensor = trace["decoder.1.feedforward.stream"]
    source, s = stack.shared.norm(hidden_below), hidden_below
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    for block in stack.blocks[2:]:
        mixer, around = block.sublayers["self"], block.residuals
        theirs = torchs_attention(mixer.query, stack.shared, mixer.output, 4)
        s = s + theirs(around["self"].norm(s), source, source, attn_mask=future)[0]
        feed = block.sublayers["feedforward"]
        s = s + feed.outer(torch.relu(feed.inner(around["feedforward"].norm(s))))
    torch.testing.assert_close(stack.ends.norm(s), hidden, rtol=0, atol=1e-11)


@torch.no_grad()
def test_a_prompt_stops_half_way_up() -> None:
    model, ids = yoco(), torch.randint(29, (2, 40))
    spent = {}
    for last in (False, True):
        state = model.new_state(2)
        with FlopCounterMode(display=False) as counter:
            hidden = model.decode(ids, state=state, last=last)
        spent[last] = counter.get_total_flops()
        torch.testing.assert_close(hidden[:, -1], model.decode(ids)[:, -1], rtol=0, atol=1e-12)
        follow = model.decode(ids[:, :3], state=state)
        torch.testing.assert_close(follow, model.decode(torch.cat([ids, ids[:, :3]], 1))[:, -3:], rtol=0, atol=1e-12)
    assert hidden.shape == (2, 1, 16)
    assert spent[True] < 0.65 * spent[False]
    assert [list(layer) for layer in state.layers] == [["self"], ["self"], ["shared"], []]


@pytest.mark.parametrize("residual", ["pre", "residual_dual"])
@torch.no_grad()
def test_the_last_real_place_wherever_padding_is(residual: str) -> None:
    for model in (yoco(residual=residual), yoco(residual=residual, mixer="attention(4)")):
        ids = torch.randint(29, (3, 6))
        valid = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 1, 0]]).bool()
        state, other = model.new_state(3), model.new_state(3)
        found = model.decode(ids, valid, state=state, last=True)
        whole = model.decode(ids, valid, state=other)
        for row, place in enumerate((5, 1, 4)):
            torch.testing.assert_close(found[row, 0], whole[row, place], rtol=0, atol=1e-12)
        more = torch.randint(29, (3, 2))
        torch.testing.assert_close(model.decode(more, state=state), model.decode(more, state=other), rtol=0, atol=1e-12)


@torch.no_grad()
def test_windows_below_and_windows_above_forget() -> None:
    model = yoco(mask="causal & local(3)")
    state = model.new_state(1)
    sizes = []
    for _ in range(60):
        model.decode(torch.randint(29, (1, 1)), state=state)
        sizes.append(state.bytes)
    assert len(set(sizes)) == 1


def test_gradients_reach_what_is_shared_from_every_layer_above() -> None:
    model = yoco().train()
    stack: Any = model.stacks["decoder"]
    (model.decode(torch.randint(29, (2, 5))).square().sum()).backward()
    for part in (stack.shared.key, stack.shared.value, stack.shared.norm):
        assert all(parameter.grad is not None for parameter in part.parameters())
        assert any(parameter.grad.abs().sum() > 0 for parameter in part.parameters())


def test_deep_residuals_start_shared_values_smaller() -> None:
    plain, deep = (Transformer(small(encoder=0, decoder=HALVES | {"residual": kind})) for kind in ("post", "deepnorm"))
    ratio = deep.stacks["decoder"].shared.value.weight.std() / plain.stacks["decoder"].shared.value.weight.std()  # type: ignore[union-attr]
    assert 0.3 < ratio < 0.7  # (8 · 4)^-¼ = 0.42


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mixer": ["attention(4)", "attention(4)", "shared_kv(4)", "shared_kv(4, 2)"]},
         "mixer: layers that share keys and values need the same groups, but they have 2 and 4"),
        ({"position": ["rope", "rope", "rope", "none"]},
         "position: layers that share keys need the same rotation, but their positions are none and rope"),
        ({"position": ["rope", "rope", "rope", "rope(500)"]},
         "position: layers that share keys need the same rotation"),
    ],
)  # fmt: skip
def test_layers_that_share_are_alike(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        small(encoder=0, decoder=HALVES | changes).resolved()
    assert str(refused.value).startswith(f"decoder.{message}")


def test_it_listens_to_no_other_text() -> None:
    with pytest.raises(ConfigError, match='decoder.cross: shared_kv has no cross-attention. Set cross = "attention"'):
        small(decoder={"cross": "shared_kv(4)"}).resolved()


@torch.no_grad()
def test_padding_of_a_whole_text() -> None:
    model, ids = yoco(), torch.randint(29, (2, 7))
    valid = valid_mask(torch.tensor([7, 4]), 7)
    alone = model.decode(ids[1:, :4])
    torch.testing.assert_close(model.decode(ids, valid)[1, :4], alone[0], rtol=0, atol=1e-12)
