"""Transformer-XL's claim (Dai 2019): a text that is read in segments with a carried state is evaluated far faster than
by re-reading, for every token, a window of as many tokens as it attends to.

    carried segments    each segment once, after the state of those before it; for models whose state is bounded
    re-read windows     for every token a window that ends with it, one token further each time
    separate windows    each segment once, with nothing before it

A segment has `train.max_tokens` tokens, and a re-read window as many as a layer sees at most: the lookback of the mask,
or a segment where a mask has none. Rows of the text lie side by side, and every forward pass has about BATCH_TOKENS
tokens, whatever the way. Of a window that is re-read only the last token's output is computed where a model can do so.

The loss, in nats per token, is that of the same tokens for all ways: drawn at random, always the same, from those with
enough text before them. Through several layers a carried state reaches further back than any window does. Tokens per
second count the tokens that are predicted, in the median pass, and the speed-up is against re-read windows.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.compare.measurements import synchronise
from headway.compare.probes import ProbeRow
from headway.config.config import Config
from headway.errors import ConfigError, HeadwayError
from headway.nn.cache.kv import DecoderState
from headway.nn.masks.masks import make_mask
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.objectives import refuse_unbounded_memory

BATCH_TOKENS = 2048
TEXT_TOKENS = 16384  # read in segments
SAMPLED_TOKENS = 256  # whose windows are re-read, and whose loss counts
MAX_SECONDS = 10.0  # of one way, after which it stops: then fewer tokens are in the sample
SAMPLE_SEED = 0


class Reading(NamedTuple):
    losses: Tensor  # nats, of each token
    tokens_per_second: float


def measure(model: Transformer, stream: np.ndarray, config: Config, special: SpecialTokens) -> list[ProbeRow]:
    if model.config.sides != ["decoder"]:
        raise HeadwayError("the probe segment_evaluation measures causal language models, and this one has an encoder.")
    length = config.train.max_tokens
    context = _lookback(model) or length
    needed = -(-context // length) + 1  # segments of a row
    ids = lay_out_rows(stream, length, needed).to(model.device)
    readings: dict[str, Reading] = {}
    if _is_bounded(model):
        readings["carried segments"] = read_segments(model, ids, length, carry=True, needed=needed)
    separate = read_segments(model, ids, length, carry=False, needed=needed)
    done = min(reading.losses.shape[1] for reading in (separate, *readings.values()))  # before time was up
    rows, ends = draw_sample(len(ids), context - 1, done, SAMPLED_TOKENS)
    again = reread_windows(model, ids, rows, ends, context)
    readings |= {"re-read windows": again, "separate windows": separate}
    contexts: dict[str, float | str] = {
        "carried segments": _lookback(model) or "all",
        "re-read windows": context,
        "separate windows": length,
    }
    measured = len(again.losses)
    table: list[ProbeRow] = []
    for way, reading in readings.items():
        losses = reading.losses if reading is again else reading.losses[rows[:measured], ends[:measured]]
        table.append(
            {
                "way": way,
                "context": contexts[way],
                "tokens": measured,
                "loss": float(losses.mean()),
                "tokens_per_second": reading.tokens_per_second,
                "speed_up": reading.tokens_per_second / again.tokens_per_second,
            }
        )
    return table


def lay_out_rows(stream: np.ndarray, length: int, needed: int) -> Tensor:
    """The beginning of the text in rows that follow each other: (rows, segments · length + 1). The last id of each is
    a label only. Every row has at least `needed` segments."""
    size = min(TEXT_TOKENS, len(stream) - 1)
    rows = max(1, min(BATCH_TOKENS // length, size // (length * needed)))
    segments = max(size // (rows * length), needed)
    if rows * segments * length >= len(stream):
        raise HeadwayError(
            f"the probe segment_evaluation needs {rows * segments * length + 1:,} tokens of validation text for a "
            f"context of {(needed - 1) * length:,}, and there are {len(stream):,}. Give more text, or leave it out."
        )
    starts = np.arange(rows)[:, None] * segments * length
    return torch.from_numpy(stream[starts + np.arange(segments * length + 1)].astype(np.int64))


def read_segments(model: Transformer, ids: Tensor, length: int, *, carry: bool, needed: int = 1) -> Reading:
    """Every segment of all rows once. `needed`: segments that are read even if there is no time."""

    def read(segment: Tensor, state: DecoderState | None) -> Tensor:
        return token_losses(model, model.decode(segment[:, :-1], state=state), segment[:, 1:])

    segments = [ids[:, start : start + length + 1] for start in range(0, ids.shape[1] - 1, length)]
    read(segments[0], model.new_state(len(ids)) if carry else None)  # warm up
    state = model.new_state(len(ids)) if carry else None
    losses, speed = _time_passes([lambda part=part: read(part, state) for part in segments], model.device, needed)  # type: ignore[misc]
    return Reading(torch.cat(losses, 1), speed)


def reread_windows(model: Transformer, ids: Tensor, rows: Tensor, ends: Tensor, context: int) -> Reading:
    """The losses of the tokens after position `ends` of `rows`, each at the end of a window of its own."""
    steps = torch.arange(1 - context, 2, device=ids.device)

    def read(row: Tensor, end: Tensor) -> Tensor:
        windows = ids[row[:, None], end[:, None] + steps]  # (windows, context + 1)
        return token_losses(model, model.decode(windows[:, :-1], last=True), windows[:, -1:])[:, 0]

    count = max(1, BATCH_TOKENS // context)
    batches = list(zip(rows.to(ids.device).split(count), ends.to(ids.device).split(count)))
    read(*batches[0])  # warm up
    losses, speed = _time_passes([lambda batch=batch: read(*batch) for batch in batches], model.device, 1)  # type: ignore[misc]
    return Reading(torch.cat(losses), speed)


def draw_sample(rows: int, first: int, last: int, count: int) -> tuple[Tensor, Tensor]:
    """Rows and positions, from `first` to before `last`, of at most `count` different tokens."""
    width = last - first
    drawn = np.random.default_rng(SAMPLE_SEED).permutation(rows * width)[:count]
    return torch.from_numpy(drawn // width), torch.from_numpy(first + drawn % width)


def token_losses(model: Transformer, hidden: Tensor, labels: Tensor) -> Tensor:
    """Of hidden (B, T, d) and labels (B, T), in nats: (B, T)."""
    logits = model.logits(hidden)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, 1)
    return F.cross_entropy(wide, labels.flatten(), reduction="none").view_as(labels)


def _time_passes(passes: list[Callable[[], Tensor]], device: torch.device, needed: int) -> tuple[list[Tensor], float]:
    """The results of all passes, or of those, at least `needed`, for which there is time; and tokens per second."""
    results: list[Tensor] = []
    seconds: list[float] = []  # per token
    begun = time.perf_counter()
    for number, run in enumerate(passes):
        if number >= needed and time.perf_counter() - begun > MAX_SECONDS:
            break
        synchronise(device)
        started = time.perf_counter()
        results.append(run())
        synchronise(device)
        seconds.append((time.perf_counter() - started) / results[-1].numel())
    return results, 1 / median(seconds)


def _lookback(model: Transformer) -> int | None:
    """How many tokens a layer sees at most, the current one included; None: all, or a state of all."""
    lookbacks = [make_mask(part).lookback for part in model.config.decoder.tiled("mask")]
    return None if None in lookbacks else max(found for found in lookbacks if found is not None)


def _is_bounded(model: Transformer) -> bool:
    """Whether a state can be carried on for ever."""
    try:
        refuse_unbounded_memory(model.config.decoder)
    except ConfigError:
        return False
    return True
