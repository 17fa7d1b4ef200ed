"""The server under load, relative to the same program in bulk, and to one request at a time.

    python benchmarks/serve.py --model DIR --source test.en [--results FILE]
    python benchmarks/serve.py --model DIR --source test.en --lines 200 --soak 0     # quickly

All in one run, one after another, on the same sentences, one sentence per request:

bulk        `headway translate` of the whole file, minus the time for a few lines (so without starting up)
64 clients  (--clients) each sends its next request when the last is answered, over its own connection
1 client    the same requests one at a time, as in LibreTranslate, where each request is translated by itself
half load   requests at random times, at half the rate that the 64 clients reached: the latency of each
disturbed   64 clients again, while others close connections without waiting, or open streams and do not read them
soak        --soak more requests (20,000): the server's memory after a tenth of them and at the end

Speeds are output words per second, counted in the bulk translation for all rows. The server and the clients share the
cores, which a real server need not. Rows are measured minutes apart: on a machine with other load, repeat and compare
the ratios, or compare CPU ms, the CPU time per request, which other load affects less. With few lines, clients run out
of work at the end: use at least ten times as many lines as clients.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from report import Table, append_section, versions

ROOT = Path(__file__).parent.parent
WARMUP_LINES = 32  # whose time is that of start-up


class Client:
    """A keep-alive connection."""

    def __init__(self, port: int, languages: tuple[str, str]) -> None:
        self.port, self.languages = port, languages
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def translate(self, text: str) -> str:
        reader, writer = self.streams = self.streams or await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request("/translate", text, self.languages))
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):  # it was idle for too long
            self.streams = None
            return await self.translate(text)
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert length
        body = json.loads(await reader.readexactly(int(length[1])))
        if b" 200 " not in head[:20]:
            raise RuntimeError(body)
        return str(body["translatedText"])

    def close(self) -> None:
        if self.streams:
            self.streams[1].close()


def request(path: str, text: str, languages: tuple[str, str]) -> bytes:
    body = json.dumps({"q": text, "source": languages[0], "target": languages[1]}).encode()
    headers = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body


async def closed_loop(port: int, lines: Sequence[str], clients: int, languages: tuple[str, str]) -> list[str]:
    """Each client sends its next request when the last is answered, until all lines are translated."""
    found, waiting = [""] * len(lines), iter(range(len(lines)))

    async def work() -> None:
        client = Client(port, languages)
        for n in waiting:
            found[n] = await client.translate(lines[n])
        client.close()

    await asyncio.gather(*(work() for _ in range(clients)))
    return found


async def open_loop(port: int, lines: Sequence[str], rate: float, languages: tuple[str, str]) -> list[float]:
    """Requests at random times, at this rate per second; the latency of each."""
    idle, waits = list[Client](), list[float]()

    async def ask(line: str) -> None:
        began = time.perf_counter()
        client = idle.pop() if idle else Client(port, languages)
        await client.translate(line)
        waits.append(time.perf_counter() - began)
        idle.append(client)

    async with asyncio.TaskGroup() as group:
        for line in lines:
            group.create_task(ask(line))
            await asyncio.sleep(random.expovariate(rate))
    for client in idle:
        client.close()
    return waits


async def disturbed(port: int, lines: Sequence[str], clients: int, languages: tuple[str, str]) -> list[str]:
    """The closed loop, among other clients that behave badly."""

    async def vanishing() -> None:
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request("/translate", random.choice(lines), languages))
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.close()
            await asyncio.sleep(0.1)

    async def sleeping() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/api/translate", " ".join(lines[:50]), languages))
        await asyncio.sleep(3600)

    bad = [asyncio.ensure_future(work()) for work in [vanishing] * 8 + [sleeping] * 4]
    try:
        return await closed_loop(port, lines, clients, languages)
    finally:
        for task in bad:
            task.cancel()
        await asyncio.gather(*bad, return_exceptions=True)


@contextmanager
def run_server(given: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """A running server: its port and process id."""
    command = [
        sys.executable,
        "-m",
        "headway",
        "serve",
        "--model",
        str(given.model),
        "--port",
        "0",
        *engine_options(given),
    ]
    with tempfile.NamedTemporaryFile("w") as log:
        process = subprocess.Popen(command, stderr=log, env=environment(given))
        try:
            while not (found := re.search(r"http://127.0.0.1:(\d+)", text := Path(log.name).read_text())):
                if process.poll() is not None:
                    raise SystemExit(text)
                time.sleep(0.1)
            yield int(found[1]), process.pid
        finally:
            process.terminate()
            process.wait(60)


def engine_options(given: argparse.Namespace) -> list[str]:
    return ["--engine", given.engine, "--compute", given.compute, "--threads", str(given.threads), "--device", "cpu"]


def environment(given: argparse.Namespace) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(given.threads)}


def translate_bulk(given: argparse.Namespace, lines: Sequence[str]) -> tuple[float, float, list[str]]:
    """Seconds without start-up, CPU seconds, and the output lines."""

    def run(part: Sequence[str]) -> tuple[float, float, list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "in", Path(folder) / "out"
            source.write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
            command = [
                sys.executable,
                "-m",
                "headway",
                "-q",
                "translate",
                "--model",
                str(given.model),
                *engine_options(given),
            ]
            began, before = time.perf_counter(), os.times()
            subprocess.run([*command, "-i", str(source), "--output", str(target)], check=True, env=environment(given))
            after = os.times()
            computed = after.children_user + after.children_system - before.children_user - before.children_system
            return time.perf_counter() - began, computed, target.read_text(encoding="utf-8").splitlines()

    (*start, _), (*full, written) = run(lines[:WARMUP_LINES]), run(lines)
    seconds, computed = ((long - short) * len(lines) / (len(lines) - WARMUP_LINES) for short, long in zip(start, full))
    return seconds, computed, written


def resident_mb(pid: int) -> float:
    """Resident memory in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """CPU seconds of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def time_call(work: Callable[[], Coroutine[Any, Any, list[str]]]) -> tuple[float, list[str]]:
    began = time.perf_counter()
    found = asyncio.run(work())
    return time.perf_counter() - began, found


def measure(given: argparse.Namespace) -> Table:
    text = given.source.read_text(encoding="utf-8").splitlines()
    lines = [text[n % len(text)] for n in range(given.lines)]
    languages = read_languages(given.model)
    table = Table("the server", ["words/s", "of bulk", "same", "CPU ms", "p50 ms", "p99 ms", "MB"])
    seconds, computed, expected = translate_bulk(given, lines)
    words = sum(len(line.split()) for line in expected)
    fastest = words / seconds
    table.add("bulk", [f"{fastest:.0f}", "1.00", "", f"{1000 * computed / len(lines):.1f}", "", "", ""])

    def row(name: str, work: Callable[[], Coroutine[Any, Any, list[str]]], pid: int) -> tuple[float, float]:
        """Add a row; words and requests per second."""
        before = cpu_seconds(pid)
        took, found = time_call(work)
        each = 1000 * (cpu_seconds(pid) - before) / len(found)
        speed = words * len(found) / len(lines) / took
        same = sum(one == other for one, other in zip(found, expected)) / len(found)
        cells = [f"{speed:.0f}", f"{speed / fastest:.2f}", f"{same:.0%}", f"{each:.1f}", "", ""]
        table.add(name, [*cells, f"{resident_mb(pid):.0f}"])
        return speed, len(found) / took

    with run_server(given) as (port, pid):
        asyncio.run(closed_loop(port, lines[:WARMUP_LINES], 8, languages))  # loads the model
        clients = given.clients
        many, rate = row(f"{clients} clients", lambda: closed_loop(port, lines, clients, languages), pid)
        part = lines[: max(len(lines) // 8, WARMUP_LINES)]
        one, _ = row("1 client", lambda: closed_loop(port, part, 1, languages), pid)
        waits = sorted(asyncio.run(open_loop(port, lines, rate / 2, languages)))
        p50, p99 = (1000 * statistics.quantiles(waits, n=100)[n] for n in (49, 98))
        table.add("half load", [f"{many / 2:.0f}", "", "", "", f"{p50:.0f}", f"{p99:.0f}", f"{resident_mb(pid):.0f}"])
        row("disturbed", lambda: disturbed(port, lines, given.clients, languages), pid)
        if given.soak:
            tenth = given.soak // 10
            soak(port, lines, tenth, languages)
            table.add(f"after {tenth} more", [""] * 6 + [f"{resident_mb(pid):.0f}"])
            soak(port, lines, given.soak - tenth, languages)
            table.add(f"after {given.soak} more", [""] * 6 + [f"{resident_mb(pid):.0f}"])
    print(f"\n{given.clients} clients against one at a time: {many / one:.2f} times as fast", file=sys.stderr)
    return table


def soak(port: int, lines: Sequence[str], requests: int, languages: tuple[str, str]) -> None:
    short = [line[:40] for line in lines]
    asyncio.run(closed_loop(port, [short[n % len(short)] for n in range(requests)], 64, languages))


def read_languages(model: Path) -> tuple[str, str]:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return config["source_languages"][0], config["target_languages"][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True, help="sentences, one per line")
    parser.add_argument("--lines", type=int, default=2000, help="requests")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--soak", type=int, default=20_000, help="requests over which memory must not grow")
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--compute", default="auto")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    random.seed(1)
    with suppress(KeyboardInterrupt):
        table = measure(given)
        print(table.format_text())
        if given.results:
            append_section(given.results, "Serving", versions(), [table])


if __name__ == "__main__":
    main()
