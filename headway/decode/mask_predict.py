"""Mask-predict: search with a decoder that predicts all tokens of a target at once, in a fixed number of iterations.

    source ─► encoder ─► the likeliest lengths N ─► N masks each ─► predict all
                                                       └─ mask the n least certain tokens, predict these again ─┘
                                                          n = N · (iterations - t) / iterations for t = 1, 2 …

(Ghazvininejad 2019). Each row has `length_beam` candidates of different lengths; they rank by the mean log-probability
of their tokens, each as of the iteration that predicted it. Nothing depends on other rows: all candidates go through
the decoder side by side, and padding is masked."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.config.search import Search
from headway.config.search_methods import MaskPredictMethod
from headway.decode.constraints import PhraseConstraints
from headway.decode.reference.model import ModelStepper
from headway.decode.types import Hypothesis, Recorder
from headway.errors import ConfigError, HeadwayError
from headway.nn.sequence import Memory, TokenPositions
from headway.nn.transformer import Transformer, valid_mask
from headway.text.tokenizer.special_tokens import SpecialTokens

IterationListener = Callable[[int, Tensor, Tensor], None]  # iteration, ids (B · L, N), their log-probabilities
MAX_TOKENS = 1 << 16  # of candidates that go through the decoder together: a batch may have a thousand for each row
MAX_LOGITS = 1 << 25  # computed at once: 128 MiB

# Settings of other searches, their neutral values, and why they mean nothing here.
NEUTRAL = {
    "sample": (False, "it draws nothing"),
    "no_repeat_ngram": (0, "it does not write from left to right"),
    "min_length": (0, "lengths are predicted"),
    "shortlist": (False, "it has no shortlists"),
    "force_end": (False, "there is no end token"),
    "renormalise": (False, "its probabilities are those of the whole vocabulary"),
}


def find_method(stepper: Any, search: Search) -> MaskPredictMethod.Config | None:
    """How to search by mask-predict; None: by a beam. Raises ConfigError if the model cannot be searched so."""
    models = [one.model for one in getattr(stepper, "steppers", [stepper]) if isinstance(one, ModelStepper)]
    at_once = [model.length_predictor is not None for model in models]
    method = search.method
    if not any(at_once):
        if method is not None and method.kind == "mask_predict":
            raise ConfigError(
                "mask_predict needs a model that predicts masked tokens, and this one predicts the next token. Leave "
                "it out, or train one: --objective masked_target.",
                "search.method",
            )
        return None
    if method is not None and method.kind == "beam":
        raise ConfigError(
            "this model was trained by the objective masked_target: it predicts all tokens at once, and has no beam. "
            "Leave it out, or use mask_predict.",
            "search.method",
        )
    if len(models) > 1:
        raise HeadwayError("mask_predict searches one model, not an ensemble: load one of them.")
    return MaskPredictMethod.Config() if method is None else method


def check_request(
    search: Search,
    prefixes: Sequence[Sequence[int]],
    record: Recorder | None,
    constraints: Sequence[PhraseConstraints] | None,
) -> None:
    """Raise for what only a search from left to right can do."""
    for name, (value, why) in NEUTRAL.items():
        if getattr(search, name) != value:
            raise ConfigError(f"{name} is not for mask_predict: {why}. Leave it out.", f"search.{name}")
    for given, what in (
        (any(prefixes), "an output cannot be given its beginning"),
        (constraints is not None, "terms of a glossary cannot be demanded"),
        (record is not None, "there is no beam to show, and no step for each token"),
    ):
        if given:
            raise HeadwayError(f"this model translates by mask_predict, all tokens at once: {what}.")


@torch.no_grad()
def mask_predict(
    stepper: ModelStepper,
    source: Tensor,
    valid: Tensor | None,
    *,
    special_tokens: SpecialTokens,
    search: Search,
    method: MaskPredictMethod.Config,
    on_iteration: IterationListener | None = None,
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses for each row of source (B, S), best first; for n_best above length_beam, as many lengths
    are tried. on_iteration: called with all candidates after every iteration."""
    model = stepper.reference_model
    memory = model.encode(source, valid)
    beam = max(method.length_beam, search.n_best)
    rows, lengths = choose_lengths(model, memory, valid, search, beam)  # (C,)
    decoder = Refinement(model, memory, rows, lengths, special_tokens)
    for iteration in range(method.iterations):
        decoder.step(lengths * (method.iterations - iteration) // method.iterations)
        if on_iteration is not None:
            on_iteration(iteration, decoder.ids, decoder.logps)
    found: list[list[Hypothesis]] = [[] for _ in source]
    for row, hypothesis in zip(rows.tolist(), decoder.hypotheses()):
        found[row].append(hypothesis)
    return [sorted(own, key=lambda one: -one.score)[: search.n_best] for own in found]


def choose_lengths(
    model: Transformer, memory: Memory, valid: Tensor | None, search: Search, beam: int
) -> tuple[Tensor, Tensor]:
    """The candidates: a row (C,) and a length (C,) for each. A row has the likeliest `beam` lengths from 1 to the
    maximum length of the search, or all of these if they are fewer."""
    assert model.length_predictor is not None
    scores = model.length_predictor(memory).float()
    size = memory.values.shape[1]
    sizes = [size] * len(scores) if valid is None else valid.sum(1).tolist()
    # An output of beam search with its end token is one longer.
    limits = torch.tensor([max(search.max_output_length(own) - 1, 1) for own in sizes], device=scores.device)
    allowed = torch.arange(scores.shape[1], device=scores.device)
    allowed = (allowed >= 1) & (allowed <= limits[:, None])
    lengths = scores.masked_fill(~allowed, -torch.inf).topk(min(beam, scores.shape[1])).indices  # (B, L)
    rows, order = allowed.gather(1, lengths).nonzero(as_tuple=True)
    return rows, lengths[rows, order]


def select_memory(memory: Memory, rows: Tensor) -> Memory:
    """The encoder output of these rows, which may repeat."""
    own = memory.positions
    positions = own.positions if len(own.positions) == 1 else own.positions[rows]
    valid = None if own.valid is None else own.valid[rows]
    return Memory(memory.values[rows], TokenPositions(positions, valid, own.end, own.in_order))


def choose_masked(logps: Tensor, valid: Tensor, count: Tensor) -> Tensor:
    """(C, N) Which tokens are masked: of each row the `count` (C,) least certain ones."""
    # Stable, so that equal log-probabilities, as at first, are masked from the left on every device.
    order = logps.masked_fill(~valid, torch.inf).argsort(dim=1, stable=True)
    return order.argsort(dim=1) < count[:, None]


class Refinement:
    """The candidates of all rows, (C, N) tokens and their log-probabilities, refined in place."""

    def __init__(
        self, model: Transformer, memory: Memory, rows: Tensor, lengths: Tensor, special_tokens: SpecialTokens
    ) -> None:
        self.model = model
        self.memory = memory  # of each row, not of each candidate
        self.rows = rows
        self.lengths = lengths
        self.mask = special_tokens.mask
        self.never = torch.tensor(sorted({*special_tokens.suppress, special_tokens.end}), device=lengths.device)
        longest = int(lengths.max())
        self.valid = valid_mask(lengths, longest)
        self.ids = torch.where(self.valid, self.mask, special_tokens.pad)
        self.logps = torch.full(self.ids.shape, -torch.inf, device=lengths.device)

    def step(self, masked: Tensor) -> None:
        """Predict this many (C,) of each candidate's least certain tokens again."""
        chosen = choose_masked(self.logps, self.valid, masked)
        candidates = masked.nonzero()[:, 0]  # a short one has nothing to predict in the last iterations
        if not len(candidates):
            return
        parts = candidates.split(max(MAX_TOKENS // self.ids.shape[1], 1))
        hidden = torch.cat([self.decode_masked(part, chosen[part]) for part in parts])
        best = [
            self.choose_tokens(part) for part in hidden.split(max(MAX_LOGITS // len(self.model.output_embedding), 1))
        ]
        self.ids[chosen] = torch.cat([ids for ids, _ in best])
        self.logps[chosen] = torch.cat([logps for _, logps in best])

    def decode_masked(self, candidates: Tensor, chosen: Tensor) -> Tensor:
        """The decoder's output at the chosen tokens of these candidates, where it reads masks."""
        ids, memory = self.ids[candidates], select_memory(self.memory, self.rows[candidates])
        return self.model.decode(ids.masked_fill(chosen, self.mask), self.valid[candidates], memory=memory)[chosen]

    def choose_tokens(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(N, d) -> the likeliest token of each (N,), and its log-probability."""
        logps = self.model.logits(hidden).float().log_softmax(-1)  # (N, V)
        if not bool(logps.isfinite().all()):
            raise HeadwayError(
                "the model's log-probabilities are not numbers (NaN or infinite). Its weights are damaged, or it "
                "overflows in this precision: try float32."
            )
        best = logps.index_fill_(1, self.never, -torch.inf).max(-1)
        return best.indices, best.values

    def hypotheses(self) -> list[Hypothesis]:
        """One for each candidate; its score is the mean log-probability of its tokens."""
        found = []
        for ids, logps, length in zip(self.ids.tolist(), self.logps.tolist(), self.lengths.tolist()):
            total = sum(logps[:length])
            found.append(Hypothesis(ids[:length], total, total / length, logps[:length], True))
        return found
