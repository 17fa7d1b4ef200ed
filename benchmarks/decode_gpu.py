"""Decoding on a GPU: tokens per second of Hugging Face's `generate` and of our two engines, with the same weights.

    python benchmarks/decode_gpu.py            # prints a table, and appends it to benchmarks/RESULTS.md
    python benchmarks/decode_gpu.py --profile  # only the kernels that the CUDA search spends its time in
    python benchmarks/decode_gpu.py --smoke    # tiny sizes on the CPU: checks that it runs

Marian with random weights at the size of Transformer-base, copied into our model; bfloat16; sources of 28 tokens, and
exactly 28 output tokens. The time includes encoding, and everything on the host until the ids are in lists.
same_text.py compares the outputs of both engines.
"""

import argparse
import datetime
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # whose function copies the weights

from headway.decode import Hypothesis, Search, SpecialTokens, decode  # noqa: E402
from headway.decode.reference.model import ModelStepper  # noqa: E402

RESULTS = Path(__file__).parent / "RESULTS.md"


class Sizes(NamedTuple):
    d_model: int
    layers: int
    heads: int
    vocabulary: int
    length: int  # of sources and outputs
    batches: tuple[int, ...]
    repeats: int


GPU = Sizes(512, 6, 8, 10_000, 28, (32, 256, 1024), 5)
SMOKE = Sizes(32, 2, 4, 60, 6, (2, 5), 1)


def make_marian(s: Sizes) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.MarianConfig(
        vocab_size=s.vocabulary, d_model=s.d_model, encoder_layers=s.layers, decoder_layers=s.layers,
        encoder_attention_heads=s.heads, decoder_attention_heads=s.heads, encoder_ffn_dim=4 * s.d_model,
        decoder_ffn_dim=4 * s.d_model, activation_function="relu", scale_embedding=True, max_position_embeddings=512,
        pad_token_id=s.vocabulary - 1, decoder_start_token_id=s.vocabulary - 1, eos_token_id=0,
        forced_eos_token_id=None,
    )  # fmt: skip
    return transformers.MarianMTModel(config).eval()


class Bench:
    def __init__(self, sizes: Sizes, device: torch.device) -> None:
        self.sizes, self.device, self.began = sizes, device, time.perf_counter()
        self.cuda = device.type == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.cells: dict[str, dict[tuple[int, int], float]] = {}
        self.alone = False  # only the CUDA search is timed

    def log(self, text: str) -> None:
        print(f"{time.perf_counter() - self.began:5.0f} s  {text}", flush=True)

    def seconds(self, act: Callable[[], Any]) -> float:
        """The median, after two that do not count: in them kernels are chosen and steps recorded."""
        found = []
        for number in range(2 + self.sizes.repeats):
            self.wait()
            began = time.perf_counter()
            act()
            self.wait()
            if number >= 2:
                found.append(time.perf_counter() - began)
        return statistics.median(found)

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def time(self, name: str, beam: int, batch: int, act: Callable[[], Any]) -> None:
        took = self.seconds(act)
        speed = batch * self.sizes.length / took
        self.cells.setdefault(name, {})[beam, batch] = speed
        step = 1000 * took / self.sizes.length
        self.log(
            f"{name}, beam {beam}, batch {batch}: {speed:,.0f} tokens/s, {1000 * took:.1f} ms, {step:.2f} ms a step"
        )


@torch.no_grad()
def time_engines(bench: Bench) -> str:
    from parity.copying import from_marian

    s = bench.sizes
    theirs = make_marian(s)
    stepper = ModelStepper(from_marian(theirs).to(bench.device, bench.dtype))
    theirs = theirs.to(bench.device, bench.dtype)
    special = SpecialTokens(start=s.vocabulary - 1, end=0, suppress=(s.vocabulary - 1,))
    for batch in s.batches:
        source = torch.randint(1, s.vocabulary - 1, (batch, s.length), device=bench.device)
        for beam in (4, 1):
            search = Search(beam_size=beam, min_length=s.length, max_length=s.length)
            early = {"early_stopping": True} if beam > 1 else {}

            def generate(source: Tensor = source, beam: int = beam, early: dict[str, Any] = early) -> Any:
                return theirs.generate(
                    source, attention_mask=torch.ones_like(source), num_beams=beam, do_sample=False,
                    min_new_tokens=s.length, max_new_tokens=s.length, **early,
                ).tolist()  # fmt: skip

            def ours(
                engine: Literal["reference", "cuda"], source: Tensor = source, search: Search = search
            ) -> list[list[Hypothesis]]:
                return decode(stepper, source, special_tokens=special, search=search, search_kind=engine)

            assert all(len(row[0].token_logps) == s.length for row in ours("cuda"))
            if not bench.alone:
                assert len(generate()[0]) == 1 + s.length
                bench.time("Hugging Face `generate`", beam, batch, generate)
                bench.time("Headway, reference", beam, batch, functools.partial(ours, "reference"))
            bench.time("Headway, CUDA", beam, batch, functools.partial(ours, "cuda"))
    return "" if bench.alone else format_table(bench)


@torch.no_grad()
def profile_kernels(bench: Bench) -> None:
    from parity.copying import from_marian
    from torch.profiler import ProfilerActivity

    s = bench.sizes
    stepper = ModelStepper(from_marian(make_marian(s)).to(bench.device, bench.dtype))
    special = SpecialTokens(start=s.vocabulary - 1, end=0, suppress=(s.vocabulary - 1,))
    search = Search(beam_size=4, min_length=s.length, max_length=s.length)
    for batch in s.batches:
        source = torch.randint(1, s.vocabulary - 1, (batch, s.length), device=bench.device)
        for _ in range(2):
            decode(stepper, source, special_tokens=special, search=search, search_kind="cuda")
        with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA][: 1 + bench.cuda]) as seen:
            decode(stepper, source, special_tokens=special, search=search, search_kind="cuda")
            bench.wait()
        by = "self_cuda_time_total" if bench.cuda else "self_cpu_time_total"
        print(f"batch {batch}\n{seen.key_averages().table(sort_by=by, row_limit=30, max_name_column_width=80)}")


def format_table(bench: Bench) -> str:
    kinds = [(beam, batch) for beam in (4, 1) for batch in bench.sizes.batches]
    names = [f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch:,}" for beam, batch in kinds]
    lines = [f"| tokens/s | {' | '.join(names)} |", "|---" * (1 + len(kinds)) + "|"]
    peer = bench.cells["Hugging Face `generate`"]
    for name, found in bench.cells.items():
        cells = [f"{found[kind]:,.0f} ({found[kind] / peer[kind]:.1f}x)" for kind in kinds]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU; nothing is appended")
    parser.add_argument("--profile", action="store_true", help="only print the kernels of the CUDA search")
    parser.add_argument("--cuda", action="store_true", help="only time the CUDA search; nothing is appended")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to append to")
    given = parser.parse_args()
    if not given.smoke and not torch.cuda.is_available():
        parser.error("no CUDA device: add --smoke")
    device = torch.device("cpu" if given.smoke else "cuda")
    torch.manual_seed(0)
    bench = Bench(SMOKE if given.smoke else GPU, device)
    bench.alone = given.cuda
    if given.profile:
        return profile_kernels(bench)
    speeds = time_engines(bench)
    if given.cuda:
        return
    import transformers

    s, where = bench.sizes, "CPU, smoke" if given.smoke else torch.cuda.get_device_name()
    page = [
        f"## Decoding on a GPU ({datetime.date.today()})",
        f"{where}, torch {torch.__version__}, transformers {transformers.__version__}, {bench.dtype}; {s.layers} + "
        f"{s.layers} layers, d_model {s.d_model}, {s.heads} heads, {s.vocabulary:,} words, random weights, the same in "
        f"all three; sources of {s.length} tokens, exactly {s.length} out. Median of {s.repeats}; in brackets how many "
        "times as fast as `generate`.",
        "```\npython benchmarks/decode_gpu.py\n```",
        speeds,
    ]
    text = "\n\n".join(part for part in page if part) + "\n"
    print(text)
    if not given.smoke:
        with given.results.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
