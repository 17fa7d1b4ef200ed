"""Traces of problems: the nodes of a graph, round by round, and who in the decoder looks at them."""

from pathlib import Path

import pytest
import torch
from train.test_solve import make_rows, train

from headway.errors import HeadwayError
from headway.inspect.attention import read_attention
from headway.inspect.trace import load_trace
from headway.inspect.tracer import trace_forward
from headway.translate.solver import Solver


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    model = train(make_rows("bfs", 40), tmp_path_factory.mktemp("traced") / "model", steps=2).model
    assert isinstance(model, Solver)
    torch.nn.init.constant_(model.model.stacks["decoder"].blocks[0].sublayers["nodes"].gate, 1.0)
    return model


def test_nodes_are_in_a_trace(solver: Solver, tmp_path: Path) -> None:
    problem = "bfs a c : a-d d-c a-e ="
    trace = solver.trace(problem)
    tensors, read = trace.tensors, len(trace.target.ids)
    assert trace.source.pieces == ["a", "c", "d", "e"]
    assert tensors["reasoner.states"].shape == (5, 4, 16) and tensors["reasoner.output"].shape == (4, 32)
    torch.testing.assert_close(tensors["reasoner.heard"].sum(-1), torch.ones(4, 4))
    torch.testing.assert_close(tensors["reasoner.pointers"].sum(-1), torch.ones(4))
    assert tensors["decoder.0.nodes.weights"].shape == (2, read, 4)
    stream = tensors["decoder.0.self.stream"] + tensors["decoder.0.nodes.output"]
    torch.testing.assert_close(tensors["decoder.0.nodes.stream"], stream)
    found = read_attention(trace)
    assert found.kind == "nodes" and found.keys == ["a", "c", "d", "e"] and len(found.queries) == read
    assert read_attention(trace, "decoder").kind == "decoder"
    answer = solver.solve([problem])[0]
    assert trace.output.replace(" ", "").endswith(answer.text.replace(" ", ""))
    trace.save(tmp_path / "trace")
    assert load_trace(tmp_path / "trace").source == trace.source
    # The same from ids alone, as the page asks for it.
    graphs = solver.graphs_of(trace.target.ids[1:])
    again = trace_forward(solver.model, [], trace.target.ids, graphs=graphs)
    torch.testing.assert_close(again["output.logps"], tensors["output.logps"])
    assert solver.graphs_of(trace.target.ids[1:4]) is None


def test_other_texts_have_no_nodes(solver: Solver) -> None:
    trace = solver.trace("hello", length=0)
    assert trace.source.pieces == [] and not any(name.startswith("reasoner") for name in trace.tensors)
    assert read_attention(trace).kind == "decoder"
    for text, settings, message in (("", {}, "give a problem"), ("hello", {"top_k": 3}, "leave out top_k")):
        with pytest.raises(HeadwayError, match=message):
            solver.trace(text, **settings)  # type: ignore[arg-type]
