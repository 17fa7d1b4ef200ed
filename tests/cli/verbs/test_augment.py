"""headway augment: pairs in a file, what was left out, and no way to lose a file or an hour."""

import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from headway.cli import pair_writer as verb
from headway.cli import terminal
from headway.cli.app import app, main
from headway.data.parallel_files import ParallelFiles, read_parallel
from headway.workflows.back_translation import SyntheticPair

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]


def augmented(capsys: Capture, model: Path, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["augment", "--model", str(model), *map(str, arguments)]) == code
    return capsys.readouterr()


@pytest.fixture(scope="module")
def pairs(toy: Path) -> list[SyntheticPair]:
    """What the model gives back, for it knows them by heart."""
    both = zip((toy / "train.qtx").read_text().splitlines(), (toy / "train.en").read_text().splitlines())
    return [SyntheticPair(f"<BT> {made}", given) for made, given in both]


@pytest.fixture
def text(tmp_path: Path, pairs: list[SyntheticPair]) -> Path:
    path = tmp_path / "mono.en"
    path.write_text("".join(f"{pair.target}\n" for pair in pairs[:6]))
    return path


def test_standard_output(capsys: Capture, translator_dir: Path, text: Path, pairs: list[SyntheticPair]) -> None:
    out, err = augmented(capsys, translator_dir, "--text", text)
    assert out == "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs[:6])
    assert err == "6 lines, 6 pairs\n"
    out, _ = augmented(capsys, translator_dir, "--text", text, "--tag", "", "-b", "2")
    assert out == "".join(f"{pair.source.removeprefix('<BT> ')}\t{pair.target}\n" for pair in pairs[:6])


def test_standard_input(
    capsys: Capture, translator_dir: Path, pairs: list[SyntheticPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{pairs[0].target}\n".encode())))
    assert augmented(capsys, translator_dir, "--text", "-")[0] == "\t".join(pairs[0]) + "\n"
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in augmented(capsys, translator_dir, "--text", "-", code=2)[1]


@pytest.mark.parametrize("name", ["m.qtx-en.tsv", "m.jsonl", "m.tsv.gz", "m.jsonl.xz", "m.tsv.zst"])
def test_files_by_their_names(
    capsys: Capture, translator_dir: Path, text: Path, pairs: list[SyntheticPair], tmp_path: Path, name: str
) -> None:
    """Several texts, one of them packed; what comes out is read as training text."""
    (tmp_path / "more.en.xz").write_bytes(lzma.compress(pairs[6].target.encode()))
    out, err = augmented(
        capsys, translator_dir, "--text", text, "--text", tmp_path / "more.en.xz", "-o", tmp_path / name
    )
    assert out == ""
    assert err == f"7 lines, 7 pairs in {tmp_path / name}\n"
    assert list(read_parallel(ParallelFiles(str(tmp_path / name)))) == pairs[:7]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([name, "mono.en", "more.en.xz"])


def test_what_was_left_out_is_told(
    capsys: Capture, translator_dir: Path, pairs: list[SyntheticPair], tmp_path: Path
) -> None:
    (tmp_path / "mono.en").write_text(f"\n{pairs[0].target}\n \n{'dog ' * 200}\n{pairs[1].target}\n")
    out, err = augmented(capsys, translator_dir, "--text", tmp_path / "mono.en")
    assert out.count("\n") == 2
    assert err == "5 lines, 2 pairs\nleft out: 2 blank lines, 1 lines with too many tokens\n"
    out, err = augmented(capsys, translator_dir, "--text", tmp_path / "mono.en", "--max-tokens", 1)
    assert (out, err.splitlines()[1]) == ("", "left out: 2 blank lines, 3 lines with too many tokens")
    assert err.splitlines()[2].startswith("warning: no pair was made: does this model translate from")
    _, err = augmented(capsys, translator_dir, "--text", tmp_path / "mono.en", "--min-score", "-0.00001")
    assert "2 of a low score" in err
    _, err = augmented(capsys, translator_dir, "--text", tmp_path / "mono.en", "--min-score", "-5")
    assert "low score" not in err


def test_sampling(capsys: Capture, translator_dir: Path, text: Path) -> None:
    hot = ["--text", text, "--sample", "--top-k", "5", "--temperature", "2", "--seed"]
    one, again, two = (augmented(capsys, translator_dir, *hot, seed)[0] for seed in (1, 1, 2))
    assert one == again != two


def test_the_pairs_train_the_other_direction(
    capsys: Capture, translator_dir: Path, text: Path, toy: Path, tiny: list[str], tmp_path: Path
) -> None:
    """As in docs/back-translation.md: text becomes pairs, and these stand beside the real ones."""
    made = tmp_path / "mono.qtx-en.tsv.gz"
    augmented(capsys, translator_dir, "--text", text, "--out", made)
    real = ["--source", str(toy / "valid.qtx"), "--target", str(toy / "valid.en")]
    words = ["train", *real, "--pairs", str(made), "--weight", "2", "--weight", "1", *tiny, "--steps", "2"]
    assert main([*words, "--out", str(tmp_path / "model")]) == 0, capsys.readouterr().err
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["source_languages"], config["target_languages"]) == (["qtx"], ["en"])


# ---- nothing is lost


@pytest.fixture
def some(toy: Path, tmp_path: Path) -> Path:
    """48 lines, of which some give no pair."""
    path = tmp_path / "some.en"
    path.write_text("".join(f"{line}\n\n" for line in (toy / "text.txt").read_text().splitlines()[:24]))
    return path


def stop_after(monkeypatch: pytest.MonkeyPatch, groups: int, error: type[BaseException]) -> None:
    def stop(self: verb.PairProgress, counts: dict[str, int]) -> None:
        if counts["lines"] == groups * 64 // verb.TOKENS_PER_LINE:
            raise error

    monkeypatch.setattr(verb.PairProgress, "update", stop)


@pytest.mark.parametrize("name", ["m.tsv", "m.jsonl.gz"])
def test_an_interrupted_run_goes_on(
    capsys: Capture, translator_dir: Path, some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    command = ["--text", some, "--batch-tokens", 64, "--sample", "--seed", 3]
    augmented(capsys, translator_dir, *command, "--out", tmp_path / f"whole-{name}")
    with monkeypatch.context() as patch:
        stop_after(patch, 3, KeyboardInterrupt)
        _, err = augmented(capsys, translator_dir, *command, "--out", tmp_path / name, code=130)
    assert err == "to continue after line 24, run the same command with --resume\nerror: interrupted\n"
    assert not (tmp_path / name).exists()
    _, err = augmented(capsys, translator_dir, *command, "--out", tmp_path / name, code=1)
    assert "is left over from an interrupted run. Continue it with --resume, or start over with --overwrite." in err
    _, err = augmented(capsys, translator_dir, *command, "--tag", "", "--resume", "--out", tmp_path / name, code=1)
    assert "was started with --tag '<BT>', not ''. Give the same" in err
    _, err = augmented(capsys, translator_dir, *command, "--out", tmp_path / name, "--resume", code=0)
    assert err.startswith("48 lines, ")
    whole, resumed = ((tmp_path / f"{lead}{name}") for lead in ("whole-", ""))
    assert resumed.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.p*"))
    _, err = augmented(capsys, translator_dir, *command, "--out", tmp_path / name, "--resume")
    assert err == f"{tmp_path / name} is complete: nothing to do\n"


def test_a_changed_text_is_noticed(
    capsys: Capture, translator_dir: Path, some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "m.tsv"
    with monkeypatch.context() as patch:
        stop_after(patch, 2, KeyboardInterrupt)
        augmented(capsys, translator_dir, "--text", some, "--batch-tokens", 64, "--out", out, code=130)
    some.write_bytes(b"A line more.\n" + some.read_bytes())
    _, err = augmented(capsys, translator_dir, "--text", some, "--out", out, "--resume", code=1)
    assert "the first 16 lines of the text are not those that this was begun with." in err
    _, err = augmented(capsys, translator_dir, "--text", some, "--out", out, "--overwrite")
    assert err.startswith("49 lines, ")


def test_a_killed_run_loses_at_most_its_last_group(translator_dir: Path, some: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.tsv"
    command = ["augment", "--model", str(translator_dir), "--text", str(some), "--batch-tokens", "32"]
    with subprocess.Popen([sys.executable, "-m", "headway", *command, "--out", str(out)], cwd=ROOT) as process:
        deadline = time.monotonic() + 300
        while not Path(f"{out}.progress").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=300) == -signal.SIGKILL
    known = json.loads(Path(f"{out}.progress").read_text())
    assert not out.exists()
    assert 0 < known["counts"]["lines"] < 48
    assert Path(f"{out}.partial").read_bytes()[: known["bytes"]].count(b"\n") == known["counts"]["pairs"]
    assert main([*command, "--out", str(out), "--resume"]) == 0
    assert main([*command, "--out", str(tmp_path / "whole.tsv")]) == 0
    assert out.read_bytes() == (tmp_path / "whole.tsv").read_bytes()


def test_a_file_is_not_written_over(capsys: Capture, translator_dir: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "m.tsv").write_text("mine\n")
    _, err = augmented(capsys, translator_dir, "--text", text, "--out", tmp_path / "m.tsv", code=1)
    assert f"{tmp_path}/m.tsv already exists. Choose another --out, or overwrite it with --overwrite." in err
    assert (tmp_path / "m.tsv").read_text() == "mine\n"
    augmented(capsys, translator_dir, "--text", text, "--out", tmp_path / "m.tsv", "--overwrite")
    assert (tmp_path / "m.tsv").read_text().count("\n") == 6


def test_a_broken_text_leaves_what_was_done(capsys: Capture, translator_dir: Path, some: Path, tmp_path: Path) -> None:
    packed = gzip.compress(some.read_bytes())
    (tmp_path / "more.en.gz").write_bytes(packed[:-9])
    out = tmp_path / "m.tsv"
    command = ["--text", some, "--text", tmp_path / "more.en.gz", "--out", out, "--batch-tokens", 64]
    _, err = augmented(capsys, translator_dir, *command, code=1)
    assert "more.en.gz cannot be decompressed" in err
    assert json.loads(Path(f"{out}.progress").read_text())["counts"]["lines"] >= 40
    (tmp_path / "more.en.gz").write_bytes(packed)
    _, err = augmented(capsys, translator_dir, *command, "--resume")
    assert err.startswith("96 lines, ")


# ---- wrong usage


def test_more_tokens_at_once_than_there_can_be_lines(capsys: Capture, translator_dir: Path, text: Path) -> None:
    out, _ = augmented(capsys, translator_dir, "--text", text, "--batch-tokens", "9" * 22)
    assert out.count("\n") == len(text.read_text().splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--text is missing."),
        (["--text", "a", "--resume"], "--resume and --overwrite need --out."),
        (["--text", "a", "--out", "a.tsv", "--resume", "--overwrite"],
         "--resume continues and --overwrite starts over: choose one."),
        (["--text", "a", "--out", "a.txt"], "--out is a.txt: it must end in .tsv or .jsonl"),
        (["--text", "a.tsv", "--out", "./a.tsv"], "--out is one of the input files: choose another file."),
        (["--text", "a", "--tag", "a\tb"], "--tag must not contain tabs or line breaks."),
        (["--text", "a", "--length-ratio", "0.5"], "--length-ratio: 0.5 is not in the range x>=1."),
        (["--text", __file__, "--temperature", "2"], "temperature: 2.0 has no effect without sampling."),
        (["--text", __file__, "-b", "0"], "beam_size: 0 is out of range: it must be at least 1 and at most 10000."),
        (["--text", __file__, "--out", "x/m.en-qtx.tsv"], "the name m.en-qtx.tsv says that en comes first, but qtx "
         "does: the machine writes the source. Name it qtx-en."),
    ],
)  # fmt: skip
def test_c09_wrong_usage(
    capsys: Capture, translator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str],
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    out, err = augmented(capsys, translator_dir, *arguments, code=2)
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert os.listdir(tmp_path) == []


def test_a_missing_text_is_told_before_a_model_is_loaded(capsys: Capture, tmp_path: Path) -> None:
    _, err = augmented(capsys, tmp_path / "no-model", "--text", tmp_path / "mono.de", code=1)
    assert err.startswith(f"error: there is no file {tmp_path}/mono.de")


def test_a_language_model_does_not_translate(capsys: Capture, lm_dir: Path, text: Path) -> None:
    assert "is a language model and does not translate" in augmented(capsys, lm_dir, "--text", text, code=1)[1]


def test_a_renamed_option_is_recorded_by_its_first_name_so_that_older_files_can_be_resumed() -> None:
    command = app.get_command(click.Context(app), "augment")
    assert command is not None
    for name in ("--max-tokens", "--longest"):
        with command.make_context("augment", ["--text", "a", name, "7"]):
            recorded = verb.options_fixed_on_resume(("texts",))
        assert recorded["--longest"] == 7
        assert "--max-tokens" not in recorded and "--text" not in recorded and recorded["--tag"] == "<BT>"


# ---- what is shown meanwhile


@pytest.mark.parametrize("live", [True, False])
def test_progress(capsys: Capture, monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    monkeypatch.setattr(terminal, "shows_progress", lambda: live)
    monkeypatch.setattr(verb, "LIVE_INTERVAL" if live else "LOG_INTERVAL", 0.0)
    now = iter([100.0, 102.0, 104.0])
    clock = SimpleNamespace(monotonic=lambda: next(now))  # of this module alone: other threads go on
    monkeypatch.setattr(verb, "time", clock)
    meter = verb.PairProgress(1000)
    meter.update({"lines": 1200, "pairs": 1100})
    meter.update({"lines": 1600, "pairs": 1400})
    meter.clear()
    lines = ["1,200 lines  1,100 pairs  100.0 lines/s  0:02", "1,600 lines  1,400 pairs  150.0 lines/s  0:04"]
    shown = "".join(f"\r\x1b[2K{line}" for line in lines) + "\r\x1b[2K" if live else "".join(f"{x}\n" for x in lines)
    assert capsys.readouterr().err == shown


def test_progress_is_not_told_too_often(capsys: Capture) -> None:
    meter = verb.PairProgress(0)
    for _ in range(100):
        meter.update({"lines": 1, "pairs": 1})
    assert capsys.readouterr().err == ""
