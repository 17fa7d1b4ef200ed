"""Several processes train one model: as one process would, with one log and one checkpoint."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headway.cli.app import main
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.train.checkpoints import checkpoints
from headway.train.distributed import ALONE, Beat, Team, join_team
from headway.train.history import read_history
from headway.train.progress import Tally

ROOT = Path(__file__).parents[2]


def command(toy: Path, tiny: list[str], out: Path, steps: int, dropout: float = 0.0) -> list[str]:
    files = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
    named = [word for name, file in files.items() for word in (f"--{name}", str(toy / file))]
    settings = ["train.log_every=1", "train.validate_every=3", f"model.dropout={dropout}", "train.decode_lines=4"]
    flags = [word for setting in settings for word in ("--set", setting)]
    return ["train", *named, *tiny, *flags, "--steps", str(steps), "--out", str(out)]


def run(processes: int, words: list[str]) -> str:
    """A training that must end well; what it says. One process is this one: another would spend seconds on imports."""
    if processes == 1:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(words)
        assert code == 0, said.getvalue()
        return said.getvalue()
    return launch(processes, ["-m", "headway", *words])


def launch(processes: int, program: list[str]) -> str:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, *program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    return done.stderr


def losses(out: Path, kind: str) -> list[float]:
    return [entry["loss"] for entry in read_history(out) if entry["kind"] == kind]


def test_two_processes_do_what_one_does(toy: Path, tiny: list[str], tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    run(1, command(toy, tiny, one, 8))
    together = run(2, command(toy, tiny, two, 5))
    assert together.count("step=5 loss=") == 1  # one log
    assert [found.step for found in checkpoints(two)] == [3, 5]  # one checkpoint
    assert load_model(two).config.model == load_model(one).config.model
    # Then on one process, where two were.
    assert "going on from step 5" in run(1, command(toy, tiny, two, 8))
    assert losses(two, "step") == pytest.approx(losses(one, "step"), abs=1e-5)
    assert losses(two, "validation")[0] == pytest.approx(losses(one, "validation")[0], abs=1e-5)


def test_one_process_before_and_two_after(toy: Path, tiny: list[str], tmp_path: Path) -> None:
    out = tmp_path / "model"
    run(1, command(toy, tiny, out, 3, dropout=0.1))
    run(2, command(toy, tiny, out, 6, dropout=0.1))
    assert [entry["step"] for entry in read_history(out) if entry["kind"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert {"random.cpu.0", "random.cpu.1"} <= checkpoints(out)[-1].training.keys()


def test_rows_that_go_on_are_shared_out_and_remembered(toy: Path, tmp_path: Path) -> None:
    """Three rows for two processes: one of them remembers two, the other one."""
    settings = ["tokenizer.size=384", "model.d_model=16", "model.dropout=0", "model.decoder.layers=1"]
    settings += ["model.decoder.mixer=attention(2)", "model.decoder.feedforward=relu(16)", "model.decoder.position=xl"]
    settings += ["model.decoder.mask=causal & segments(8, 8)", "train.objective=causal(true)", "train.longest=8"]
    settings += ["train.batch_tokens=24", "train.log_every=1", "train.validate_every=4", "train.average=1"]
    settings += ["train.schedule=constant(0.0001)"]  # the same whatever the number of steps
    flags = [word for setting in settings for word in ("--set", setting)]
    texts = ["--text", str(toy / "train.en"), "--valid-text", str(toy / "valid.en")]

    def trained(processes: int, out: Path, steps: int) -> None:
        run(processes, ["train", *texts, *flags, "--steps", str(steps), "--out", str(out)])

    one, two = tmp_path / "one", tmp_path / "two"
    trained(1, one, 8)
    trained(2, two, 4)
    rows = {n: len(x) for n, x in checkpoints(two)[-1].training.items() if n.startswith("carried") and "lengths" in n}
    assert set(rows.values()) == {1, 2}
    trained(2, two, 8)
    assert losses(two, "step") == pytest.approx(losses(one, "step"), abs=1e-5)


TRAINS_AND_LEAVES = """
import sys, time, torch
from pathlib import Path
from headway.train.distributed import join_team, leave_team

def threads():
    return [name for task in Path("/proc/self/task").glob("*/comm") if "gloo" in (name := task.read_text().strip())]

team, device = join_team("cpu")
module = team.joined(torch.nn.Linear(2, 2), device)
module.itself = [module]  # as in a trainer, whose parts know each other
module(torch.ones(1, 2)).sum().backward()
before = threads()
sys.setswitchinterval(1000)  # so that a thread that is done with this cannot let go of it: that takes Python's lock
torch.distributed.broadcast(torch.ones(3), 0, async_op=True)
now = time.monotonic()
while time.monotonic() < now + 0.3:
    pass
del module
leave_team()
print(f"threads: {len(before) > 0} before, {threads()} after", file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads have names where there is /proc")
def test_no_thread_outlives_the_team(tmp_path: Path) -> None:
    """One that does is met by Python's end inside of PyTorch, now and then, and the process is aborted; one that is
    waited for in the wrong way waits for us."""
    program = tmp_path / "leaves.py"
    program.write_text(TRAINS_AND_LEAVES)
    said = launch(2, [str(program)])
    assert said.count("threads: True before, [] after") == 2, said


def test_a_team_of_one_needs_nobody() -> None:
    assert ALONE.first
    assert ALONE.beat(7, 1.5, 0) == Beat(7, 1.5, 0)
    assert ALONE.tell("word") == "word"
    assert torch.equal(ALONE.gather({"ones": torch.ones(2)})[0]["ones"], torch.ones(2))
    with ALONE.first_alone():
        ALONE.wait()
    model = torch.nn.Linear(2, 2)
    assert ALONE.joined(model, torch.device("cpu")) is model
    tally = Tally(torch.device("cpu"))
    assert tally.together(ALONE) is tally
    assert not Team(rank=1, size=2).first


def test_torchruns_numbers_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(
        HeadwayError, match="the environment variable WORLD_SIZE is 'two': torchrun sets it to a number"
    ):
        join_team("cpu")


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(HeadwayError, match="3 processes on one machine, which has 2 GPUs. Start at most one for each"):
        join_team("auto")
