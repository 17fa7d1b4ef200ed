"""Plots of one trace, like the panels of the page: predictions, the beam search tree, token paths through layers."""

from pathlib import Path
from typing import Any

from headway.inspect.attention import format_token
from headway.inspect.embeddings import project_layers
from headway.inspect.events import trace_predictions
from headway.inspect.plots import escape_label, import_pyplot, save_figure
from headway.inspect.trace import Trace

MAX_RANKS = 6  # of the likeliest tokens at each position
LINE_STYLES = {"runs": "-", "ends": "-", "cut": "-", "pruned": ":"}
OUTPUT_COLOUR = "#1a5fa8"
OTHER_COLOUR = "#6d7a8a"


def draw_predictions(trace: Trace, path: str | Path) -> None:
    """A column for each output position: the likeliest tokens there, best first, darker for higher probabilities. The
    token that was generated has a frame."""
    predictions = trace_predictions(trace, MAX_RANKS)["places"][: len(trace.written.ids)]
    rows = max(len(prediction["ids"]) for prediction in predictions)
    figure, axis = import_pyplot().subplots(
        figsize=(1 + 0.95 * len(predictions), 1.1 + 0.42 * rows), layout="constrained"
    )
    table = [[prediction["probabilities"][row] for prediction in predictions] for row in range(rows)]
    image = axis.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    for column, prediction in enumerate(predictions):
        for row, (token, piece) in enumerate(zip(prediction["ids"], prediction["pieces"])):
            probability = prediction["probabilities"][row]
            text_style = {
                "color": "white" if probability > 0.5 else "black",
                "fontsize": 8,
                "ha": "center",
                "va": "center",
            }
            axis.text(column, row, f"{_shorten_token(piece)}\n{probability:.1%}", **text_style)
            if token == prediction["chosen"]:
                axis.add_patch(_frame_patch(column, row))
    axis.set_xticks(range(len(predictions)), [escape_label(piece) for piece in trace.written.pieces], fontsize=8)
    axis.set_yticks(range(rows), range(1, rows + 1), fontsize=8)
    axis.set_ylabel("rank", fontsize=8)
    axis.set_title("likeliest tokens at each position", fontsize=10)
    figure.colorbar(image, ax=axis, pad=0.01).ax.tick_params(labelsize=7)
    save_figure(figure, path)


def draw_beam(trace: Trace, path: str | Path) -> None:
    """Steps from left to right, ranks from top to bottom; pruned hypotheses are dotted, the output is drawn thick."""
    nodes = trace.tree()
    ranks: list[int] = []
    counts: dict[int, int] = {}  # by step
    for node in nodes:
        ranks.append(counts.get(node.step, 0))
        counts[node.step] = ranks[-1] + 1
    output = set(_output_nodes(trace))
    figure, axis = import_pyplot().subplots(
        figsize=(0.6 + 0.95 * len(counts), 0.8 + 0.36 * max(counts.values())), layout="constrained"
    )
    for number, node in enumerate(nodes):
        style = {
            "color": OUTPUT_COLOUR if number in output else OTHER_COLOUR,
            "linewidth": 2.4 if number in output else 0.9,
        }
        if node.parent is not None:
            steps = (node.step - 1, node.step)
            axis.plot(steps, (ranks[node.parent], ranks[number]), LINE_STYLES[node.fate], zorder=1, **style)
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": style["color"]}
        box |= {"linestyle": LINE_STYLES[node.fate], "linewidth": 1.8 if number in output else 0.8}
        axis.text(
            node.step,
            ranks[number],
            _shorten_token(trace.pieces[node.ids[-1]]),
            fontsize=8,
            ha="center",
            va="center",
            bbox=box,
        )
    axis.set(xlim=(-0.6, len(counts) - 0.4), ylim=(max(counts.values()) - 0.4, -0.6), xlabel="step", ylabel="rank")
    axis.set_xticks(range(len(counts)), range(1, len(counts) + 1), fontsize=8)
    axis.set_yticks(range(max(counts.values())), range(1, max(counts.values()) + 1), fontsize=8)
    axis.set_title(escape_label(f"beam search: {trace.output}"), fontsize=10)
    save_figure(figure, path)


def draw_token_paths(trace: Trace, side: str, path: str | Path) -> None:
    """The path of each token through the layers, in the plane in which the vectors differ most; the dot is its end."""
    stages, points = project_layers(trace.tensors, side)
    pieces = (trace.source if side == "encoder" else trace.target).pieces
    figure, axis = import_pyplot().subplots(figsize=(7, 4.6), layout="constrained")
    for number, piece in enumerate(pieces):
        x = points[:, number, 0]
        y = points[:, number, 1]
        axis.plot(x, y, color=OTHER_COLOUR, linewidth=0.8, alpha=0.7)
        axis.plot(x[-1], y[-1], "o", color=OUTPUT_COLOUR, markersize=5)
        axis.annotate(escape_label(piece), (x[-1], y[-1]), (5, 3), textcoords="offset points", fontsize=9)
    axis.margins(0.12)
    axis.set(xticks=[], yticks=[])
    axis.set_title(f"{side}: from the embedding through {len(stages) - 1} layers", fontsize=10)
    save_figure(figure, path)


def _output_nodes(trace: Trace) -> list[int]:
    """The indices of the output's nodes, from its end back; of several ends with the same tokens, the likeliest."""
    nodes = trace.tree()
    produced = trace.written.ids[trace.forced :]
    ends = [n for n, node in enumerate(nodes) if node.ids == produced and node.fate in ("ends", "cut")]
    path: list[int] = []
    current = max(ends, key=lambda n: nodes[n].logp, default=None)
    while current is not None:
        path.append(current)
        current = nodes[current].parent
    return path


def _shorten_token(piece: str) -> str:
    text = format_token(piece)
    return (text if len(text) <= 10 else f"{text[:9]}…").replace("$", r"\$")


def _frame_patch(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, fill=False, edgecolor="#d9480f", linewidth=1.6)
