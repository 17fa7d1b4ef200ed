"""Pictures of a trace: what is drawn is what the trace says."""

from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest

from headway.inspect.attention import read_attention
from headway.inspect.embeddings import project_layers
from headway.inspect.plots import draw_attention
from headway.inspect.trace import Trace
from headway.inspect.trace_plots import draw_beam, draw_predictions, draw_token_paths
from headway.translate.translator import load

TEXT = "The dog sees a red house."


@pytest.fixture(scope="module")
def trace(translator_dir: Path) -> Trace:
    return load(translator_dir, "cpu").trace(TEXT, beam_size=3)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes that are saved."""
    found: list[Any] = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *a, **k: (found.extend(self.axes), save(self, *a, **k))[1]
    )
    return found


def test_what_was_likely(trace: Trace, drawn: list[Any], tmp_path: Path) -> None:
    draw_predictions(trace, tmp_path / "likely.png")
    table = drawn[0].images[0].get_array()
    expected = trace.tensors["output.logps"].exp().topk(6).values.T[:, : len(trace.written.ids)]
    np.testing.assert_allclose(table, expected, atol=1e-5)
    assert len(drawn[0].texts) == table.size
    framed = [round(patch.get_x() + 0.48) for patch in drawn[0].patches]
    assert framed == sorted(set(framed))  # one a place at most, where what was taken is among them
    assert len(framed) > len(trace.written.ids) / 2


def test_the_beam(trace: Trace, drawn: list[Any], tmp_path: Path) -> None:
    draw_beam(trace, tmp_path / "beam.svg")
    nodes = trace.tree()
    assert len(drawn[0].texts) == len(nodes)
    assert len(drawn[0].lines) == sum(node.parent is not None for node in nodes)
    thick = [line for line in drawn[0].lines if line.get_linewidth() > 2]
    assert len(thick) == len(trace.written.ids) - 1
    dotted = [line for line in drawn[0].lines if line.get_linestyle() == ":"]
    assert len(dotted) == sum(node.fate == "pruned" and node.parent is not None for node in nodes)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_ways_of_tokens(trace: Trace, drawn: list[Any], tmp_path: Path, side: str) -> None:
    draw_token_paths(trace, side, tmp_path / "ways.png")
    _, places = project_layers(trace.tensors, side)
    ends = [line.get_xydata()[0] for line in drawn[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose(ends, places[-1])
    assert len(drawn[0].texts) == places.shape[1]


def test_what_is_masked_has_no_colour(trace: Trace, drawn: list[Any], tmp_path: Path) -> None:
    draw_attention(read_attention(trace, "decoder", 1), tmp_path / "attention.svg")
    table = drawn[0].images[0].get_array()
    later = np.triu(np.ones(table.shape, dtype=bool), 1)
    assert (np.ma.getmaskarray(table) == later).all()
    assert "<pattern" in (tmp_path / "attention.svg").read_text()  # hatched
