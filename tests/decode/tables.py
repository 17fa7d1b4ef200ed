"""A model that is a table of random numbers, and the search written out plainly."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from headway.decode import Hypothesis, Search, SpecialTokens

START, END = 0, 1
SPECIAL = SpecialTokens(start=START, end=END, suppress=(START,))


class Table:
    """Next-token distributions that depend on the source and on everything before, and on nothing else."""

    def __init__(
        self, vocabulary: int, *, seed: int = 0, grain: float = 0.0, holes: float = 0.0, device: str = "cpu"
    ) -> None:
        """grain above 0 rounds logits to its multiples, so that many are equal; a share of `holes` is impossible."""
        self.vocabulary, self.seed, self.grain, self.holes = vocabulary, seed, grain, holes
        self.device = torch.device(device)
        self.known: dict[tuple[tuple[int, ...], tuple[int, ...]], list[float]] = {}
        self.widths: list[int] = []  # how many hypotheses each step was asked about
        self.selects = 0

    def logps(self, source: tuple[int, ...], ids: tuple[int, ...]) -> list[float]:
        """After these ids, which do not hold the start token."""
        if (source, ids) not in self.known:
            self.known[source, ids] = self.invent(source, ids)
        return self.known[source, ids]

    def invent(self, source: tuple[int, ...], ids: tuple[int, ...]) -> list[float]:
        dice = random.Random(f"{self.seed} {source} {ids}")
        logits = [dice.gauss(0, 2) for _ in range(self.vocabulary)]
        if self.grain:
            logits = [round(logit / self.grain) * self.grain for logit in logits]
        logps = torch.tensor(logits, dtype=torch.float64).log_softmax(0).tolist()
        return [-torch.inf if dice.random() < self.holes else logp for logp in logps]

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> "Read":
        lines = [[]] * rows if source is None else source.tolist()
        real = [[True] * len(line) for line in lines] if valid is None else valid.tolist()
        assert len(lines) == rows
        return Read(self, [tuple(i for i, ok in zip(line, oks) if ok) for line, oks in zip(lines, real)])

    def step(self, state: "Read", ids: Tensor, valid: Tensor | None = None) -> Tensor:
        assert ids.shape[0] == len(state.ids)
        self.widths.append(ids.shape[0])
        real = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
        for row, (line, oks) in enumerate(zip(ids.tolist(), real.tolist())):
            assert oks == sorted(oks, reverse=True)  # padded on the right
            state.ids[row] += tuple(token for token, ok in zip(line, oks) if ok)
        every = [self.logps(source, line[1:]) for source, line in zip(state.sources, state.ids)]
        return torch.tensor(every, dtype=torch.float64, device=self.device)


class Read:
    def __init__(self, table: Table, sources: list[tuple[int, ...]]) -> None:
        self.table, self.sources, self.ids = table, sources, [()] * len(sources)

    def select(self, rows: Tensor) -> None:
        self.table.selects += 1
        self.sources = [self.sources[row] for row in rows.tolist()]
        self.ids = [self.ids[row] for row in rows.tolist()]


def naive(logps: Callable[[list[int]], list[float]], search: Search, prefix: list[int], room: int) -> list[Hypothesis]:
    """Beam search for one sentence, by the beam search stopping rule of headway/decode/reference/beam_search.py.
    logps: what may follow these ids, -inf for what may not."""
    width = search.beam_size
    running: list[tuple[float, list[float], list[int]]] = [(0.0, [], prefix)]
    found: list[tuple[float, list[float], list[int]]] = []
    for length in range(1, room + 1):
        every = []
        for total, parts, ids in running:
            nexts = sorted((-logp, token) for token, logp in enumerate(logps(ids)) if logp > -torch.inf)
            every += [(total - cost, [*parts, -cost], [*ids, token]) for cost, token in nexts]
        every = sorted(every, key=lambda candidate: -candidate[0])[: 2 * width]
        if not every:
            found = found or running
            break
        found += [item for item in every[:width] if item[2][-1] == END or length == room]
        running = [item for item in every if item[2][-1] != END][:width]
        if len(found) >= width or not running:
            break
    if room <= 0:
        found = running
    done = [bool(parts) and ids[-1] == END for _, parts, ids in found]
    results = [
        Hypothesis(ids[:-1] if end else ids, total, search.score(total, len(parts)), parts, end, len(prefix))
        for (total, parts, ids), end in zip(found, done)
    ]
    return sorted(results, key=lambda hypothesis: -hypothesis.score)[: search.n_best]


def allowed(
    table: Table, source: tuple[int, ...], search: Search, special: SpecialTokens
) -> Callable[[list[int]], list[float]]:
    """The table's numbers with what the settings forbid set to -inf, the slow way."""

    def logps(ids: list[int]) -> list[float]:
        values = list(table.logps(source, tuple(ids)))
        size = search.no_repeat_ngram
        grams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
        for token in range(table.vocabulary):
            repeats = size > 0 and len(ids) >= size - 1 and (*ids[len(ids) - size + 1 :], token) in grams
            early = token == special.end and len(ids) + 1 < search.min_length
            if token in special.suppress or repeats or early:
                values[token] = -torch.inf
        return values

    return logps
