"""What all tests share: one seed, few threads, and tools to run the command line."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent

# The tests' tensors are tiny: more threads only get into each other's way, and change the order of sums.
torch.set_num_threads(1)

# `with torch.device(...)` notes at its first use which functions make tensors: it must see the real `torch.empty`.
with torch.device("meta"):
    torch.empty(0)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def nan_in_empty_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody wrote must not be read: `torch.empty` gives NaN, or the largest integer, not leftovers."""

    def filled(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def make_filled(*arguments: Any, **options: Any) -> torch.Tensor:
            tensor = make(*arguments, **options)
            with torch.no_grad():
                return fill(tensor)

        return make_filled

    monkeypatch.setattr(torch, "empty", filled(torch.empty))
    monkeypatch.setattr(torch, "empty_like", filled(torch.empty_like))


def fill(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_meta or tensor.layout is not torch.strided or type(tensor) is not torch.Tensor:
        return tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(float("nan"))
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    if tensor.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        return tensor.fill_(torch.iinfo(tensor.dtype).max)
    return tensor


@pytest.fixture
def run_headway(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run `headway ...` in a process of its own, in a temporary folder."""

    def run(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
        settings: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120}
        command = [sys.executable, "-m", "headway", *arguments]
        return subprocess.run(command, env=environment, **{**settings, **options})

    return run


@pytest.fixture
def check_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    """Parse the words of a `headway ...` command with the real app, without running it. Click raises."""
    import click

    from headway.cli.root import Verb, app

    def check(words: list[str]) -> None:
        assert words[0] == "headway", words
        # --help and --version end by Exit
        with suppress(click.exceptions.Exit), app.make_context("headway", words[1:]) as context:
            app.invoke(context)

    # The files in an example need not exist.
    monkeypatch.setattr(click.Path, "convert", lambda self, value, parameter, context: value)
    monkeypatch.setattr(click.File, "convert", lambda self, value, parameter, context: value)
    monkeypatch.setattr(Verb, "invoke", lambda self, context: None)
    return check
