"""RetNet's claim (Sun 2023): three equal forms of retention, a state of one size and a latency per token that is the
same after any number of tokens.

For each operation that the retention layers of a model have, at its heads and widths, on random inputs of one text:

    …_seconds                 of a forward pass in each form, the fastest of a few, in the model's dtype
    …_difference              the largest to the recurrent form, the specification, in float64
    state_bytes               of one layer, which the operation returns
    model_state_bytes         of all layers, after this many tokens of the validation text
    decode_seconds_per_token  of the whole model after them, the median of a few tokens

A form stops after the length at which it takes more than MAX_SECONDS, and the parallel one before its matrix of decays
would be larger than MAX_MATRIX_BYTES; what was not measured is "".
"""

import time
from collections import Counter
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.compare.measurements import synchronise
from headway.compare.probes import ProbeRow
from headway.config.config import Config
from headway.errors import HeadwayError
from headway.nn.mixers.retention import GATE_TEMPERATURE, Retention
from headway.nn.ops.retention import Form, fixed_log_decay, retain
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
FORMS: tuple[Form, ...] = ("recurrent", "parallel", "chunkwise")
MAX_SECONDS = 2.0
MIN_SECONDS = 0.2  # shorter passes are repeated
MAX_PASSES = 5
MAX_MATRIX_BYTES = 2**29  # of the decays between all pairs of tokens, in float64; several such exist at once
READ_TOKENS = 512  # of the context at once
MAX_READ_SECONDS = 5.0  # of the context: a longer one is not read
WARM_UP_TOKENS, TIMED_TOKENS = 2, 15  # decoded after the context


class Operation(NamedTuple):
    """What the time of retention depends on."""

    heads: int
    d_k: int
    d_v: int
    gated: bool
    chunk: int

    def draw_inputs(
        self, length: int, dtype: torch.dtype, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q, k, v and the logarithms of decays of one text, always the same."""
        random = torch.Generator().manual_seed(0)

        def draw(*shape: int) -> Tensor:
            return torch.randn(1, self.heads, length, *shape, generator=random, dtype=torch.float64).to(device)

        q, k, v = draw(self.d_k), draw(self.d_k) * self.d_k**-0.5, draw(self.d_v)
        decay = F.logsigmoid(draw()) / GATE_TEMPERATURE if self.gated else fixed_log_decay(self.heads, device)
        return q.to(dtype), k.to(dtype), v.to(dtype), decay


class Decoding(NamedTuple):
    seconds: float  # of one token
    bytes: int  # of the state


def measure(model: Transformer, stream: np.ndarray, config: Config, special: SpecialTokens) -> list[ProbeRow]:
    configs: list[Any] = [layer.config for layer in model.modules() if isinstance(layer, Retention)]
    if not configs:
        raise HeadwayError(
            'the probe retention_forms needs layers with the mixer "retention", and this model has none. Leave it out.'
        )
    operations = Counter(Operation(c.heads, c.d_k, c.d_v, c.gated, c.chunk) for c in configs)
    decoded = decode_after(model, stream) if model.config.sides == ["decoder"] else {}
    dtype = next(model.parameters()).dtype
    rows: list[ProbeRow] = []
    for operation, layers in operations.items():
        stopped: set[Form] = set()
        for length in LENGTHS:
            found = decoded.get(length)
            rows.append(
                {
                    "heads": operation.heads,
                    "d_k": operation.d_k,
                    "d_v": operation.d_v,
                    "decay": "gated" if operation.gated else "fixed",
                    "layers": layers,
                    "length": length,
                    **measure_forms(operation, length, dtype, model.device, stopped),
                    "model_state_bytes": "" if found is None else found.bytes,
                    "decode_seconds_per_token": "" if found is None else found.seconds,
                }
            )
    return rows


def measure_forms(
    operation: Operation, length: int, dtype: torch.dtype, device: torch.device, stopped: set[Form]
) -> ProbeRow:
    """Seconds and differences at one length, and the bytes of the state. What has become too slow joins `stopped`."""
    if operation.heads * length**2 * 8 > MAX_MATRIX_BYTES:
        stopped.add("parallel")
    forms = [form for form in FORMS if form not in stopped]
    names = [*(f"{form}_seconds" for form in FORMS), *(f"{form}_difference" for form in FORMS[1:]), "state_bytes"]
    row: ProbeRow = dict.fromkeys(names, "")
    inputs = operation.draw_inputs(length, dtype, device)
    for form in forms:
        seconds, state = time_form(inputs, form, operation.chunk)
        row |= {f"{form}_seconds": seconds, "state_bytes": state.nbytes}
        if seconds > MAX_SECONDS:
            stopped.add(form)
    if "recurrent" in forms:
        wide = operation.draw_inputs(length, torch.float64, device)
        expected, _ = retain(*wide, form="recurrent")
        for form in forms[1:]:
            output, _ = retain(*wide, form=form, chunk=operation.chunk)
            row[f"{form}_difference"] = float((output - expected).abs().max())
    return row


def time_form(inputs: tuple[Tensor, Tensor, Tensor, Tensor], form: Form, chunk: int) -> tuple[float, Tensor]:
    """Seconds of the fastest pass, and the state after it."""
    device = inputs[0].device
    least = 2 if device.type == "cuda" else 1  # the first pass may compile
    times: list[float] = []
    while len(times) < least or (sum(times) < MIN_SECONDS and len(times) < MAX_PASSES):
        synchronise(device)
        started = time.perf_counter()
        _, state = retain(*inputs, form=form, chunk=chunk)
        synchronise(device)
        times.append(time.perf_counter() - started)
    return min(times), state


def decode_after(model: Transformer, stream: np.ndarray) -> dict[int, Decoding]:
    """What one more token costs after a context of each length, as far as there is time and the model reads on. The
    validation text is repeated where it is too short."""
    steps = WARM_UP_TOKENS + TIMED_TOKENS
    text = np.resize(stream, LENGTHS[-1] + steps).astype(np.int64)
    ids = torch.from_numpy(text)[None].to(model.device)
    state, done = model.new_state(1), 0
    found: dict[int, Decoding] = {}
    begun = time.perf_counter()
    for length in LENGTHS:
        try:
            for start in range(done, length, READ_TOKENS):
                model.decode(ids[:, start : min(start + READ_TOKENS, length)], state=state, last=True)
            size = state.bytes
            seconds = []
            for position in range(length, length + steps):
                synchronise(model.device)
                started = time.perf_counter()
                model.logits(model.decode(ids[:, position : position + 1], state=state))
                synchronise(model.device)
                seconds.append(time.perf_counter() - started)
        except HeadwayError:  # positions end here
            break
        found[length], done = Decoding(median(seconds[WARM_UP_TOKENS:]), size), length + steps
        if time.perf_counter() - begun > MAX_READ_SECONDS:
            break
    return found
