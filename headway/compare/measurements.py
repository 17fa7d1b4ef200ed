"""What a trained model costs: decoding speed, the size of its state, time and memory by the length of the text."""

import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from headway.config.config import Config
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.carried_state import CarriedState
from headway.train.dataset import Dataset
from headway.train.lm_dataset import make_validation_dataset
from headway.train.loss import cross_entropy
from headway.train.validation import mean_loss

DECODED_ROWS, DECODED_TOKENS = 8, 128  # of the measurement of a language model's speed
STATE_TOKENS = 1024  # after which the size of a state is measured
PIECE_TOKENS = 1024  # of the pieces of validation text whose losses are compared
MAX_LENGTH_SECONDS = 5.0  # a length that takes longer ends the curve
MIN_LENGTH_SECONDS = 0.2  # shorter ones are repeated


@torch.no_grad()
def piece_losses(model: Transformer, dataset: Dataset, config: Config, special: SpecialTokens) -> list[list[float]]:
    """[nats, tokens] of each piece of the validation text, the same pieces for every model: for a paired bootstrap."""
    found = []
    carried = CarriedState(model, config.train.objective.carry, trainable=False)
    for part, shard in enumerate(dataset.epoch(0)):
        for number, indices in enumerate(shard.batches(PIECE_TOKENS, [0, part])):
            random = np.random.default_rng([0, part, number])
            batch = config.train.objective.collate([shard.examples[i] for i in indices], special, random)
            state = carried.state_for(0, len(indices))
            found.append([float(cross_entropy(model, batch.to(model.device), state=state)), float(batch.label_count)])
    return found


def loss_by_length(
    model: Transformer, stream: np.ndarray, lengths: Sequence[int], config: Config, special: SpecialTokens
) -> list[dict[str, Any]]:
    """The loss of a language model on a text that is read in pieces of other lengths than it was trained on."""
    found: list[dict[str, Any]] = []
    for length in lengths:
        dataset = make_validation_dataset(stream, length, config.train.objective)
        try:
            found.append({"length": length, "loss": mean_loss(model, dataset, config, special).loss})
        except HeadwayError as error:  # a model with a limit, such as learned positions
            found.append({"length": length, "refused": str(error)})
    return found


@torch.no_grad()
def decoded_tokens_per_second(model: Transformer) -> float:
    """Of a language model that continues a few texts at once, token by token."""
    ids = torch.zeros(DECODED_ROWS, 1, dtype=torch.long, device=model.device)
    state = model.new_state(DECODED_ROWS)
    for _ in range(4):  # warm up
        model.decode(ids, state=state)
    synchronise(model.device)
    started = time.perf_counter()
    for _ in range(DECODED_TOKENS):
        ids = model.logits(model.decode(ids, state=state, last=True)).argmax(-1)
    synchronise(model.device)
    return DECODED_ROWS * DECODED_TOKENS / (time.perf_counter() - started)


@torch.no_grad()
def state_bytes(model: Transformer) -> int | None:
    """That decoding keeps of one text of STATE_TOKENS tokens, cross-attention apart; None without a decoder, or if
    the model cannot read as much."""
    if "decoder" not in model.config.sides:
        return None
    memory = None
    if "encoder" in model.config.sides:
        memory = model.encode(torch.zeros(1, 1, dtype=torch.long, device=model.device))
    state = model.new_state(1, memory)
    try:
        for _ in range(8):
            model.decode(torch.zeros(1, STATE_TOKENS // 8, dtype=torch.long, device=model.device), state=state)
    except HeadwayError:
        return None
    caches = [cache for layer in state.layers for name, cache in layer.items() if name != "cross"]
    return sum(cache.bytes for cache in caches)


def measure_lengths(model: Transformer, lengths: list[int]) -> list[dict[str, Any]]:
    """Seconds and bytes of one forward and backward pass over a text of each length, in growing order, until one takes
    too long, does not fit into memory or is refused."""
    found: list[dict[str, Any]] = []
    before = _peak_bytes(model.device)
    for length in sorted(lengths):
        try:
            seconds = _time_length(model, length)
        except HeadwayError as error:
            found.append({"length": length, "refused": str(error)})
            break
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            found.append({"length": length, "refused": str(error).splitlines()[0]})
            break
        found.append({"length": length, "seconds": seconds, "bytes": max(0, _peak_bytes(model.device) - before)})
        if seconds > MAX_LENGTH_SECONDS:
            break
    return found


def _time_length(model: Transformer, length: int) -> float:
    """The fastest of a few passes."""
    ids = torch.randint(model.config.vocabulary or 1, (1, length), device=model.device)
    times: list[float] = []
    while not times or (sum(times) < MIN_LENGTH_SECONDS and len(times) < 5):
        synchronise(model.device)
        started = time.perf_counter()
        source, target = (ids if side in model.config.sides else None for side in ("encoder", "decoder"))
        model(source, target).hidden.sum().backward()
        model.zero_grad(set_to_none=True)
        synchronise(model.device)
        times.append(time.perf_counter() - started)
    return min(times)


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
