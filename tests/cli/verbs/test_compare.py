"""headway compare: trials in processes of their own, resumed, skipped, refused, failed; the report and its files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli.app import main
from headway.compare.axes import Axis
from headway.compare.study import Budget, Study
from headway.compare.trials import FAILURE_FILE, LENGTHS_FILE, RESULT_FILE, plan_trials
from headway.train.sources import TrainingFiles

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[3]
SMALL = ["--set", "model.d_model=16", "--set", "train.batch_tokens=256", "--set", "tokenizer.size=384"]


def words(toy: Path, out: Path, *more: str) -> list[str]:
    text = ["--text", str(toy / "text.txt"), "--preset", "tiny_lm", *SMALL]
    return ["compare", *text, "--out", str(out), *more]


@pytest.fixture(autouse=True)
def _own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="module")
def study(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study: attention, retention, and a mixer that the position does not fit."""
    out = tmp_path_factory.mktemp("compare") / "study"
    (out.parent / "study.toml").write_text(
        f"""lengths = [32, 64]
        test_lengths = [8, 64]
        [text]
        text = "{toy / "text.txt"}"
        [vary]
        mixer = ["attention(2)", "retention(2)"]
        position = ["none", "alibi"]
        [budget]
        steps = 12
        [settings]
        preset = "tiny_lm"
        [settings.config]
        tokenizer.size = 384
        model.d_model = 16
        train.batch_tokens = 256
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        assert main(["compare", str(out.parent / "study.toml"), "--jobs", "2"]) == 0
    return out


def test_a_study_leaves_a_table_a_report_and_charts(study: Path, capsys: Capture) -> None:
    stored = json.loads((study / "results.json").read_text(encoding="utf-8"))
    names = {row["name"]: row for row in stored["rows"]}
    assert list(names) == ["attention(2), none", "attention(2), alibi", "retention(2), none", "retention(2), alibi"]
    refused = names["retention(2), alibi"]
    assert refused["status"] == "refused" and "retention has none" in refused["reason"]
    first, retention = names["attention(2), none"], names["retention(2), none"]
    assert abs(retention["parameters"] - first["parameters"]) <= 0.02 * first["parameters"]
    assert retention["how"].startswith(("feed-forwards ×", "d_model"))
    for row in (first, retention):
        assert row["status"] == "finished" and row["measures"]["steps"]["mean"] == 12
        assert [point["length"] for point in row["lengths"]] == [32, 64] and len(row["curves"][0]) == 12
        assert row["measures"]["decode_tokens_per_second"]["mean"] > 0
        assert (study / row["models"][0] / "model.safetensors").exists()
        for point in row["lengths"]:
            assert point["seconds"] == point["forward_seconds"] + point["backward_seconds"] > 0
            assert point["decode_seconds"] > 0
    kept = [[point["state_bytes"] for point in row["lengths"]] for row in (first, retention)]
    assert kept[0][1] == 2 * kept[0][0] and kept[1][1] == kept[1][0]
    assert (
        first["measures"]["state_bytes_per_token"]["mean"] > 0 == retention["measures"]["state_bytes_per_token"]["mean"]
    )
    assert 0 < retention["p_value"] <= 1
    page = (study / "report.html").read_text(encoding="utf-8")
    assert (
        "retention(2), none" in page
        and page.count("<svg") >= 6
        and "http://" not in page.replace("http://www.w3.org", "")
    )
    assert {path.suffix for path in (study / "charts").iterdir()} >= {".svg"}


def test_what_is_finished_is_not_run_again(study: Path, capsys: Capture) -> None:
    before = {path: path.stat().st_mtime_ns for path in study.glob("runs/*/*.json")}
    assert main(["compare", str(study.with_suffix(".toml"))]) == 0
    assert {path: path.stat().st_mtime_ns for path in study.glob("runs/*/*.json")} == before
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("variant\tparameters\tloss") and len(out.splitlines()) == 5


def test_a_trial_that_fails_is_reported_and_the_others_go_on(
    study: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = sorted(study.glob("runs/*"))
    saved = [(path, path.read_bytes()) for path in (folders[0] / RESULT_FILE, folders[1] / RESULT_FILE)]
    (folders[0] / RESULT_FILE).unlink()
    (folders[0] / FAILURE_FILE).write_text('{"reason": "the weights became NaN"}')
    try:
        assert main(["compare", str(study.with_suffix(".toml"))]) == 1
        captured = capsys.readouterr()
        assert "failed" in captured.out and captured.out.count("finished") == 2
        assert "the weights became NaN" in (study / "report.html").read_text(encoding="utf-8")
    finally:
        (folders[0] / FAILURE_FILE).unlink()
        for path, content in saved:
            path.write_bytes(content)


def test_a_process_that_dies_without_a_word_is_a_failure(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "dies"
    assert main(words(toy, out, "--vary", "mixer=attention(2)", "--steps", "2", "--dry-run")) == 0
    assert capsys.readouterr().out.splitlines()[0] == "variant\tparameters\thow"
    broken = tmp_path / "broken" / "headway"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise SystemExit('no such weather')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(broken.parent))
        patch.chdir(tmp_path)
        assert main(words(toy, out, "--vary", "mixer=attention(2)", "--steps", "2", "--no-lengths")) == 1
    assert "its process ended with status 1. Last words: no such weather" in capsys.readouterr().err


def test_an_interrupted_study_resumes(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "long"
    command = [sys.executable, "-m", "headway", *words(toy, out, "--vary", "mixer=attention(2)", "--no-lengths")]
    process = subprocess.Popen([*command, "--steps", "100000"], stderr=subprocess.PIPE)
    until(lambda: bool(list(out.glob("runs/*/progress.json"))) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and b"Traceback" not in err
    assert list(out.glob("runs/*/model/checkpoints/step-*")) and not list(out.glob(f"runs/*/{FAILURE_FILE}"))
    assert b"Traceback" not in next(out.glob("runs/*/log.txt")).read_bytes()


def test_a_trial_ends_with_its_study(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "orphan"
    command = [sys.executable, "-m", "headway", *words(toy, out, "--vary", "mixer=attention(2)", "--no-lengths")]
    process = subprocess.Popen([*command, "--steps", "100000"], stderr=subprocess.DEVNULL)
    until(lambda: bool(list(out.glob("runs/*/progress.json"))) or process.poll() is not None)
    process.kill()
    process.wait()
    until(lambda: not trial_processes(out))
    assert list(out.glob("runs/*/model/checkpoints/step-*"))


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def trial_processes(out: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if "trial_worker" in line and str(out) in line:
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--vary", "tokenizer=bpe,unigram", "--steps", "1"], "tokenizer cannot vary: all variants"),
        (["--vary", "mixer=retention(2)", "--set", "model.decoder.position=alibi", "--steps", "1"], "alibi"),
        (
            ["--vary", "mixer=attention", "--steps", "1", "--parameters", "many"],
            '--parameters many: give a number, "equal"',
        ),
        (["--vary", "mixer", "--steps", "1"], "is not an axis"),
    ],
)
def test_bad_studies_are_refused(toy: Path, tmp_path: Path, capsys: Capture, more: list[str], message: str) -> None:
    assert main(words(toy, tmp_path / "bad", *more)) == 2
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err


def test_every_variant_refused(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(words(toy, tmp_path / "none", "--vary", "mixer=retention(3),retention(5)", "--steps", "1")) == 2
    assert "every variant is refused. The first: retention(3)" in capsys.readouterr().err


def test_another_vocabulary_needs_another_folder(study: Path, toy: Path, capsys: Capture) -> None:
    more = ["--vary", "mixer=attention(2)", "--steps", "1", "--set", "tokenizer.size=448"]
    assert main(words(toy, study, *more)) == 1
    assert "holds a study with another vocabulary" in capsys.readouterr().err


def test_other_lengths_are_measured_without_another_training(study: Path, tmp_path: Path) -> None:
    text = study.with_suffix(".toml").read_text(encoding="utf-8").replace("lengths = [32, 64]", "lengths = [24]", 1)
    (tmp_path / "other.toml").write_text(text, encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for path in study.glob(f"runs/*/{RESULT_FILE}")}
    curves = {path: path.read_bytes() for path in study.glob(f"runs/*/{LENGTHS_FILE}")}
    assert main(["compare", str(tmp_path / "other.toml"), "--out", str(study)]) == 0
    rows = json.loads((study / "results.json").read_text(encoding="utf-8"))["rows"]
    assert [point["length"] for point in rows[0]["lengths"]] == [24]
    assert {path: path.stat().st_mtime_ns for path in study.glob(f"runs/*/{RESULT_FILE}")} == before
    for path, content in curves.items():
        path.write_bytes(content)


def test_untrained_variants_are_compared_by_cost(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "costs.toml").write_text(
        f"""lengths = [16]
        [text]
        text = "{toy / "text.txt"}"
        [vary]
        mixer = ["attention(2)", "retention(2)"]
        [budget]
        untrained = true
        [settings]
        preset = "tiny_lm"
        config.tokenizer = "characters"
        config.model.d_model = 16
        """
    )
    assert main(["compare", str(tmp_path / "costs.toml")]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "variant\tparameters\tdecode tok/s\tcache bytes\tp\tstatus"
    assert "attention(2), seed 1: measured" in captured.err
    rows = json.loads((tmp_path / "costs" / "results.json").read_text(encoding="utf-8"))["rows"]
    assert [point["length"] for row in rows for point in row["lengths"]] == [16, 16]
    assert all(row["p_value"] is None and "loss" not in row["measures"] for row in rows)
    assert not list((tmp_path / "costs").glob("runs/*/model/*.safetensors"))


def test_a_synthetic_task_is_written_trained_asked_and_probed(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "copying.toml").write_text(
        """lengths = []
        probes = ["coding_rate", "retention_forms"]
        [toy]
        task = "copy"
        length = 4
        test_lengths = [3, 40]
        lines = 50
        [vary]
        position = ["none", "learned(32)"]
        [budget]
        steps = 2
        [settings]
        preset = "tiny_lm"
        [settings.config]
        tokenizer = "characters"
        model.d_model = 16
        train.max_tokens = 16
        train.batch_tokens = 64
        [quick.toy]
        task = "copy"
        length = 3
        test_lengths = [3, 40]
        lines = 40
        [quick.settings.config]
        model.decoder.layers = 1
        """
    )
    assert main(["compare", str(tmp_path / "copying.toml"), "--quick", "--jobs", "2"]) == 0
    assert captured_columns(capsys)[2:5] == ["loss", "perplexity", "accuracy"]
    stored = json.loads((tmp_path / "copying" / "results.json").read_text(encoding="utf-8"))
    first, learned = stored["rows"]
    assert [entry["test"] for entry in first["answers"]] == ["test-3", "test-40"]
    assert all(0 <= entry["exact"] <= 1 for entry in first["answers"])
    assert "refused" in learned["answers"][1] and "exact" in learned["answers"][0]  # 81 letters, 32 positions
    assert len(first["probes"]["coding_rate"]) >= 1 and "refused" in first["probes"]["retention_forms"][0]
    page = (tmp_path / "copying" / "report.html").read_text(encoding="utf-8")
    assert "coding_rate: " in page and "<h2>Answers</h2>" in page
    assert (tmp_path / "copying" / "text" / "train.txt").read_text(encoding="utf-8").count("\n") == 40
    assert str(tmp_path) not in json.dumps(stored["rows"])  # a study's folder can be moved


def captured_columns(capsys: Capture) -> list[str]:
    return capsys.readouterr().out.splitlines()[0].split("\t")


def test_the_short_edition_is_one_of_a_file(study: Path, toy: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["compare", str(study.with_suffix(".toml")), "--quick"]) == 2
    assert "this study has no section [quick]" in capsys.readouterr().err
    assert main(words(toy, tmp_path / "x", "--vary", "norm=none", "--steps", "1", "--quick")) == 2
    assert "--quick is for the file of a study" in capsys.readouterr().err


def test_a_file_says_everything(study: Path, capsys: Capture) -> None:
    for flag, value in (("--preset", "tiny"), ("--set", "train.clip=1"), ("--vary", "norm=none")):
        assert main(["compare", str(study.with_suffix(".toml")), flag, value]) == 2
        assert f"says that itself: leave out {flag}" in capsys.readouterr().err


def test_budget_and_seeds_of_a_file_can_be_changed(study: Path, tmp_path: Path, capsys: Capture) -> None:
    more = ["--steps", "2", "--seeds", "2", "--sample", "1", "--no-lengths", "--out", str(tmp_path / "short")]
    assert main(["compare", str(study.with_suffix(".toml")), *more]) == 0
    (row,) = json.loads((tmp_path / "short" / "results.json").read_text(encoding="utf-8"))["rows"]
    assert row["seeds"] == 2 and row["measures"]["steps"]["values"] == [2, 2] and row["lengths"] == []
    by_length = row["loss_by_length"]
    assert [point["length"] for point in by_length] == [8, 64] and all(point["loss"] > 0 for point in by_length)


def test_a_folder_is_needed(toy: Path, capsys: Capture) -> None:
    assert main(["compare", "--text", str(toy / "text.txt"), "--vary", "mixer=attention", "--steps", "1"]) == 2
    assert "--out is missing: give a folder for the study" in capsys.readouterr().err


def test_test_text_is_read_before_anything_is_trained(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    files = ["--source", str(toy / "train.en"), "--target", str(toy / "train.qtx"), "--preset", "tiny", *SMALL]
    command = ["compare", *files, "--vary", "norm=layernorm,none", "--steps", "1", "--out", str(tmp_path / "out")]
    (tmp_path / "short.qtx").write_text("one line\n")
    for target, message in (("none.qtx", "there is no file"), ("short.qtx", "20 lines")):
        given = ["--test-source", str(toy / "test.en"), "--test-target", str(tmp_path / target)]
        assert main([*command, *given]) == 1
        captured = capsys.readouterr()
        assert message in captured.err and "Traceback" not in captured.err
    assert not (tmp_path / "out" / "runs").exists()


def test_another_test_text_is_another_trial(toy: Path, tmp_path: Path) -> None:
    study = Study(
        name="s",
        files=TrainingFiles(source=[str(toy / "train.en")], target=[str(toy / "train.qtx")]),
        axes=(Axis("dropout", (0.0,)),),
        budget=Budget(steps=1),
        preset="tiny",
        test_source=str(tmp_path / "a.en"),
        test_target=str(tmp_path / "a.qtx"),
    )
    folders = []
    for text in ("one line\n", "two line\n", "one line\n"):  # of the same size
        for name in ("a.en", "a.qtx"):
            (tmp_path / name).write_text(text)
        folders.append(plan_trials(study, tmp_path / "out").trials[0].folder)
    assert folders[0] == folders[2] != folders[1]
    folders[0].mkdir(parents=True)
    folders[0].rename(folders[0].with_name(folders[0].name.replace("0-0-1", "renamed-1")))
    assert plan_trials(study, tmp_path / "out").trials[0].folder.name.startswith("renamed-1-")


def test_translators_are_compared_by_bleu(toy: Path, tmp_path: Path, tiny: list[str], capsys: Capture) -> None:
    names = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
    names |= {"test-source": "test.en", "test-target": "test.qtx"}
    files = [word for name, file in names.items() for word in (f"--{name}", str(toy / file))]
    kept = [word for word in tiny[2:] if word != "--set" and not word.startswith(("train.steps", "train.validate"))]
    settings = [*tiny[:2], *(word for setting in kept for word in ("--set", setting))]
    out = tmp_path / "translators"
    command = ["compare", *files, *settings, "--vary", "position=sinusoidal,rope", "--steps", "4"]
    assert main([*command, "--no-lengths", "--out", str(out), "--jobs", "2"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split("\t")[2:6] == ["loss", "perplexity", "BLEU", "chrF"] and len(table) == 3
    rows = json.loads((out / "results.json").read_text(encoding="utf-8"))["rows"]
    assert rows[0]["measures"]["bleu"]["mean"] >= 0 and 0 < rows[1]["p_value"] <= 1
    hypotheses = next(out.glob("runs/*/hypotheses.txt")).read_text(encoding="utf-8")
    assert hypotheses.count("\n") == 20 and os.path.exists(next(out.glob("runs/*/references.txt")))


def test_what_is_measured_is_the_model_that_is_kept(toy: Path, tmp_path: Path) -> None:
    """A rate that grows far too high: the last step is not the best one, whose weights become the model."""
    out = tmp_path / "rates"
    assert main(words(toy, out, "--vary", "train.schedule=cosine(5.0, warmup=6)", "--steps", "6", "--no-lengths")) == 0
    result = json.loads(next(out.glob(f"runs/*/{RESULT_FILE}")).read_text(encoding="utf-8"))
    assert result["loss"] < result["curve"][-1]["loss"]
    nats, tokens = (sum(column) for column in zip(*result["pieces"]))
    assert nats / tokens == pytest.approx(result["loss"], rel=1e-4)
