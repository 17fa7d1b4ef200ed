"""ONNX graphs from traced ones."""

from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from headway.convert.export.traced.tracing import Axes, TracedGraph, quiet

OPSET = 18  # onnxruntime 1.14 and later, and its builds for browsers
MAX_SINGLE_FILE = 1_800_000_000  # bytes of weights: a graph of more than 2 GB cannot be read, so they get a file


def convert_graph(traced: TracedGraph) -> ir.Model:
    """The ONNX graph of a traced one, with its names, and without notes on where operations came from."""
    with quiet():
        program: Any = torch.onnx.export(
            traced.program,
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=list(traced.inputs),
            output_names=list(traced.outputs),
        )
    model: ir.Model = program.model
    clean_graph(model)
    name_axes(model.graph.inputs, traced.inputs)
    name_axes(model.graph.outputs, traced.outputs)
    return model


def clean_graph(model: ir.Model) -> None:
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
            if not value.is_graph_output():
                value.shape = None  # with symbols of the trace; runtimes infer it
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()


def name_axes(values: Any, names: dict[str, Axes]) -> None:
    for value, axes in zip(values, names.values(), strict=True):
        value.shape = ir.Shape(axes)


def save_graph(model: ir.Model, path: Path) -> bool:
    """Write a graph; returns whether it is so large that its weights are in a file beside it."""
    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    is_large = bool(size > MAX_SINGLE_FILE)
    ir.save(model, path, external_data=weights_path(path).name if is_large else None)
    return is_large


def weights_path(path: Path) -> Path:
    """The file with the weights of a large graph, where runtimes look for it."""
    return path.with_name(f"{path.name}_data")


def delete_graph(path: Path) -> None:
    path.unlink()
    weights_path(path).unlink(missing_ok=True)
