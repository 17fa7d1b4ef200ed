"""The command itself: quick, quiet, honest in its exit codes. C01, C06, C07, C09, C10, C13 of the terminal checks."""

import importlib.util
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import headway
from headway.cli import terminal
from headway.cli.app import FIRST_STEPS, VERBS, Verb, app, main, option
from headway.cli.foreign_options import FOREIGN_OPTIONS, find_equivalent
from headway.cli.help import GroupedOption, visible_names
from headway.errors import ConfigError, HeadwayError

ROOT = Path(__file__).parents[2]
Runner = Callable[..., "subprocess.CompletedProcess[str]"]

# Verbs that end in every possible way.
FAKES = '''
import os, sys, time
import click
from headway.cli.app import Verb, option
from headway.cli.terminal import log, make_console
from headway.errors import ConfigError, HeadwayError

@click.command("end", cls=Verb, examples=[("headway end --how well", "a good end")])
@option("--how", required=True, group="Endings", help="The ending.")
def end(how):
    """End in some way."""
    if how == "well": click.echo("a result")
    if how == "user": raise HeadwayError("the model is not there.")
    if how == "config": raise ConfigError("layers is -1: it must be 0 or more.", "model.encoder")
    if how == "bug": raise RuntimeError("first line\\nsecond line")
    if how == "file": open("/nowhere/at/all")
    if how == "click": raise click.ClickException("click says no")
    if how == "exit": sys.exit(7)
    if how == "words": sys.exit("some words")
    if how == "interrupt": raise KeyboardInterrupt
    if how == "eof": raise EOFError("cut short")
    if how == "torch": print("torch" in sys.modules)
    if how == "colour":
        log("careful", "warning")
        make_console().print("[red]red[/red]")
    if how == "log":
        log("hello", step=3, loss=0.5)
        log("more", "detail")
        log("mind", "warning")
    if how == "wait":
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            print("put away", flush=True)
    if how == "linger":
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(1)  # which Python waits for at its end
        pool.submit(time.sleep, 60)
        print("ready", flush=True)
        time.sleep(60)
    if how == "pour":
        while True: print("line " * 100)
    if how == "drop":
        print("only buffered")
'''


@pytest.fixture
def fake(tmp_path: Path) -> list[str]:
    """The command line of a `headway` that has the verb `end` as well."""
    (tmp_path / "fakes.py").write_text(FAKES)
    code = (
        "import sys; from headway.cli.app import VERBS, main; "
        "VERBS['end'] = ('fakes:end', 'End in some way.'); sys.exit(main())"
    )
    return [sys.executable, "-c", code]


def run(command: list[str], folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **paths, **environment}, capture_output=True, text=True, timeout=300
    )


# ---- start-up


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["--version"], ["--no-such"], ["toy", "-h"], ["nope"]])
def test_c01_help_version_and_errors_import_no_torch(tmp_path: Path, arguments: list[str]) -> None:
    code = (
        "import sys; from headway.cli import main; main(sys.argv[1:]); "
        "heavy = {'torch', 'numpy', 'rich', 'sacrebleu'} & set(sys.modules); sys.exit(f'{heavy}' if heavy else 0)"
    )
    done = run([sys.executable, "-c", code, *arguments], tmp_path)
    assert done.returncode == 0, done.stderr


def test_no_verb_is_imported_for_the_list_of_verbs(tmp_path: Path) -> None:
    code = (
        "import sys; from headway.cli import main; main(['-h']); "
        "print([m for m in sys.modules if m.startswith('headway')])"
    )
    printed = run([sys.executable, "-c", code], tmp_path).stdout.splitlines()[-1]
    assert set(eval(printed)) == {
        "headway",
        "headway.cli",
        "headway.cli.help",
        "headway.cli.app",
        "headway.cli.terminal",
        "headway.errors",
    }


def written_verbs() -> list[str]:
    return [name for name, (home, _) in VERBS.items() if importlib.util.find_spec(home.partition(":")[0])]


def test_the_help_of_every_verb_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from headway.cli import main\n"
        "for verb in sys.argv[1:]:\n"
        "    assert main([verb, '--help']) == 0, verb\n"
        "    assert 'torch' not in sys.modules, verb"
    )
    done = run([sys.executable, "-c", code, *written_verbs()], tmp_path)
    assert done.returncode == 0, done.stderr


def test_importing_headway_imports_no_torch_and_its_names_resolve(tmp_path: Path) -> None:
    code = "import sys, headway; dir(headway); headway.HeadwayError; sys.exit('torch' in sys.modules)"
    assert run([sys.executable, "-c", code], tmp_path).returncode == 0
    assert set(headway.__all__) <= set(dir(headway))
    assert set(headway.__all__) == {*headway._HOMES, "__version__"}
    for name, home in headway._HOMES.items():
        if importlib.util.find_spec(home.partition(":")[0]):
            assert getattr(headway, name) is not None
    with pytest.raises(AttributeError, match="module 'headway' has no attribute 'transformer'"):
        _ = headway.transformer


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project.get("version", headway.__version__) == headway.__version__
    assert "version" in project or "version" in project["dynamic"]


# ---- exit codes


@pytest.mark.parametrize(
    ("how", "code", "stdout", "stderr"),
    [
        ("well", 0, "a result\n", ""),
        ("user", 1, "", "error: the model is not there.\n"),
        ("config", 2, "", "error: model.encoder: layers is -1: it must be 0 or more.\n"),
        ("bug", 1, "", "internal error: RuntimeError: first line (run again with --debug to see where)\n"),
        ("file", 1, "", "error: /nowhere/at/all: No such file or directory\n"),
        ("click", 1, "", "error: click says no\n"),
        ("exit", 7, "", ""),
        ("words", 1, "", "error: some words\n"),
        ("interrupt", 130, "", "error: interrupted\n"),
        ("eof", 1, "", "internal error: EOFError: cut short (run again with --debug to see where)\n"),
    ],
)
def test_c09_every_ending_has_its_exit_code(
    capsys: pytest.CaptureFixture[str],
    with_fakes: None,
    how: str,
    code: int,
    stdout: str,
    stderr: str,
) -> None:
    assert main(["end", "--how", how]) == code
    printed = capsys.readouterr()
    assert printed.out == stdout
    assert printed.err == stderr


@pytest.fixture
def with_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verb `end`, in this process."""
    fakes = ModuleType("fakes")
    exec(FAKES, fakes.__dict__)
    monkeypatch.setitem(sys.modules, "fakes", fakes)
    monkeypatch.setitem(VERBS, "end", ("fakes:end", "End in some way."))
    monkeypatch.setitem(VERBS, "unwritten", ("headway.cli.unwritten:unwritten", "Not there yet."))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--verbos"], 'there is no option --verbos. Did you mean "--verbose"?\nhelp: headway --help'),
        (["-z"], "there is no option -z.\nhelp: headway --help"),
        (["tyo"], 'there is no verb tyo. Did you mean "toy"?\nhelp: headway --help'),
        (["xyzzy"], "there is no verb xyzzy.\nhelp: headway --help"),
        (["unwritten"], "headway unwritten is not part of this version.\nhelp: headway --help"),
        (["toy"], "--out/-o is missing.\nhelp: headway toy --help"),
        (["toy", "--ot", "x"], 'there is no option --ot. Did you mean "--out"?\nhelp: headway toy --help'),
        (["toy", "--out"], "Option '--out' requires an argument.\nhelp: headway --help"),
        (
            ["toy", "--out", "x", "--pairs", "many"],
            "--pairs: 'many' is not a valid integer range.\nhelp: headway toy --help",
        ),
        (["toy", "--out", "x", "more"], "Got unexpected extra argument (more)\nhelp: headway toy --help"),
        (
            ["translate", "--alpha", "1", "A dog."],
            "there is no option --alpha. Here it is --length-penalty.\nhelp: headway translate --help",
        ),
        (
            ["train", "--batch_size", "64"],
            "there is no option --batch_size. Here it is --set train.batch_tokens=N.\nhelp: headway train --help",
        ),
        (
            ["translate", "--batch_size", "64"],
            "there is no option --batch_size. Here it is --batch-tokens.\nhelp: headway translate --help",
        ),
        (["completion"], "SHELL is missing.\nhelp: headway completion --help"),
        (
            ["completion", "tcsh"],
            "SHELL: 'tcsh' is not one of 'bash', 'zsh', 'fish'.\nhelp: headway completion --help",
        ),
    ],
)
def test_c09_wrong_usage_exits_2_and_says_what_was_meant(
    capsys: pytest.CaptureFixture[str], with_fakes: None, arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"error: {message}\n"


def test_what_other_toolkits_say_leads_to_what_is_there() -> None:
    """Each name in the table to options and settings that exist."""
    from headway.train.config import TrainConfig
    from headway.train.schedules import CosineSchedule

    settings = {f"train.{one}" for one in TrainConfig.__dataclass_fields__}
    settings |= {f"train.schedule.{one}" for one in CosineSchedule.Config.__dataclass_fields__}
    context = click.Context(app)
    verbs = {name: app.get_command(context, name) for name in ("train", "translate", "evaluate", "score")}
    options = {name: {one for p in verb.params for one in p.opts} for name, verb in verbs.items() if verb}
    every = set.union(*options.values())
    for names, here in FOREIGN_OPTIONS.items():
        for one in here:
            assert one.split()[0] in every
            assert not one.startswith("--set ") or one.removeprefix("--set ").partition("=")[0] in settings
        for name in names:
            told = {verb: find_equivalent(name, list(known)) for verb, known in options.items() if name not in known}
            assert any(told.values()), name


def test_no_arguments_shows_the_help_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Usage: headway [OPTIONS] VERB ..." in printed.err


def test_help_and_version_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["-h"], ["--help"]):
        assert main(arguments) == 0
        assert "Usage: headway" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"headway {headway.__version__}\n"


@pytest.mark.parametrize("way", ["before", "after", "environment"])
def test_debug_shows_the_traceback_and_keeps_the_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, with_fakes: None, way: str
) -> None:
    if way == "environment":
        monkeypatch.setenv("HEADWAY_DEBUG", "1")
    for how, code, last in [("bug", 1, "internal error: "), ("config", 2, "error: "), ("user", 1, "error: ")]:
        before, after = ["--debug"] * (way == "before"), ["--debug"] * (way == "after")
        assert main([*before, "end", "--how", how, *after]) == code
        printed = capsys.readouterr().err
        assert printed.startswith("Traceback")
        assert printed.splitlines()[-1].startswith(last)


def test_settings_do_not_leak_into_the_next_command_line(capsys: pytest.CaptureFixture[str], with_fakes: None) -> None:
    main(["-q", "--debug", "--color", "always", "--log-format", "json", "end", "--how", "well"])
    assert terminal.settings == terminal.TerminalSettings("always", -1, "json", True)
    main(["end", "--how", "well"])
    assert terminal.settings == terminal.TerminalSettings()


# ---- signals and pipes


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_c09_signals_unwind_the_program(tmp_path: Path, fake: list[str], number: signal.Signals, code: int) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen(
        [*fake, "end", "--how", "wait"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert out == "put away\n"
    assert "Traceback" not in err


def test_a_second_interrupt_waits_for_no_thread(tmp_path: Path, fake: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen(
        [*fake, "end", "--how", "linger"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "error: interrupted\n"
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGINT  # which a shell calls 130


@pytest.mark.parametrize("how", ["pour", "drop"])
def test_a_closed_pipe_is_quiet_also_at_shutdown(tmp_path: Path, fake: list[str], how: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*fake, "end", "--how", how], env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE


def test_closed_streams_do_no_harm(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m headway --version >&- 2>&-"
    assert run(["bash", "-c", command], tmp_path).returncode == 0


# ---- what is printed


def under_a_terminal(command: list[str], folder: Path, **environment: str) -> str:
    """What a command writes to a terminal, on stdout and stderr together."""
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "TERM": "xterm-256color"}
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **paths, **environment}, stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    seen = b""
    while select.select([outer], [], [], 300)[0]:
        try:
            chunk = os.read(outer, 4096)
        except OSError:  # how Linux says that the other side is closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(outer)
    assert process.wait(timeout=300) == 0
    return seen.decode()


COLOURS = re.compile(r"\x1b\[[0-9;]*3[0-9]")


def test_c07_colours_on_a_terminal_unless_unwanted(tmp_path: Path, fake: list[str]) -> None:
    command = [*fake, "end", "--how", "colour"]
    assert COLOURS.search(under_a_terminal(command, tmp_path))
    assert "\x1b" not in under_a_terminal(command, tmp_path, NO_COLOR="1")
    assert "\x1b" not in under_a_terminal(command, tmp_path, TERM="dumb")
    assert "\x1b" not in under_a_terminal([*command, "--color", "never"], tmp_path)


def test_c06_no_control_characters_without_a_terminal(tmp_path: Path, fake: list[str]) -> None:
    command = [*fake, "end", "--how", "colour"]
    piped = run(command, tmp_path)
    assert piped.stderr == "warning: careful\nred\n"
    assert COLOURS.search(run(command, tmp_path, FORCE_COLOR="1").stderr)
    assert COLOURS.search(run([*command, "--color", "always"], tmp_path).stderr)
    assert not COLOURS.search(run(command, tmp_path, FORCE_COLOR="1", NO_COLOR="1").stderr)
    assert not COLOURS.search(run(command, tmp_path, FORCE_COLOR="0").stderr)


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        ([], ["hello step=3 loss=0.5", "warning: mind"]),
        (["-q"], ["warning: mind"]),
        (["--verbose"], ["hello step=3 loss=0.5", "more", "warning: mind"]),
    ],
)
def test_quiet_and_verbose(
    capsys: pytest.CaptureFixture[str], with_fakes: None, flags: list[str], lines: list[str]
) -> None:
    for arguments in ([*flags, "end", "--how", "log"], ["end", "--how", "log", *flags]):
        assert main(arguments) == 0
        assert capsys.readouterr().err.splitlines() == lines


def test_messages_as_json(capsys: pytest.CaptureFixture[str], with_fakes: None) -> None:
    assert main(["--log-format", "json", "end", "--how", "log"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(entry["level"], entry["message"]) for entry in entries] == [("info", "hello"), ("warning", "mind")]
    assert (entries[0]["step"], entries[0]["loss"]) == (3, 0.5)
    assert main(["end", "--how", "user", "--log-format", "json"]) == 1
    entry = json.loads(capsys.readouterr().err)
    assert (entry["level"], entry["message"]) == ("error", "the model is not there.")


def test_a_message_that_the_terminal_cannot_write_is_escaped(tmp_path: Path) -> None:
    done = run([sys.executable, "-m", "headway", "völlig"], tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no verb v\\xf6llig.")


def test_sparklines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen:
        encoding = "utf-8"

    class Old:
        encoding = "ascii"

    screen: Any = Screen()
    assert terminal.sparkline([0, 1, 2, 3, 4, 5, 6, 7], stream=screen) == "▁▂▃▄▅▆▇█"
    assert terminal.sparkline([1, 1, 3, 3], width=2, stream=screen) == "▁█"
    assert terminal.sparkline([5, 5, 5], stream=screen) == "▁▁▁"
    assert terminal.sparkline([0, float("nan"), float("inf"), 1], stream=screen) == "▁  █"
    assert terminal.sparkline([], stream=screen) == ""
    assert len(terminal.sparkline(range(1000), width=37, stream=screen)) == 37
    old: Any = Old()
    assert terminal.sparkline([0, 7], stream=old) == ".@"


def test_a_table_is_tsv_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    terminal.print_table(["name", "BLEU"], [["a\tb\nc", 31.5], [long, 2]])
    assert capsys.readouterr().out == f"name\tBLEU\na b c\t31.5\n{long}\t2\n"


def test_a_table_is_drawn_on_a_terminal(tmp_path: Path) -> None:
    code = "from headway.cli.terminal import print_table; print_table(['name', 'BLEU'], [['[a]', 31.5]], title='Runs')"
    seen = under_a_terminal([sys.executable, "-c", code], tmp_path, NO_COLOR="1")
    assert "Runs" in seen
    assert "│ [a]" in seen
    assert "\t" not in seen


# ---- help


def test_help_has_examples_first_options_under_headings_and_exit_codes(
    capsys: pytest.CaptureFixture[str], with_fakes: None
) -> None:
    assert main(["end", "-h"]) == 0
    printed = capsys.readouterr().out
    marks = ["End in some way.", "Usage: headway end", "Examples:", "headway end --how well", "Endings:", "The ending."]
    places = [printed.index(mark) for mark in [*marks, "[required]", "Options:", "--help", "Exit codes:"]]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    if verb and verb not in written_verbs():
        pytest.skip("not written yet")
    monkeypatch.setenv("COLUMNS", "200")
    assert main([verb, "--help"] if verb else ["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_defaults_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toy", "--help"]) == 0
    assert "[default: 8000; x>=1]" in capsys.readouterr().out


def test_a_long_example_is_folded_so_that_the_shell_reads_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    long = "headway end --one " + "a" * 40 + " --two " + "b" * 40 + " --three " + "c" * 20 + ' "some words"'

    @click.command("end", cls=Verb, examples=[(long, "long")])
    def end() -> None: ...

    printed = click.Context(end, info_name="headway end").command.get_help(click.Context(end))
    shown = printed.partition("# long\n")[2].partition("\n\n")[0]
    assert len(shown.splitlines()) == 3
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(long)


def test_the_list_of_verbs_says_what_each_verb_says() -> None:
    for name in written_verbs():
        command = app.get_command(click.Context(app), name)
        assert isinstance(command, Verb), name
        assert command.name == name
        assert (command.help or "").startswith(VERBS[name][1].rstrip(".")), name


def test_c13_every_example_parses(check_command: Callable[[list[str]], None]) -> None:
    examples = list(FIRST_STEPS)
    for name in written_verbs():
        command = app.get_command(click.Context(app), name)
        assert isinstance(command, Verb)
        assert command.examples, f"headway {name} --help has no examples"
        examples += command.examples
    for line, _ in examples:
        words = shlex.split(re.split(r" [|<>] ?", line)[-1 if line.startswith(("echo", "cat")) else 0])
        if words[1] in written_verbs():
            check_command(words)


def test_an_option_of_a_verb_wins_over_a_global_one_of_the_same_name() -> None:
    @click.command("end", cls=Verb)
    @option("-v", "--vocabulary", type=int)
    def end(vocabulary: int) -> int:
        return vocabulary

    assert end.main(["-v", "7", "-q"], standalone_mode=False) == 7


# ---- earlier names of options

WRITERS = [
    "compare",
    "embed",
    "index",
    "train",
    "translate",
    "evaluate",
    "score",
    "align",
    "augment",
    "distil",
    "export",
    "import",
    "average",
    "pack",
    "trace",
    "inspect",
    "merge",
    "toy",
]
RENAMED = [
    ("translate", "--min-score", "--min-confidence"),
    ("translate", "--file", "--document"),
    ("generate", "--length", "--max-length"),
    ("train", "--vary", "--noise"),
    ("check", "--doubt", "--max-doubt"),
    ("augment", "--longest", "--max-tokens"),
    ("distil", "--longest", "--max-tokens"),
    ("calibrate", "--at-most", "--max-lines"),
    ("shortlist", "--at-most", "--max-pairs"),
    ("serve", "--queue", "--queue-limit"),
    ("serve", "--streams", "--stream-limit"),
    ("serve", "--patience", "--max-batch-delay"),
    *((verb, "--output", "--out") for verb in WRITERS),
]


def test_the_list_of_earlier_names_is_complete() -> None:
    found = []
    for name in VERBS:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, GroupedOption):
                found += [(name, alias, visible_names(parameter)[0]) for alias in parameter.aliases]
    assert sorted(found) == sorted(RENAMED)


def test_what_is_written_goes_to_out_in_every_verb() -> None:
    for name in VERBS:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        names = [parameter.opts for parameter in command.params if {"--out", "--output"} & set(parameter.opts)]
        assert names in ([], [["--out", "-o", "--output"]]), name


@pytest.mark.parametrize(("verb", "old", "new"), RENAMED)
def test_an_earlier_name_is_accepted_but_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, old: str, new: str
) -> None:
    """Both names give the same parameters; help, completion and errors show the new one alone."""
    command = app.get_command(click.Context(app), verb)
    assert isinstance(command, Verb)
    option = next(parameter for parameter in command.params if new in parameter.opts)
    value = "a.txt" if option.metavar == "FILE" else "1"
    for parameter in command.params:
        monkeypatch.setattr(parameter, "required", False)
    given = [command.make_context(verb, [name, value]).params for name in (old, new)]
    assert given[0] == given[1]
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert re.search(rf"^  (?:-\w, )?{new} ", shown, re.MULTILINE)
    assert not re.search(rf"(?<![\w-]){old}(?![\w-])", shown)
    complete = command.shell_complete(click.Context(command, info_name=verb), "--")
    assert old not in [item.value for item in complete]
    assert new in [item.value for item in complete]


def test_errors_name_an_option_by_its_new_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", "m", "--length", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: --max-length: 0 is not in the range x>=1.")


# ---- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_c10_completion_scripts_load(run_headway: Runner, tmp_path: Path, shell: str) -> None:
    done = run_headway("completion", shell)
    assert done.returncode == 0
    assert done.stderr == ""
    assert f"_HEADWAY_COMPLETE={shell}_complete" in done.stdout
    (tmp_path / "script").write_text(done.stdout)
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", tmp_path / "script"], check=False).returncode == 0


def test_completion_knows_verbs_and_options(run_headway: Runner) -> None:
    def complete(words: str, position: int) -> list[str]:
        environment = {
            "_HEADWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(position),
        }
        return run_headway(env=environment).stdout.split()

    assert complete("headway t", 1) == ["plain,train", "plain,translate", "plain,trace", "plain,toy"]
    assert complete("headway --ver", 1) == ["plain,--verbose", "plain,--version"]
    assert complete("headway toy --p", 2) == ["plain,--pairs"]
    assert complete("headway completion z", 2) == ["plain,zsh"]


# ---- toy, the one verb that is all here


def test_toy(run_headway: Runner, tmp_path: Path) -> None:
    done = run_headway("toy", "--out", "a folder", "--pairs", "20", "--seed", "5")
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == (
        "next: headway train --source 'a folder/train.en' --target 'a folder/train.qtx' "
        "--valid-source 'a folder/valid.en' --valid-target 'a folder/valid.qtx' --out my-model"
    )
    assert len((tmp_path / "a folder" / "train.qtx").read_text().splitlines()) == 20


def test_config_errors_are_user_errors() -> None:
    assert issubclass(ConfigError, HeadwayError)


def test_our_warnings_are_messages_and_others_are_pythons(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    from headway.cli import app as module
    from headway.errors import HeadwayWarning

    def warn(*_: object, **__: object) -> int:
        warnings.simplefilter("always")
        warnings.warn("this is not used", HeadwayWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
        return 0

    monkeypatch.setattr(module, "run_command_line", warn)
    with pytest.warns(UserWarning, match="something else") as caught:
        assert module.main(["doctor"]) == 0
    assert [str(warning.message) for warning in caught] == ["something else"]
    assert "warning: this is not used" in capsys.readouterr().err
