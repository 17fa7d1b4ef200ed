"""Runs the trials of a study, each in a process of its own, some of them side by side.

Finished ones are skipped, interrupted ones resume from their last checkpoint, and one that fails does not stop the
others. An interrupt is passed on, so that running trials save before they end. What a text of each length costs is
measured when nothing is trained any more, one trial at a time."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from headway.compare.trial_worker import PROGRESS_FILE, write_failure
from headway.compare.trials import Trial, read_json_file
from headway.config.own_kinds import ALLOW_VARIABLE, allowed_packages
from headway.device import available_cores, choose_device

LOG_FILE = "log.txt"
POLL_SECONDS = 0.2
SAVE_SECONDS = 60.0  # that an interrupted trial may take to save
MAX_LOG_CHARACTERS = 300  # of the last line of a log that an error quotes


class StudyListener(Protocol):
    """Shows how a study goes."""

    def on_start(self, trial: Trial, number: int, total: int, measures_lengths: bool) -> None: ...
    def on_progress(self, running: Sequence[tuple[Trial, float]], finished: int, total: int) -> None: ...
    def on_end(self, trial: Trial, measures_lengths: bool) -> None: ...


@dataclass
class RunningTrial:
    trial: Trial
    process: "subprocess.Popen[bytes]"
    log: IO[bytes]
    slot: int  # which of the places side by side it takes
    measures_lengths: bool = False


@dataclass
class Runner:
    trials: list[Trial]
    listener: StudyListener
    jobs: int = 1
    device: str = "auto"
    retry_failed: bool = False
    running: list[RunningTrial] = field(default_factory=list)

    def run(self) -> None:
        """Until every trial has a result or a failure; then until all costs by length are measured."""
        waiting = [trial for trial in self.trials if self._needs_result(trial)]
        # One seed of each variant first: a study that is stopped then compares all of them.
        self._run_all(sorted(waiting, key=lambda trial: trial.seed), measures_lengths=False)
        self._run_all([trial for trial in self.trials if needs_lengths(trial)], measures_lengths=True)

    def _run_all(self, waiting: list[Trial], measures_lengths: bool) -> None:
        total = len(waiting) if measures_lengths else len(self.trials)
        finished = total - len(waiting)
        try:
            while waiting or self.running:
                while waiting and len(self.running) < self.jobs:
                    trial = waiting.pop(0)
                    self.listener.on_start(trial, total - len(waiting), total, measures_lengths)
                    trial.prepare()
                    slot = min(set(range(self.jobs)) - {one.slot for one in self.running})
                    self._launch(trial, slot, measures_lengths)
                time.sleep(POLL_SECONDS)
                for one in [one for one in self.running if one.process.poll() is not None]:
                    self._end(one)
                    finished += 1
                self.listener.on_progress(
                    [(one.trial, _share_done(one.trial)) for one in self.running], finished, total
                )
        finally:
            self._stop()

    def _needs_result(self, trial: Trial) -> bool:
        return trial.result is None and (self.retry_failed or not trial.failure)

    def _launch(self, trial: Trial, slot: int, measures_lengths: bool) -> None:
        threads = max(1, available_cores() // self.jobs)
        command = [sys.executable, "-m", "headway.compare.trial_worker", str(trial.folder), self.device, str(threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **self._visible_device(slot)}
        environment[ALLOW_VARIABLE] = ",".join(allowed_packages())  # what the study names, its trials may import
        log = (trial.folder / LOG_FILE).open("ab")
        process = subprocess.Popen(
            [*command, "lengths"] if measures_lengths else command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on once
        )
        self.running.append(RunningTrial(trial, process, log, slot, measures_lengths))

    def _visible_device(self, slot: int) -> dict[str, str]:
        """Trials side by side take turns on the GPUs."""
        if "CUDA_VISIBLE_DEVICES" in os.environ or choose_device(self.device).type != "cuda" or ":" in self.device:
            return {}
        import torch

        return {"CUDA_VISIBLE_DEVICES": str(slot % torch.cuda.device_count())}

    def _end(self, one: RunningTrial) -> None:
        self.running.remove(one)
        one.log.close()
        trial = one.trial
        if not trial.failure and (needs_lengths(trial) if one.measures_lengths else trial.result is None):
            _write_failure(trial, one.process.returncode)
        self.listener.on_end(trial, one.measures_lengths)

    def _stop(self) -> None:
        """Interrupt what still runs, give it time to save, then end it."""
        for one in self.running:
            with suppress(ProcessLookupError):
                one.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + SAVE_SECONDS
        for one in self.running:
            try:
                one.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            one.log.close()


def needs_lengths(trial: Trial) -> bool:
    wanted = bool(trial.table["lengths"]) and trial.result is not None and not trial.failure
    return wanted and trial.cost_curve is None


def _share_done(trial: Trial) -> float:
    return float((read_json_file(trial.folder / PROGRESS_FILE) or {}).get("done", 0.0))


def _write_failure(trial: Trial, status: int) -> None:
    """A process that ended without a word: a crash, or the system's memory killer."""
    cause = "was killed, perhaps for want of memory" if status == -signal.SIGKILL else f"ended with status {status}"
    write_failure(trial.folder, f"its process {cause}. {_last_line(trial.folder / LOG_FILE)}".strip())


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines() if path.exists() else []
    return f"Last words: {lines[-1][:MAX_LOG_CHARACTERS]}" if lines else ""
