"""The results of benchmarks/scaling.py as tables and pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from report import Table


class Curve(NamedTuple):
    name: str
    beam: int = 0  # 0: it is training
    engine: Literal["", "reference", "cuda"] = ""

    @property
    def style(self) -> dict[str, Any]:
        """Plot style: a colour for the search, a line style for the engine."""
        if self.engine == "reference":
            return {
                "color": "C1" if self.beam > 1 else "C0",
                "linestyle": "--",
                "marker": "s",
                "markerfacecolor": "white",
            }
        return {"color": "C1" if self.beam > 1 else "C0", "marker": "o"}


TRAINING = [Curve("training")]
DECODING = [
    Curve(f"{search}, {engine}", beam, engine)
    for search, beam in (("greedy", 1), ("beam 4", 4))
    for engine in ("cuda", "reference")
]


LONG_TEXT = [curve for curve in DECODING if curve.engine == "cuda"]


class Sweep(NamedTuple):
    """One number varies, the others are fixed."""

    what: str  # "training", "decoding" or "long"
    by: str  # what the numbers are
    values: list[int]
    fixed: str
    curves: list[Curve]


class Point(NamedTuple):
    sweep: int  # which of them
    curve: Curve
    value: int


class Measurement(NamedTuple):
    seconds: float
    tokens: int
    memory: float  # GB at most; 0: not measured

    @property
    def cells(self) -> list[str]:
        memory = f"{self.memory:.2f}" if self.memory else "-"
        return [f"{1000 * self.seconds:,.1f}", f"{self.tokens / self.seconds:,.0f}", memory]


Results = dict[Point, Measurement | str]  # or why there are no numbers
NO_MEMORY = "out of memory"
LEFT_OUT = "left out"
COLUMNS = ["ms", "tokens/s", "GB"]


def make_tables(sweeps: list[Sweep], results: Results) -> list[Table]:
    """For training one a sweep; for decoding one a search, with both engines side by side."""
    made = []
    for number, sweep in enumerate(sweeps):
        for beam in dict.fromkeys(curve.beam for curve in sweep.curves):
            curves = [curve for curve in sweep.curves if curve.beam == beam]
            title, columns = f"{curves[0].name} by {sweep.by}; {sweep.fixed}", COLUMNS
            if beam:
                title = f"decoding, {curves[0].name.partition(',')[0]}, by {sweep.by}; {sweep.fixed}"
                columns = [
                    f"{curve.engine} {COLUMNS[0]}" if n == 0 else COLUMNS[n] for curve in curves for n in range(3)
                ]
                columns += ["ratio"] * (len(curves) == 2)
            table = Table(title, columns)
            for value in sweep.values:
                table.rows[f"{value:,}"] = _row([results.get(Point(number, curve, value), "") for curve in curves])
            made.append(table)
    return made


def _row(found: list[Measurement | str]) -> list[str]:
    """The last cell is the ratio of their speeds."""
    cells = [
        cell for one in found for cell in (one.cells if isinstance(one, Measurement) else [one or LEFT_OUT, "-", "-"])
    ]
    if len(found) == 2:
        first, second = found
        cells.append(
            f"{second.seconds / first.seconds:.1f}"
            if isinstance(first, Measurement) and isinstance(second, Measurement)
            else "-"
        )
    return cells


def draw_pictures(sweeps: list[Sweep], results: Results, folder: Path, about: str) -> list[Path]:
    """One for each of training, decoding and long texts: time above, memory below, a column for each sweep. 1,000
    pixels wide."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plot

    made = []
    for what in dict.fromkeys(sweep.what for sweep in sweeps):
        shown = [number for number, sweep in enumerate(sweeps) if sweep.what == what]
        rows: list[tuple[str, Callable[[Measurement], float]]] = [
            ("ms a step" if what == "training" else "ms", lambda found: 1000 * found.seconds),
            ("GB at most", lambda found: found.memory),
        ]
        size = {"figsize": (5 * len(shown), 7), "layout": "constrained", "squeeze": False}
        figure, axes = plot.subplots(2, len(shown), sharey="row", sharex="col", **size)
        for line, (up, measure) in zip(axes, rows):
            for axis, number in zip(line, shown):
                _panel(axis, number, sweeps[number], results, measure)
            line[0].set_ylabel(up)
        for axis, number in zip(axes[0], shown):
            axis.set_title(sweeps[number].fixed, fontsize=10)
        for axis, number in zip(axes[1], shown):
            axis.set_xlabel(sweeps[number].by)
        handles, names = axes[0, 0].get_legend_handles_labels()
        if len(names) > 1:
            figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=9, handlelength=3)
        figure.suptitle(f"{what}: {about}", fontsize=11, wrap=True)
        made.append(folder / f"scaling-{what}.png")
        figure.savefig(made[-1], dpi=100)
        plot.close(figure)
    return made


def _panel(axis: Any, number: int, sweep: Sweep, results: Results, measure: Callable[[Measurement], float]) -> None:
    """Both axes logarithmic. A cross at the bottom, where there are no curves, means out of memory."""
    empty = True
    for curve in sweep.curves:
        found = {value: results.get(Point(number, curve, value)) for value in sweep.values}
        points = {value: measure(one) for value, one in found.items() if isinstance(one, Measurement) and measure(one)}
        empty = empty and not points
        axis.plot(list(points), list(points.values()), markersize=5, label=curve.name, **curve.style)
        lost = [value for value, one in found.items() if one == NO_MEMORY]
        if lost:
            up = 0.04 + 0.05 * sweep.curves.index(curve)  # of the panel
            over, colour = axis.get_xaxis_transform(), curve.style["color"]
            axis.plot(lost, [up] * len(lost), "x", color=colour, transform=over)
            axis.text(lost[0], up, f"{NO_MEMORY}  ", color=colour, transform=over, ha="right", va="center", fontsize=8)
    axis.set_xscale("log", base=2)
    if empty:  # such an axis cannot be logarithmic
        axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", color="grey")
    else:
        axis.set_yscale("log", subs=())
        axis.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axis.yaxis.set_major_formatter("{x:,g}")  # powers need fonts that may be missing
    axis.set_xticks(sweep.values, [f"{value // 1024}k" if value >= 1024 else str(value) for value in sweep.values])
    axis.tick_params(labelsize=9)
    axis.minorticks_off()
    axis.grid(alpha=0.3)
