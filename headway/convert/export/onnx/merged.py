"""One graph for the first step of a decoder and for later ones: optimum's decoder_model_merged.onnx.

                                 use_cache_branch
    past_key_values.N.decoder.*  ── true: as given │ false: none ───────────────┐
    past_key_values.N.encoder.*  ── true: as given │ false: from                ├─► the step ─► logits, present.*
    encoder_hidden_states        ────────────────────┘ encoder_hidden_states ───┘

Only what is kept of the past depends on the branch; the step itself is there once."""

import onnx_ir as ir

from headway.convert.export.onnx.graphs import OPSET, name_axes
from headway.convert.export.traced.tracing import SOURCE, Axes, TracedGraph

PAST = "past_key_values."


def merge_decoder(step: ir.Model, cross: ir.Model, traced_step: TracedGraph, traced_cross: TracedGraph) -> ir.Model:
    """The step, with a choice before it of where keys and values come from. Both graphs are used up."""
    graph = step.graph
    given = {value.name: value for value in graph.inputs if value.name.startswith(PAST)}
    flag = ir.Value(name="use_cache_branch", shape=ir.Shape([1]), type=ir.TensorType(ir.DataType.BOOL))
    source = cross.graph.inputs[0]
    pasts = list(given.values())
    choice = ir.node("If", [flag], attributes={}, num_outputs=len(pasts), name="use_cache_branch_choice")
    for value, output in zip(pasts, choice.outputs):
        output.name = f"chosen.{value.name}"
        output.type = value.type
        ir.convenience.replace_all_uses_with(value, output)
    choice.attributes["then_branch"] = ir.AttrGraph("then_branch", _pass_on(pasts))
    choice.attributes["else_branch"] = ir.AttrGraph("else_branch", _start_afresh(pasts, cross.graph, graph))
    graph.insert_before(graph[0], choice)
    for value in pasts:  # empty in the first step, however long the source is
        value.shape = ir.Shape([f"past_{size}" if size == SOURCE else size for size in value.shape])
    graph.inputs.append(source)
    graph.inputs.append(flag)
    outputs = _add_cross_outputs(graph, dict(zip(given, choice.outputs)), traced_step, traced_cross)
    name_axes(graph.outputs, outputs)
    return step


def _pass_on(pasts: list[ir.Value]) -> ir.Graph:
    nodes = [ir.node("Identity", [value], name=f"given.{value.name}") for value in pasts]
    for value, node in zip(pasts, nodes):
        node.outputs[0].name = f"given.{value.name}"
    return ir.Graph([], [node.outputs[0] for node in nodes], nodes=nodes, name="later_step", opset_imports={"": OPSET})


def _start_afresh(pasts: list[ir.Value], cross: ir.Graph, outer: ir.Graph) -> ir.Graph:
    """No past tokens, and the keys and values of the source. Its weights become the outer graph's, where tools that
    quantise look for them."""
    nodes = list(cross)
    outputs = dict(zip((value.name.replace("present.", PAST, 1) for value in cross.outputs), cross.outputs))
    cross.outputs.clear()
    for node in nodes:
        cross.remove(node)
        for value in node.outputs:
            value.name = f"source.{value.name}"
    for value in list(cross.initializers.values()):
        del cross.initializers[value.name]
        value.name = f"source.{value.name}"
        outer.initializers[value.name] = value
    cross.inputs.clear()
    bounds = [_constant(outer, f"empty.{name}", n) for name, n in (("start", 0), ("end", 0), ("axis", 2))]
    for value in pasts:
        if value.name not in outputs:
            node = ir.node("Slice", [value, *bounds], name=f"empty.{value.name}")
            node.outputs[0].name = f"empty.{value.name}"
            outputs[value.name] = node.outputs[0]
            nodes.append(node)
    return ir.Graph(
        [], [outputs[value.name] for value in pasts], nodes=nodes, name="first_step", opset_imports={"": OPSET}
    )


def _constant(graph: ir.Graph, name: str, number: int) -> ir.Value:
    value = ir.Value(name=name, const_value=ir.tensor([number], name=name))
    graph.initializers[name] = value
    return value


def _add_cross_outputs(
    graph: ir.Graph, chosen: dict[str, ir.Value], step: TracedGraph, cross: TracedGraph
) -> dict[str, Axes]:
    """Keys and values of the source are handed on, in the order of the layers."""
    own = dict(zip(step.outputs, graph.outputs))
    axes = {**step.outputs, **cross.outputs}
    names = ["logits", *(name.replace(PAST, "present.", 1) for name in chosen)]
    graph.outputs.clear()
    for name in names:
        if name in own:
            graph.outputs.append(own[name])
            continue
        node = ir.node("Identity", [chosen[name.replace("present.", PAST, 1)]], name=name)
        node.outputs[0].name = name
        node.outputs[0].type = chosen[name.replace("present.", PAST, 1)].type
        graph.append(node)
        graph.outputs.append(node.outputs[0])
    return {name: axes[name] for name in names}
