"""The two strangers are what they claim to be, so that the contract tests over them prove something; and adding a
kind takes a line in the catalogue, no more."""

import pytest
import torch

from contracts.cases import CASES, EXAMPLES, causal_masks, every_case
from headway.config import catalogue
from headway.contracts.cases import Case
from headway.errors import ConfigError
from headway.nn.cache.sliding_window import WINDOW_SLACK
from headway.nn.transformer import Transformer


@torch.no_grad()
def test_a_ring_is_attention_with_a_bounded_memory() -> None:
    plain, ring = (Case(mixer, "rope", "causal & local(4)").model() for mixer in ("attention(4)", "ring(4)"))
    ring.load_state_dict(plain.state_dict())
    ids = torch.randint(29, (2, 30))
    whole = plain.decode(ids)
    for model, known in ((plain, 4 + WINDOW_SLACK), (ring, 4 + 2)):
        state, sizes = model.new_state(2), set()
        for t in range(30):
            step = model.decode(ids[:, t : t + 1], state=state)
            torch.testing.assert_close(step, whole[:, t : t + 1], rtol=0, atol=1e-12)
            sizes.add(state.bytes)
        assert len(sizes) == 1, "it never grows"
        slots = [state.layers[layer]["self"].positions.sort().values.tolist() for layer in range(2)]
        assert slots == [[list(range(30 - known, 30))] * 2] * 2


@torch.no_grad()
def test_layers_with_different_slots_never_share_a_pattern() -> None:
    """A ring's slots and a full cache's have, at some step, the same number of keys and different positions."""
    mixed = Case("attention(4) + ring(4)", "rope", "causal & local(4)").model()
    plain = Case("attention(4)", "rope", "causal & local(4)").model()
    plain.load_state_dict(mixed.state_dict())
    ids = torch.randint(29, (2, 20))
    state = mixed.new_state(2)
    steps = torch.cat([mixed.decode(ids[:, t : t + 1], state=state) for t in range(20)], dim=1)
    torch.testing.assert_close(steps, plain.decode(ids), rtol=0, atol=1e-12)


@torch.no_grad()
def test_decay_is_a_decaying_sum() -> None:
    model = Case("decay").model()
    decay = model.stacks["decoder"].blocks[0].sublayers["self"]
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    from headway.nn.context import Context
    from headway.nn.sequence import positions_from_start

    ours = decay(x, Context(positions_from_start(5, None, x.device)))[0, 4]
    total = sum(0.8 ** (4 - t) * decay.write(x[0, t]) for t in range(5))
    torch.testing.assert_close(ours, decay.read(total), rtol=0, atol=1e-12)


@torch.no_grad()
def test_resi_dual_carries_two_streams() -> None:
    model = Case("attention(4)", residual="residual_dual").model()
    ids = torch.randint(29, (1, 5))
    stack = model.stacks["decoder"]
    seen = []
    for block in stack.blocks:
        block.register_forward_hook(lambda module, arguments, output: seen.append(output))
    hidden = model.decode(ids)
    assert [len(s) for s in seen] == [2, 2]
    torch.testing.assert_close(hidden, seen[1][0] + stack.ends.norm(seen[1][1]))
    assert not torch.allclose(seen[1][0], seen[1][1])


@pytest.mark.parametrize(
    "case",
    [
        Case("ring(4)", "rope", "causal & local(4)"),
        Case("decay", "learned"),
        Case("attention(4)", residual="residual_dual"),
    ],
    ids=lambda case: f"{case.mixer} {case.residual}",
)
def test_what_they_cost_is_known(case: Case) -> None:
    assert case.config().parameter_count() == sum(p.numel() for p in case.model().parameters())


@pytest.mark.parametrize(
    ("case", "where", "says"),
    [
        (Case("ring(4)", mask="causal"), "decoder.mask", "cannot serve"),
        (Case("ring(4)", mask="causal & local(5)"), "decoder.mask", "cannot serve"),
        (Case("decay", mask="causal & local(5)"), "decoder.mask", "supports only the mask"),
        (Case("decay", "rope"), "decoder.position", "no scores for rope"),
        (Case("decay", "alibi"), "decoder.position", "no scores for alibi"),
    ],
    ids=lambda value: ", ".join(value[:3]) if isinstance(value, Case) else "",
)
def test_a_mixer_refuses_what_it_would_drop(case: Case, where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        Transformer(case.config())
    assert caught.value.where == where


def test_the_catalogue_is_enough_to_take_part() -> None:
    tried = {case.mixer.split("(")[0] for case in CASES}
    causal = {kind for kind in catalogue.kinds("mixer") if any(every_case(EXAMPLES.get(kind, [kind])[0]))}
    assert tried >= causal, "the toys are in the catalogue here, and so are among them"
    assert "decay" in tried and "decay" not in EXAMPLES, "by its kind alone"
    plain = [case for case in CASES if case.mixer == "attention(4)"]
    positions = set(catalogue.kinds("position")) - {"normalised"}  # which no decoder can have
    assert {case.position for case in plain} == positions, "attention refuses nothing"
    assert {case.mask for case in plain} == set(causal_masks())
    assert {case.residual for case in CASES} == set(catalogue.kinds("residual"))
