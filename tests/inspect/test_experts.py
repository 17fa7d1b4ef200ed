"""Which experts the tokens of a text visit: what a trace says, and what is drawn is that."""

from collections.abc import Callable
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest

import headway
from headway.errors import HeadwayError
from headway.inspect.attention import format_token
from headway.inspect.experts import ExpertRouting, read_expert_routing
from headway.inspect.plots import draw_expert_routing
from headway.inspect.trace import Trace, load_trace


@pytest.fixture(scope="module")
def trace(train_toy: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Of a translator with experts in its encoder, as it was saved."""
    flags = ["model.encoder.feedforward=moe(5, 2, 'relu(8)')", "train.steps=4", "train.validate_every=4"]
    model = train_toy(*(word for flag in flags for word in ("--set", flag)))
    return load_trace(headway.load(model).trace("the dog sees a house").save(tmp_path_factory.mktemp("trace")))


def test_each_token_visits_its_experts(trace: Trace) -> None:
    [found] = read_expert_routing(trace)
    assert (found.layer_name, found.tokens) == ("encoder, layer 1", trace.source.pieces)
    assert found.shares.shape == (len(found.tokens), 5)
    np.testing.assert_allclose(found.shares.sum(1), 1, atol=1e-6)
    assert ((found.shares > 0).sum(1) == 2).all()
    router = trace.tensors["encoder.0.feedforward.router"].numpy()
    assert (found.shares.argmax(1) == router.argmax(1)).all()


def test_it_is_drawn(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))
    )
    found = read_expert_routing(trace)
    draw_expert_routing([*found, *found], tmp_path / "experts.png")
    assert (tmp_path / "experts.png").read_bytes().startswith(b"\x89PNG")
    for axis in figures[0].axes[:2]:
        np.testing.assert_array_equal(axis.images[0].get_array(), found[0].shares.T)
        assert axis.get_title() == "encoder, layer 1"
        assert [tick.get_text() for tick in axis.get_xticklabels()][1] == format_token(found[0].tokens[1])


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_the_colours_lie_beside_the_title(tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", lambda self, *a, **k: figures.append(self))
    layers = [ExpertRouting(np.eye(tokens, 4), ["word"] * tokens, f"encoder, layer {layer}") for layer in (9, 10, 11)]
    draw_expert_routing(layers, tmp_path / "experts.png")
    figures[0].draw_without_rendering()
    *panels, colours = figures[0].axes
    assert len(panels) == 3
    for panel in panels:
        assert panel.title.get_window_extent().x1 < colours.get_window_extent().x0


def test_without_experts_it_says_so(trace: Trace) -> None:
    with pytest.raises(HeadwayError, match='there are no experts in this decoder: no layer has the feed-forward "moe"'):
        read_expert_routing(trace, "decoder")
