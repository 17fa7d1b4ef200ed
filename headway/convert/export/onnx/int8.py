"""Dynamic quantisation: weights in int8 with a scale for each output, inputs in eight bits as they come.

onnxruntime's own tool does it for matrix products. Embeddings are done here, with a scale for each token, where the
tool has one for the whole table; and an output matrix that is the embedding, turned, is written out first, since the
tool takes only matrices that are stored as they are used. Weights that Headway stores in int8 keep their values."""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from headway.convert.export.onnx.graphs import delete_graph, save_graph

SUFFIX = "_quantized"  # of files, as transformers.js looks for them with dtype: "q8"
MAX_INT8 = 127
MIN_ROWS = 64  # of a table that is worth it


def quantise_graph(path: Path, out: Path) -> None:
    """Write a graph of floats as one of int8."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = ir.load(path)
    turn_stored_matrices(model.graph)
    quantise_embeddings(model.graph)
    prepared = out.with_suffix(".prepared")
    is_large = save_graph(model, prepared)
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # it advises a preparation that these graphs do not need
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantize_dynamic(
                prepared,
                out,
                weight_type=QuantType.QInt8,
                per_channel=True,
                use_external_data_format=is_large,
                op_types_to_quantize=["MatMul", "Gemm"],
                nodes_to_exclude=list_stacked_products(model.graph),
                extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
            )
    finally:
        logging.root.setLevel(level)
        delete_graph(prepared)
    if is_large:  # the tool names the file of weights in its own way, and it may no longer need one
        save_graph(ir.load(out), out)
        out.with_name(f"{out.name}.data").unlink()


def list_stacked_products(graph: ir.Graph) -> list[str]:
    """Products with several matrices at once, such as Shaw's tables: scales for each output are those of one."""
    products = [node for node in graph.all_nodes() if node.op_type == "MatMul" and node.inputs[1] is not None]
    constants = [(node.name, node.inputs[1].const_value) for node in products]
    return [name for name, constant in constants if constant is not None and len(constant.shape) != 2]


def turn_stored_matrices(graph: ir.Graph) -> None:
    """Store the transpose of a matrix where that is what is used."""
    for node in list(graph):
        value = node.inputs[0] if node.op_type == "Transpose" else None
        if value is None or value.const_value is None or len(value.const_value.shape) != 2:
            continue
        turned = np.ascontiguousarray(value.const_value.numpy().T)
        stored = store_array(graph, f"{value.name}.turned", turned)
        ir.convenience.replace_all_uses_with(node.outputs[0], stored)
        graph.remove(node, safe=True)


def quantise_embeddings(graph: ir.Graph) -> None:
    """E[id] -> int8[id] · scale[id]"""
    for node in list(graph):
        value = node.inputs[0] if node.op_type == "Gather" else None
        if value is None or value.const_value is None or value.dtype != ir.DataType.FLOAT:
            continue
        table = value.const_value.numpy()
        if table.ndim != 2 or len(table) < MIN_ROWS:
            continue
        scales = np.maximum(np.abs(table).max(1, keepdims=True), np.finfo(np.float32).tiny) / MAX_INT8
        small = np.rint(table / scales).astype(np.int8)
        stored = [store_array(graph, f"{value.name}.{name}", x) for name, x in (("int8", small), ("scale", scales))]
        rows, factors = (ir.node("Gather", [part, node.inputs[1]]) for part in stored)
        floats = ir.node("Cast", [rows.outputs[0]], attributes={"to": ir.DataType.FLOAT})
        product = ir.node("Mul", [floats.outputs[0], factors.outputs[0]])
        for number, new in enumerate((rows, factors, floats, product)):
            new.outputs[0].name = f"{node.outputs[0].name}.int8.{number}"
            graph.insert_before(node, new)
        ir.convenience.replace_all_uses_with(node.outputs[0], product.outputs[0])
        graph.remove(node, safe=True)
        if not value.uses():
            del graph.initializers[value.name]


def store_array(graph: ir.Graph, name: str, array: NDArray[Any]) -> ir.Value:
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.initializers[name] = value
    return value
