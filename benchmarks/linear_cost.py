"""How time and memory of every mixer that claims to be linear grow with the text, beside full attention. On a CPU.

    python benchmarks/linear_cost.py [--results FILE] [--only mamba retention]
    python benchmarks/linear_cost.py --lengths 256 512 --contexts 64 128        # quickly

The mixers are those of the catalogue whose cost has no n², each with its defaults, in one layer with a narrow
feed-forward: causal where it can be, in an encoder otherwise. Attention is SDPA's, in the same run.

Training: forward and backward over one text. "x" is what a text twice as long costs: 2 is linear, 4 is quadratic.
Memory is the peak of the process above what it had before, of the first pass; time is processor time, the least of the
passes within --seconds, so that other work on the machine matters little. Decoding: a token after a short and after a
long context, through the cache, and what that keeps; only mixers whose cache does not grow, and attention.

Each setting is measured in a process of its own, one after another.
"""

import argparse
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from report import Table, append_section, versions, wrap_text
from torch import Tensor

from headway.config import catalogue
from headway.config.schema import config_class, from_dict
from headway.errors import ConfigError, HeadwayError
from headway.nn.masks.masks import CAUSAL
from headway.nn.transformer import Transformer

BASELINE = "attention"
PLACES = (("decoder", "causal"), ("encoder", "full"))  # where a mixer is tried, in this order
STEPS = 40  # tokens decoded after a context
WARM_UP_TOKENS = 64
VOCABULARY = 64


def linear_kinds() -> list[str]:
    return [
        entry.kind for entry in catalogue.CATALOGUE if entry.slot == "mixer" and entry.cost and "²" not in entry.cost
    ]


def make_config(kind: str, d_model: int, longest: int) -> Transformer.Config:
    """One layer, where this mixer is accepted; one that has a longest text is built for ours."""
    limited = any(field.name == "max_positions" for field in fields(config_class("mixer", kind)))
    mixer: dict[str, Any] = {"kind": kind} | ({"max_positions": longest} if limited else {})
    refusal = None
    for side, mask in PLACES:
        own = {"layers": 1, "mixer": mixer, "mask": mask, "position": "none", "residual": "pre"}
        own["feedforward"] = {"kind": "relu", "hidden": d_model}
        table = {"d_model": d_model, "vocabulary": VOCABULARY, "dropout": 0.0, "encoder": {"layers": 0}}
        try:
            return from_dict(Transformer.Config, table | {"decoder": {"layers": 0}} | {side: own}).resolved()
        except ConfigError as error:
            refusal = refusal or error
    assert refusal
    raise refusal


def run_alone(act: Callable[..., Any], *arguments: Any) -> Any:
    """What `act` returns in a process of its own; a HeadwayError becomes its message."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        try:
            theirs.send(act(*arguments))
        except HeadwayError as error:
            theirs.send(str(error))

    process = context.Process(target=run)
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return "the process ended: out of memory?"
    finally:
        process.join()


def read_memory(name: str) -> float:
    """MB of this process: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def measure_training(kind: str, length: int, given: argparse.Namespace) -> tuple[float, float]:
    """Milliseconds of a pass, and MB at its peak."""
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    model = Transformer(make_config(kind, given.d_model, max(given.lengths)))

    def step(ids: Tensor) -> None:
        hidden = model.encode(ids).values if "encoder" in model.config.sides else model.decode(ids)
        hidden.square().mean().backward()
        model.zero_grad(set_to_none=True)

    ids = torch.randint(VOCABULARY, (1, length))
    step(ids[:, :WARM_UP_TOKENS])  # what is imported and allocated once
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
    before = read_memory("VmRSS")
    step(ids)
    memory = read_memory("VmHWM") - before
    seconds: list[float] = []
    while len(seconds) < 2 or sum(seconds) < given.seconds:
        start = time.process_time()
        step(ids)
        seconds.append(time.process_time() - start)
    return 1e3 * min(seconds), memory


@torch.no_grad()
def measure_decoding(kind: str, context: int, given: argparse.Namespace) -> tuple[float, int]:
    """Milliseconds of a token after this context, and bytes of the cache."""
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    model = Transformer(make_config(kind, given.d_model, max(given.lengths))).eval()
    state, ids = model.new_state(1), torch.randint(VOCABULARY, (1, context + STEPS))
    for chunk in ids[:, :context].split(1024, dim=1):
        model.decode(chunk, state=state)
    seconds = []
    for t in range(context, context + STEPS):
        start = time.process_time()
        model.decode(ids[:, t : t + 1], state=state)
        seconds.append(time.process_time() - start)
    return 1e3 * statistics.median(seconds), state.bytes


def format_growth(values: list[float], first: str) -> list[str]:
    """The first value, and by how much each next one is larger."""
    return [first.format(values[0]), *(f"{b / a:.2f}x" for a, b in itertools.pairwise(values))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192, 16384], help="each twice the last")
    parser.add_argument("--contexts", type=int, nargs=2, default=[1024, 8192])
    parser.add_argument("--seconds", type=float, default=1.0, help="minimum time to measure each setting")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="kinds of mixers; attention is always measured")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    kinds = [BASELINE, *(kind for kind in linear_kinds() if kind in (given.only or linear_kinds()))]
    lengths, (short, long) = given.lengths, given.contexts
    names = [f"{length:,}" for length in lengths]
    times = Table("forward and backward, time", [f"{names[0]}, ms", *names[1:], f"of attention at {names[-1]}"])
    memory = Table("forward and backward, peak memory", [f"{names[0]}, MB", *names[1:], f"of attention at {names[-1]}"])
    decoding = Table("decoding", [f"ms a token after {short:,}", f"after {long:,}", "cache, kB", "after more"])
    full: tuple[float, float] | None = None
    for kind in kinds:
        found = [run_alone(measure_training, kind, length, given) for length in lengths]
        failures = [text for text in found if isinstance(text, str)]
        if failures:
            times.add(kind, failures[:1])
            continue
        full = full or found[-1]
        for table, number, first in ((times, 0, "{:.1f}"), (memory, 1, "{:.0f}")):
            values = [one[number] for one in found]
            table.add(kind, [*format_growth(values, first), f"{values[-1] / full[number]:.3f}"])
        config = make_config(kind, given.d_model, max(lengths))
        mixer: Any = config.decoder.mixer[0]
        if config.decoder.layers and (kind == BASELINE or mixer.bounded(CAUSAL)):
            (one, small), (other, large) = (run_alone(measure_decoding, kind, n, given) for n in (short, long))
            cells = [f"{one:.2f}", f"{other / one:.2f}x", f"{small / 1e3:.1f}", f"{large / small:.2f}x"]
            decoding.add(kind, cells)
    made = [times, memory, decoding]
    facts = f"CPU, {given.threads} thread{'s' * (given.threads > 1)}, {versions()}; one layer, d_model {given.d_model}"
    print("\n".join([wrap_text(facts), *(table.format_text() for table in made)]))
    if given.results:
        append_section(given.results, "Linear cost", f"{facts}.", made)


if __name__ == "__main__":
    main()
