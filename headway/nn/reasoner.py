"""A graph reasoner: message passing over the nodes of a graph, whose states are a memory for the layers of a decoder.

    numbers, name of a node ─► z ─┐
                                  ├─ round: hidden = process(z, hidden, edges, task) ─┐ … ─► Memory (B, N, d)
    numbers of an edge ─► e ──────┘      ▲                                            │
                                         └────────────────────────────────────────────┘ └► pointers, marks

It is the processor of a neural algorithmic reasoner (Veličković & Blundell 2021; Ibarz 2022): the same weights in every
round, messages of all pairs of nodes of which each keeps the largest by channel, and a gate that decides how much of a
state is new. Nodes have no order: permuted nodes have permuted states.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.build import Cost, Scope
from headway.nn.context import ForwardReport
from headway.nn.graphs import NO_NAME, Graphs
from headway.nn.layers.linear import Dense
from headway.nn.layers.norms import LayerNorm
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.sequence import Memory, positions_from_start

INITIAL_GATE = -3.0  # bias: at first a round changes little
MAX_NODES = 128  # of a graph: memory grows with the square, with triplets with the cube


class MessagePassing(nn.Module):
    """One round. Node j hears m_j = max over i of (z_i W₁ + z_j W₂ + e_ij W₃ + g W₄), where z is input and state:

    new = norm(relu(z W₅ + m W₆)),  next state = gate · new + (1 - gate) · state
    """

    keep_float = ("sender", "receiver", "edge", "graph", "own", "heard", "gate_own", "gate_heard", "gate")

    def __init__(self, width: int, gated: bool = True, norm: bool = True) -> None:
        super().__init__()
        self.sender, self.receiver, self.own = (dense(2 * width, width) for _ in range(3))
        self.edge, self.graph, self.heard = (dense(width, width) for _ in range(3))
        self.norm = LayerNorm(LayerNorm.Config(), width) if norm else None
        self.gate_own = dense(2 * width, width) if gated else None
        self.gate_heard = dense(width, width) if gated else None
        self.gate = dense(width, width) if gated else None
        if self.gate is not None and self.gate.bias is not None:
            nn.init.constant_(self.gate.bias, INITIAL_GATE)

    def links(self, edges: Tensor, graph: Tensor) -> Tensor:
        """edges (B, N, N, w), graph (B, w) -> the part of messages that is the same in every round (B, N, N, w)"""
        links: Tensor = self.edge(edges) + self.graph(graph)[:, None, None]
        return links

    def messages(self, nodes: Tensor, links: Tensor, state: Tensor, heard: Tensor) -> Tensor:
        """From the first node to the second (B, N, N, w); -inf where it is not heard (B, N, N)."""
        z = torch.cat([nodes, state], -1)
        sums: Tensor = self.receiver(z)[:, None] + self.sender(z)[:, :, None] + links
        return sums.masked_fill(~heard[..., None], -torch.inf)

    def forward(self, nodes: Tensor, messages: Tensor, state: Tensor) -> Tensor:
        """nodes and state (B, N, w), messages (B, N, N, w) -> the next state (B, N, w)"""
        best = messages.amax(1)
        best = best.masked_fill(best == -torch.inf, 0.0)  # who hears nobody
        z = torch.cat([nodes, state], -1)
        new: Tensor = F.relu(self.own(z) + self.heard(best))
        if self.norm is not None:
            new = self.norm(new)
        if self.gate is None or self.gate_own is None or self.gate_heard is None:
            return new
        share: Tensor = self.gate(F.relu(self.gate_own(z) + self.gate_heard(best))).sigmoid()
        return new * share + state * (1 - share)


class TripletMessages(nn.Module):
    """What every pair of nodes hears by way of a third: relu(max over i of (a sum over i, j, k and their edges) W), a
    state for each edge (Dudzik & Veličković 2022)"""

    keep_float = ("nodes", "edges", "graph", "output")

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.nodes = dense(2 * width, 3 * channels)  # of i, j, k
        self.edges = dense(width, 3 * channels)  # of ij, ik, jk
        self.graph = dense(width, channels)
        self.output = dense(channels, width)

    def forward(self, nodes: Tensor, edges: Tensor, graph: Tensor, state: Tensor, valid: Tensor) -> Tensor:
        """-> (B, N, N, w); valid (B, N): which nodes can be the third"""
        z = torch.cat([nodes, state], -1)
        first, second, third = self.nodes(z).split(self.channels, -1)  # (B, N, c) each
        one, other, far = self.edges(edges).split(self.channels, -1)  # (B, N, N, c) each
        sums = first[:, :, None, None] + second[:, None, :, None] + third[:, None, None, :]
        sums = sums + one[:, :, :, None] + other[:, :, None, :] + far[:, None] + self.graph(graph)[:, None, None, None]
        best = sums.masked_fill(~valid[:, :, None, None, None], -torch.inf).amax(1)  # (B, N, N, c)
        best = best.masked_fill(~valid.any(1)[:, None, None, None], 0.0)
        return F.relu(self.output(best))


class NodeOutputs(nn.Module):
    """What is read off the states: at which node each points, and whether it is marked."""

    keep_float = ("pointing", "pointed", "edge", "pointer", "mark")

    def __init__(self, width: int, triplets: bool) -> None:
        super().__init__()
        self.pointing, self.pointed = (dense(2 * width, width) for _ in range(2))
        self.edge = dense((2 if triplets else 1) * width, width)
        self.pointer = dense(width, 1)
        self.mark = dense(2 * width, 1)

    def forward(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """nodes (B, N, 2w), edges (B, N, N, w or 2w) -> scores of pointers (B, N, N), and of marks (B, N)"""
        targets = (self.pointed(nodes)[:, :, None] + self.edge(edges)).transpose(1, 2)  # (B, N, N, w)
        pairs = torch.maximum(self.pointing(nodes)[:, :, None], targets)
        return self.pointer(pairs)[..., 0], self.mark(nodes)[..., 0]


class Reasoning(NamedTuple):
    """What a reasoner says of graphs."""

    memory: Memory  # (B, N, d)
    pointers: Tensor  # (B, N, N) scores; -inf where there is no node
    marks: Tensor  # (B, N) scores: above 0 is marked

    def loss(self, graphs: Graphs) -> Tensor:
        """Mean over all nodes with a target, of cross-entropy of pointers and of marks."""
        pointed = graphs.pointers != IGNORE_INDEX
        scores = self.pointers.float().masked_fill(~pointed[..., None], 0.0)  # a row of padding alone would be NaN
        total = F.cross_entropy(
            scores.flatten(0, 1), graphs.pointers.flatten(), ignore_index=IGNORE_INDEX, reduction="sum"
        )
        marked = graphs.marks != IGNORE_INDEX
        wrong = F.binary_cross_entropy_with_logits(self.marks.float(), graphs.marks.float(), reduction="none")
        total = total + torch.where(marked, wrong, 0.0).sum()
        return total / (pointed.sum() + marked.sum()).clamp(min=1)

    def correct(self, graphs: Graphs) -> Tensor:
        """(B,) Whether all nodes with a target are right; true of a graph that has none."""
        pointed = (self.pointers.argmax(-1) == graphs.pointers) | (graphs.pointers == IGNORE_INDEX)
        marked = ((self.marks > 0) == (graphs.marks == 1)) | (graphs.marks == IGNORE_INDEX)
        return (pointed & marked).all(1)


class NoReasoner:
    """None: takes that of a preset away"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"


class MessagePassingReasoner(nn.Module):
    """Rounds of messages between all nodes, the largest of each channel"""

    keep_float = ("node", "edge_input", "to_model")

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "mpnn"
        width: int = number(64, low=1)
        rounds: int | None = number(None, low=1, high=1024)  # = the nodes of each graph
        triplets: int = number(8, low=0)  # channels of messages by way of a third node; 0: none
        gated: bool = True
        norm: bool = True
        messages: Literal["all", "edges"] = "all"  # between all nodes, or along edges alone
        numbers: int = number(1, low=1)  # of a node
        edge_numbers: int = number(1, low=1)
        name_tokens: int = number(1, low=0)  # of the name of a node that are read; 0: names are not
        tasks: int = number(1, low=1)  # that it can be told apart

        def cost(self, scope: Scope, vocabulary: int) -> Cost:
            """Parameters alone: graphs have other sizes than texts, see `flops`."""
            w, t = self.width, self.triplets
            processor = 3 * (2 * w + 1) * w + 3 * (w + 1) * w + 2 * w * self.norm
            processor += ((2 * w + 1) * w + 2 * (w + 1) * w) * self.gated
            triplets = ((2 * w + 1) * 3 * t + (w + 1) * 3 * t + (w + 1) * t + (t + 1) * w) * (t > 0)
            inputs = (self.numbers + 1) * w + (self.edge_numbers + 2) * w + (self.tasks + 1) * w
            inputs += self.name_tokens * vocabulary * w
            edge_width = (2 if t else 1) * w
            outputs = 2 * (2 * w + 1) * w + (edge_width + 1) * w + (w + 1) + (2 * w + 1)
            model = (2 * w + 1) * scope.d_model
            return Cost(parameters=processor + triplets + inputs + outputs + model)

    def __init__(self, config: Config, scope: Scope, vocabulary: int) -> None:
        super().__init__()
        self.config = c = config
        self.vocabulary = vocabulary
        self.node = dense(c.numbers, c.width)
        self.names = nn.Embedding(c.name_tokens * vocabulary, c.width) if c.name_tokens else None
        self.edge_input = dense(c.edge_numbers + 1, c.width)
        self.tasks = nn.Embedding(c.tasks + 1, c.width)  # the last: none that is known
        self.process = MessagePassing(c.width, c.gated, c.norm)
        self.triplets = TripletMessages(c.width, c.triplets) if c.triplets else None
        self.outputs = NodeOutputs(c.width, c.triplets > 0)
        self.to_model = dense(2 * c.width, scope.d_model)

    def forward(self, graphs: Graphs, report: ForwardReport | None = None) -> Reasoning:
        nodes, edges, graph = self._read(graphs)
        valid = graphs.valid
        heard = valid[:, :, None] & valid[:, None]  # (B, N, N)
        if self.config.messages == "edges":
            itself = torch.eye(valid.shape[1], dtype=torch.bool, device=valid.device)
            heard = heard & (graphs.adjacent | itself)
        links = self.process.links(edges, graph)
        state = torch.zeros_like(nodes)
        before = state
        counts = valid.sum(1)[:, None, None]
        trace = None if report is None else report.trace
        states, shares = [state], []
        for step in range(self.config.rounds or valid.shape[1]):
            messages = self.process.messages(nodes, links, state, heard)
            new = self.process(nodes, messages, state)
            if self.config.rounds is None:  # as many as the graph has nodes, whatever others of the batch have
                goes_on = step < counts
                before, state = torch.where(goes_on, state, before), torch.where(goes_on, new, state)
            else:
                before, state = state, new
            if trace is not None:
                states.append(state)
                shares.append(self._share_of_senders(messages))
        if self.triplets is not None:
            edges = torch.cat([edges, self.triplets(nodes, edges, graph, before, valid)], -1)
        read = torch.cat([nodes, state], -1)  # (B, N, 2w)
        pointers, marks = self.outputs(read, edges)
        pointers = pointers.masked_fill(~valid[:, None], -torch.inf)
        positions = positions_from_start(valid.shape[1], valid, valid.device)
        if trace is not None:
            trace["reasoner.states"] = torch.stack(states, 1).detach()  # (B, rounds + 1, N, w)
            trace["reasoner.heard"] = torch.stack(shares, 1)  # (B, rounds, N, N) the node that hears first
            trace["reasoner.pointers"] = pointers.detach().softmax(-1)
            trace["reasoner.marks"] = marks.detach().sigmoid()
        return Reasoning(Memory(self.to_model(read), positions), pointers, marks)

    def _read(self, graphs: Graphs) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes (B, N, w), edges (B, N, N, w) and the task (B, w)."""
        nodes = self.node(graphs.numbers)
        if self.names is not None:
            known = graphs.names[..., : self.config.name_tokens]
            table = known + self.vocabulary * torch.arange(known.shape[-1], device=known.device)
            named = self.names(table.clamp(min=0)).masked_fill((known == NO_NAME)[..., None], 0.0)
            nodes = nodes + named.sum(2)
        numbers = torch.cat([graphs.adjacent[..., None].to(graphs.edges.dtype), graphs.edges], -1)
        return nodes, self.edge_input(numbers), self.tasks(graphs.task % (self.config.tasks + 1))

    @staticmethod
    def _share_of_senders(messages: Tensor) -> Tensor:
        """(B, N, N) Of the channels that each node heard, the share of each sender."""
        chosen = F.one_hot(messages.detach().argmax(1), messages.shape[1])  # (B, N, w, N)
        return chosen.float().mean(2)


def dense(inputs: int, outputs: int) -> Dense:
    """Always in float: a comparison of numbers does not survive rounding."""
    return Dense(Dense.Config(), inputs, outputs)
