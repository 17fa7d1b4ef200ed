"""Sets up the training of a model that solves problems: what its reasoner has to read is found in the data."""

from collections.abc import Sequence
from typing import Any

from headway.config.config import Config
from headway.config.presets import find_preset
from headway.config.sources import Layer, merge_layers
from headway.data.labelled_files import LabelledData
from headway.errors import ConfigError

PRESET = "transnar"


def describe_problems(data: LabelledData) -> str:
    """How many there are of each kind, and how many have a graph."""
    counts = data.label_counts()
    graphs = [example.graph for example in data.examples if example.graph is not None]
    kinds = f"{len(counts)} kinds of problems: {', '.join(counts)}; " if counts else ""
    largest = max((len(graph.names) for graph in graphs), default=0)
    return f"{kinds}{len(graphs):,} of {data.lines:,} have a graph, of up to {largest} nodes"


def collect_problem_layers(
    data: LabelledData, base: str | Config, upper: Sequence[Layer], pretrained: Any = None
) -> tuple[list[Layer], str]:
    """What headway.train.setup.collect_layers does, for problems. `upper`: the layers of file, environment and
    flags."""
    if pretrained is not None:
        known = pretrained.config
        if known.model.encoder.layers:
            raise ConfigError(
                f"{pretrained.folder} has an encoder, and --task solve needs a decoder alone. Give a language model "
                "that continues text, or one that solves problems."
            )
        labels = known.labels if known.model.reasoner is not None else None
        layers = [Layer(f"model {pretrained.folder}", known.to_dict())]
        train: dict[str, Any] = {"metric": "task", "epochs": 0, "seconds": 0}
        if known.train.objective.kind != "solve":
            train["objective"] = "solve"
        kinds = {"labels": list(labels or data.label_counts()) or None}
        layers = [*layers, Layer("task solve", {**kinds, "train": train}), *upper]
        if known.model.reasoner is None:
            layers += _graph_layers(data, layers)
        return layers, f"{pretrained.folder}, to go on from"
    if isinstance(base, Config):
        layers, reason = [Layer("config", base.to_dict())], "the config given"
    else:
        name = PRESET if base == "auto" else base
        layers, reason = [Layer(f"preset {name}", find_preset(name))], f"preset {name}"
    table = {
        "labels": list(data.label_counts()) or None,
        "source_languages": [],
        "target_languages": [],
        "vocabularies": "shared",
        "train": {"metric": "task", **({} if _solves(layers) else {"objective": "solve"})},
    }
    layers = [*layers, Layer("task solve", table), *upper]
    return [*layers, *_graph_layers(data, layers)], reason


def _solves(layers: Sequence[Layer]) -> bool:
    objective = layers[0].values.get("train", {}).get("objective")
    kind = objective.get("kind") if isinstance(objective, dict) else objective
    return isinstance(kind, str) and kind.startswith("solve")


def _graph_layers(data: LabelledData, layers: Sequence[Layer]) -> list[Layer]:
    """How many numbers a node and an edge have in this data, for a model with a reasoner."""
    given = merge_layers(layers).tree.get("model", {}).get("reasoner")
    if given is None or "none" in (given, given.get("kind") if isinstance(given, dict) else ""):
        return []
    graphs = [example.graph for example in data.examples if example.graph is not None]
    if not graphs:
        raise ConfigError(
            "the model has a graph reasoner, and no problem has a graph. Give graphs (docs/transnar.md), or set "
            "model.reasoner = none."
        )
    sizes = {
        "numbers": max(1, *(len(graph.numbers[0]) for graph in graphs)),
        "edge_numbers": max([1, *(len(graph.edges[0].numbers) for graph in graphs if graph.edges)]),
        "tasks": max(1, len(data.label_counts())),
    }
    return [Layer("the graphs given", {"model": {"reasoner": sizes}})]
