"""Rows, bootstrap, Pareto front, and how they are written."""

import csv
import io
import json

import numpy as np
import pytest

from headway.compare.charts import Scale, format_number, line_chart, scatter_chart, ticks
from headway.compare.report import make_charts, make_table
from headway.compare.results import (
    Row,
    Spread,
    bootstrap_losses,
    mean_probes,
    mean_tables,
    pareto_front,
    quality_measure,
    to_csv,
    to_json,
)

ROWS = [
    Row("attention", {"mixer": "attention"}, "finished", parameters=1000, how="as it is", seeds=2,
        measures={"loss": Spread(2.0, 0.1, (1.9, 2.1)), "decode_tokens_per_second": Spread(100.0, None, (100.0,))},
        curves=[[{"step": 1, "seconds": 0.5, "loss": 3.0}, {"step": 2, "seconds": 1.0, "loss": 2.0}]],
        lengths=[{"length": 128, "seconds": 0.1, "bytes": 10}, {"length": 256, "refused": "too long"}]),
    Row("<b>new</b>", {"mixer": "<b>new</b>"}, "finished", parameters=990, how="d_model 8 → 16", seeds=1, p_value=0.04,
        measures={"loss": Spread(1.5, None, (1.5,)), "decode_tokens_per_second": Spread(50.0, None, (50.0,))}),
    Row("odd", {"mixer": "odd"}, "refused", "it has none"),
]  # fmt: skip


def test_a_bootstrap_finds_what_is_there_and_nothing_else() -> None:
    chance = np.random.default_rng(1)
    tokens = np.full(80, 100.0)
    one = np.stack([chance.normal(300, 20, 80), tokens], 1)
    noise = np.stack([one[:, 0] + chance.normal(0, 10, 80), tokens], 1)
    better = np.stack([one[:, 0] - 12 + chance.normal(0, 10, 80), tokens], 1)
    assert bootstrap_losses(one, better) < 0.01 < 0.05 < bootstrap_losses(one, noise)
    assert bootstrap_losses(one, one) == 1.0


def test_the_front_is_what_nothing_beats() -> None:
    assert pareto_front([(1, 1), (2, 3), (2, 2), (3, 2.5), (4, 4)]) == [0, 1, 4]
    assert pareto_front([]) == []


def test_rows_are_written() -> None:
    table = list(csv.DictReader(io.StringIO(to_csv(ROWS))))
    assert [line["variant"] for line in table] == ["attention", "<b>new</b>", "odd"]
    assert float(table[0]["loss"]) == 2.0 and float(table[0]["loss_spread"]) == 0.1 and table[1]["loss_spread"] == ""
    assert table[2]["reason"] == "it has none" and table[2]["parameters"] == ""
    stored = json.loads(to_json(ROWS, name="n"))
    assert stored["name"] == "n" and stored["rows"][1]["p_value"] == 0.04
    assert quality_measure(ROWS) == ("loss", False)
    assert quality_measure([Row("a", {}, "finished", measures={"bleu": Spread(1, None, (1,))})]) == ("bleu", True)


def test_a_page_shows_numbers_and_runs_nothing_of_a_name() -> None:
    table = make_table(ROWS)
    assert "<b>" not in table and "&lt;b&gt;new" in table
    assert table.count("<tr class=best>") == 1 and table.index("class=best") < table.index("&lt;b&gt;new")
    charts = make_charts(ROWS)
    assert set(charts) == {"curves-by-step", "curves-by-time", "time-by-length", "memory-by-length",
                           "loss-by-decode-tokens-per-second"}  # fmt: skip
    assert all("<b>" not in chart for _, chart in charts.values())
    assert "attention: 2, 2" in charts["curves-by-step"][1]


def test_tables_of_seeds_are_averaged_row_by_row() -> None:
    seeds = [[{"length": 8, "loss": 2.0, "way": "a"}, {"length": 9, "refused": "no"}],
             [{"length": 8, "loss": 3.0, "way": "a"}, {"length": 9, "loss": 1.0}]]  # fmt: skip
    first, second = mean_tables(seeds)
    assert first == {"length": 8, "loss": 2.5, "spread": pytest.approx(0.7071, abs=1e-4), "way": "a"}
    assert second == {"length": 9, "refused": "no"}
    assert mean_tables([[{"x": 1.0}]]) == [{"x": 1.0}] and mean_tables([]) == []
    assert mean_tables([[{"x": ""}], [{"x": 1.0}]]) == [{"x": ""}]
    assert mean_probes([{"a": [{"x": 1.0}]}, {"a": [{"x": 2.0}]}])["a"][0]["x"] == 1.5


def test_places_on_an_axis() -> None:
    assert Scale(0, 10, 100, 200, False).place(5) == 150
    assert Scale(1, 100, 0, 10, True).place(10) == pytest.approx(5)
    assert Scale(3, 3, 0, 10, False).place(3) == 5
    assert ticks(Scale(0, 10, 0, 1, False)) == [0, 2, 4, 6, 8, 10]
    assert ticks(Scale(90, 20_000, 0, 1, True)) == [100, 1000, 10000]
    assert len(ticks(Scale(1, 1e30, 0, 1, True))) <= 7
    assert len(ticks(Scale(4700, 5400, 0, 1, True))) >= 2  # too narrow for powers of ten


def test_numbers_are_short() -> None:
    shown = [format_number(x) for x in (0.012345, 5, 999.4, 1234, 12345, 1.5e6, 2e9)]
    assert shown == ["0.0123", "5", "999", "1,234", "12.3k", "1.5M", "2G"]


def test_what_cannot_be_drawn_is_left_out() -> None:
    nan = float("nan")
    assert line_chart({"a": [(1, nan)], "b": []}, xlabel="x", ylabel="y") == ""
    assert scatter_chart({"a": (0.0, 1.0)}, [], xlabel="x", ylabel="y", log_x=True) == ""
    assert line_chart({"a": [(1, 2), (2, nan), (3, 4)]}, xlabel="x", ylabel="y").count("<circle") == 2
