"""Several trainings one after another in the processes that torchrun starts, and a look at what they leave. Run by
test_distributed.py: starting processes takes longer than the trainings.

    torchrun … torchrun_runs.py RUNS.json    [{"arguments": […], "port": N}, …]

Each process writes what it logs to RUNS.json.{number}.{rank}. A run may be a call of headway.train instead:
{"python": {keywords}, "port": N}"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import headway
from headway.cli.app import main
from headway.data.toy import toy_corpus
from headway.errors import HeadwayError
from headway.train.callbacks import StepEvent, TrainingEvent
from headway.train.distributed import join_process_group, leave_process_group


def use_own_store(port: int) -> None:
    """The store of torchrun is good for one process group; later ones need a store of their own."""
    os.environ.update(TORCHELASTIC_USE_AGENT_STORE="False", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def gloo_threads() -> list[str]:
    tasks = Path("/proc/self/task").glob("*/comm")
    return [name for task in tasks if "gloo" in (name := task.read_text().strip())]


def train_and_leave() -> None:
    """Leave a group while a thread still has a tensor of it, and this function its module, as a traceback would."""
    group, device = join_process_group("cpu")
    module = group.wrap_module(torch.nn.Linear(2, 2), device)
    module(torch.ones(1, 2)).sum().backward()
    before = gloo_threads()
    sys.setswitchinterval(1000)  # so that a thread that is done with a tensor cannot free it: that takes the GIL
    torch.distributed.broadcast(torch.ones(3), 0, async_op=True)
    now = time.monotonic()
    while time.monotonic() < now + 0.3:
        pass
    leave_process_group()
    print(f"threads: {len(before) > 0} before, {gloo_threads()} after", file=sys.stderr)
    del module  # freed with the GIL held: were the group freed with it, this would wait forever


def train_in_python(keywords: dict[str, Any]) -> None:
    """From a generator, which only the main process may exhaust; a callback stops the run, or fails."""
    rank = int(os.environ["RANK"])

    def read_pairs() -> Iterator[tuple[str, str]]:
        assert rank == 0, "only the main process reads"
        yield from ((pair.source, pair.target) for pair in toy_corpus(60))

    def act(event: TrainingEvent) -> None:
        assert rank == 0, "only the main process calls"
        if event.step == 3 and isinstance(event, StepEvent):
            if keywords["seed"] == 2:
                raise ValueError("on purpose")
            event.stop("enough")

    try:
        result = headway.train(read_pairs(), callbacks=[act], **keywords)
        print(f"rank {rank}: step {result.step}, {result.reason}", file=sys.stderr)
    except (SystemExit, HeadwayError) as error:
        print(f"rank {rank}: {error}", file=sys.stderr)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    *runs, last = json.loads(file.read_text())
    for number, run in enumerate(runs):
        if number:
            use_own_store(run["port"])
        with Path(f"{file}.{number}.{os.environ['RANK']}").open("w") as log, contextlib.redirect_stderr(log):
            code = train_in_python(run["python"]) if "python" in run else main(run["arguments"])
        if code:
            sys.exit(f"{run['arguments']} ended with code {code}: {Path(log.name).read_text()}")
    use_own_store(last["port"])
    train_and_leave()
