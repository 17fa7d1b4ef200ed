"""Several processes train one model: as one process would, with one log and one checkpoint."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.cli.app import main
from headway.config.sources import split_assignment
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.train.checkpoints import list_checkpoints
from headway.train.distributed import SINGLE_PROCESS, ProcessGroup, StepSync, join_process_group
from headway.train.history import read_history
from headway.train.progress import RunningLoss

HERE = Path(__file__).parent
LOADS = ["encoder.0.feedforward.load", "decoder.0.feedforward.load"]


def flags(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def train_in_one(arguments: list[str]) -> str:
    """Train in this process; what it logs."""
    with contextlib.redirect_stderr(io.StringIO()) as log:
        code = main(arguments)
    assert code == 0, log.getvalue()
    return log.getvalue()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@dataclass
class Commands:
    """The words of the trainings."""

    toy: Path
    tiny: list[str]
    folder: Path

    def translator(self, name: str, steps: int, *settings: str) -> list[str]:
        files = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
        named = [word for flag, file in files.items() for word in (f"--{flag}", str(self.toy / file))]
        common = ["train.log_every=1", "train.validate_every=3", "train.decode_lines=4", *settings]
        return ["train", *named, *self.tiny, *flags(common), "--steps", str(steps), "--out", str(self.folder / name)]

    def experts(self, name: str) -> list[str]:
        """Twelve experts and few tokens: some get none."""
        layers = [f"model.{side}.feedforward=moe(12, 2, 'relu(8)')" for side in ("encoder", "decoder")]
        return self.translator(name, 4, *layers, "train.batch_tokens=64")

    def carrying(self, name: str, steps: int) -> list[str]:
        """Three rows that continue from step to step."""
        settings = [
            "tokenizer.size=384",
            "model.d_model=16",
            "model.dropout=0",
            "model.decoder.layers=1",
            "model.decoder.mixer=attention(2)",
            "model.decoder.feedforward=relu(16)",
            "model.decoder.position=transformer_xl",
            "model.decoder.mask=causal & segments(8, 8)",
            "train.objective=causal(true)",
            "train.max_tokens=8",
            "train.batch_tokens=24",
            "train.log_every=1",
            "train.validate_every=4",
            "train.average=1",
            "train.schedule=constant(0.0001)",  # the same whatever the number of steps
        ]
        texts = ["--text", str(self.toy / "train.en"), "--valid-text", str(self.toy / "valid.en")]
        return ["train", *texts, *flags(settings), "--steps", str(steps), "--out", str(self.folder / name)]


@dataclass
class TwoProcesses:
    """What two processes did, in one start of torchrun: the log of each training, and what they print at the end."""

    commands: Commands
    logs: list[str]
    end: str

    def out(self, name: str) -> Path:
        return self.commands.folder / name


@pytest.fixture(scope="module")
def two_processes(toy: Path, tiny: list[str], tmp_path_factory: pytest.TempPathFactory) -> TwoProcesses:
    folder = tmp_path_factory.mktemp("together")
    commands = Commands(toy, tiny, folder)
    train_in_one(commands.translator("grown", 3, "model.dropout=0.1"))
    trainings = [
        commands.translator("two", 5, "model.dropout=0"),
        commands.translator("grown", 6, "model.dropout=0.1"),
        commands.carrying("carried", 4),
        commands.carrying("carried", 8),
        commands.experts("experts"),
    ]
    ports = free_ports(8)
    runs: list[dict[str, Any]] = [{"arguments": arguments, "port": ports.pop()} for arguments in trainings]
    for name, seed in (("stopped", 1), ("failed", 2)):
        settings = dict(map(split_assignment, tiny[3::2]))
        own = {"out": str(folder / name), "seed": seed, "steps": 9, "set": settings, "device": "cpu"}
        runs.append({"python": own, "port": ports.pop()})
    runs.append({"port": ports.pop()})
    file = folder / "runs.json"
    file.write_text(json.dumps(runs))
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(HERE / "torchrun_runs.py"), str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    logs = [
        "".join((folder / f"runs.json.{number}.{rank}").read_text() for rank in range(2))
        for number in range(len(runs) - 1)
    ]
    return TwoProcesses(commands, logs, done.stderr)


def entries(out: Path, kind: str = "step") -> list[dict[str, Any]]:
    return [entry for entry in read_history(out) if entry["kind"] == kind]


def losses(out: Path, kind: str = "step") -> list[float]:
    return [entry["loss"] for entry in entries(out, kind)]


def test_two_processes_do_what_one_does(two_processes: TwoProcesses) -> None:
    one, two, commands = two_processes.out("one"), two_processes.out("two"), two_processes.commands
    train_in_one(commands.translator("one", 8, "model.dropout=0"))
    assert two_processes.logs[0].count("step=5 loss=") == 1  # one log
    assert [found.step for found in list_checkpoints(two)] == [3, 5]  # one checkpoint
    assert load_model(two).config.model == load_model(one).config.model
    # Then on one process, where two were.
    assert "resuming from step 5" in train_in_one(commands.translator("two", 8, "model.dropout=0"))
    assert losses(two) == pytest.approx(losses(one), abs=1e-5)
    assert losses(two, "validation")[0] == pytest.approx(losses(one, "validation")[0], abs=1e-5)


def test_one_process_before_and_two_after(two_processes: TwoProcesses) -> None:
    out = two_processes.out("grown")
    assert "resuming from step 3" in two_processes.logs[1]
    assert [entry["step"] for entry in entries(out)] == [1, 2, 3, 4, 5, 6]
    assert {"random.cpu.0", "random.cpu.1"} <= list_checkpoints(out)[-1].training.keys()


def test_rows_that_continue_are_shared_out_and_resumed(two_processes: TwoProcesses) -> None:
    """Three rows for two processes: one of them carries the state of two, the other of one."""
    train_in_one(two_processes.commands.carrying("carried-by-one", 8))
    first, last = list_checkpoints(two_processes.out("carried"))
    assert (first.step, last.step) == (4, 8)
    rows = [len(x) for name, x in first.training.items() if name.startswith("carried") and "lengths" in name]
    assert set(rows) == {1, 2}
    assert "resuming from step 4" in two_processes.logs[3]
    assert losses(two_processes.out("carried")) == pytest.approx(losses(two_processes.out("carried-by-one")), abs=1e-5)


def test_two_processes_report_what_one_reports(two_processes: TwoProcesses) -> None:
    """With experts that get no token in a step, whose gradients the other process waits for all the same."""
    train_in_one(two_processes.commands.experts("experts-of-one"))
    alone, together = entries(two_processes.out("experts-of-one")), entries(two_processes.out("experts"))
    assert alone[0]["cross_entropy"] == pytest.approx(together[0]["cross_entropy"], abs=1e-5)
    assert alone[0]["balance"] == pytest.approx(together[0]["balance"], rel=0.5)  # each process has its own
    assert [alone[0][name] for name in LOADS] == [together[0][name] for name in LOADS]
    assert len(together) == 4 and any(0 in entry[name] for entry in together for name in LOADS)
    for entry in together:
        assert entry["cross_entropy"] + entry["balance"] == pytest.approx(entry["loss"], rel=1e-5)


def test_a_call_in_python_reads_once_and_stops_everywhere(two_processes: TwoProcesses) -> None:
    """A generator is exhausted by the main process; what its callbacks ask for reaches the other a step later."""
    assert all(f"rank {rank}: step 4, " in two_processes.logs[5] for rank in range(2))
    assert load_model(two_processes.out("stopped"))
    failed = two_processes.logs[6]
    assert (
        "the callback train_in_python.act failed at step 3: ValueError: on purpose." in failed and "rank 1: 1" in failed
    )
    assert [found.step for found in list_checkpoints(two_processes.out("failed"))] == [4]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads have names where there is /proc")
def test_no_thread_outlives_the_process_group(two_processes: TwoProcesses) -> None:
    """One that does now and then meets the end of Python inside of PyTorch, and the process is aborted; one that is
    joined in the wrong way waits forever."""
    assert two_processes.end.count("threads: True before, [] after") == 2, two_processes.end


def test_a_group_of_one_needs_nobody() -> None:
    assert SINGLE_PROCESS.is_main
    assert SINGLE_PROCESS.sync_step(7, 1.5, 0) == StepSync(7, 1.5, 0)
    assert SINGLE_PROCESS.broadcast("word") == "word"
    assert torch.equal(SINGLE_PROCESS.gather({"ones": torch.ones(2)})[0]["ones"], torch.ones(2))
    with SINGLE_PROCESS.main_first():
        SINGLE_PROCESS.barrier()
    model = torch.nn.Linear(2, 2)
    assert SINGLE_PROCESS.wrap_module(model, torch.device("cpu")) is model
    running = RunningLoss(torch.device("cpu"))
    assert running.reduce(SINGLE_PROCESS) is running
    assert not ProcessGroup(rank=1, size=2).is_main


def test_torchruns_numbers_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(HeadwayError, match="the environment variable WORLD_SIZE is 'two', but must be a number"):
        join_process_group("cpu")


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(
        HeadwayError, match="3 processes were started on a machine with 2 GPUs. Start at most one process per GPU"
    ):
        join_process_group("auto")
