"""What all tests share: one seed, few threads, and tools to run the command line."""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

ROOT = Path(__file__).parent.parent
pytest_plugins = ["error_sites"]

# Whoever runs the tests in the background may have Ctrl-C ignored, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests' tensors are tiny: more threads only get into each other's way, and change the order of sums.
torch.set_num_threads(1)
os.environ.update(OMP_NUM_THREADS="1", RAYON_NUM_THREADS="1")  # in the programs that they start, and in tokenizers

# Beside others an example may take any time.
hypothesis.settings.register_profile("beside others", deadline=None)
hypothesis.settings.load_profile("beside others")

# What tests tokenise goes to a folder of their own, which is gone afterwards.
os.environ["HEADWAY_CACHE"] = tempfile.mkdtemp(prefix="headway-tests-")
atexit.register(shutil.rmtree, os.environ["HEADWAY_CACHE"], ignore_errors=True)

# Nor do they find the models of whoever runs them.
os.environ["HEADWAY_MODELS"] = os.path.join(os.environ["HEADWAY_CACHE"], "models")

# `with torch.device(...)` notes at its first use which functions make tensors: it must see the real `torch.empty`.
with torch.device("meta"):
    torch.empty(0)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def one_torch_thread() -> None:
    """Again before each test: two threads of one that changed it would wait for each other in all later tests."""
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


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
        settings: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 300}
        command = [sys.executable, "-m", "headway", *arguments]
        return subprocess.run(command, env=environment, **{**settings, **options})

    return run


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two folders of installed models, empty at first: the package's and the user's. See installing_models.Shelf."""
    from installing_models import Shelf

    return Shelf(tmp_path / "shelf", monkeypatch)


@pytest.fixture
def check_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    """Parse the words of a `headway ...` command with the real app, without running it. Click raises."""
    import click

    from headway.cli.app import Verb, app

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


# ---- Tiny trained models, for every test that needs one. Trained once, by the command line itself, in a few seconds.


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder: train.{en,qtx} with 100 pairs, of which valid.{en,qtx} are the first 16; test.{en,qtx}; text.txt."""
    from headway.data.toy import toy_corpus

    folder = tmp_path_factory.mktemp("toy")
    pairs = toy_corpus(120)
    for name, part in {"train": pairs[20:], "valid": pairs[20:36], "test": pairs[:20]}.items():
        (folder / f"{name}.en").write_text("".join(f"{pair.source}\n" for pair in part))
        (folder / f"{name}.qtx").write_text("".join(f"{pair.target}\n" for pair in part))
    (folder / "text.txt").write_text("".join(f"{pair.source}\n" for pair in pairs))
    return folder


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Flags of `headway train` for a translator that learns the toy corpus by heart in 240 steps."""
    settings = [
        "tokenizer.size=384",
        "model.d_model=48",
        "model.dropout=0",
        *(f"model.{side}.layers=1" for side in ("encoder", "decoder")),
        *(f"model.{side}.mixer=attention(4)" for side in ("encoder", "decoder")),
        *(f"model.{side}.feedforward=relu(96)" for side in ("encoder", "decoder")),
        "train.batch_tokens=512",
        "train.schedule=inverse_sqrt(0.01, warmup=30)",
        "train.steps=240",
        "train.validate_every=120",
        "train.log_every=40",
        "train.average=1",
        "train.label_smoothing=0.05",
        "train.max_tokens=64",
    ]
    return ["--preset", "tiny", *(word for setting in settings for word in ("--set", setting))]


@pytest.fixture(scope="session")
def train_toy(toy: Path, tiny: list[str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Train in this process on the toy pairs, with more flags; returns the model directory."""
    from headway.cli.app import main

    def train(*flags: str) -> Path:
        out = tmp_path_factory.mktemp("models") / "model"
        files = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
        named = [word for name, file in files.items() for word in (f"--{name}", str(toy / file))]
        assert main(["train", *named, *tiny, "--out", str(out), *flags]) == 0
        return out

    return train


@pytest.fixture(scope="session")
def translator_dir(train_toy: Callable[..., Path]) -> Path:
    """A translator that knows the toy training text."""
    return train_toy()


@pytest.fixture(scope="session")
def run_dir(train_toy: Callable[..., Path]) -> Path:
    """A short training with all of its checkpoints."""
    return train_toy("--set", "train.steps=60", "--set", "train.validate_every=15", "--set", "train.keep_last=9")


@pytest.fixture(scope="session")
def other_translator_dir(train_toy: Callable[..., Path]) -> Path:
    """Another with the same tokenizer, less well trained."""
    return train_toy("--set", "train.seed=2", "--set", "train.steps=90", "--set", "train.validate_every=45")


@pytest.fixture(scope="session")
def train_text(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Train a tiny language model on the English of the toy corpus, with more flags."""
    from headway.cli.app import main

    settings = [
        "tokenizer.size=384",
        "model.d_model=32",
        "model.dropout=0",
        "train.batch_tokens=512",
        "train.max_tokens=32",
        "train.schedule=inverse_sqrt(0.01, warmup=20)",
        "train.steps=80",
        "train.validate_every=40",
        "train.log_every=20",
    ]

    def train(side: str, *flags: str) -> Path:
        out = tmp_path_factory.mktemp("models") / "model"
        stack = [f"model.{side}.layers=1", f"model.{side}.mixer=attention(2)", f"model.{side}.feedforward=relu(64)"]
        given = [word for setting in [*settings, *stack] for word in ("--set", setting)]
        assert main(["train", "--text", str(toy / "text.txt"), *given, "--out", str(out), *flags]) == 0
        return out

    return train


@pytest.fixture(scope="session")
def lm_dir(train_text: Callable[..., Path]) -> Path:
    return train_text("decoder")


@pytest.fixture(scope="session")
def masked_dir(train_text: Callable[..., Path]) -> Path:
    return train_text("encoder", "--objective", "masked")


@pytest.fixture(scope="session")
def sentences(toy: Path) -> list[str]:
    return (toy / "train.en").read_text().splitlines()
