"""What spinning threads cost: one training step of the tiny model, on an idle and on a busy machine.

    python benchmarks/threads.py

GOMP_SPINCOUNT is how long an OpenMP thread spins before it sleeps; the command line sets 1,000. "busy" means that as
many other programs run as there are cores.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time


def step(threads: int) -> None:
    """Print the median seconds of a step."""
    import torch

    from headway.config.presets import tiny
    from headway.nn.transformer import Transformer
    from headway.train.loss import batch_loss
    from headway.train.objectives import Batch

    torch.set_num_threads(threads)
    model = Transformer(tiny(vocabulary=1856).model)
    source, target = torch.randint(4, 1856, (85, 24)), torch.randint(4, 1856, (85, 16))
    batch = Batch(source, None, target, None, target, target.numel(), 0)
    times = []
    for _ in range(8):
        began = time.perf_counter()
        batch_loss(model, batch, 0.1).loss.backward()
        times.append(time.perf_counter() - began)
    print(statistics.median(times[2:]))


def seconds(threads: int, spin: str | None) -> float:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    environment |= {"GOMP_SPINCOUNT": spin} if spin else {}
    command = [sys.executable, __file__, "--step", str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        return step(given.step)
    cores = os.cpu_count() or 1
    print("| threads | spin | idle | busy |\n|---|---|---|---|")
    for threads, spin in ((1, None), (cores, None), (cores, "10000"), (cores, "1000")):
        idle = seconds(threads, spin)
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
        try:
            busy = seconds(threads, spin)
        finally:
            for other in others:
                other.kill()
        shown = "" if threads == 1 else spin or "OpenMP's default"
        print(f"| {threads} | {shown} | {idle:.2f} s | {busy:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
