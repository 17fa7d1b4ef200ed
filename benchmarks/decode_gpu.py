"""Decoding on a GPU: tokens a second of Hugging Face's `generate` and of our two engines, on the same weights.

    python benchmarks/decode_gpu.py            # prints a table, and appends it to benchmarks/RESULTS.md
    python benchmarks/decode_gpu.py --check    # first that both engines write the same
    python benchmarks/decode_gpu.py --profile  # only which kernels the static search spends its time in
    python benchmarks/decode_gpu.py --static --kernels settle attend    # only the static search, with some kernels more
    python benchmarks/decode_gpu.py --smoke    # tiny sizes on the CPU: only that it runs

Marian with random weights at the size of Transformer-base, copied into our model; bfloat16; sources of 28 tokens, and
exactly 28 tokens out. Encoding is part of the time, and so is all that the host does until the ids lie in lists.
The check: a model that is trained a little on a made-up language, so that its outputs end at different lengths."""

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the weights are poured over as the tests do it

from headway.decode import Marks, Search, decode  # noqa: E402
from headway.decode.model import ModelStepper  # noqa: E402
from headway.nn import kernels  # noqa: E402
from headway.nn.transformer import Transformer, valid_places  # noqa: E402
from headway.parts import from_dict  # noqa: E402

RESULTS = Path(__file__).parent / "RESULTS.md"


class Sizes(NamedTuple):
    d_model: int
    layers: int
    heads: int
    vocabulary: int
    length: int  # of sources and outputs
    batches: tuple[int, ...]
    repeats: int
    training: int  # steps, for the check
    checked: int  # sources


GPU = Sizes(512, 6, 8, 10_000, 28, (32, 256, 1024), 5, 600, 200)
SMOKE = Sizes(32, 2, 4, 60, 6, (2, 5), 1, 30, 20)


def marian(s: Sizes) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.MarianConfig(
        vocab_size=s.vocabulary, d_model=s.d_model, encoder_layers=s.layers, decoder_layers=s.layers,
        encoder_attention_heads=s.heads, decoder_attention_heads=s.heads, encoder_ffn_dim=4 * s.d_model,
        decoder_ffn_dim=4 * s.d_model, activation_function="relu", scale_embedding=True, max_position_embeddings=512,
        pad_token_id=s.vocabulary - 1, decoder_start_token_id=s.vocabulary - 1, eos_token_id=0, forced_eos_token_id=None,
    )  # fmt: skip
    return transformers.MarianMTModel(config).eval()


class Bench:
    def __init__(self, sizes: Sizes, device: torch.device) -> None:
        self.sizes, self.device, self.began = sizes, device, time.perf_counter()
        self.cuda = device.type == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.cells: dict[str, dict[tuple[int, int], float]] = {}
        self.notes: list[str] = []
        self.alone = False  # only the static search is timed

    def say(self, text: str) -> None:
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
        self.say(
            f"{name}, beam {beam}, batch {batch}: {speed:,.0f} tokens/s, {1000 * took:.1f} ms, {step:.2f} ms a step"
        )


@torch.no_grad()
def race(bench: Bench) -> str:
    from parity.copying import from_marian

    s = bench.sizes
    theirs = marian(s)
    stepper = ModelStepper(from_marian(theirs).to(bench.device, bench.dtype))
    theirs = theirs.to(bench.device, bench.dtype)
    marks = Marks(start=s.vocabulary - 1, end=0, suppress=(s.vocabulary - 1,))
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

            def ours(engine: Any, source: Tensor = source, search: Search = search) -> Any:
                return decode(stepper, source, marks=marks, search=search, engine=engine)

            assert all(len(row[0].token_logps) == s.length for row in ours("static"))
            if not bench.alone:
                assert len(generate()[0]) == 1 + s.length
                bench.time("Hugging Face `generate`", beam, batch, generate)
                bench.time("Headway, naive", beam, batch, lambda ours=ours: ours("naive"))
            bench.time("Headway, static", beam, batch, lambda ours=ours: ours("static"))
    return "" if bench.alone else table(bench)


@torch.no_grad()
def profile(bench: Bench) -> None:
    from parity.copying import from_marian
    from torch.profiler import ProfilerActivity

    s = bench.sizes
    stepper = ModelStepper(from_marian(marian(s)).to(bench.device, bench.dtype))
    marks = Marks(start=s.vocabulary - 1, end=0, suppress=(s.vocabulary - 1,))
    search = Search(beam_size=4, min_length=s.length, max_length=s.length)
    for batch in s.batches:
        source = torch.randint(1, s.vocabulary - 1, (batch, s.length), device=bench.device)
        for _ in range(2):
            decode(stepper, source, marks=marks, search=search, engine="static")
        with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA][: 1 + bench.cuda]) as seen:
            decode(stepper, source, marks=marks, search=search, engine="static")
            bench.wait()
        by = "self_cuda_time_total" if bench.cuda else "self_cpu_time_total"
        print(f"batch {batch}\n{seen.key_averages().table(sort_by=by, row_limit=30, max_name_column_width=80)}")


def table(bench: Bench) -> str:
    kinds = [(beam, batch) for beam in (4, 1) for batch in bench.sizes.batches]
    names = [f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch:,}" for beam, batch in kinds]
    lines = [f"| tokens/s | {' | '.join(names)} |", "|---" * (1 + len(kinds)) + "|"]
    peer = bench.cells["Hugging Face `generate`"]
    for name, found in bench.cells.items():
        cells = [f"{found[kind]:,.0f} ({found[kind] / peer[kind]:.1f}x)" for kind in kinds]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def sentences(s: Sizes, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A made-up language: words from behind, each by one of two others. Source, its lengths, target with its end."""
    lengths = torch.randint(2, s.length + 1, (rows, 1), generator=generator)
    places = torch.arange(s.length)
    source = torch.randint(2, s.vocabulary // 3, (rows, s.length), generator=generator)
    behind = source.gather(1, (lengths - 1 - places).clamp(min=0))
    rare = torch.rand(rows, s.length, generator=generator) < 0.3
    target = torch.where(rare, behind + s.vocabulary // 3, behind + 2 * (s.vocabulary // 3) - 2)
    target = F.pad(target.masked_fill(places > lengths, 0).masked_fill(places == lengths, 0), (0, 1))
    return source, lengths[:, 0], target


def trained(bench: Bench) -> Transformer:
    s, generator = bench.sizes, torch.Generator().manual_seed(0)
    side = {"layers": s.layers, "mixer": f"attention({s.heads})", "residual": "pre"}
    config = {"d_model": s.d_model, "vocabulary": s.vocabulary, "dropout": 0.0, "encoder": side, "decoder": side}
    model = Transformer(from_dict(Transformer.Config, config)).to(bench.device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98))
    for step in range(s.training):
        source, lengths, target = (part.to(bench.device) for part in sentences(s, 128, generator))
        for group in optimiser.param_groups:
            group["lr"] = 5e-4 * min(1.0, (step + 1) / 100)
        read = F.pad(target[:, :-1], (1, 0), value=1)
        with torch.autocast(bench.device.type, torch.bfloat16, enabled=bench.cuda):
            hidden = model(source, read, valid_places(lengths, s.length)).hidden
            logits = model.logits(hidden)
        real = valid_places(lengths + 1, target.shape[1])
        loss = F.cross_entropy(logits.float()[real], target[real])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    bench.say(f"trained for {s.training} steps: loss {loss.item():.2f}")
    return model.eval()


@torch.no_grad()
def check(bench: Bench) -> None:
    """Both engines write the same: in float32 to the last id, in bfloat16 but for a few lines."""
    from sacrebleu import corpus_bleu

    s, marks = bench.sizes, Marks(start=1, end=0, suppress=(1,))
    with torch.enable_grad():
        model = trained(bench)
    source, lengths, target = sentences(s, s.checked, torch.Generator().manual_seed(1))
    valid = valid_places(lengths, s.length)
    references = [" ".join(str(token) for token in row if token) for row in target.tolist()]
    for dtype in (torch.float32, torch.bfloat16) if bench.cuda else (torch.float32,):
        stepper = ModelStepper(model.to(dtype))
        for beam in (1, 4):
            search = Search(beam_size=beam, n_best=beam, max_extra=8)
            naive, static = (
                decode(stepper, source.to(bench.device), valid.to(bench.device), marks=marks, search=search, engine=e)  # type: ignore[arg-type]
                for e in ("naive", "static")
            )
            same = sum(a[0].ids == b[0].ids for a, b in zip(naive, static))
            every = sum([h.ids for h in a] == [h.ids for h in b] for a, b in zip(naive, static))
            apart = max(
                (abs(a[0].score - b[0].score) for a, b in zip(naive, static) if a[0].ids == b[0].ids), default=0
            )
            bleu = [
                corpus_bleu([" ".join(map(str, row[0].ids)) for row in found], [references], tokenize="none").score
                for found in (naive, static)
            ]
            sizes = sorted({len(row[0].ids) for row in naive})
            bench.notes.append(
                f"{str(dtype)[6:]}, beam {beam}: {same} of {s.checked} lines as the plain loop writes them, {every} with "
                f"all {beam} hypotheses; scores of those at most {apart:.1e} apart; BLEU {bleu[0]:.2f} naive, "
                f"{bleu[1]:.2f} static; outputs of {sizes[0]} to {sizes[-1]} tokens"
            )
            bench.say(bench.notes[-1])
            assert dtype != torch.float32 or same == s.checked, "in float32 every line must be the same"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU; nothing is appended")
    parser.add_argument("--check", action="store_true", help="compare what both engines write, too")
    parser.add_argument("--profile", action="store_true", help="only print the kernels of the static search")
    parser.add_argument("--static", action="store_true", help="only time the static search; nothing is appended")
    parser.add_argument(
        "--kernels", nargs="+", default=[], choices=["settle", "attend", "norm", "begin"], help="used as well"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to append to")
    given = parser.parse_args()
    if not given.smoke and not torch.cuda.is_available():
        parser.error("no CUDA device: add --smoke")
    device = torch.device("cpu" if given.smoke else "cuda")
    torch.manual_seed(0)
    bench = Bench(SMOKE if given.smoke else GPU, device)
    kernels.USED.update(given.kernels)
    bench.alone = given.static
    if given.profile:
        return profile(bench)
    if given.check:
        check(bench)
    speeds = race(bench)
    if given.static:
        return
    import transformers

    s, where = bench.sizes, "CPU, smoke" if given.smoke else torch.cuda.get_device_name()
    page = [
        f"## Decoding on a GPU ({datetime.date.today()})",
        f"{where}, torch {torch.__version__}, transformers {transformers.__version__}, {bench.dtype}; {s.layers} + "
        f"{s.layers} layers, d_model {s.d_model}, {s.heads} heads, {s.vocabulary:,} words, random weights, the same in "
        f"all three; sources of {s.length} tokens, exactly {s.length} out. Median of {s.repeats}; in brackets how many "
        "times as fast as `generate`.",
        f"```\npython benchmarks/decode_gpu.py{' --check' if given.check else ''}\n```",
        speeds,
        "\n".join(f"- {note}" for note in bench.notes),
    ]
    text = "\n\n".join(part for part in page if part) + "\n"
    print(text)
    if not given.smoke:
        with given.results.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
