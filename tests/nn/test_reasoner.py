"""The graph reasoner and the layers that listen to it: against CLRS's processors, by hand, and in what they promise."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from golden_files import golden
from torch import Tensor, nn

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.context import ForwardReport
from headway.nn.graphs import NO_NAME, Graphs
from headway.nn.layers.linear import Dense
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.reasoner import MessagePassing, MessagePassingReasoner, NodeOutputs, TripletMessages
from headway.nn.transformer import Transformer
from nn.building import small

REASONER = {"kind": "mpnn", "width": 6, "triplets": 3, "numbers": 2, "edge_numbers": 1, "name_tokens": 2, "tasks": 2}
LINEAR = "p_clrs_processor/linear"


def make_graphs(*sizes: int, seed: int = 0, seats: int = 0) -> Graphs:
    """Random graphs of these sizes, padded with what must not matter, to `seats` nodes."""
    random = torch.Generator().manual_seed(seed)
    rows, seats = len(sizes), max(*sizes, seats, 1)
    valid = torch.arange(seats) < torch.tensor(sizes)[:, None]

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=random)

    graphs = Graphs(
        numbers(rows, seats, 2), whole(29, rows, seats, 2), valid, numbers(rows, seats, seats, 1),
        numbers(rows, seats, seats) > 0.5, whole(2, rows),
        torch.where(valid, whole(min(filter(None, sizes), default=1), rows, seats), IGNORE_INDEX),
        torch.where(valid, whole(2, rows, seats), IGNORE_INDEX),
    )  # fmt: skip
    graphs.names[:, :, 1][numbers(rows, seats) > 0] = NO_NAME
    return graphs


def make_reasoner(seed: int = 0, **settings: Any) -> MessagePassingReasoner:
    torch.manual_seed(seed)
    config = make_part("reasoner", {**REASONER, **settings})
    scope = Scope(d_model=16, dropout=0.0, norm=make_part("norm", "layernorm"), linear=make_part("linear", "dense"))
    reasoner = MessagePassingReasoner(config, scope, 29).double()
    for parameter in reasoner.parameters():
        nn.init.normal_(parameter, 0.0, 0.5)
    return reasoner


def make_model(gate: float = 0.7, **changes: Any) -> Transformer:
    torch.manual_seed(0)
    sides: dict[str, Any] = {"residual": "pre", **changes.pop("decoder", {})}
    table = {"encoder": 0, "reasoner": REASONER, **changes}
    model = Transformer(small(decoder=sides, **table)).double().eval()
    for block in model.stacks["decoder"].blocks:  # type: ignore[union-attr]
        nn.init.constant_(block.sublayers["nodes"].gate, gate)  # type: ignore[index, union-attr, arg-type]
    return model


def fill(layers: dict[str, Dense], tensors: dict[str, Tensor], prefix: str) -> None:
    """A linear layer from one of haiku's, or from several side by side."""
    for names, layer in layers.items():
        assert layer.bias is not None
        found = [(tensors[f"{prefix}{name}.w"], tensors[f"{prefix}{name}.b"]) for name in names.split()]
        layer.weight.copy_(torch.cat([weight.T for weight, _ in found]))
        layer.bias.copy_(torch.cat([bias for _, bias in found]))


@torch.no_grad()
@pytest.mark.parametrize("name", ["triplets", "edges"])
def test_against_clrs(name: str) -> None:
    tensors, sizes = golden("clrs_processors")
    width, own = sizes["width"], f"w.{name}."
    full = name == "triplets"
    process = MessagePassing(width, gated=full, norm=full).double()
    names = ("receiver", "sender", "edge", "graph", "own", "heard")
    layers = {f"{LINEAR}{f'_{n}' * (n > 0)}": getattr(process, part) for n, part in enumerate(names)}
    if full:
        assert process.norm is not None
        process.norm.gain.copy_(tensors[f"{own}p_clrs_processor/layer_norm.scale"])
        process.norm.bias.copy_(tensors[f"{own}p_clrs_processor/layer_norm.offset"])
        layers |= {
            f"{LINEAR}_{14 + n}": getattr(process, part) for n, part in enumerate(("gate_own", "gate_heard", "gate"))
        }
    fill(layers, tensors, own)
    nodes, edges, graph, state = (tensors[f"in.{part}"] for part in ("nodes", "edges", "graph", "state"))
    heard = torch.ones_like(tensors["in.adjacent"]) if full else tensors["in.adjacent"]
    new = process(nodes, process.messages(nodes, process.links(edges, graph), state, heard), state)
    torch.testing.assert_close(new, tensors[f"out.{name}.state"], atol=1e-9, rtol=0)
    joined = edges
    if full:
        triplets = TripletMessages(width, sizes["triplets"]).double()
        thirds = {
            f"{LINEAR}_6 {LINEAR}_7 {LINEAR}_8": triplets.nodes,
            f"{LINEAR}_9 {LINEAR}_10 {LINEAR}_11": triplets.edges,
        }
        fill({**thirds, f"{LINEAR}_12": triplets.graph, f"{LINEAR}_13": triplets.output}, tensors, own)
        found = triplets(nodes, edges, graph, state, torch.ones(nodes.shape[:2], dtype=torch.bool))
        torch.testing.assert_close(found, tensors["out.triplets.triplets"], atol=1e-9, rtol=0)
        joined = torch.cat([edges, found], -1)
    outputs = NodeOutputs(width, triplets=full).double()
    ends = {"pointer_dec_linear": outputs.pointing, "pointer_dec_linear_1": outputs.pointed}
    ends |= {"pointer_dec_linear_2": outputs.edge, "pointer_dec_linear_3": outputs.pointer}
    fill({**ends, "mask_dec_linear": outputs.mark}, tensors, own)
    pointers, marks = outputs(torch.cat([nodes, new], -1), joined)
    torch.testing.assert_close(pointers, tensors[f"out.{name}.pointers"], atol=1e-9, rtol=0)
    torch.testing.assert_close(marks, tensors[f"out.{name}.marks"], atol=1e-9, rtol=0)


@torch.no_grad()
def test_a_round_by_hand() -> None:
    """Width 1: z = (input, state); the message of i to j is 2·input_i + e_ij; a node takes what it hears, by half."""
    process = MessagePassing(1, gated=True, norm=False)
    for parameter in process.parameters():
        parameter.zero_()
    process.sender.weight.copy_(torch.tensor([[2.0, 0.0]]))
    process.edge.weight.fill_(1.0)
    process.heard.weight.fill_(1.0)
    nodes, state = torch.tensor([[[1.0], [3.0], [5.0]]]), torch.tensor([[[4.0], [0.0], [8.0]]])
    edges = torch.zeros(1, 3, 3, 1)
    edges[0, 0, 1], edges[0, 2, 0] = 10.0, -9.0
    heard = torch.tensor([[[True, True, False], [True, True, False], [True, False, False]]])
    messages = process.messages(nodes, process.links(edges, torch.zeros(1, 1)), state, heard)
    assert messages[0, :, 0, 0].tolist() == [2.0, 6.0, 1.0] and messages[0, :, 1, 0].tolist() == [12.0, 6.0, -torch.inf]
    assert process(nodes, messages, state)[0, :, 0].tolist() == [(6 + 4) / 2, (12 + 0) / 2, (0 + 8) / 2]


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"rounds": 2, "messages": "edges"}, {"triplets": 0, "gated": False}])
def test_nodes_have_no_order(settings: dict[str, Any]) -> None:
    reasoner, graphs, order = make_reasoner(**settings), make_graphs(5, 5), torch.tensor([3, 0, 4, 2, 1])
    found = reasoner(graphs)
    other = reasoner(
        graphs._replace(
            numbers=graphs.numbers[:, order],
            names=graphs.names[:, order],
            edges=graphs.edges[:, order][:, :, order],
            adjacent=graphs.adjacent[:, order][:, :, order],
        )
    )
    torch.testing.assert_close(other.memory.values, found.memory.values[:, order], atol=1e-12, rtol=0)
    torch.testing.assert_close(other.pointers, found.pointers[:, order][:, :, order], atol=1e-12, rtol=0)
    torch.testing.assert_close(other.marks, found.marks[:, order], atol=1e-12, rtol=0)
    assert found.memory.values.std(1).min() > 0.01  # and are not all the same


@torch.no_grad()
def test_padding_and_other_graphs_change_nothing() -> None:
    reasoner = make_reasoner()
    together = reasoner(make_graphs(5, 3, 0, seats=7))
    for row, size in ((0, 5), (1, 3)):
        graphs = make_graphs(5, 3, 0, seats=7)
        parts = [x[row : row + 1, :size] if x.dim() > 1 else x[row : row + 1] for x in graphs]
        alone = Graphs(*parts)._replace(edges=parts[3][:, :, :size], adjacent=parts[4][:, :, :size])
        found = reasoner(alone)
        torch.testing.assert_close(together.memory.values[row, :size], found.memory.values[0], atol=1e-12, rtol=0)
        torch.testing.assert_close(together.pointers[row, :size, :size], found.pointers[0], atol=1e-12, rtol=0)
        assert together.pointers[row, :size, size:].max() == -torch.inf
    assert together.memory.values.isfinite().all()


def test_losses_count_nodes_with_a_target() -> None:
    reasoner, graphs = make_reasoner(), make_graphs(4, 2, 0)
    found = reasoner(graphs)
    terms = [-found.pointers[b, n].log_softmax(-1)[graphs.pointers[b, n]] for b, n in graphs.valid.nonzero().tolist()]
    signs = [(2 * graphs.marks - 1)[b, n] * found.marks[b, n] for b, n in graphs.valid.nonzero().tolist()]
    expected = (torch.stack(terms).sum() - torch.stack(signs).sigmoid().log().sum()) / 12
    torch.testing.assert_close(found.loss(graphs).double(), expected, atol=1e-6, rtol=0)
    found.loss(graphs).backward()
    assert all(
        p.grad is not None and p.grad.isfinite().all()
        for name, p in reasoner.named_parameters()
        if "to_model" not in name
    )
    right = graphs._replace(pointers=found.pointers.argmax(-1), marks=(found.marks > 0).long())
    assert found.correct(right).tolist() == [True, True, True]
    wrong = right._replace(marks=right.marks.clone())
    wrong.marks[0, 1] ^= 1
    assert found.correct(wrong).tolist() == [False, True, True]
    wrong.marks[0, 1] = IGNORE_INDEX
    assert found.correct(wrong).tolist() == [True, True, True]


@torch.no_grad()
@pytest.mark.parametrize("residual", ["pre", "post", "deepnorm"])
def test_with_a_closed_gate_it_is_the_plain_transformer(residual: str) -> None:
    model = make_model(gate=0.0, decoder={"residual": residual})
    plain = Transformer(replace(model.config, reasoner=None, decoder=replace(model.config.decoder, nodes=None)))
    state = {name: x for name, x in model.state_dict().items() if "nodes" not in name and "reasoner" not in name}
    plain.double().eval().load_state_dict(state)
    ids, nodes = torch.randint(29, (2, 6)), model.reasoner(make_graphs(4, 3)).memory
    expected = plain.decode(ids)
    assert torch.equal(model.decode(ids, nodes=nodes), expected) and torch.equal(model.decode(ids), expected)
    for block in model.stacks["decoder"].blocks:  # type: ignore[union-attr]
        nn.init.constant_(block.sublayers["nodes"].gate, 2.0)  # type: ignore[index, union-attr, arg-type]
    assert torch.equal(model.decode(ids), expected)  # without a graph, however open
    heard = model.decode(ids, nodes=model.reasoner(make_graphs(4, 0)).memory)
    assert torch.equal(heard[1], expected[1]) and not torch.allclose(heard[0], expected[0], atol=0.01)


@torch.no_grad()
def test_a_layer_that_listens_by_hand() -> None:
    model = make_model(decoder={"layers": 1, "position": "none"})
    block: Any = model.stacks["decoder"].blocks[0]  # type: ignore[union-attr]
    listener, nodes = block.sublayers["nodes"], model.reasoner(make_graphs(4, 3)).memory
    report = ForwardReport(trace={})
    model.decode(torch.randint(29, (2, 6)), nodes=nodes, report=report)
    trace = report.trace
    assert trace is not None
    s, attention = trace["decoder.0.self.stream"], listener.attention
    q = attention.query(listener.norm(s)).view(2, 6, 4, 4).transpose(1, 2)
    k, v = (layer(nodes.values).view(2, 4, 4, 4).transpose(1, 2) for layer in (attention.key, attention.value))
    scores = (q @ k.mT / 2).masked_fill(~torch.tensor([[True] * 4, [True] * 3 + [False]])[:, None, None], -torch.inf)
    heard = attention.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(trace["decoder.0.nodes.stream"], s + torch.tensor(0.7).double().tanh() * heard)
    assert (
        trace["decoder.0.nodes.weights"].shape == (2, 4, 6, 4)
        and (trace["decoder.0.nodes.weights"][1, ..., 3] == 0).all()
    )


@torch.no_grad()
def test_whole_equals_stepwise_and_rows_move() -> None:
    model = make_model(encoder={"layers": 1}, decoder={"cross": "attention(4)"})  # beside an encoder of as many tokens
    ids, source = torch.randint(29, (2, 6)), torch.randint(29, (2, 4))
    valid = torch.tensor([[True, True, True, False], [True] * 4])
    memory, nodes = model.encode(source, valid), model.reasoner(make_graphs(4, 3)).memory
    whole = model.decode(ids, memory=memory, nodes=nodes)
    state = model.new_state(2, memory, nodes=nodes)
    rows = torch.tensor([1, 0, 1])
    state.select(rows)
    steps = []
    for t in range(6):
        steps.append(model.decode(ids[rows][:, t : t + 1], state=state))
        if t == 2:
            order = torch.tensor([2, 1, 0])
            state.select(order)
            steps = [step[order] for step in steps]
    torch.testing.assert_close(torch.cat(steps, 1), whole[rows], atol=1e-12, rtol=0)
    saved = state.snapshot()
    state.restore(saved)
    other = model.new_state(3)
    other.load(state.tensors())
    one, two = (model.decode(ids[:1, :1].expand(3, 1), state=each) for each in (state, other))
    torch.testing.assert_close(one, two, atol=1e-12, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"triplets": 0, "gated": False, "norm": False, "name_tokens": 0}])
def test_costs(settings: dict[str, Any]) -> None:
    model = Transformer(small(encoder=0, decoder={"residual": "pre"}, reasoner={**REASONER, **settings}))
    counts = {name: cost.parameters for name, cost in model.config.costs().items()}
    assert counts["reasoner"] == sum(parameter.numel() for parameter in model.reasoner.parameters())
    assert sum(counts.values()) == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder": 0, "encoder": 2}, "a reasoner has a decoder that listens to it"),
        ({"decoder": {"residual": "residual_dual"}}, "need one residual stream"),
        ({"decoder": {"memory_tokens": "prefix"}}, "have no memory_tokens"),
        ({"decoder": {"streams": 2, "position": "none"}}, "have no streams"),
        ({"decoder": {"nodes": "rwkv4"}}, 'rwkv4 has no cross-attention. Set nodes = "attention"'),
        ({"reasoner": None, "decoder": {"nodes": "attention(4)"}}, "only a decoder listens to nodes"),
    ],
)
def test_configs_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    table = {"encoder": 0, "reasoner": REASONER, **changes}
    if isinstance(table.get("decoder"), dict):
        table["decoder"] = {"residual": "pre", **table["decoder"]}
    with pytest.raises(ConfigError, match=message):
        small(**table).resolved()
