"""What is watched comes out of a forward pass with its gradients; nothing else changes."""

from typing import Any

import pytest
import torch

from headway.nn.context import ForwardReport
from headway.nn.mixers import attention
from headway.nn.ops.attention import attend
from headway.nn.transformer import Transformer
from nn.building import small

NAME = "decoder.1.cross.weights"


def test_watched_weights_are_those_of_a_trace_and_have_gradients() -> None:
    model = Transformer(small()).eval()
    source, target = torch.randint(29, (2, 7)), torch.randint(29, (2, 5))
    valid = torch.arange(7) < torch.tensor([[7], [4]])
    plain = model(source, target, valid).hidden
    report, traced = ForwardReport(capture=frozenset([NAME])), ForwardReport(trace={})
    watched = model(source, target, valid, report=report).hidden
    model(source, target, valid, report=traced)
    assert list(report.captured) == [NAME] and report.trace is None
    assert report.captured[NAME].requires_grad
    assert traced.trace is not None
    torch.testing.assert_close(report.captured[NAME], traced.trace[NAME])
    torch.testing.assert_close(watched, plain)
    assert traced.captured == {}


def test_only_the_layer_that_is_watched_leaves_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    explicit = []

    def spy(*inputs: Any, **options: Any) -> Any:
        explicit.append("also" in options)
        return attend(*inputs, **options)

    monkeypatch.setattr(attention, "attend", spy)
    model = Transformer(small()).eval()
    ids = torch.randint(29, (2, 5))
    model(ids, ids)
    assert len(explicit) == 6 and not any(explicit)
    explicit.clear()
    model(ids, ids, report=ForwardReport(capture=frozenset([NAME])))
    assert sum(explicit) == 1
