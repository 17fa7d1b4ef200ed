"""The examples of CONTRIBUTING.md are complete: written as files and named in the catalogue, they build, run, decode in
pieces as in one, cost what they say, and refuse what they cannot do."""

import ast
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from headway.config import catalogue
from headway.config.schema import from_dict
from headway.contracts.promises import (
    Placement,
    check_cache,
    check_linear_layers,
    check_mask,
    check_position,
    check_residual_outputs,
)
from headway.errors import ConfigError
from headway.nn.context import ForwardReport
from headway.nn.transformer import Transformer

PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"
SNIPPET = re.compile(r"```python\n# ((?:headway|tests)/\S+\.py)\n(.*?)```", re.DOTALL)
EXAMPLES = SNIPPET.findall(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody had followed the page."""
    for path, text in EXAMPLES:
        if path == "headway/config/catalogue.py":
            call: Any = ast.parse(text.strip(), mode="eval").body
            others = {keyword.arg: keyword.value.value for keyword in call.keywords}
            entry = catalogue.Entry(*(argument.value for argument in call.args), **others)
            monkeypatch.setattr(catalogue, "CATALOGUE", (*catalogue.CATALOGUE, entry))
        elif path.startswith("headway/"):
            name = path.removesuffix(".py").replace("/", ".")
            module = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            exec(compile(text, path, "exec"), module.__dict__)


def model(**decoder: Any) -> Transformer:
    side = {"layers": 2, "mixer": "attention(4)", "feedforward": "relu(24)", **decoder}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": side}
    config = from_dict(Transformer.Config, table)
    built = Transformer(config).double().eval()
    assert config.parameter_count() == sum(p.numel() for p in built.parameters())
    for parameter in built.parameters():
        if parameter.dim() < 2:
            torch.nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    return built


CHOICES: dict[str, dict[str, Any]] = {
    "mixer": {"mixer": "running_mean(zeros=1)"},
    "mask": {"mask": "causal & (local(3) | sinks(2))"},
    "position": {"position": "logarithmic(0.5)"},
    "residual": {"residual": "rezero"},
}


@pytest.mark.parametrize("slot", CHOICES)
@torch.no_grad()
def test_it_decodes_in_pieces_as_in_one_and_padding_changes_nothing(slot: str) -> None:
    built, plain, ids = model(**CHOICES[slot]), model(), torch.randint(29, (3, 9))
    whole, state = built.decode(ids), built.new_state(3)
    pieces = [built.decode(ids[:, a:b], state=state) for a, b in ((0, 4), (4, 5), (5, 9))]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-12)
    assert not torch.allclose(whole, plain.decode(ids))
    valid = torch.arange(9) < torch.tensor([[9], [4], [1]])
    padded = built.decode(ids, valid)
    other = built.decode(torch.where(valid, ids, (ids + 1) % 29), valid)
    assert torch.equal(padded[valid], other[valid])
    torch.testing.assert_close(padded[1, :4], built.decode(ids[1:2, :4])[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("slot", CHOICES)
def test_it_learns(slot: str) -> None:
    built = model(**CHOICES[slot]).train()
    built.decode(torch.randint(29, (3, 9))).square().sum().backward()
    unheard = ("key.bias",)  # adds the same to all scores of a query
    for name, parameter in built.named_parameters():
        assert parameter.grad is not None
        assert name.endswith(unheard) or parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"mixer": "running_mean", "mask": "causal & local(3)"}, "a running mean supports only the mask"),
        ({"mixer": "running_mean", "position": "rope"}, "a running mean has no scores for rope to change"),
    ],
)
def test_it_refuses_what_it_cannot_do(decoder: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model(**decoder)


def test_the_test_of_the_page_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And fails where the example is wrong."""
    [(path, text)] = [example for example in EXAMPLES if example[0].startswith("tests/")]
    module: dict[str, Any] = {"__name__": path}
    exec(compile(text, path, "exec"), module)
    [test] = [test for name, test in module.items() if name.startswith("test_")]
    test()
    monkeypatch.setattr(module["RunningMean"].Config, "zeros", property(lambda config: 3, lambda config, value: None))
    with pytest.raises(AssertionError, match="Not equal"):
        test()


@torch.no_grad()
def test_the_mixer_shows_what_it_records_and_keeps_its_promises() -> None:
    built, report = model(mixer="running_mean"), ForwardReport(trace={})
    built.decode(torch.randint(29, (1, 5)), report=report)
    assert report.trace is not None and report.trace["decoder.1.self.mean"].shape == (1, 5, 16)
    place = Placement(("running_mean(zeros=1)",), "decoder", "causal", "sinusoidal")
    for check in (check_mask, check_position, check_linear_layers, check_cache):
        check(place)
    check_residual_outputs(place, "self")


def test_the_page_has_an_example_of_each() -> None:
    slots = [entry.slot for entry in catalogue.CATALOGUE[-4:]]
    assert slots == list(CHOICES)
