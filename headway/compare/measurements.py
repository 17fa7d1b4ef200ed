"""What a trained model costs: decoding speed, the size of its state, time and memory by the length of the text."""

import resource
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any

import numpy as np
import torch

from headway.config.config import Config
from headway.errors import HeadwayError
from headway.nn.cache.kv import DecoderState
from headway.nn.layers.bitlinear import packed_state_dict
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
MAX_PASSES = 5
PREFILL_TOKENS = 512  # that a state reads at once
WARM_UP_TOKENS, TIMED_TOKENS = 3, 9  # decoded at each length


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
def decoded_tokens_per_second(model: Transformer) -> float | None:
    """Of a model that continues a few texts at once, token by token; with an encoder, after a source of one token. None
    if it cannot write as much."""
    ids = torch.zeros(DECODED_ROWS, 1, dtype=torch.long, device=model.device)
    state = model.new_state(DECODED_ROWS, model.encode(ids) if "encoder" in model.config.sides else None)
    try:
        for _ in range(4):  # warm up
            model.decode(ids, state=state)
        started = _now(model.device)
        for _ in range(DECODED_TOKENS):
            ids = model.logits(model.decode(ids, state=state, last=True)).argmax(-1)
    except HeadwayError:
        return None
    return DECODED_ROWS * DECODED_TOKENS / (_now(model.device) - started)


def model_bytes(model: Transformer) -> int:
    """Of the weights as they are stored: ternary ones packed, four to a byte."""
    is_ternary = model.config.linear.kind == "bitnet"
    weights = packed_state_dict(model) if is_ternary else model.state_dict()
    return sum(tensor.nbytes for tensor in weights.values())


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
    return _self_bytes(state)


def measure_lengths(model: Transformer, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """What a text of each length costs, in growing order, until one takes too long, does not fit into memory or is
    refused: `forward_seconds` and `backward_seconds` of a training pass, their sum `seconds`, its peak of memory
    `bytes`; then `decode_seconds` of one more token and `state_bytes` that decoding has kept."""
    training_pass = _TrainingPass(model)
    _measure_each(sorted(lengths)[:1], training_pass)  # what is compiled or allocated once shall not count
    found = _measure_each(lengths, training_pass)
    if "decoder" in model.config.sides:
        decoded = {point["length"]: point for point in _measure_each(lengths, _Decoding(model.eval()))}
        known = {point["length"]: point for point in found}
        found = [{**decoded.get(length, {}), **known.get(length, {})} for length in sorted({*known, *decoded})]
    return found


def _measure_each(lengths: Sequence[int], measure: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for length in sorted(lengths):
        started = time.perf_counter()
        try:
            found.append({"length": length, **measure(length)})
        except HeadwayError as error:
            return [*found, {"length": length, "refused": str(error)}]
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            return [*found, {"length": length, "refused": str(error).splitlines()[0]}]
        # What is compiled for a length once is not what the next one costs.
        if found[-1].get("seconds", time.perf_counter() - started) > MAX_LENGTH_SECONDS:
            break
    return found


class _TrainingPass:
    """The fastest of a few forward and backward passes."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.before = _peak_bytes(model.device)

    def __call__(self, length: int) -> dict[str, Any]:
        model = self.model
        ids = torch.randint(model.config.vocabulary or 1, (1, length), device=model.device)
        source, target = (ids if side in model.config.sides else None for side in ("encoder", "decoder"))
        forward: list[float] = []
        backward: list[float] = []
        least = 2 if model.device.type == "cuda" else 1  # kernels may be compiled for each length
        while len(forward) < least or (sum(forward) + sum(backward) < MIN_LENGTH_SECONDS and len(forward) < MAX_PASSES):
            started = _now(model.device)
            with mixed_precision(model.device):
                output = model(source, target).hidden.float().sum()
            between = _now(model.device)
            output.backward()
            backward.append(_now(model.device) - between)
            forward.append(between - started)
            model.zero_grad(set_to_none=True)
        return {
            "seconds": min(forward) + min(backward),
            "forward_seconds": min(forward),
            "backward_seconds": min(backward),
            "bytes": max(0, _peak_bytes(model.device) - self.before),
        }


class _Decoding:
    """One more token after a text of some length. The state grows from length to length; an encoder reads a source of
    the same length."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.state: DecoderState | None = None
        self.read = 0  # tokens that the state has

    @torch.no_grad()
    def __call__(self, length: int) -> dict[str, Any]:
        model = self.model
        with mixed_precision(model.device):
            if "encoder" in model.config.sides:
                source = torch.randint(model.config.source_vocabulary or 1, (1, length), device=model.device)
                self.state, self.read = model.new_state(1, model.encode(source)), 0
            self.state = self.state or model.new_state(1)
            while self.read < length:
                self._decode(min(PREFILL_TOKENS, length - self.read))
            kept = _self_bytes(self.state)
            times: list[float] = []
            for _ in range(WARM_UP_TOKENS + TIMED_TOKENS):
                started = _now(model.device)
                self._decode(1)
                times.append(_now(model.device) - started)
        return {"decode_seconds": median(times[WARM_UP_TOKENS:]), "state_bytes": kept}

    def _decode(self, tokens: int) -> None:
        ids = torch.randint(self.model.config.vocabulary or 1, (1, tokens), device=self.model.device)
        self.model.logits(self.model.decode(ids, state=self.state, last=True))
        self.read += tokens


def mixed_precision(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 on a GPU, without which it would not use FlashAttention."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def _self_bytes(state: DecoderState) -> int:
    """All that a state keeps, cross-attention apart."""
    return sum(cache.bytes for layer in state.layers for name, cache in layer.items() if name != "cross")


def _now(device: torch.device) -> float:
    synchronise(device)
    return time.perf_counter()


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
