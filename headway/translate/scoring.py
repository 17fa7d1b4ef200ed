"""How likely a translator finds translations that somebody else wrote."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headway.decode.padding import batches, padded
from headway.decode.reference.model import ModelStepper
from headway.errors import HeadwayError
from headway.translate.results import Scored as Scored

if TYPE_CHECKING:
    from headway.translate.translator import Translator

AT_ONCE = 512  # places of which the whole vocabulary's probabilities are in memory
MOST = 4096  # tokens a side: the memory of attention grows with their square


def score_pairs(translator: "Translator", pairs: Sequence[tuple[str, str]], to: str = "") -> list[Scored]:
    """One Scored a pair, in order. Each side is taken as one sentence, without the space around it.

    Two blank sides are nothing: no tokens, log-probability 0. A pair with more tokens than the model has positions,
    or than fit in memory, is not a number, and says so.
    """
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise HeadwayError(f"a pair is (source, target), two strings, and this is {pair!r}.")
    reader, writer, lead = translator.tokenizers.source, translator.tokenizers.target, translator.tag(to)
    stripped = [(source.strip(), target.strip()) for source, target in pairs]
    sources = [[*lead, *ids, reader.end] for ids in reader.encode_batch([source for source, _ in stripped])]
    targets = [[*ids, writer.end] for ids in writer.encode_batch([target for _, target in stripped])]
    longest = translator.config.train.longest
    limit = translator.positions or max(MOST, longest)
    sizes = [max(len(source), len(target)) for source, target in zip(sources, targets)]
    rows = [row for row, pair in enumerate(stripped) if any(pair) and sizes[row] <= limit]
    logps: list[list[float]] = [[] for _ in pairs]
    for batch in batches(rows, sizes.__getitem__, translator.batch_tokens):
        asked = [sources[row] for row in batch], [targets[row] for row in batch]
        for row, found in zip(batch, score_ids(translator.steppers, *asked, start=writer.start, pad=writer.pad)):
            logps[row] = found
    scored = []
    for row, (source, target) in enumerate(pairs):
        tokens, long = targets[row] if any(stripped[row]) else [], sizes[row] > limit
        logp = math.nan if long else math.fsum(logps[row])
        told = _told(sizes[row], limit, longest)
        score = translator.config.search.score(logp, len(tokens))
        scored.append(Scored(source, target, logp, score, tokens, logps[row], told))
    return scored


def _told(size: int, limit: int, longest: int) -> list[str]:
    if size > limit:
        return [f"not scored: it has {size} tokens, and this model reads at most {limit}"]
    if size > longest:
        return [f"it has {size} tokens, and the model was trained on at most {longest}: the score may mean little"]
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
    """The log-probability of each target id after those before it. Several models vote as in a search."""
    device = steppers[0].device
    source, source_valid = padded(sources, pad, device)
    read, valid = padded([[start, *target[:-1]] for target in targets], pad, device)  # (B, T)
    asked, _ = padded(targets, pad, device)  # (B, T)
    votes = []
    for model in (stepper.model for stepper in steppers):
        hidden = model.decode(read, valid, memory=model.encode(source, source_valid))  # (B, T, d)
        places, ids = hidden.flatten(0, 1), asked.flatten()
        parts = [slice(first, first + AT_ONCE) for first in range(0, len(ids), AT_ONCE)]
        votes.append(torch.cat([_of(model.logits(places[part]), ids[part]) for part in parts]))  # (B · T,)
    logps = (torch.stack(votes).logsumexp(0) - math.log(len(votes))).view_as(asked)
    return [row[: len(target)] for row, target in zip(logps.tolist(), targets)]


def _of(logits: Tensor, ids: Tensor) -> Tensor:
    """log p of each id (N,) under its logits (N, V), as a search has it: in float32."""
    return logits.float().log_softmax(-1).gather(1, ids[:, None])[:, 0]
