"""From a vector to tokens: the output product and its scores, the softmax at any temperature, label smoothing, and the
logit lens, which asks every layer what it would say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.errors import HeadwayError
from headway.inspect.layers import check_position, finish_stream, layer_indices, stream_names
from headway.nn.transformer import Transformer

TEMPERATURES = [round(0.1 * n, 1) for n in range(1, 31)]


@dataclass(frozen=True)
class OutputScores:
    """The scores of the next token: logits = x · row + bias of each token, and their softmax."""

    x: Tensor  # (d,) the hidden vector, as the head scales or transforms it
    ids: list[int]  # of the likeliest tokens, best first; then the asked-for one, if it is not among them
    rows: Tensor  # (k, d) of the output matrix
    bias: Tensor | None  # (k,)
    logits: Tensor  # (k,)
    logps: Tensor  # (k,)
    entropy: float  # in nats
    normalisers: dict[float, float]  # by temperature τ: log Σ exp(logit / τ) over the whole vocabulary
    entropies: dict[float, float]  # by temperature


@dataclass(frozen=True)
class SmoothedLoss:
    """The loss of one token with label smoothing ε over V tokens, in training:

    (1 - ε) · -log p(right) + ε · mean over all tokens of -log p"""

    smoothing: float  # ε
    right: float  # probability that the loss demands of the right token: 1 - ε + ε / V
    others: float  # and of every other: ε / V
    surprise: float  # -log p(right)
    mean_surprise: float  # of all tokens

    @property
    def loss(self) -> float:
        return (1 - self.smoothing) * self.surprise + self.smoothing * self.mean_surprise


@dataclass(frozen=True)
class LensStage:
    """What the model would say if this were its last layer."""

    name: str  # decoder.embedded, decoder.0 …
    ids: list[list[int]]  # (positions, k) the likeliest tokens
    logps: Tensor  # (positions, k)
    expected: Tensor  # (positions,) log-probability of the token that the model then says; NaN where there is none
    ranks: list[int]  # of that token, 1 is the likeliest; 0 where there is none


def output_side(model: Transformer) -> str:
    """The side whose vectors become tokens."""
    return model.config.sides[-1]


def scores_tokens(model: Transformer) -> bool:
    """Whether there is an output product at all: some heads make one vector of a text, or score labels."""
    return hasattr(model.head, "factors")


@torch.no_grad()
def score_tokens(model: Transformer, hidden: Tensor) -> Tensor:
    """The logits of all tokens, (…, V), for vectors that go into the output head, (…, d)."""
    return _score(model, hidden)[3]


@torch.no_grad()
def read_output(
    model: Transformer, tensors: Mapping[str, Tensor], position: int, top: int = 10, asked: int | None = None
) -> OutputScores:
    """asked: a token that is told of in any case."""
    check_position(tensors["output.hidden"], position)
    x, weight, bias, logits = _score(model, tensors["output.hidden"][position])
    logps = logits.log_softmax(-1)
    ids: list[int] = logits.topk(min(top, len(logits))).indices.tolist()
    if asked is not None and asked not in ids:
        ids.append(asked)
    normalisers = {t: float((logits / t).logsumexp(-1)) for t in TEMPERATURES}
    return OutputScores(
        x=x,
        ids=ids,
        rows=_plain(weight[ids]),
        bias=None if bias is None else _plain(bias[ids]),
        logits=logits[ids],
        logps=logps[ids],
        entropy=_entropy(logps),
        normalisers=normalisers,
        entropies={t: _entropy((logits / t).log_softmax(-1)) for t in TEMPERATURES},
    )


@torch.no_grad()
def read_loss(
    model: Transformer, tensors: Mapping[str, Tensor], position: int, right: int, smoothing: float = 0.0
) -> SmoothedLoss:
    """As if this token were the right one."""
    check_position(tensors["output.hidden"], position)
    logps = _score(model, tensors["output.hidden"][position])[3].log_softmax(-1)
    share = smoothing / len(logps)
    return SmoothedLoss(smoothing, 1 - smoothing + share, share, -float(logps[right]), -float(logps.mean()))


@torch.no_grad()
def logit_lens(
    model: Transformer,
    tensors: Mapping[str, Tensor],
    positions: Sequence[int],
    expected: Sequence[int | None] = (),
    top: int = 5,
) -> list[LensStage]:
    """The last norm and the output product applied to the residual stream after the embedding and after each layer; of
    the last layer these are the model's own log-probabilities. expected: the token at each position that the model
    then says."""
    if not scores_tokens(model):
        raise HeadwayError(f'the head "{model.config.head.kind}" makes one vector of the text, and scores no tokens.')
    side = output_side(model)
    names = stream_names(tensors, side)
    stages = {f"{side}.embedded": names[0]}
    for layer in layer_indices(tensors, side):
        stages[f"{side}.{layer}"] = [name for name in names if name.startswith(f"{side}.{layer}.")][-1]
    wanted = [*expected, *[None] * (len(positions) - len(expected))]
    return [
        _read_stage(model, name, finish_stream(model, tensors, side, stream)[list(positions)], wanted, top)
        for name, stream in stages.items()
    ]


def _read_stage(model: Transformer, name: str, hidden: Tensor, expected: Sequence[int | None], top: int) -> LensStage:
    logps = _score(model, hidden)[3].log_softmax(-1)  # (positions, V)
    best = logps.topk(min(top, logps.shape[-1]))
    told = [float("nan") if token is None else float(row[token]) for row, token in zip(logps, expected)]
    ranks = [0 if token is None else int((row > row[token]).sum()) + 1 for row, token in zip(logps, expected)]
    return LensStage(name, best.indices.tolist(), best.values, torch.tensor(told), ranks)


def _score(model: Transformer, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """The factors of the output product, and the logits of hidden (…, d)."""
    like = model.output_embedding
    x, weight, bias = model.factors(hidden.to(like.device, like.dtype))
    logits = torch.nn.functional.linear(x, weight, bias)
    return _plain(x), weight, bias, _plain(logits)


def _entropy(logps: Tensor) -> float:
    return -float((logps.exp() * logps.clamp(min=-1e4)).sum())


def _plain(x: Tensor) -> Tensor:
    return x.detach().to("cpu", torch.float32)
