"""Pictures of one trace, as the panels of the page have them: what was likely, what the search tried, where tokens went."""

from pathlib import Path
from typing import Any

from headway.inspect.attention import label
from headway.inspect.embeddings import ways
from headway.inspect.events import places_in
from headway.inspect.plots import plot, readable, save
from headway.inspect.trace import Trace

ROWS = 6  # of the likeliest at each place
STYLES = {"runs": "-", "ends": "-", "cut": "-", "pruned": ":"}
WINS, GOES = "#1a5fa8", "#6d7a8a"


def draw_likely(trace: Trace, path: str | Path) -> None:
    """A column for each place of the output: the likeliest tokens there, best first, dark where the model was sure. What
    was taken has a frame."""
    places = places_in(trace, ROWS)["places"][: len(trace.written.ids)]
    rows = max(len(place["ids"]) for place in places)
    figure, axis = plot().subplots(figsize=(1 + 0.95 * len(places), 1.1 + 0.42 * rows), layout="constrained")
    table = [[place["probabilities"][row] for place in places] for row in range(rows)]
    drawn = axis.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    for column, place in enumerate(places):
        for row, (token, piece) in enumerate(zip(place["ids"], place["pieces"])):
            share = place["probabilities"][row]
            ink = {"color": "white" if share > 0.5 else "black", "fontsize": 8, "ha": "center", "va": "center"}
            axis.text(column, row, f"{_short(piece)}\n{share:.1%}", **ink)
            if token == place["chosen"]:
                axis.add_patch(_frame(column, row))
    axis.set_xticks(range(len(places)), [readable(piece) for piece in trace.written.pieces], fontsize=8)
    axis.set_yticks(range(rows), range(1, rows + 1), fontsize=8)
    axis.set_ylabel("rank", fontsize=8)
    axis.set_title("what was likely at each place", fontsize=10)
    figure.colorbar(drawn, ax=axis, pad=0.01).ax.tick_params(labelsize=7)
    save(figure, path)


def draw_beam(trace: Trace, path: str | Path) -> None:
    """Steps from left to right, ranks from top to bottom; what was pruned is dotted, the winner drawn thick."""
    nodes = trace.tree()
    ranks, counts = [], dict[int, int]()
    for node in nodes:
        ranks.append(counts.get(node.step, 0))
        counts[node.step] = ranks[-1] + 1
    won = set(_winner(trace))
    figure, axis = plot().subplots(
        figsize=(0.6 + 0.95 * len(counts), 0.8 + 0.36 * max(counts.values())), layout="constrained"
    )
    for number, node in enumerate(nodes):
        style = {"color": WINS if number in won else GOES, "linewidth": 2.4 if number in won else 0.9}
        if node.parent is not None:
            across, down = (node.step - 1, node.step), (ranks[node.parent], ranks[number])
            axis.plot(across, down, STYLES[node.fate], zorder=1, **style)
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": style["color"]}
        box |= {"linestyle": STYLES[node.fate], "linewidth": 1.8 if number in won else 0.8}
        axis.text(
            node.step, ranks[number], _short(trace.pieces[node.ids[-1]]), fontsize=8, ha="center", va="center", bbox=box
        )
    axis.set(xlim=(-0.6, len(counts) - 0.4), ylim=(max(counts.values()) - 0.4, -0.6), xlabel="step", ylabel="rank")
    axis.set_xticks(range(len(counts)), range(1, len(counts) + 1), fontsize=8)
    axis.set_yticks(range(max(counts.values())), range(1, max(counts.values()) + 1), fontsize=8)
    axis.set_title(readable(f"what the search looked at: {trace.output}"), fontsize=10)
    save(figure, path)


def draw_ways(trace: Trace, side: str, path: str | Path) -> None:
    """The way of each token through the layers, in the plane in which the vectors differ most; the dot is its end."""
    stages, places = ways(trace.tensors, side)
    pieces = (trace.source if side == "encoder" else trace.target).pieces
    figure, axis = plot().subplots(figsize=(7, 4.6), layout="constrained")
    for number, piece in enumerate(pieces):
        across, up = places[:, number, 0], places[:, number, 1]
        axis.plot(across, up, color=GOES, linewidth=0.8, alpha=0.7)
        axis.plot(across[-1], up[-1], "o", color=WINS, markersize=5)
        axis.annotate(readable(piece), (across[-1], up[-1]), (5, 3), textcoords="offset points", fontsize=9)
    axis.margins(0.12)
    axis.set(xticks=[], yticks=[])
    axis.set_title(f"{side}: from the embedding through {len(stages) - 1} layers", fontsize=10)
    save(figure, path)


def _winner(trace: Trace) -> list[int]:
    """The nodes of the output, from its end back; of several ends with the same tokens, the likeliest."""
    nodes, produced = trace.tree(), trace.written.ids[trace.forced :]
    ends = [n for n, node in enumerate(nodes) if node.ids == produced and node.fate in ("ends", "cut")]
    way: list[int] = []
    at = max(ends, key=lambda n: nodes[n].logp, default=None)
    while at is not None:
        way.append(at)
        at = nodes[at].parent
    return way


def _short(piece: str) -> str:
    shown = label(piece)
    return (shown if len(shown) <= 10 else f"{shown[:9]}…").replace("$", r"\$")


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, fill=False, edgecolor="#d9480f", linewidth=1.6)
