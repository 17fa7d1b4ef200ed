"""headway train: what it prints, where, and what it leaves. C06, C07, C09 and C11 of the terminal checks."""

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.cli import progress, terminal
from headway.cli.app import main
from headway.cli.progress import format_bytes, format_duration, format_quantity
from headway.config.config import Config
from headway.config.schema import from_dict
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model
from headway.train.checkpoints import list_checkpoints
from headway.train.description import describe_mixers
from headway.train.history import read_history
from headway.train.progress import ProgressSnapshot
from headway.translate.language_model import LanguageModel
from headway.translate.translator import Translator

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]
QUICK = [
    "tokenizer=bytes",
    "model.d_model=16",
    *(f"model.{side}.layers=1" for side in ("encoder", "decoder")),
    *(f"model.{side}.mixer=attention(2)" for side in ("encoder", "decoder")),
    *(f"model.{side}.feedforward=relu(16)" for side in ("encoder", "decoder")),
    "train.batch_tokens=512",
    "train.schedule=inverse_sqrt(0.003, warmup=300)",
    "train.validate_every=4",
    "train.log_every=2",
    "train.decode_lines=4",
    "train.max_tokens=80",
]


def quick(toy: Path, *flags: str, preset: str = "tiny") -> list[str]:
    """The words of a training that takes a moment."""
    settings = [word for setting in QUICK for word in ("--set", setting)]
    files = ["--source", str(toy / "train.en"), "--target", str(toy / "train.qtx")]
    return ["train", *files, "--preset", preset, *settings, *flags]


def trained(capsys: Capture, words: list[str], code: int = 0) -> tuple[str, str]:
    assert main(words) == code
    return capsys.readouterr()


# ---- what is printed


TWO = ["attention(4)", "attention(2)"]


@pytest.mark.parametrize(
    ("encoder", "decoder", "said"),
    [
        ("attention(4)", "attention(4)", "4 heads"),
        ("attention(4)", "attention(2)", "encoder 4 heads, decoder 2 heads"),
        ("attention(4)", "retention(2)", "encoder 4 heads, decoder 2 heads of retention"),
        (
            "attention(4)",
            ["retention(2)", "attention(4)", "attention(4)", "attention(4)"],
            "encoder 4 heads, decoder 2 heads of retention ×1, 4 heads of attention ×3",
        ),
        (
            ["attention(4)", "attention(2)"],
            ["attention(4)", "attention(2)"],
            "4 heads of attention ×2, 2 heads of attention ×2",
        ),
    ],
)
def test_every_kind_of_mixer_is_named(encoder: Any, decoder: Any, said: str) -> None:
    sides = {"encoder": {"layers": 4, "mixer": encoder}, "decoder": {"layers": 4, "mixer": decoder}}
    assert describe_mixers(from_dict(Transformer.Config, {"d_model": 16, **sides})) == said


def test_what_is_chosen_and_why_then_steps_then_a_table_and_the_next_command(
    capsys: Capture, toy: Path, tmp_path: Path
) -> None:
    words = quick(toy, "--set", "train.max_tokens=200", "--steps", "8", preset="auto")
    out, err = trained(capsys, [*words, "--out", str(tmp_path / "m")])
    first, *rest = err.splitlines()
    assert (out, first) == ("", "reading the text")
    lines = [line for line in rest if not line.startswith("encoding ")]  # unless other tests have encoded the same
    assert lines[0] == "no validation text was given: 5 pairs are held out for it"
    assert re.fullmatch(r"preset tiny: 95 pairs, about 670 words: \w.+", lines[1])
    assert lines[2].startswith("model: ")
    assert lines[2].endswith("1 + 1 layers, d_model 16, 2 heads, pre-norm, dropout 0.1, vocabulary 320 (bytes, shared)")
    assert lines[3].startswith("training: 512 tokens a step, inverse_sqrt with warm-up 300, at most 8 steps")
    assert re.fullmatch(
        r"step=2 loss=\d\.\d{4} rate=[\d.e-]+ tok/s=\d+ memory=[\d.]+[MG]B epoch=0 elapsed=0:0\d eta=\d+:\d\d", lines[4]
    )
    assert re.fullmatch(r"step=4 valid_loss=\d\.\d{4} perplexity=[\d.]+ bleu=[\d.]+ chrf=[\d.]+ best", lines[6])
    end = [line.partition("  ")[0] for line in lines[-7:-1]]
    assert end == ["model", "weights", "steps, time", "validation", "", "validation loss"]
    assert re.search(r"[▁▂▃▄▅▆▇█]{2}", lines[-2])
    assert lines[-1] == f'next: headway translate --model {tmp_path}/m "…"'


def test_the_next_command_of_each_kind(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    text = ["train", "--text", str(toy / "text.txt"), "--steps", "2", "--set", "tokenizer=bytes"]
    small = ["--set", "model.d_model=16", "--set", "train.batch_tokens=512", "--set", "train.max_tokens=64"]
    for side, objective, expected in (
        ("decoder", "causal", f'next: headway generate --model {tmp_path}/causal "…"'),
        ("encoder", "masked", f'next: headway fill --model {tmp_path}/masked "… [MASK] …"'),
    ):
        stack = ["--set", f"model.{side}.layers=1", "--set", f"model.{side}.mixer=attention(2)"]
        _, err = trained(capsys, [*text, *small, *stack, "--objective", objective, "--out", str(tmp_path / objective)])
        assert err.splitlines()[-1] == expected
        used = expected.removeprefix("next: ").replace(f"{tmp_path}/{objective}", ".")
        assert f"Use it: `{used}`\n" in (tmp_path / objective / "README.md").read_text()
        assert "perplexity" in err and "bleu" not in err


def test_the_command_of_a_model_with_several_targets(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    _, err = trained(capsys, [*quick(toy, "--steps", "2", "--both-ways"), "--out", str(tmp_path / "m")])
    assert err.splitlines()[-1] == f'next: headway translate --model {tmp_path}/m --to qtx "…"'
    assert 'Use it: `headway translate --model . --to qtx "…"`\n' in (tmp_path / "m" / "README.md").read_text()


def test_quiet(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    assert trained(capsys, [*quick(toy, "--steps", "2"), "--out", str(tmp_path / "m"), "-q"]) == ("", "")


def test_numbers_for_people() -> None:
    assert [format_duration(seconds) for seconds in (0, 75, 3700)] == ["0:00", "1:15", "1:01:40"]
    assert [format_bytes(count) for count in (2**20, 3 * 2**30)] == ["1 MB", "3.0 GB"]
    assert [format_quantity(number) for number in (950, 12_345, 2.5e6)] == ["950", "12.3k", "2.50M"]


def test_a_live_line_is_cut_to_the_terminal(
    capsys: Capture, translator_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.reset_settings()
    monkeypatch.setattr(terminal, "shows_progress", lambda: True)
    monkeypatch.setattr(progress, "stderr_columns", lambda: 30)
    listener = progress.TrainingProgress(Config.load(translator_dir / "config.json"))
    assert listener.wants_update()
    listener.on_step(ProgressSnapshot(3, 0, 1.5, 1e-3, 12_000, 10.0, 0.25, 2**30))
    assert not listener.wants_update()  # drawn a moment ago
    assert capsys.readouterr().err == "\r\x1b[2Kstep 3/240  loss 1.500"
    whole = "step 3/240  loss 1.500  rate 0.001  12.0k tok/s  1.0 GB  ETA 0:30"
    for width, line in (
        (len(whole) + 1, whole),
        (len(whole), "step 3/240  loss 1.500  rate 0.001  12.0k tok/s  ETA 0:30"),
        (50, "step 3/240  loss 1.500  12.0k tok/s  ETA 0:30"),
        (40, "step 3/240  loss 1.500  ETA 0:30"),
        (12, "step 3/240"),
        (5, "step"),
    ):
        monkeypatch.setattr(progress, "stderr_columns", lambda width=width: width)
        listener.on_step(ProgressSnapshot(3, 0, 1.5, 1e-3, 12_000, 10.0, 0.25, 2**30))
        assert capsys.readouterr().err == f"\r\x1b[2K{line}"
    listener.on_note("a message")
    assert capsys.readouterr().err == "\r\x1b[2Ka message\n"


def test_a_line_says_what_the_loss_is_made_of_and_who_is_busiest(capsys: Capture, translator_dir: Path) -> None:
    terminal.reset_settings()
    listener = progress.TrainingProgress(Config.load(translator_dir / "config.json"))
    snapshot = ProgressSnapshot(3, 0, 1.5, 1e-3, 12_000, 10.0, 0.25, 2**30)
    listener.on_step(snapshot)
    told = {
        "cross_entropy": 1.48,
        "balance": 0.02,
        "encoder.0.feedforward.load": [0.1, 0.9],
        "encoder.1.load": [0.5, 0.5],
    }
    listener.on_step(snapshot._replace(statistics=told))
    plain, more = capsys.readouterr().err.splitlines()
    assert plain.startswith("step=3 loss=1.5000 rate=0.001 tok/s=12000 ")
    assert more.startswith(
        "step=3 loss=1.5000 cross_entropy=1.4800 balance=0.0200 busiest=0.900 rate=0.001 tok/s=12000 "
    )


def test_the_width_is_that_of_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((33, 5)))
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    assert terminal.stderr_columns() == 33

    def no_terminal(number: int) -> os.terminal_size:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    assert terminal.stderr_columns() == 80


def test_tensorboard_and_history(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    trained(capsys, [*quick(toy, "--steps", "4", "--tensorboard"), "--out", str(tmp_path / "m")])
    assert list((tmp_path / "m" / "tensorboard").glob("events*"))
    kinds = [entry["kind"] for entry in read_history(tmp_path / "m")]
    assert kinds == ["step", "step", "validation", "end"]


# ---- settings


def test_print_config_shows_who_gave_what_and_stops(
    capsys: Capture, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.toml").write_text("[train]\nseed = 5\nclip = 5.0\nepochs = 5\n")
    monkeypatch.setenv("HEADWAY_CONFIG__TRAIN__CLIP", "6.0")
    monkeypatch.setenv("HEADWAY_CONFIG__TRAIN__EPOCHS", "6")
    words = ["train", "--source", str(toy / "train.en"), "--target", str(toy / "train.qtx"), "--print-config"]
    out, _ = trained(capsys, [*words, "--config", str(tmp_path / "my.toml"), "--set", "train.epochs=7", "--steps", "9"])
    settings = tomllib.loads(out)["train"]
    assert (settings["seed"], settings["clip"], settings["epochs"], settings["steps"]) == (5, 6.0, 7, 9)
    origins = dict(re.findall(r"^(\S+) = .*?  +# (.+)$", out, re.MULTILINE))
    assert origins["train.seed"] == f"file {tmp_path}/my.toml"
    assert origins["train.clip"] == "environment HEADWAY_CONFIG__TRAIN__CLIP"
    assert origins["train.epochs"] == "flag --set train.epochs"
    assert origins["train.steps"] == "flag --steps"
    assert origins["train.batch_tokens"] == "preset tiny (auto)"
    assert origins["train.label_smoothing"] == "default"
    assert origins["source_languages"] == "the files' names"
    assert list(tmp_path.iterdir()) == [tmp_path / "my.toml"]

    (tmp_path / "printed.toml").write_text(out)
    monkeypatch.delenv("HEADWAY_CONFIG__TRAIN__CLIP")
    monkeypatch.delenv("HEADWAY_CONFIG__TRAIN__EPOCHS")
    again, _ = trained(capsys, [*words, "--config", str(tmp_path / "printed.toml")])
    assert Config.load(tmp_path / "printed.toml").to_dict() == tomllib.loads(again)


def test_flags_win_over_everything(capsys: Capture, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my.toml").write_text('target_languages = ["xx"]\n[train]\nobjective = "causal"\n')
    monkeypatch.setenv("HEADWAY_CONFIG__TRAIN__SEED", "6")
    words = quick(toy, "--config", str(tmp_path / "my.toml"), "--seed", "7", "--to", "zz", "--print-config")
    out, _ = trained(capsys, [*words, "--objective", "translation"])
    table = tomllib.loads(out)
    assert (table["train"]["seed"], table["target_languages"]) == (7, ["zz"])
    assert table["train"]["objective"]["kind"] == "translation"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "train.sead=3"], 'train: there is no setting "sead" here. Did you mean "seed"?'),
        (["--set", "train.seed"], '"train.seed" is not an assignment: write section.key=value'),
        (["--set", "model.d_model=x"], "model.d_model: must be an integer, not 'x' (a string)."),
        (["--preset", "bas"], 'there is no preset "bas". Did you mean "base"?'),
        (["--for", "20x"], "--for: '20x' is not a duration. Write 90s, 20m, 1.5h or 2d."),
        (["--for", "0"], "--for: '0' is not a duration."),
        (["--steps", "0"], "--steps: 0 is not in the range x>=1."),
        (["--epochs", "-1"], "--epochs: -1 is not in the range x>=1."),
        (
            ["--objective", "rank"],
            "--objective: 'rank' is not one of 'translation', 'causal', 'masked', 'permutation', "
            "'span_corruption', 'denoising', 'masked_target'.",
        ),
        (["--objective", "causal"], "the objective causal learns from --text, not from pairs."),
        (["--text", "x"], "give --source and --target, or --pairs, for a translator, or --text for a language model."),
        (["--source", "x"], "--source was given 2 times and --target once: give as many of one as of the other."),
        (["--device", "tpu"], '"tpu" is not a device.'),
        (["--sorce", "x"], 'there is no option --sorce. Did you mean "--source"?'),
    ],
)
def test_c09_wrong_usage_and_settings(
    capsys: Capture, toy: Path, tmp_path: Path, flags: list[str], message: str
) -> None:
    out, err = trained(capsys, [*quick(toy), "--out", str(tmp_path / "m"), *flags], code=2)
    assert out == ""
    assert f"error: {message}" in err
    assert not (tmp_path / "m").exists()


def test_broken_and_missing_config_files(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[train\n")
    _, err = trained(capsys, [*quick(toy), "--out", "m", "--config", str(tmp_path / "bad.toml")], code=2)
    assert "bad.toml is not valid TOML: line 1, column 7. Each line is [section] or key = value" in err
    _, err = trained(capsys, [*quick(toy), "--out", "m", "--config", str(tmp_path / "none.toml")], code=1)
    assert "there is no config file" in err


def test_out_is_needed(capsys: Capture, toy: Path) -> None:
    assert "--out is missing: give a directory for the model." in trained(capsys, quick(toy), code=2)[1]


def test_durations() -> None:
    from headway.cli.options import Duration

    convert = Duration().convert
    assert [convert(text, None, None) for text in ("90", "90s", "20m", "1.5h", "2d")] == [90, 90, 1200, 5400, 172_800]


@pytest.mark.parametrize("flags", [["--epochs", "1"], ["--for", "1s"], ["--steps", "3"]])
def test_budgets(capsys: Capture, toy: Path, tmp_path: Path, flags: list[str]) -> None:
    rest = ["--set", "train.validate_every=1000", "--set", "train.decode_lines=0"]
    _, err = trained(capsys, [*quick(toy, *flags, *rest), "--out", str(tmp_path / "m")])
    unit = {"--epochs": "at most 1 epochs", "--for": "at most 1 seconds", "--steps": "at most 3 steps"}[flags[0]]
    assert unit in err
    end = read_history(tmp_path / "m")[-1]
    if flags[0] == "--for":
        assert 1 <= end["seconds"] < 20
    else:
        assert end["step"] < 40


def test_the_same_command_goes_on(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    words = [*quick(toy), "--out", str(tmp_path / "m")]
    trained(capsys, [*words, "--steps", "4"])
    _, err = trained(capsys, [*words, "--steps", "8"])
    assert f"resuming from step 4 in {tmp_path}/m" in err
    assert [int(n) for n in re.findall(r"^step=(\d+) loss", err, re.MULTILINE)] == [6, 8]
    _, err = trained(capsys, [*words, "--steps", "8", "--set", "model.dropout=0.3"], code=1)
    assert "holds a run with other settings: model.dropout was 0.1 and is 0.3 now." in err


# ---- what can be trained


def test_languages_are_stored(translator_dir: Path, train_toy: Callable[..., Path]) -> None:
    config = Config.load(translator_dir / "config.json")
    assert (config.source_languages, config.target_languages) == (("en",), ("qtx",))
    named = train_toy("--from", "xx", "--to", "yy", "--steps", "1", "--set", "train.decode_lines=0")
    table = json.loads((named / "config.json").read_text())
    assert (table["source_languages"], table["target_languages"]) == (["xx"], ["yy"])


def test_several_target_languages_in_one_model(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    """The tag alone decides whether the same sentence becomes "ax" or "by"."""
    source = ["one dog", "two cats", "a house", "red", "blue sky", "we see"] * 8
    for name, lines in {"a.en": source, "a.aa": ["ax"] * 48, "b.en": source, "b.bb": ["by"] * 48}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    pairs = [("--source", "a.en"), ("--target", "a.aa"), ("--source", "b.en"), ("--target", "b.bb")]
    pairs += [
        (flag.replace("--", "--valid-"), name) for flag, name in pairs
    ]  # held out, a sentence would not be learned
    files = [word for flag, name in pairs for word in (flag, str(tmp_path / name))]
    settings = [
        "train.schedule=constant(0.02)",
        "train.label_smoothing=0",
        "model.dropout=0",
        "train.validate_every=40",
    ]
    words = quick(toy)[5:] + [word for setting in settings for word in ("--set", setting)]
    out = tmp_path / "many"
    _, err = trained(capsys, ["train", *files, *words, "--steps", "80", "--out", str(out)])
    assert err.splitlines()[-1] == f'next: headway translate --model {out} --to aa "…"'
    config = Config.load(out / "config.json")
    assert config.tags == ("aa", "bb")
    translator = headway.load(out)
    assert isinstance(translator, Translator)
    assert [translator("one dog", target=to) for to in ("aa", "bb")] == ["ax", "by"]
    assert main(["translate", "--model", str(out), "one dog"]) == 1
    assert "this model translates to aa, bb: say which with --to." in capsys.readouterr().err
    assert main(["translate", "--model", str(out), "--to", "cc", "one dog"]) == 1
    assert 'this model does not translate to "cc". It knows: aa, bb.' in capsys.readouterr().err
    assert main(["translate", "--model", str(out), "--to", "bb", "one dog"]) == 0
    assert capsys.readouterr().out == "by\n"


def test_separate_vocabularies(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    words = quick(toy, "--set", "vocabularies=separate", "--set", "tokenizer=bpe(320)", "--steps", "2")
    trained(capsys, [*words, "--out", str(tmp_path / "m")])
    translator = headway.load(tmp_path / "m")
    assert isinstance(translator, Translator)
    assert not translator.tokenizers.shared
    assert translator.config.model.embedding.tied == "target"
    assert isinstance(translator("A dog.", max_length=5), str)


def test_subwords_split_anew(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    words = quick(toy, "--set", "tokenizer=bpe(384, dropout=0.2)", "--epochs", "2")
    trained(capsys, [*words, "--out", str(tmp_path / "m")])
    assert read_history(tmp_path / "m")[-1]["kind"] == "end"


@pytest.mark.parametrize("kind", ["translator_dir", "lm_dir", "masked_dir"])
def test_every_objective_learns(request: pytest.FixtureRequest, kind: str) -> None:
    folder = request.getfixturevalue(kind)
    losses = [entry["loss"] for entry in read_history(folder) if entry["kind"] == "step"]
    assert losses[-1] < 0.85 * losses[0]
    model = headway.load(folder)
    assert isinstance(model, Translator if kind == "translator_dir" else LanguageModel)
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "README.md", "history.jsonl", "checkpoints"}


# ---- terminals and signals, in processes of their own


def command(toy: Path, out: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "headway", *quick(toy), "--out", str(out), *flags]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def test_c06_a_log_file_has_plain_lines(toy: Path, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            command(toy, tmp_path / "m", "--steps", "6"),
            stderr=log,
            stdout=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    printed = (tmp_path / "log").read_bytes()
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"\r" not in printed and b"\x1b" not in printed
    assert re.findall(rb"^step=(\d+) loss=", printed, re.MULTILINE) == [b"2", b"4", b"6"]


def test_c07_a_live_line_fits_and_has_no_colour_with_no_color(toy: Path, tmp_path: Path) -> None:
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = command(toy, tmp_path / "m", "--steps", "12", "--set", "train.log_every=1")
    variables = environment(NO_COLOR="1", TERM="xterm-256color", COLUMNS="")
    process = subprocess.Popen(words, stderr=follower, stdout=subprocess.DEVNULL, stdin=follower, env=variables)
    os.close(follower)
    printed = b""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        ready, _, _ = select.select([leader], [], [], 1)
        if ready:
            try:
                chunk = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            printed += chunk
        elif process.poll() is not None:
            break
    os.close(leader)
    assert process.wait(timeout=300) == 0
    assert not re.search(rb"\x1b\[[0-9;]*m", printed)
    live = re.findall(rb"\r\x1b\[2K(step [^\r]*)", printed)
    assert len(live) >= 12
    assert all(len(line.decode()) < 80 for line in live)
    assert re.match(rb"step 12/12  loss \d\.\d{3}  valid \d\.\d{3}  rate \S+  \S+ tok/s", live[-1])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_c09_c11_a_signal_saves_and_says_how_to_go_on(toy: Path, tmp_path: Path, number: int, code: int) -> None:
    words = command(toy, tmp_path / "m", "--steps", "100000", "--set", "train.validate_every=100000")
    process = subprocess.Popen(words, stderr=subprocess.PIPE, env=environment(), text=True)
    assert process.stderr
    try:
        for line in process.stderr:
            if line.startswith("step="):
                break
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(timeout=300) == code, rest
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    [saved] = re.findall(r"^saved at step (\d+); the same command resumes from there$", rest, re.MULTILINE)
    [found] = list_checkpoints(tmp_path / "m")
    assert found.step == int(saved)
    assert found.weights and found.training
    assert load_model(tmp_path / "m").model.training is False  # and it can be used already
    [told] = re.findall(r"^resume with: (.+)$", rest, re.MULTILINE)
    assert shlex.split(told) == ["headway", *words[3:]]
    assert ("error: interrupted" in rest) == (code == 130)
    assert "Traceback" not in rest
    assert main([*shlex.split(told)[1:], "--steps", str(int(saved) + 2)]) == 0
    assert read_history(tmp_path / "m")[-1]["step"] == int(saved) + 2


# ---- both directions, and another's tokenizer


def test_both_ways_with_the_tokenizer_of_another(
    capsys: Capture, toy: Path, tmp_path: Path
) -> None:  # fmt: skip
    files = ["--pairs", str(tmp_path / "toy.en-qtx.tsv"), "--both-ways", "--noise", "0.5"]
    sides = zip(*((toy / f"train.{side}").read_text().splitlines() for side in ("en", "qtx")))
    (tmp_path / "toy.en-qtx.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in sides))
    settings = [word for setting in QUICK[1:] for word in ("--set", setting)]
    words = ["train", *files, "--preset", "tiny", *settings, "--steps", "4"]
    trained(capsys, [*words, "--set", "tokenizer.size=384", "--out", str(tmp_path / "one")])
    config = Config.load(tmp_path / "one" / "config.json")
    assert config.target_languages == ("qtx", "en")
    assert config.source_languages == ("en", "qtx")
    translator = headway.load(tmp_path / "one")
    assert isinstance(translator, Translator)
    assert translator.direction_tokens(target="en") != translator.direction_tokens(target="qtx")
    trained(capsys, [*words, "--tokenizer", str(tmp_path / "one"), "--out", str(tmp_path / "two")])
    assert (tmp_path / "two" / "tokenizer.json").read_text() == (tmp_path / "one" / "tokenizer.json").read_text()
    other = [*words, "--set", "tokenizer=bytes", "--out", str(tmp_path / "three")]
    (tmp_path / "three" / "checkpoints" / "text").mkdir(parents=True)  # of a run that was killed before its first save
    (tmp_path / "three" / "tokenizer.json").write_text((tmp_path / "one" / "tokenizer.json").read_text())
    trained(capsys, other)
    assert load_model(tmp_path / "three").tokenizers.target.kind == "bytes"
    changed = trained(capsys, [*other, "--tokenizer", str(tmp_path / "one")], code=1)[1]
    assert f"{tmp_path / 'one'}. Leave it out, or choose another --out" in changed
    words += ["--tokenizer", str(tmp_path / "one"), "--from-model", str(tmp_path / "one"), "--out", str(tmp_path / "x")]
    words.remove("--preset")
    words.remove("tiny")
    assert "the model has its own tokenizer" in trained(capsys, words, code=2)[1]


@pytest.mark.parametrize("preset", ["bert", "gpt2"])
def test_text_may_be_longer_than_the_positions_of_a_preset(
    capsys: Capture, toy: Path, tmp_path: Path, preset: str
) -> None:  # fmt: skip
    """All of its own but the sizes: text is read in pieces that end with the last learned position."""
    side = "encoder" if preset == "bert" else "decoder"
    settings = ["tokenizer=characters", "model.d_model=24", f"model.{side}.layers=1", "train.batch_tokens=2048"]
    words = ["train", "--text", str(toy / "train.en"), "--valid-text", str(toy / "valid.en"), "--preset", preset]
    words += [word for setting in settings for word in ("--set", setting)]
    if preset == "bert":  # the toy corpus has no documents
        words += ["--set", "train.objective.next_sentence=false"]
    trained(capsys, [*words, "--steps", "1", "--out", str(tmp_path / "x")])
    assert "perplexity" in trained(capsys, ["evaluate", "-m", str(tmp_path / "x"), "--text", str(toy / "train.en")])[0]


def test_files_of_the_user_are_not_written_over(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    """Nor is the text read first: here there is none."""
    words = [*quick(tmp_path), "--out", str(tmp_path)]
    (tmp_path / "notes.txt").write_text("what a training does not write is not in the way")
    assert "there is no file" in trained(capsys, words, code=1)[1]
    for name, told in (("config.json", "config.json"), ("README.md", "README.md, config.json")):
        (tmp_path / name).write_text('{"mine": 1}')
        err = trained(capsys, words, code=1)[1]
        assert err.splitlines() == [
            f"error: {tmp_path} holds no training run, but {told}, which training would overwrite. Choose another "
            "--out."
        ]
    assert (tmp_path / "README.md").read_text() == (tmp_path / "config.json").read_text() == '{"mine": 1}'
