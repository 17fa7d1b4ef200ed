"""Long texts: retention against attention, in training steps and decoding. For one GPU; under 8 minutes.

    python benchmarks/long_text.py            # prints tables, and appends them to benchmarks/RESULTS.md
    python benchmarks/long_text.py --smoke    # tiny sizes on the CPU: checks that it runs

Training: forward and backward in bfloat16, with the same number of tokens per step at every length and equal d_model;
the bare functions, and the complete mixers with their projections. The baseline is PyTorch's own causal attention,
flash and cuDNN. Decoding: prefill of a text, then single steps, timed at several lengths.
"""

import argparse
import contextlib
import datetime
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from headway.config.schema import from_dict, make_part
from headway.nn.build import Scope, make
from headway.nn.context import Context
from headway.nn.init import initialise
from headway.nn.masks.masks import BoundMask, make_mask
from headway.nn.ops.attention import attend
from headway.nn.ops.retention import chunkwise, fixed_log_decay, retain
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer

RESULTS = Path(__file__).parent / "RESULTS.md"


class Sizes(NamedTuple):
    d_model: int
    heads: int  # of attention
    retaining: int  # of retention: d_k = d_model / heads, d_v = 2 · d_k
    tokens: int  # a step
    lengths: list[int]
    chunks: list[int]
    compiled: list[int]  # lengths at which compiled forms are timed, too: each takes a while to compile
    window: int
    decoded: list[int]
    rows: int
    steps: int
    prefill: int


GPU = Sizes(
    1024, 16, 8, 32_768, [1024, 2048, 4096, 8192, 16_384], [128, 256, 512], [4096, 8192, 16_384], 256,
    [1024, 4096, 16_384, 32_768], 16, 64, 1024,
)  # fmt: skip
SMOKE = Sizes(64, 4, 2, 128, [32, 64], [8, 16, 32], [64], 8, [16, 32], 2, 4, 8)

Run = Callable[[], torch.Tensor]


class Bench:
    def __init__(self, sizes: Sizes, device: torch.device, seconds: float) -> None:
        self.sizes, self.device, self.began, self.seconds = sizes, device, time.perf_counter(), seconds
        self.cuda = device.type == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.rows: dict[str, dict[int, str]] = {}
        self.peer: dict[int, float] = {}
        self.notes: list[str] = []

    @property
    def late(self) -> bool:
        return time.perf_counter() - self.began > self.seconds

    def milliseconds(self, act: Callable[[], Any], times: int = 10) -> float:
        """Of one step among several without synchronisation, as in training; the median of three."""
        for _ in range(3):
            act()
        found = []
        for _ in range(3):
            self.wait()
            began = time.perf_counter()
            for _ in range(times if self.cuda else 1):
                act()
            self.wait()
            found.append(1000 * (time.perf_counter() - began) / (times if self.cuda else 1))
        return statistics.median(found)

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def train(self, name: str, length: int, forward: Run, inputs: list[torch.Tensor], peer: bool = False) -> None:
        """Forward and backward, with the memory that they took at most."""

        def step() -> None:
            output = forward()
            torch.autograd.grad(output, inputs, towards, allow_unused=True)

        try:
            towards = torch.randn_like(forward())
            if self.cuda:
                torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated() if self.cuda else 0
            took = self.milliseconds(step)
            peak = (torch.cuda.max_memory_allocated() - before) / 1e9 if self.cuda else 0.0
        except (RuntimeError, torch.OutOfMemoryError) as error:  # a kernel that is not there, or too much memory
            self.rows.setdefault(name, {})[length] = "-"
            self.notes.append(f"{name}, {length}: {str(error).splitlines()[0][:120]}")
            return
        if peer:
            self.peer[length] = min(took, self.peer.get(length, took))
        ratio = f" ({self.peer[length] / took:.2f}x)" if length in self.peer else ""
        self.rows.setdefault(name, {})[length] = f"{took:.2f}{ratio}, {peak:.1f} GB"
        print(f"{time.perf_counter() - self.began:5.0f} s  {name}, {length}: {self.rows[name][length]}", flush=True)

    def table(self, title: str) -> str:
        lengths = self.sizes.lengths
        lines = [f"| {title} | {' | '.join(f'{n:,}' for n in lengths)} |", "|---" * (len(lengths) + 1) + "|"]
        for name, found in self.rows.items():
            lines.append(f"| {name} | {' | '.join(found.get(n, '') for n in lengths)} |")
        self.rows = {}
        return "\n".join(lines)

    def compiled(self, act: Any) -> Any:
        return torch.compile(act, dynamic=False, backend="inductor" if self.cuda else "aot_eager")

    def some(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=self.dtype, requires_grad=True)


def attention_at(bench: Bench, length: int) -> None:
    s, batch = bench.sizes, bench.sizes.tokens // length
    q, k, v = (bench.some(batch, s.heads, length, s.d_model // s.heads) for _ in range(3))

    def peer(*backends: SDPBackend) -> torch.Tensor:
        with sdpa_kernel(list(backends)) if backends else contextlib.nullcontext():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    names = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION} if bench.cuda else {}
    for name, run in {name: functools.partial(peer, one) for name, one in names.items()}.items() or [("any", peer)]:
        bench.train(f"full causal attention, SDPA {name}", length, run, [q, k, v], peer=True)
    places = positions_from_start(length, None, bench.device)
    for name, rule in (("full causal", "causal"), (f"local({s.window})", f"causal & local({s.window})")):
        pattern = BoundMask(make_mask(rule), places, places, s.heads)
        if "local" in rule and bench.cuda:
            began = time.perf_counter()
            pattern.block_mask(batch)
            torch.cuda.synchronize()
            bench.notes.append(f"blocks of {rule}, {length}: {1000 * (time.perf_counter() - began):.0f} ms, once")
        run = functools.partial(attend, q, k, v, mask=pattern)
        bench.train(f"{name} attention, ours", length, run, [q, k, v])


def retention_at(bench: Bench, length: int) -> None:
    s, batch = bench.sizes, bench.sizes.tokens // length
    q, k = (bench.some(batch, s.retaining, length, s.d_model // s.retaining) for _ in range(2))
    v = bench.some(batch, s.retaining, length, 2 * s.d_model // s.retaining)
    fixed = fixed_log_decay(s.retaining, bench.device)
    gates = F.logsigmoid(torch.randn(batch, s.retaining, length, device=bench.device)).div(16).requires_grad_()
    for chunk in s.chunks:
        for name, decay, leaves in (("", fixed, [q, k, v]), ("gated ", gates, [q, k, v, gates])):
            if name and chunk != s.chunks[1]:
                continue
            run = functools.partial(_output, q, k, v, decay, chunk)
            bench.train(f"{name}retention, chunks of {chunk}", length, run, leaves)
            if length in s.compiled and chunk == s.chunks[1] and not bench.late:
                fast = functools.partial(bench.compiled(_output), q, k, v, decay, chunk)
                bench.train(f"{name}retention, chunks of {chunk}, compiled", length, fast, leaves)


def _output(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor, chunk: int) -> torch.Tensor:
    return chunkwise(q, k, v, decay, None, chunk)[0]


def mixers_at(bench: Bench, length: int) -> None:
    """Complete sub-layers, with projections, heads, norm and gate. float32 weights under autocast."""
    s = bench.sizes
    norm, linear = make_part("norm", "layernorm"), make_part("linear", "dense")
    scope = Scope(d_model=s.d_model, dropout=0.0, norm=norm, linear=linear)
    bench.peer.pop(length, None)
    x = torch.randn(s.tokens // length, length, s.d_model, device=bench.device, requires_grad=True)

    def forward(run: Any, ctx: Context) -> torch.Tensor:
        with torch.autocast(bench.device.type, torch.bfloat16, enabled=bench.cuda):
            output: torch.Tensor = run(x, ctx)
            return output

    for name, written, mask in (
        ("attention", f"attention({s.heads})", "causal"),
        (f"attention, local({s.window})", f"attention({s.heads})", f"causal & local({s.window})"),
        ("retention", f"retention({s.retaining})", "causal"),
        ("gated retention", f"retention({s.retaining}, gated=true)", "causal"),
    ):
        module = make("mixer", make_part("mixer", written), scope).to(bench.device)
        initialise(module)
        ctx = Context(positions_from_start(length, None, bench.device), mask=make_mask(mask))
        leaves = [x, *module.parameters()]
        bench.train(name, length, functools.partial(forward, module, ctx), leaves, peer=name == "attention")
        if "retention" in name and length in s.compiled and not bench.late:
            fast = functools.partial(forward, bench.compiled(module), ctx)
            bench.train(f"{name}, compiled", length, fast, leaves)


@torch.no_grad()
def decoding(bench: Bench) -> str:
    s = bench.sizes
    lines = [
        f"| decoding, {s.rows} rows | {' | '.join(f'{n:,}' for n in s.decoded)} |",
        "|---" * (1 + len(s.decoded)) + "|",
    ]
    kinds = {
        "attention, all keys": ("attention(8)", "causal"),
        f"attention, a ring of {s.window}": ("attention(8)", f"causal & local({s.window})"),
        "retention": ("retention(8)", "causal"),
    }
    for name, (mixer, mask) in kinds.items():
        side = {"layers": 4, "mixer": mixer, "mask": mask, "residual": "pre", "position": "rope"}
        table = {"d_model": s.d_model // 2, "vocabulary": 1000, "encoder": {"layers": 0}, "decoder": side}
        model = Transformer(from_dict(Transformer.Config, table)).to(bench.device, bench.dtype).eval()
        before = torch.cuda.memory_allocated() if bench.cuda else 0
        state, cells = model.new_state(s.rows), []
        for length in s.decoded:
            while (left := length - s.steps - state.end) > 0:
                model.decode(torch.randint(1000, (s.rows, min(left, s.prefill)), device=bench.device), state=state)
            ids = torch.randint(1000, (s.rows, 1), device=bench.device)
            if bench.cuda:
                torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(length - state.end):
                model.decode(ids, state=state)
            if bench.cuda:
                torch.cuda.synchronize()
            took = 1000 * (time.perf_counter() - began) / s.steps
            memory = (torch.cuda.memory_allocated() - before) / 1e6 if bench.cuda else 0.0
            cells.append(f"{took:.2f} ms, {state.bytes / 1e6:,.1f} MB, {memory:,.0f} MB")
            print(f"{time.perf_counter() - bench.began:5.0f} s  {name}, {length}: {cells[-1]}", flush=True)
        lines.append(f"| {name} | {' | '.join(cells)} |")
        del state, model
    return "\n".join(lines)


def check(bench: Bench) -> None:
    """Check on this machine that what is timed is correct."""
    q, k = torch.randn(2, 2, 4, 300, 32, device=bench.device)
    v, decay = torch.randn(2, 4, 300, 64, device=bench.device), fixed_log_decay(4, bench.device)
    (one, left), (two, rest) = (retain(q, k, v, decay, form=form, chunk=64) for form in ("recurrent", "chunkwise"))
    error = max(float((a - b).norm() / b.norm()) for a, b in ((two, one), (rest, left)))
    q, k, v = (x.to(bench.dtype) for x in (q, k, v))
    fast = chunkwise(q, k, v, decay, None, 64)[0]
    rough = float((fast.float() - one).norm() / one.norm())
    bench.notes.append(f"chunkwise against recurrent: {error:.1e} in float32, {rough:.1e} in {bench.dtype}")
    assert error < 1e-4 and rough < 2e-2, (error, rough)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU; nothing is appended")
    parser.add_argument("--seconds", type=float, default=330, help="after this time nothing more is compiled")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to append to")
    given = parser.parse_args()
    if not given.smoke and not torch.cuda.is_available():
        parser.error("no CUDA device: add --smoke")
    device = torch.device("cpu" if given.smoke else "cuda")
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 64  # every length and chunk is compiled by itself
    bench = Bench(SMOKE if given.smoke else GPU, device, given.seconds)
    check(bench)
    for length in bench.sizes.lengths:
        attention_at(bench, length)
        retention_at(bench, length)
    tables = [bench.table("bare function, ms a step")]
    for length in bench.sizes.lengths:
        mixers_at(bench, length)
    tables += [bench.table("mixer, ms a step"), decoding(bench)]
    where = "CPU, smoke" if given.smoke else torch.cuda.get_device_name()
    s = bench.sizes
    page = [
        f"## Long texts ({datetime.date.today()})",
        f"{where}, torch {torch.__version__}, {bench.dtype}; {s.tokens:,} tokens a step, d_model {s.d_model}, "
        f"{s.heads} heads of attention, {s.retaining} of retention. Forward and backward; in brackets how many times "
        "as fast as the quicker of PyTorch's causal attentions (of whole mixers: as our attention); then the memory "
        "that a step takes. Decoding: 4 layers, half as wide; ms a step, bytes of the state, memory in use.",
        "```\npython benchmarks/long_text.py\n```",
        *tables,
        "\n".join(f"- {note}" for note in bench.notes),
    ]
    text = "\n\n".join(page) + "\n"
    print(text)
    if not given.smoke:
        with given.results.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
