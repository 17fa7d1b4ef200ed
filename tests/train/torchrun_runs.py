"""Several trainings one after another in the processes that torchrun starts, and a look at what they leave. Run by
test_distributed.py: starting processes takes longer than the trainings.

    torchrun … torchrun_runs.py RUNS.json    [{"arguments": […], "port": N}, …]

Each process writes what it logs to RUNS.json.{number}.{rank}."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import torch

from headway.cli.app import main
from headway.train.distributed import join_process_group, leave_process_group


def use_own_store(port: int) -> None:
    """The store of torchrun is good for one process group; later ones need a store of their own."""
    os.environ.update(TORCHELASTIC_USE_AGENT_STORE="False", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def gloo_threads() -> list[str]:
    tasks = Path("/proc/self/task").glob("*/comm")
    return [name for task in tasks if "gloo" in (name := task.read_text().strip())]


def train_and_leave() -> None:
    """Leave a group whose module is in a reference cycle while a thread still has a tensor of it."""
    group, device = join_process_group("cpu")
    module = group.wrap_module(torch.nn.Linear(2, 2), device)
    module.itself = [module]  # type: ignore[assignment]  # as in a trainer, whose parts refer to each other
    module(torch.ones(1, 2)).sum().backward()
    before = gloo_threads()
    sys.setswitchinterval(1000)  # so that a thread that is done with a tensor cannot free it: that takes the GIL
    torch.distributed.broadcast(torch.ones(3), 0, async_op=True)
    now = time.monotonic()
    while time.monotonic() < now + 0.3:
        pass
    del module
    leave_process_group()
    print(f"threads: {len(before) > 0} before, {gloo_threads()} after", file=sys.stderr)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    *runs, last = json.loads(file.read_text())
    for number, run in enumerate(runs):
        if number:
            use_own_store(run["port"])
        with Path(f"{file}.{number}.{os.environ['RANK']}").open("w") as log, contextlib.redirect_stderr(log):
            code = main(run["arguments"])
        if code:
            sys.exit(f"{run['arguments']} ended with code {code}: {Path(log.name).read_text()}")
    use_own_store(last["port"])
    train_and_leave()
