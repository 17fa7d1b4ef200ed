"""A trace is an explicit path: it fills a dict by name with what was computed, and computes the same."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headway.nn.context import Context, ForwardReport
from headway.nn.sequence import TokenPositions, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from nn.building import small

B, S, T = 3, 7, 5
SUBLAYERS = {"encoder": ("self", "feedforward"), "decoder": ("self", "cross", "feedforward")}
SIDE = {"mixer": "attention(4, 2)", "position": "alibi"}


def run(model: Transformer, trace: dict[str, Tensor] | None, **how: Tensor) -> Tensor:
    torch.manual_seed(3)
    source, target = torch.randint(29, (B, S)), torch.randint(29, (B, T))
    report = ForwardReport(trace=trace)
    memory = model.encode(source, how.get("valid"), report=report)
    return model.decode(target, memory=memory, report=report)


@pytest.mark.parametrize("position", ["sinusoidal", "rope", "alibi"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_traced_equals_untraced(position: str, padded: bool) -> None:
    model = Transformer(small(sides=SIDE | {"position": position})).eval()
    how = {"valid": valid_mask(torch.tensor([7, 2, 4]), S)} if padded else {}
    trace: dict[str, Tensor] = {}
    torch.testing.assert_close(run(model, trace, **how), run(model, None, **how), rtol=1e-5, atol=1e-5)
    assert trace


def test_everything_is_there_by_name_and_fits_together() -> None:
    model = Transformer(small(sides=SIDE)).double().eval()
    trace: dict[str, Tensor] = {}
    run(model, trace, valid=valid_mask(torch.tensor([7, 2, 4]), S))
    places = [f"{side}.{i}.{sub}" for side, subs in SUBLAYERS.items() for i in range(2) for sub in subs]
    names = [f"{side}.embedded" for side in SUBLAYERS]
    for place in places:
        names += [f"{place}.{what}" for what in ("input", "norm_gain", "norm_bias", "output", "stream")]
        if not place.endswith("feedforward"):
            names += [f"{place}.{what}" for what in ("q", "k", "v", "scores", "weights")]
        if place.endswith("self"):
            names.append(f"{place}.score_bias")
    assert sorted(trace) == sorted(names)
    for place in places:
        if place.endswith("feedforward"):
            continue
        queries, keys = (S if "encoder" in place else T), (T if "decoder" in place and "self" in place else S)
        assert trace[f"{place}.q"].shape == (B, 4, queries, 4)
        assert trace[f"{place}.k"].shape == trace[f"{place}.v"].shape == (B, 2, keys, 4)
        weights, scores = trace[f"{place}.weights"], trace[f"{place}.scores"]
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        q, k = trace[f"{place}.q"], trace[f"{place}.k"].repeat_interleave(2, dim=1)
        if "cross" in place:  # no positions there
            torch.testing.assert_close(scores, q @ k.transpose(-1, -2) / 2)
        side, index, name = place.split(".")
        sublayer = model.stacks[side].blocks[int(index)].sublayers[name]
        heads = weights @ trace[f"{place}.v"].repeat_interleave(2, dim=1)
        torch.testing.assert_close(trace[f"{place}.output"], sublayer.output(heads.transpose(1, 2).flatten(2)))
    # the residual is post-norm: what runs on is the norm of what came in and what was said
    for side, sublayers in SUBLAYERS.items():
        stream = trace[f"{side}.embedded"]
        for place in [f"{side}.{i}.{sub}" for i in range(2) for sub in sublayers]:
            norm = model.get_submodule(
                f"stacks.{side}.blocks.{place.split('.')[1]}.residuals.{place.split('.')[2]}.norm"
            )
            stream = norm(stream + trace[f"{place}.output"])
            torch.testing.assert_close(trace[f"{place}.stream"], stream)
    assert (trace["encoder.0.self.weights"][1, :, :, 2:] == 0).all(), "padding gets no weight"
    assert (trace["decoder.1.self.weights"].triu(1) == 0).all(), "the future gets no weight"


def test_nothing_is_kept_without_asking_and_no_gradients_hang_on() -> None:
    model = Transformer(small()).eval()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    run(model, None)
    assert all(vars(module).keys() == before[name].keys() for name, module in model.named_modules())
    trace: dict[str, Tensor] = {}
    run(model, trace)
    assert not any(value.requires_grad for value in trace.values())


def test_a_traced_step_is_traced_with_its_state() -> None:
    """One token at a time, the weights are the rows of the whole."""
    model = Transformer(small(encoder=0, sides=SIDE)).double().eval()
    ids = torch.randint(29, (2, T))
    whole: dict[str, Tensor] = {}
    model.decode(ids, report=ForwardReport(trace=whole))
    state = model.new_state(2)
    for t in range(T):
        step: dict[str, Tensor] = {}
        model.decode(ids[:, t : t + 1], state=state, report=ForwardReport(trace=step))
        expected = whole["decoder.1.self.weights"][:, :, t : t + 1, : t + 1]
        torch.testing.assert_close(step["decoder.1.self.weights"], expected, rtol=0, atol=1e-12)


class Pair(torch.nn.Module):
    """A residual that carries two streams."""

    def wrap(
        self, s: tuple[Tensor, Tensor], sublayer: Callable[[Tensor], Tensor], tokens: TokenPositions
    ) -> tuple[Tensor, Tensor]:
        said = sublayer(s[0])
        return s[0] + said, s[1] - said


def test_a_residual_with_two_streams_shows_both() -> None:
    model = Transformer(small(encoder=1, decoder=0)).eval()
    block = model.stacks["encoder"].blocks[0]
    block.residuals = torch.nn.ModuleDict({name: Pair() for name in block.residuals})
    report = ForwardReport(trace={})
    x = torch.randn(1, 4, 16)
    block((x, x), Context(positions_from_start(4, None, x.device), report, path="encoder.0"), None)
    assert report.trace is not None
    said = report.trace["encoder.0.self.output"]
    torch.testing.assert_close(report.trace["encoder.0.self.stream"], x + said)
    torch.testing.assert_close(report.trace["encoder.0.self.stream2"], x - said)
