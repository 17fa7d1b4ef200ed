"""Sparse masks on a CPU: attention that skips what they hide against PyTorch's full attention, in the same run.

    python benchmarks/sparse_masks.py            # prints a table, and appends it to benchmarks/RESULTS.md; some minutes
    python benchmarks/sparse_masks.py --smoke    # tiny sizes: checks that it runs

Forward and backward of the bare function in float32, one row of 4 heads of width 64, in one thread, whose own time is
counted, so that other processes matter little. The baseline is PyTorch's fused
attention without a mask tensor: with its causal flag for masks that hide the future, else over all pairs. Beside it:
the same kernel under the dense mask, which is what a sparse mask costs if nothing is skipped.
"""

import argparse
import datetime
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.masks.masks import BoundMask, Mask, make_mask
from headway.nn.ops.attention import attend
from headway.nn.sequence import positions_from_start

RESULTS = Path(__file__).parent / "RESULTS.md"
HEADS, WIDTH = 4, 64
MAX_DENSE_LENGTH = 2048  # of a dense mask, and of what is repeated: longer ones take long
MASKS = (
    "causal & local(256)", "local(256)", "causal & atrous(4, 1024)", "longformer(256)", "bigbird(64)",
    "causal & strided(128)", "causal & fixed(128, 8)", "causal & (local(128) | strided(128))",
)  # fmt: skip


def seconds(forward: Callable[[], Tensor], inputs: list[Tensor], towards: Tensor, times: int) -> float:
    """Of a forward and a backward pass: the median of some."""
    found = []
    for _ in range(times):
        began = time.thread_time()
        torch.autograd.grad(forward(), inputs, towards)
        found.append(time.thread_time() - began)
    return statistics.median(found)


def measure(length: int) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Seconds of full attention by whether it is causal, and by mask those of blocks and of a dense mask."""
    inputs = [torch.randn(1, HEADS, length, WIDTH, requires_grad=True) for _ in range(3)]
    q, k, v = inputs
    towards, tokens = torch.randn(1, HEADS, length, WIDTH), positions_from_start(length, None, q.device)
    times = 5 if length <= MAX_DENSE_LENGTH else 1
    full = {
        name: seconds(lambda flag=flag: F.scaled_dot_product_attention(q, k, v, is_causal=flag), inputs, towards, times)  # type: ignore[misc]
        for name, flag in (("causal", True), ("full", False))
    }
    sparse, dense = {}, {}
    for rule in MASKS:
        mask = make_mask(rule)

        def run(kernel: str, mask: Mask = mask) -> Tensor:
            return attend(q, k, v, mask=BoundMask(mask, tokens, tokens, HEADS), kernel=kernel)  # type: ignore[call-overload,no-any-return]

        sparse[rule] = seconds(lambda: run("blocks"), inputs, towards, times)
        if length <= MAX_DENSE_LENGTH:
            dense[rule] = seconds(lambda: run("sdpa"), inputs, towards, times)
        print(f"{length:6,}  {rule}: {1000 * sparse[rule]:,.0f} ms", flush=True)
    return full, sparse, dense


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes; nothing is appended")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to append to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lengths = [64, 300] if given.smoke else [1024, 2048, 4096, 8192, 16384]
    found = {length: measure(length) for length in lengths}
    lines = [f"| ms a step | {' | '.join(f'{n:,}' for n in lengths)} |", "|---" * (len(lengths) + 1) + "|"]
    for name in ("causal", "full"):
        cells = [f"{1000 * found[n][0][name]:,.0f}" for n in lengths]
        lines.append(f"| PyTorch, {name} | {' | '.join(cells)} |")
    for rule in MASKS:
        cells = []
        for length in lengths:
            full, sparse, dense = found[length]
            baseline = full["causal" if make_mask(rule).hides_future else "full"]
            beside = f", dense {1000 * dense[rule]:,.0f}" if rule in dense else ""
            cells.append(f"{1000 * sparse[rule]:,.0f} ({baseline / sparse[rule]:.1f}x{beside})")
        named = rule.replace("|", "\\|")
        lines.append(f"| `{named}` | {' | '.join(cells)} |")
    page = [
        f"## Sparse masks on a CPU ({datetime.date.today()})",
        f"One thread, torch {torch.__version__}, float32, one row, {HEADS} heads of width "
        f"{WIDTH}; forward and backward. In brackets how many times as fast as PyTorch's attention above, and the "
        "milliseconds of the same attention under a dense mask.",
        "```\npython benchmarks/sparse_masks.py\n```",
        "\n".join(lines),
    ]
    text = "\n\n".join(page) + "\n"
    print(text)
    if not given.smoke:
        with given.results.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


if __name__ == "__main__":
    main()
