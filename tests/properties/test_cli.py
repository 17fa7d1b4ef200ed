"""Whatever files and options the commands are given, they end as they should: no traceback, one of four exit codes,
as many lines out as in, and no input touched.

Twenty seconds of made-up command lines; an hour with -m slow. HEADWAY_PROPERTY_SECONDS sets the time and
HEADWAY_PROPERTY_SEED the seed. A case that fails names its command and leaves its files where they are."""

import io
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headway.cli.app import VERBS, app, main
from properties.command_lines import CasePaths, command_line
from properties.hostile_text import count_lines, hostile_files, unpacked

ROOT = Path(__file__).parents[2]
BY_CHANCE = True  # the errors that are met here need tests of their own
MAX_COMMANDS = 25  # commands of each verb, where a test must give the same on any machine
COMMAND_TIMEOUT = 20  # seconds for one command; then it is interrupted, and must take that well

ENDLESS = ("serve",)  # does not end by itself: tests/serve drives it
SHARES = {"toy": 0.3, "completion": 0.05}  # of the time; 1 for other verbs
KEEP_LINES = ("translate", "score", "align", "augment")


# ---- one case


@dataclass
class Ended:
    code: int
    out: str
    err: str


def run_here(words: list[str], given: bytes) -> Ended:
    """In this process, with streams of its own. It is interrupted when it takes too long."""
    streams = [io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="") for data in (given, b"", b"")]
    saved = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        with interrupted_after(COMMAND_TIMEOUT):
            code = main(words)
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved
    for stream in streams[1:]:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode("utf-8") for stream in streams[1:])  # type: ignore[attr-defined]
    return Ended(code, out, err)


@contextmanager
def interrupted_after(seconds: int) -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if "importlib" in frame.f_code.co_filename:  # half a module would be a fault of the test's own making
                signal.alarm(1)
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_apart(words: list[str], given: bytes) -> Ended:
    command = [sys.executable, "-m", "headway", *words]
    done = subprocess.run(command, input=given, capture_output=True, cwd=ROOT, timeout=300)
    return Ended(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace"))


def fault(words: list[str], given: Path, ended: Ended) -> str:
    """What is wrong with how a command ended; nothing if all is well."""
    if ended.code not in (0, 1, 2, 130):
        return f"the exit code is {ended.code}"
    if "Traceback" in ended.err or "internal error" in ended.err:
        return "it is an internal error"
    if ended.code and not (ended.err + ended.out).strip():
        return "it failed without a word"
    if ended.code == 0 and words[0] in KEEP_LINES and not {"-h", "--help"} & set(words):
        return uneven(words, given, ended)
    return ""


def uneven(words: list[str], given: Path, ended: Ended) -> str:
    """A line in, a line out."""
    with app.make_context("headway", words[:1], resilient_parsing=True) as outer:
        command = app.get_command(outer, words[0])
        assert command is not None
        options = command.make_context(words[0], words[1:], parent=outer).params
    if options.get("document"):  # its lines are not counted
        return ""
    content = Path(options["output"]).read_bytes().decode("utf-8") if options.get("output") else ended.out
    lines = content.split("\n")[:-1]
    expected = lines_given(words[0], options, given)
    if words[0] == "augment":
        counts = re.search(r"([\d,]+) lines, ([\d,]+) pairs", ended.err)
        read, made = (int(count.replace(",", "")) for count in counts.groups()) if counts else (expected, len(lines))
        return "" if (read, len(lines) if not options["out"] else made) == (expected, made) else f"not {expected} lines"
    if options.get("n_best") and not options["as_json"]:
        numbers = {int(line.split(" ||| ")[0]) for line in lines}
        return "" if numbers == set(range(expected)) else f"{expected} lines in, n-best of {sorted(numbers)} out"
    return "" if len(lines) == expected else f"{expected} lines in, {len(lines)} out"


def lines_given(verb: str, options: dict[str, Any], given: Path) -> int:
    text = options.get("text")
    if text and text != ("-",):
        return len(text) if verb == "translate" else 1
    files = options.get("texts") or [options.get("input_file") or options.get("source") or options.get("pairs") or "-"]
    read = {file: given.read_bytes() if file == "-" else unpacked(Path(file)) for file in files}
    once = list(files) if "-" not in files else [*(file for file in files if file != "-"), "-"]
    return sum(count_lines(read[file]) for file in once)


def fingerprint(paths: list[Path]) -> dict[Path, tuple[int, int]]:
    """Sizes and times of files, and of those in folders; what is added to a folder does not count as a change."""
    files = {file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()}
    return {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.suffix != ".lock"}


# ---- many cases


@pytest.fixture(scope="module")
def models(
    translator_dir: Path, lm_dir: Path, masked_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """Three that work, more often than the one that does not. Copies: who knows what becomes of them."""
    folder = tmp_path_factory.mktemp("driven")
    copies = [shutil.copytree(model, folder / str(n)) for n, model in enumerate((translator_dir, lm_dir, masked_dir))]
    translator, causal, masked = map(Path, copies)
    damaged = Path(shutil.copytree(translator_dir, folder / "damaged"))
    (damaged / "model.safetensors").write_bytes(b"damaged")
    return [translator] * 5 + [causal] * 3 + [masked, damaged]


@pytest.fixture(scope="module")
def known(toy: Path) -> list[tuple[str, str]]:
    return list(zip((toy / "train.en").read_text().splitlines(), (toy / "train.qtx").read_text().splitlines()))


def drive(
    seconds: float,
    seed: int,
    run: Callable[[list[str], bytes], Ended],
    parts: Any,
    max_commands: int = sys.maxsize,
    each: bool = False,
) -> Counter[str]:
    """Made-up commands until the time is over, each verb for its share of it; how often each ended how.

    A verb's n-th command is the same on any machine, and a quick one tries no more than `max_commands` of each.
    `each`: every verb is tried, however long it takes."""
    models, known, folder = parts
    spent = {verb: 0.0 for verb in VERBS if verb not in ENDLESS}  # seconds, over the share that is due
    ends: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    originals = fingerprint(models)
    start = time.monotonic()
    while spent and (time.monotonic() - start < seconds or (each and not all(tried[verb] for verb in spent))):
        verb = min(spent, key=lambda name: spent[name])
        number = f"{verb}-{tried[verb]}"
        chance = random.Random(f"{seed} {number}")
        case = folder / number
        (case / "empty-folder").mkdir(parents=True)
        paths = CasePaths(case, hostile_files(case, chance, known), models)
        words = command_line(verb, chance, paths)
        given = chance.choice(paths.files)
        before, begun = fingerprint(paths.files), time.monotonic()
        ended = run(words, given.read_bytes())
        spent[verb] += (time.monotonic() - begun) / SHARES.get(verb, 1.0)
        ends[f"{verb} {ended.code}"] += 1
        wrong = fault(words, given, ended)
        if not {**originals, **before}.items() <= fingerprint([*paths.files, *models]).items():
            wrong = "an input was changed"
        if wrong:
            pytest.fail(
                f"{wrong}. Seed {seed}, case {number}:\n"
                f"headway {shlex.join(words)} < {shlex.quote(str(given))}\n{ended.code}: {ended.err[-2000:]}"
            )
        shutil.rmtree(case)
        tried[verb] += 1
        if tried[verb] == max_commands:
            del spent[verb]
    return ends


def seconds_or(default: float) -> float:
    return float(os.environ.get("HEADWAY_PROPERTY_SECONDS", default))


def test_made_up_commands_end_well(models: list[Path], known: list[tuple[str, str]], tmp_path: Path) -> None:
    seed = int(os.environ.get("HEADWAY_PROPERTY_SEED", 1))
    ends = drive(seconds_or(5), seed, run_here, (models, known, tmp_path), MAX_COMMANDS, each=True)
    print(sorted(ends.items()))
    for verb in [verb for verb in VERBS if verb not in ENDLESS]:
        assert any(name.startswith(f"{verb} ") for name in ends), f"headway {verb} was never driven"


@pytest.mark.slow
def test_an_hour_of_them(models: list[Path], known: list[tuple[str, str]], tmp_path: Path) -> None:
    seed = int(os.environ.get("HEADWAY_PROPERTY_SEED", time.time_ns()))
    print(sorted(drive(seconds_or(3600), seed, run_here, (models, known, tmp_path)).items()))


def test_a_few_in_a_process_of_their_own(models: list[Path], known: list[tuple[str, str]], tmp_path: Path) -> None:
    ends = drive(min(seconds_or(8), 60), 2, run_apart, (models, known, tmp_path), max_commands=MAX_COMMANDS)
    assert sum(ends.values()) >= 2


# ---- and that a fault would be noticed


@pytest.mark.parametrize(
    ("words", "ended", "wrong"),
    [
        (["toy"], Ended(3, "", "error: x\n"), "the exit code is 3"),
        (["toy"], Ended(1, "", "internal error: x\n"), "it is an internal error"),
        (["toy"], Ended(1, "", "Traceback (most recent call last)\n"), "it is an internal error"),
        (["toy"], Ended(1, "", ""), "it failed without a word"),
        (["translate", "-m", "x", "a", "b"], Ended(0, "one\n", ""), "2 lines in, 1 out"),
        (["translate", "-m", "x", "a", "b"], Ended(0, "one\ntwo\n", ""), ""),
        (["translate", "-m", "x"], Ended(0, "one\n", ""), "3 lines in, 1 out"),
        (["translate", "-m", "x", "--n-best", "1", "a", "b"], Ended(0, "0 ||| x ||| 1\n", ""), "2 lines in, n-best of"),
        (["score", "-m", "x", "a", "b"], Ended(0, "1\n2\n", ""), "1 lines in, 2 out"),
        (["augment", "-m", "x", "--text", "-"], Ended(0, "a\tb\n", "3 lines, 1 pairs\n"), ""),
        (["augment", "-m", "x", "--text", "-"], Ended(0, "a\tb\n", "2 lines, 1 pairs\n"), "not 3 lines"),
        (["augment", "-m", "x", "--text", "-"], Ended(0, "a\tb\n", "3 lines, 2 pairs\n"), "not 3 lines"),
    ],
)
def test_faults_are_seen(tmp_path: Path, words: list[str], ended: Ended, wrong: str) -> None:
    (tmp_path / "given").write_bytes(b"one\n\nthree")
    found = fault(words, tmp_path / "given", ended)
    assert found.startswith(wrong) and bool(found) == bool(wrong)


def test_a_broken_verb_is_found_and_told_how_to_repeat(
    models: list[Path], known: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(VERBS)
    monkeypatch.setattr("headway.cli.verbs.completion.get_completion_class", lambda shell: 1 / 0)
    try:
        for verb in before.keys() - {"completion"}:
            del VERBS[verb]
        with pytest.raises(
            pytest.fail.Exception, match=r"it is an internal error\. Seed 7, case completion-\d+:\nheadway completion "
        ):
            drive(20, 7, run_here, (models, known, tmp_path))
    finally:  # in their order, which the help has too
        VERBS.clear()
        VERBS.update(before)
    assert list(tmp_path.glob("completion-*/*.en*"))


def test_a_command_that_takes_too_long_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("properties.test_cli.COMMAND_TIMEOUT", 1)
    monkeypatch.setattr("headway.cli.verbs.completion.get_completion_class", lambda shell: time.sleep(30))
    assert run_here(["completion", "bash"], b"") == Ended(130, "", "error: interrupted\n")
