"""A server under hostile load in little memory: it must not be killed, and ordinary clients must go on being served.

    python benchmarks/hostile_load.py --for 60m
    python benchmarks/hostile_load.py --for 5m --memory 900M --cgroup 1G --json result.json -- --engine ctranslate2

`headway serve` runs in a control group with a limit of memory (version 1 or 2; this needs root, or a group that was
delegated). For so long, attackers send it archives and markup that unpack to much, files that lie about their size,
texts without breaks, streams that nobody reads, slow uploads and headers, thousands of connections, 64 requests at
once, files that nobody fetches. Meanwhile a few ordinary clients translate sentences and small files: their latencies
are measured. Every client has an address of its own, 127.0.x.y.

Every minute, and for all of it at the end: resident and peak memory, answers by status, what ordinary clients saw.
The program ends with status 1 if the server was killed, ended, or reported an internal error.
"""

import argparse
import asyncio
import json
import logging
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hostile_inputs import SENTENCES, make_bombs, make_texts
from hostile_server import CGROUPS, MemoryGroup, Server
from report import Table, versions

ROOT = Path(__file__).parent.parent
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "s": 1, "m": 60, "h": 3600}
LANGUAGES = {"source": "en", "target": "de"}
PATIENCE = 130.0  # seconds that a client waits for an answer: a little longer than the server's own limit
MAX_RESTARTS = 5


def parse_amount(text: str) -> int:
    """900M, 60m, or a plain number."""
    match = re.fullmatch(r"(\d+)([KMGsmh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not a number with K, M, G or s, m, h")
    return int(match[1]) * UNITS.get(match[2], 1)


def format_request(path: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
    """A GET without a body, else a POST."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    if body is not None:
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def format_upload(name: str, content: bytes) -> bytes:
    fields = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in LANGUAGES.items()
    )
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = (fields + head).encode() + content + b"\r\n--b--\r\n"
    return format_request("/translate_file", body, "multipart/form-data; boundary=b")


def format_json(path: str, body: dict[str, Any]) -> bytes:
    return format_request(path, json.dumps({**LANGUAGES, **body}).encode())


class Load:
    """All clients, and what they saw."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.answers: Counter[str] = Counter()  # of attackers, by status
        self.by_attack: dict[str, Counter[str]] = {}
        self.ordinary: list[tuple[float, str, str, float]] = []  # when, what, status, seconds
        self.addresses = 0

    async def connect(self, group: int = 1) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """group 1: attackers, 2: ordinary clients."""
        self.addresses += 1
        address = f"127.0.{group}.{self.addresses % 250 + 1}"
        return await asyncio.open_connection("127.0.0.1", self.server.port, local_addr=(address, 0), limit=2**20)

    async def ask(self, content: bytes, group: int = 1) -> tuple[str, bytes]:
        """Status and body; a status of letters where there was no answer."""
        writer = None
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await self.connect(group)
                writer.write(content)
                with suppress(ConnectionError):  # the server may refuse before it has read all
                    await writer.drain()
                answer = await reader.read(-1)
            head, _, body = answer.partition(b"\r\n\r\n")
            return (head[9:12].decode("latin-1") or "closed"), body
        except TimeoutError:
            return "timeout", b""
        except OSError as error:
            return type(error).__name__, b""
        finally:
            if writer is not None:
                writer.transport.abort()

    async def attack(self, name: str, content: bytes) -> None:
        status, _ = await self.ask(content)
        self.count(name, status)

    def count(self, name: str, status: str) -> None:
        self.answers[status] += 1
        self.by_attack.setdefault(name, Counter())[status] += 1

    # ---- attacks that do more than ask

    async def open_and_hold(self, name: str, count: int, content: bytes, seconds: float, drip: bytes = b"") -> None:
        """Connections that send something, perhaps a byte now and then, and read nothing."""
        writers: list[asyncio.StreamWriter] = []
        refused = 0
        for _ in range(count):
            try:
                async with asyncio.timeout(5):
                    _, writer = await self.connect()
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(content)
                writers.append(writer)
            except (OSError, TimeoutError):
                refused += 1
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(1)
            if drip:
                for writer in writers:
                    if not writer.is_closing():
                        writer.write(drip)
        for writer in writers:
            writer.transport.abort()
        self.answers["held"] += len(writers)
        self.by_attack.setdefault(name, Counter()).update(held=len(writers), refused=refused)

    async def leave(self, name: str, content: bytes) -> None:
        """Close in the midst of sending, or soon after."""
        with suppress(OSError):
            _, writer = await self.connect()
            writer.write(content[: random.randrange(len(content))] if random.random() < 0.5 else content)
            await asyncio.sleep(random.random() * 0.5)
            writer.transport.abort()
        self.count(name, "left")

    async def read_slowly(self, name: str, content: bytes, seconds: float) -> None:
        try:
            reader, writer = await self.connect()
            writer.write(content)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                async with asyncio.timeout(PATIENCE):
                    if not await reader.read(100):
                        break
                await asyncio.sleep(0.2)
            writer.transport.abort()
            self.count(name, "read slowly")
        except (OSError, TimeoutError) as error:
            self.count(name, type(error).__name__)

    async def ask_at_once(self, name: str, count: int, content: bytes) -> None:
        await asyncio.gather(*(self.attack(name, content) for _ in range(count)))

    # ---- ordinary clients

    async def measure(self, what: str, content: bytes) -> bytes:
        began = time.monotonic()
        status, body = await self.ask(content, group=2)
        if status == "200" and what == "sentence" and b"translatedText" not in body:
            status = "wrong"
        self.ordinary.append((time.time(), what, status, time.monotonic() - began))
        return body if status == "200" else b""

    async def translate_sentences(self) -> None:
        while True:
            await self.measure("sentence", format_json("/translate", {"q": random.choice(SENTENCES)}))
            await asyncio.sleep(random.uniform(0.5, 1.5))

    async def translate_files(self) -> None:
        while True:
            answer = await self.measure("file", format_upload("notes.txt", "\n".join(SENTENCES).encode()))
            if answer:
                url = json.loads(answer)["translatedFileUrl"]
                await self.measure("download", format_request("/" + url.split("/", 3)[3]))
            await asyncio.sleep(random.uniform(5, 10))


def list_attacks(load: Load, bombs: list[tuple[str, bytes]]) -> list[tuple[Callable[[], Awaitable[None]], float]]:
    """Each with the mean pause between two of its kind, in seconds."""
    texts = list(make_texts().items())
    large = " ".join(SENTENCES) * 60
    stream = format_json("/api/translate", {"q": large[:20_000], "qkv": True, "top": 100, "beam_size": 16})
    small_stream = format_json("/api/translate", {"q": SENTENCES[1]})
    document = format_upload("a.txt", "\n".join(SENTENCES * 20).encode())

    async def bomb() -> None:
        name, content = random.choice(bombs)
        await load.attack(name, format_upload(name, content))

    async def text() -> None:
        name, body = random.choice(texts)
        await load.attack(name, format_json("/translate", body))

    async def garbage() -> None:
        body = random.choice([b"[" * 100_000, b'{"q":' * 1000, b"\xff" * 1000, b"{}", b'{"q": "' + b"\\ud800" * 1000])
        await load.attack("garbage", format_request(random.choice(["/translate", "/detect", "/suggest"]), body))

    part = format_upload("big.txt", b"a" * (5 << 20))
    return [
        (bomb, 2),
        (bomb, 2),
        (text, 4),
        (text, 4),
        (garbage, 5),
        (lambda: load.attack("file never fetched", document), 3),
        (lambda: load.ask_at_once("64 at once", 64, format_json("/translate", {"q": large[:1500]})), 45),
        (lambda: load.ask_at_once("64 small at once", 64, format_json("/translate", {"q": SENTENCES[1]})), 20),
        (lambda: load.ask_at_once("16 files at once", 16, document), 60),
        (lambda: load.open_and_hold("unread streams", 12, stream, 40), 20),
        (lambda: load.open_and_hold("unread large answers", 30, format_request("/spec"), 30), 30),
        (lambda: load.open_and_hold("slow uploads", 30, part[:300_000], 40, drip=b"a"), 30),
        (lambda: load.open_and_hold("slow headers", 100, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ", 40, b"a"), 30),
        (lambda: load.open_and_hold("idle connections", 2000, b"", 30), 60),
        (lambda: load.leave("leave during an upload", part), 5),
        (lambda: load.leave("leave during a text", format_json("/translate", {"q": large[:10_000]})), 3),
        (lambda: load.leave("leave during a stream", small_stream), 5),
        (lambda: load.read_slowly("slow reader of a stream", stream, 30), 15),
    ]


async def repeat(attack: Callable[[], Awaitable[None]], pause: float) -> None:
    while True:
        await asyncio.sleep(random.expovariate(1 / pause))
        await attack()


def describe_latency(seen: list[tuple[float, str, str, float]]) -> dict[str, Any]:
    """Of ordinary clients: percentiles of those that were answered, and all statuses."""
    seconds = sorted(one[3] for one in seen if one[2] == "200")
    statuses = dict(Counter(one[2] for one in seen))

    def percentile(share: float) -> float | None:
        return round(seconds[min(int(share * len(seconds)), len(seconds) - 1)], 3) if seconds else None

    values = {f"p{round(100 * share)}": percentile(share) for share in (0.5, 0.95, 0.99)}
    return {**values, "max": percentile(1.0), "statuses": statuses}


def sample(load: Load, group: MemoryGroup | None, since: float) -> dict[str, Any]:
    resident, peak = load.server.resident_bytes()
    return {
        "resident_bytes": resident,
        "peak_bytes": peak,
        **(group.read() if group else {}),
        "restarts": load.server.restarts,
        "faults": len(load.server.faults()),
        "answers": dict(load.answers),
        "sentences": describe_latency([one for one in load.ordinary if one[0] >= since and one[1] == "sentence"]),
        "files": describe_latency([one for one in load.ordinary if one[0] >= since and one[1] == "file"]),
    }


async def run_load(given: argparse.Namespace, server: Server, group: MemoryGroup | None) -> dict[str, Any]:
    load = Load(server)
    bombs = list(make_bombs([".docx", ".odt", ".html", ".txt", ".srt", ".po", ".pptx", ".epub", ".odp", ".pdf"]))
    print(f"{len(bombs)} hostile files, {sum(len(content) for _, content in bombs) >> 20} MiB", flush=True)
    tasks = [asyncio.ensure_future(load.translate_sentences()) for _ in range(3)]
    tasks.append(asyncio.ensure_future(load.translate_files()))
    await asyncio.sleep(10)
    quiet = sample(load, group, 0.0)
    print(format_minute("quiet", quiet), flush=True)
    tasks += [asyncio.ensure_future(repeat(attack, pause)) for attack, pause in list_attacks(load, bombs)]
    began = time.time()
    minutes: list[dict[str, Any]] = []
    history: deque[int] = deque(maxlen=60)  # resident size, once a second
    try:
        while time.time() < began + given.duration and server.restarts < MAX_RESTARTS:
            start = time.time()
            while time.time() < min(start + 60, began + given.duration):
                await asyncio.sleep(1)
                history.append(server.resident_bytes()[0] >> 20)
                if server.process.poll() is not None:
                    print(f"THE SERVER ENDED with status {server.process.returncode}. Its last minute:", flush=True)
                    print("resident MB:", *history, "\n" + server.last_lines(40), flush=True)
                    await asyncio.to_thread(server.start)
            minutes.append(sample(load, group, start))
            print(format_minute(f"{round((time.time() - began) / 60)} min", minutes[-1]), flush=True)
            failed = [str(task.exception()) for task in tasks if task.done() and not task.cancelled()]
            if failed:
                raise SystemExit(f"the load itself failed: {failed[0]}")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(5)
    resident_after, _ = server.resident_bytes()
    attacks = {name: dict(counts) for name, counts in sorted(load.by_attack.items())}
    total = {**sample(load, group, began), "resident_bytes_after": resident_after, "attacks": attacks}
    return {"seconds": round(time.time() - began), "quiet": quiet, "total": total, "minutes": minutes}


def format_minute(name: str, seen: dict[str, Any]) -> str:
    statuses = " ".join(f"{status}:{count}" for status, count in sorted(seen["answers"].items()))
    sentences = seen["sentences"]
    return (
        f"{name:>7}  resident {seen['resident_bytes'] >> 20} MB, peak {seen['peak_bytes'] >> 20} MB, group "
        f"{seen.get('anonymous_bytes', 0) >> 20} MB, killed {seen.get('oom_kills', '?')}, restarts {seen['restarts']}, "
        f"faults {seen['faults']} | sentences p50 {sentences['p50']} p95 {sentences['p95']} max {sentences['max']} "
        f"{sentences['statuses']} | files p50 {seen['files']['p50']} {seen['files']['statuses']} | {statuses}"
    )


def format_summary(result: dict[str, Any]) -> str:
    table = Table("Ordinary clients, seconds", ["p50", "p95", "p99", "max", "answered", "other"])
    for name, seen in (("quiet", result["quiet"]), ("under attack", result["total"])):
        for what in ("sentences", "files"):
            latency = seen[what]
            answered = latency["statuses"].get("200", 0)
            other = sum(latency["statuses"].values()) - answered
            cells = [str(latency[key]) for key in ("p50", "p95", "p99", "max")]
            table.add(f"{what}, {name}", [*cells, str(answered), str(other)])
    total = result["total"]
    lines = [f"  {name}: {counts}" for name, counts in total["attacks"].items()]
    memory = (
        f"server: peak {total['peak_bytes'] >> 20} MB, {total['resident_bytes_after'] >> 20} MB after the load; group: "
        f"peak {total.get('group_peak_bytes', 0) >> 20} MB with the page cache, killed {total.get('oom_kills', '?')}; "
        f"restarts {total['restarts']}, internal errors {total['faults']}; ended in {result['stop_seconds']} s"
    )
    return "\n".join([*lines, table.format_text(), "", memory])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for", dest="duration", type=parse_amount, default=300, metavar="TIME", help="such as 60m")
    parser.add_argument("--model", default=str(ROOT / "headway" / "models" / "en-de"))
    parser.add_argument("--memory", type=parse_amount, default="900M", metavar="SIZE", help="the server's --memory")
    parser.add_argument("--cgroup", type=parse_amount, default="1G", metavar="SIZE", help="the limit of its group")
    parser.add_argument("--no-cgroup", action="store_true", help="do without a control group")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--log", type=Path, help="keep the server's log in this file")
    parser.add_argument("options", nargs="*", help="further options of headway serve, after --")
    given = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # the server cuts connections: that is expected
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    group = None
    if not given.no_cgroup:
        try:
            group = MemoryGroup(given.cgroup)
        except OSError as error:
            raise SystemExit(
                f"no control group with a memory limit can be made below {CGROUPS}: {error}. Run as root on Linux, or "
                "use --no-cgroup."
            ) from None
    with tempfile.TemporaryDirectory() as folder:
        server = None
        try:
            log = given.log or Path(folder) / "log"
            log.unlink(missing_ok=True)
            server = Server(given, group, log)
            result = asyncio.run(run_load(given, server, group))
            result["stop_seconds"] = round(server.stop(), 1)
            result["fault_lines"] = list(dict.fromkeys(server.faults()))[:20]
            result["versions"] = versions()
            print(format_summary(result))
            print(*result["fault_lines"], sep="\n")
            if given.json:
                given.json.write_text(json.dumps(result, indent=1))
        finally:
            if server is not None and server.process.poll() is None:
                server.stop()
            if group is not None:
                group.remove()
    total = result["total"]
    sys.exit(1 if total["restarts"] or total.get("oom_kills") or total["faults"] else 0)


if __name__ == "__main__":
    main()
