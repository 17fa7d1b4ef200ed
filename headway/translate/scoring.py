"""Score given translations: the log-probability of a target given its source (teacher forcing)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headway.decode.batching import batch_by_size
from headway.decode.padding import pad_rows
from headway.decode.reference.model import ModelStepper
from headway.errors import HeadwayError
from headway.translate.results import ScoredPair as ScoredPair

if TYPE_CHECKING:
    from headway.translate.translator import Translator

POSITIONS_PER_CHUNK = 512  # whose logits over the whole vocabulary are in memory at the same time
MAX_SCORED_TOKENS = 4096  # a side: the memory of attention grows with their square


def score_pairs(
    translator: "Translator", pairs: Sequence[tuple[str, str]], target: str = "", source: str = ""
) -> list[ScoredPair]:
    """One ScoredPair a pair, in order. Each side is read as one sentence, without the space around it.

    Two blank sides have no tokens and the log-probability 0. A pair with more tokens than the model has positions, or
    than fit in memory, has the log-probability NaN, and a warning.

    target, source: languages, where the model has several"""
    check_pairs(pairs)
    if any(config.model.predicted_length is not None for config in translator.configs):
        raise HeadwayError(
            "this model was trained by masked_target: it has a probability for each masked token, and none for a whole "
            "text. Score with a model of the objective translation."
        )
    reader = translator.tokenizers.source
    writer = translator.tokenizers.target
    direction = translator.direction_tokens(source, target)
    lead = direction.target_lead
    stripped = [(one.strip(), other.strip()) for one, other in pairs]
    sources = [direction.wrap_source(ids) for ids in reader.encode_batch([one for one, _ in stripped])]
    targets = [[*lead, *ids, writer.end] for ids in writer.encode_batch([other for _, other in stripped])]
    trained_tokens = translator.config.train.max_tokens
    limit = translator.max_positions or max(MAX_SCORED_TOKENS, trained_tokens)
    sizes = [max(len(source_ids), len(target_ids)) for source_ids, target_ids in zip(sources, targets)]
    rows = [row for row, pair in enumerate(stripped) if any(pair) and sizes[row] <= limit]
    logps: list[list[float]] = [[] for _ in pairs]
    for batch in batch_by_size(rows, sizes.__getitem__, translator.batch_tokens):
        ids = [sources[row] for row in batch], [targets[row] for row in batch]
        for row, found in zip(batch, score_ids(translator.steppers, *ids, start=writer.start, pad=writer.pad)):
            logps[row] = found[len(lead) :]
    scored = []
    for row, pair in enumerate(pairs):
        tokens = targets[row][len(lead) :] if any(stripped[row]) else []
        logp = math.nan if sizes[row] > limit else math.fsum(logps[row])
        score = translator.config.search.score(logp, len(lead) + len(tokens))
        warnings = _length_warnings(sizes[row], limit, trained_tokens)
        scored.append(ScoredPair(*pair, logp, score, tokens, logps[row], warnings))
    return scored


def check_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Raise HeadwayError for what is not a (source, target)."""
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise HeadwayError(f"give pairs of two strings, (source, target), not {pair!r}.")


def _length_warnings(size: int, limit: int, trained_tokens: int) -> list[str]:
    if size > limit:
        return [f"not scored: it has {size} tokens, and this model reads at most {limit}"]
    if size > trained_tokens:
        return [
            f"it has {size} tokens, and the model was trained on at most {trained_tokens}: the score may mean little"
        ]
    return []


@torch.no_grad()
def score_ids(
    steppers: Sequence[ModelStepper],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start: int,
    pad: int,
) -> list[list[float]]:
    """The log-probability of each target id after those before it. An ensemble averages probabilities."""
    device = steppers[0].device
    source, source_valid = pad_rows(sources, pad, device)
    inputs, valid = pad_rows([[start, *target[:-1]] for target in targets], pad, device)  # (B, T)
    labels, _ = pad_rows(targets, pad, device)  # (B, T)
    per_model = []
    for model in (stepper.model for stepper in steppers):
        hidden = model.decode(inputs, valid, memory=model.encode(source, source_valid)).flatten(0, 1)  # (B · T, d)
        ids = labels.flatten()
        chunks = [slice(first, first + POSITIONS_PER_CHUNK) for first in range(0, len(ids), POSITIONS_PER_CHUNK)]
        per_model.append(torch.cat([_gather_logps(model.logits(hidden[chunk]), ids[chunk]) for chunk in chunks]))
    logps = (torch.stack(per_model).logsumexp(0) - math.log(len(per_model))).view_as(labels)  # (B, T)
    return [row[: len(target)] for row, target in zip(logps.tolist(), targets)]


def _gather_logps(logits: Tensor, ids: Tensor) -> Tensor:
    """log p of each id (N,) under its logits (N, V), in float32 as in a search."""
    return logits.float().log_softmax(-1).gather(1, ids[:, None])[:, 0]
