"""The server of benchmarks/hostile_load.py: in a control group with little memory, watched from outside."""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
CGROUPS = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group for the server. Without one, only the server's own limit is tested."""

    def __init__(self, limit: int) -> None:
        name = f"headway-{os.getpid()}"
        is_first = (CGROUPS / "memory").is_dir()
        self.folder = (CGROUPS / "memory" if is_first else CGROUPS) / name
        self.files = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control", "rss")
            if is_first
            else ("memory.max", "memory.current", "memory.peak", "memory.events", "anon")
        )
        self.folder.mkdir()
        try:
            (self.folder / self.files[0]).write_text(str(limit))
            if not is_first:
                with suppress(OSError):
                    (self.folder / "memory.swap.max").write_text("0")
        except OSError:
            self.remove()
            raise

    def wrap(self, command: list[str]) -> list[str]:
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *command]

    def read(self) -> dict[str, int]:
        def number(name: str) -> int:
            try:
                return int((self.folder / name).read_text())
            except (OSError, ValueError):
                return 0

        def field(name: str, key: str) -> int:
            match = re.search(rf"^{key} (\d+)", (self.folder / name).read_text(), re.MULTILINE)
            return int(match[1]) if match else 0

        _, used, peak, events, anonymous = self.files
        return {
            "group_bytes": number(used),
            "group_peak_bytes": number(peak),
            "anonymous_bytes": field("memory.stat", anonymous),
            "oom_kills": field(events, "oom_kill"),
        }

    def remove(self) -> None:
        for _ in range(50):
            with suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.1)


class Server:
    """The server, which is started again if it ends; that must not happen."""

    def __init__(self, given: argparse.Namespace, group: MemoryGroup | None, log: Path) -> None:
        self.given = given
        self.group = group
        self.log = log
        self.restarts = -1
        self.port = 0
        self.start()

    def start(self) -> None:
        self.restarts += 1
        command = [sys.executable, "-m", "headway", "serve", "--port", str(self.port)]
        command += ["--memory", str(self.given.memory), "--model", self.given.model, *self.given.options]
        start = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                self.group.wrap(command) if self.group else command, cwd=ROOT, stdout=output, stderr=output
            )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = re.search(rb"serving http://[^ ]*:(\d+)", self.log.read_bytes()[start:])
            if found:
                self.port = int(found[1])
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"the server did not start: {self.log.read_text(errors='replace')[-500:]}")

    def resident_bytes(self) -> tuple[int, int]:
        """Of the server, and its peak."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0, 0
        fields = {name: int(value) * 1024 for name, value in re.findall(r"(VmRSS|VmHWM):\s+(\d+)", status)}
        return fields.get("VmRSS", 0), fields.get("VmHWM", 0)

    def last_lines(self, count: int) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def faults(self) -> list[str]:
        text = self.log.read_text(errors="replace")
        return re.findall(r"^.*(?:internal error|Traceback|MemoryError).*$", text, re.MULTILINE)

    def stop(self) -> float:
        """Seconds that it took to end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return time.monotonic() - began
