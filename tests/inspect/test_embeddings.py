"""What is drawn of a model's own positions is what they do to its scores."""

import json
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
import torch
from nn.building import small

from headway.cli.verbs.inspect import _draw
from headway.inspect.embeddings import describe_vectors, position_tables
from headway.inspect.plots import draw_table
from headway.inspect.positions import NumberTable
from headway.nn.context import ForwardReport
from headway.nn.masks.masks import dense_mask, make_mask
from headway.nn.transformer import Transformer
from headway.translate.translator import load

BENDING = ["alibi", "t5(8, 16)", "shaw(3)", "shaw(3, 'nothing')", "transformer_xl", "transformer_xl(tied=false)"]


def trained(side: str, **changes: Any) -> Transformer:
    """One whose positions hold something, and whose queries and keys are all ones."""
    torch.manual_seed(1)
    model = Transformer(small(**({"encoder": 0, "decoder": 0} | {side: {"layers": 3, **changes}}))).eval()
    for module in model.stacks[side].positions:  # type: ignore[union-attr]
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
    for name, parameter in model.named_parameters():
        if ".self.query." in name or ".self.key." in name:
            torch.nn.init.constant_(parameter, float(name.endswith("bias")))
    return model


@torch.no_grad()
def scores(model: Transformer, side: str, layer: int, length: int) -> np.ndarray:
    """Of the first head, as the model computes them, less what query and key say to each other."""
    report, ids = ForwardReport(trace={}), torch.zeros(1, length, dtype=torch.long)
    (model.encode if side == "encoder" else model.decode)(ids, report=report)
    assert report.trace is not None
    q, k = (report.trace[f"{side}.{layer}.self.{name}"][0, 0] for name in "qk")
    found: np.ndarray = (report.trace[f"{side}.{layer}.self.scores"][0, 0] - q @ k.T / 2).numpy()  # √d_k = 2
    return found


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("written", BENDING)
def test_what_bends_is_shown_as_scores(written: str, side: str) -> None:
    model = trained(side, position=written)
    (table,) = position_tables(model, side, 8)
    allowed = dense_mask(make_mask("causal" if side == "decoder" else "full"), 8).numpy()
    np.testing.assert_array_equal(np.isnan(table.values), ~allowed)
    np.testing.assert_allclose(table.values[allowed], scores(model, side, 0, 8)[allowed], atol=1e-5)
    assert (table.rows, table.columns) == ("query", "key")
    assert ("for a query of ones" in table.title) == written.startswith(("shaw", "transformer_xl"))


def test_a_table_of_t5_is_what_it_has_learned() -> None:
    model = trained("encoder", position="t5(8, 16)")
    learned: Any = model.stacks["encoder"].positions[0].table  # type: ignore[index, union-attr]
    (table,) = position_tables(model, "encoder", 4)
    buckets = [[0, 5, 6, 6], [1, 0, 5, 6], [2, 1, 0, 5], [2, 2, 1, 0]]
    np.testing.assert_array_equal(table.values, learned.detach()[buckets, 0])


def test_every_position_is_shown_in_its_own_layer() -> None:
    masks = ["causal & local(5)", "causal", "causal & local(3)"]
    model = trained("decoder", position=["shaw(3)", "alibi", "transformer_xl"], mask=masks)
    tables = position_tables(model, "decoder", 8)
    assert [table.title for table in tables] == [
        "shaw: layer 1, head 1, for a query of ones",
        "alibi: layer 2, head 1",
        "transformer_xl: layer 3, head 1, for a query of ones",
    ]
    for layer, (table, mask) in enumerate(zip(tables, masks)):
        allowed = dense_mask(make_mask(mask), 8).numpy()
        np.testing.assert_array_equal(np.isnan(table.values), ~allowed)
        np.testing.assert_allclose(table.values[allowed], scores(model, "decoder", layer, 8)[allowed], atol=1e-5)


def test_a_turning_position_beside_another() -> None:
    model = trained("decoder", position=["none", "rope", "sinusoidal"])
    turned, added = position_tables(model, "decoder", 6)
    assert (turned.title, turned.rows) == ("rope", "query")
    assert turned.values[3, 3] == pytest.approx(1.0, abs=1e-6)
    assert (added.title, added.values.shape) == ("sinusoidal", (6, 16))


def test_a_model_of_another_precision_is_shown() -> None:
    for position in BENDING:
        model = trained("decoder", position=position)
        (exact,), (rough,) = position_tables(model, "decoder", 8), position_tables(model.bfloat16(), "decoder", 8)
        np.testing.assert_allclose(rough.values, exact.values, atol=0.2)


def test_the_page_gets_no_number_for_what_is_masked() -> None:
    model = trained("decoder", position="transformer_xl")
    tensors = {"decoder.embedded": torch.randn(2, 16), "decoder.0.self.stream": torch.randn(2, 16)}
    found = describe_vectors(tensors, {"decoder": [1, 2]}, model, lambda side, ids: ["x" for _ in ids])
    (table,) = json.loads(json.dumps(found, allow_nan=False))["decoder"]["positions"]
    assert all(
        (value is None) == (key > query) for query, row in enumerate(table["values"]) for key, value in enumerate(row)
    )


def test_what_is_masked_is_hatched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[Any] = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *a, **k: (found.append(self), save(self, *a, **k))[1]
    )
    draw_table(NumberTable(np.array([[0.5, np.nan], [-2.0, 0.0]]), "t", "query", "key"), tmp_path / "t.png")
    draw_table(NumberTable(np.zeros((2, 2)), "t", "query", "key"), tmp_path / "t.png")
    masked, plain = (figure.axes[0] for figure in found)
    assert masked.images[0].get_clim() == (-2, 2)
    assert [patch.get_hatch() for patch in masked.patches] == ["////"]
    assert not plain.patches


def test_every_position_is_drawn(lm_dir: Path, tmp_path: Path) -> None:
    trace = load(lm_dir, "cpu").trace("The dog", length=0)
    for position, names in (
        (["alibi", "transformer_xl", "none"], ["position-decoder-1", "position-decoder-2"]),
        ("transformer_xl", ["position-decoder"]),
    ):
        out = tmp_path / names[0]
        out.mkdir()
        _draw(trace, trained("decoder", position=position), out)
        assert sorted(path.stem for path in out.glob("position-*.png")) == names
