"""Trains again and again in processes that are killed, and looks at what they leave. Run by test_killed.py.

A process of its own, because it forks: nothing here may have started a thread."""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import test_run
import torch
import torch._dynamo  # which an optimiser imports: here once, or each child would be killed while it does so

from headway.errors import HeadwayError
from headway.storage.model_dir import load_model, read_tensors
from headway.train.checkpoints import list_checkpoints

SETTINGS = ("train.steps=2000", "train.validate_every=1", "train.ema=0.9", "train.keep_last=2", "train.log_every=5")
LOADED: set[Path] = set()  # where a model was found once
CALLS = ("replace", "fsync", "unlink", "rmdir")  # what a save is made of, of the module os


def in_a_child(act: Callable[[], Any], after: float | None) -> int:
    """Run something in a process that is killed after so many seconds of its own time, however busy the machine is; its
    exit status."""
    child = os.fork()
    if not child:
        if after is not None:
            signal.setitimer(signal.ITIMER_PROF, after)  # its signal ends the process on the spot, as SIGKILL would
        try:
            act()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    return os.waitpid(child, 0)[1]


def suicidal(name: str, calls: int, before: bool) -> None:
    """Let this process die at the n-th call of a function of `os`."""
    function, left = getattr(os, name), [calls]

    def call(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if not left[0] and before:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return function(*arguments, **options)
        finally:  # also where there was nothing to unlink
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(os, name, call)


def inspect(out: Path, known: int) -> int:
    """What is left loads, and nothing that was saved is lost. Returns the newest step."""
    found = list_checkpoints(out)
    for checkpoint in found:
        checkpoint.read()
    newest = found[-1].step if found else 0
    assert newest >= known, f"step {known} was saved, and step {newest} is the newest now"
    try:
        load_model(out)
        LOADED.add(out)
    except HeadwayError as error:
        # Only before the first model, which is written behind the first checkpoint: then it says so, in words.
        if out in LOADED or not ("has not saved a model yet" in str(error) or "no config.json" in str(error)):
            raise
    return newest


def main(folder: Path, seed: int, kills: int) -> None:
    by_the_clock = kills // 2
    torch.set_num_threads(1)
    dice = random.Random(seed)
    out, newest = folder / "cut", 0
    out.mkdir()
    for _ in range(by_the_clock):
        status = in_a_child(lambda: test_run.train(out, *SETTINGS), dice.uniform(0.02, 0.2))
        assert os.WIFSIGNALED(status), "it was over before it was killed: give it more steps"
        newest = inspect(out, newest)
    for number in range(kills - by_the_clock):
        name, calls, before = CALLS[number % len(CALLS)], dice.randint(1, 12), dice.random() < 0.5

        def act(name: str = name, calls: int = calls, before: bool = before, known: int = newest) -> None:
            suicidal(name, calls, before)
            test_run.train(out, *SETTINGS, f"train.steps={known + 20}")

        assert os.WIFSIGNALED(in_a_child(act, None)), f"it was over before it called os.{name} {calls} times"
        newest = inspect(out, newest)
    print(f"{newest} steps survived {kills} kills")
    rest = f"train.steps={newest + 5}"
    assert in_a_child(lambda: test_run.train(out, *SETTINGS, rest), None) == 0
    assert in_a_child(lambda: test_run.train(folder / "straight", *SETTINGS, rest), None) == 0
    for one, other in zip(*(list_checkpoints(path)[-2:] for path in (out, folder / "straight"))):
        assert one.step == other.step
        for name, weights in one.weights.items():
            assert torch.equal(weights, other.weights[name]), name
    ends = [read_tensors(path / "model.safetensors") for path in (out, folder / "straight")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    assert not list((out / "checkpoints").glob(".*")), "what killed processes left behind is still there"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
