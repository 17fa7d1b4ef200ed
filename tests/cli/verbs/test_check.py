"""headway check: a table, examples that fit the terminal, JSON for programs, exit codes, and what to type next."""

import json
import os
import pty
import random
import select
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.app import main
from headway.cli.check_report import describe_moved_runs, fit_line, format_share
from headway.data.check.faults import FAULT_NAMES
from headway.data.check.report import CheckReport, DuplicatePairs, MisalignedRun
from headway.data.parallel_files import ParallelFiles, read_parallel
from headway.data.toy import toy_corpus

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 700 toy pairs, some of them damaged, in two files and in one."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = [(pair.source, pair.target) for pair in toy_corpus(720)]
    rows = pairs[:700]
    rows[20] = (rows[20][0], "")
    rows[30] = (rows[30][0], rows[30][1] + "\0")
    rows[40] = rows[10]
    rows[50] = rows[50][::-1]
    targets = [target for _, target in rows[400:430]]
    for number, target in zip(range(400, 430), targets[1:] + targets[:1]):
        rows[number] = (rows[number][0], target)
    for side, language in enumerate(("en", "qtx")):
        (folder / f"a.{language}").write_text("".join(f"{row[side]}\n" for row in rows))
        (folder / f"fine.{language}").write_text("".join(f"{row[side]}\n" for row in pairs[700:]))
        (folder / f"test.{language}").write_text(f"{rows[100][side]}\n")
    (folder / "a.en-qtx.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (folder / "pairs.tsv").write_text("one\n".join("\t".join(row) + "\n" for row in rows[:3]))
    return folder


def checked(capsys: Capture, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["check", *map(str, arguments)]) == code
    return capsys.readouterr()


def files(corpus: Path, name: str = "a") -> list[object]:
    return ["--source", corpus / f"{name}.en", "--target", corpus / f"{name}.qtx"]


def test_what_a_person_sees(capsys: Capture, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["headway", "check", "--source", "a.en", "--target", "a.qtx"])
    out, err = checked(capsys, *files(corpus), "--examples", "1")
    lines = out.splitlines()
    assert lines[0] == "finding\tpairs\tshare\tto leave out"
    cells = {line.split("\t")[0]: line.split("\t")[1:] for line in lines if "\t" in line}
    assert cells["empty side"] == cells["control characters"] == cells["duplicate"] == ["1", "0.001429", "1"]
    assert cells["sides swapped"][0] == "1"
    assert int(cells["not a translation"][0]) >= 25
    assert int(cells["pairs that remain"][0]) + int(cells["pairs that remain"][2]) == 700
    for example in ("  line 21 (target: no letter or digit)", "  line 41 (same as line 11)", "  line 51"):
        assert example in lines
    assert lines[lines.index("  line 51") + 1].startswith("    en   ")
    assert "  1 run of moved lines, " in out and "the target is 1 line early" in out
    assert max(len(line) for line in lines if "\t" not in line) <= 80
    first, note, last = err.splitlines()
    assert first.endswith("a.qtx: 700 pairs, en and qtx")
    assert note == "the target language (qtx) cannot be identified, so it was not checked"
    assert last == "next: headway check --source a.en --target a.qtx --clean clean.en-qtx.tsv"


def test_for_programs(capsys: Capture, corpus: Path) -> None:
    out, err = checked(capsys, "--pairs", corpus / "a.en-qtx.tsv", "--json")
    assert err == ""
    value = json.loads(out)
    kinds = {finding["name"]: finding for finding in value["findings"]}
    path = str(corpus / "a.en-qtx.tsv")
    assert value["files"] == [path] and value["pairs"] == 700 and value["clean"] is None
    assert kinds["duplicate"]["lines"] == {path: [41]}
    assert kinds["control"]["examples"][0]["detail"].startswith("target: U+0000 at character ")
    assert set(kinds) <= set(FAULT_NAMES)
    assert value["runs"][0]["offset"] == -1


def test_cleaning(capsys: Capture, corpus: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean.tsv.gz"
    out, err = checked(capsys, *files(corpus), "--clean", clean, "--keep", "misaligned", "--keep", "swapped")
    rows = list(read_parallel(ParallelFiles(str(clean))))
    assert f"{clean} has {len(rows)} pairs; {700 - len(rows)} were left out, as the table says." in out
    assert 690 <= len(rows) <= 697
    assert err.splitlines()[-1] == f"next: headway train --pairs {clean} --from en --to qtx --out my-model"


def test_nothing_to_say(capsys: Capture, corpus: Path) -> None:
    out, err = checked(capsys, *files(corpus, "fine"), "--strict")
    assert out == "finding\tpairs\tshare\tto leave out\npairs that remain\t20\t1.000000\t0\n\nNothing was found.\n"
    source, target = corpus / "fine.en", corpus / "fine.qtx"
    assert err.splitlines()[-1] == f"next: headway train --source {source} --target {target} --out my-model"


def test_strict_fails_on_findings_that_are_not_kept(capsys: Capture, corpus: Path) -> None:
    table = ["--pairs", corpus / "pairs.tsv", "--from", "en", "--to", "qtx"]
    out, _ = checked(capsys, *table, "--strict", code=1)
    assert "malformed line\t2" in out
    checked(capsys, *files(corpus, "fine"), "--test-source", corpus / "fine.en", "--test-target", corpus / "fine.qtx")
    held = ["--test-source", corpus / "fine.en", "--test-target", corpus / "fine.qtx"]
    checked(capsys, *files(corpus, "fine"), *held, "--strict", code=1)
    checked(capsys, *files(corpus, "fine"), *held, "--strict", "--keep", "test")


def test_held_out_text(capsys: Capture, corpus: Path) -> None:
    held = ["--test-source", corpus / "test.en", "--test-target", corpus / "test.qtx"]
    out, _ = checked(capsys, *files(corpus), *held, "--valid-pairs", corpus / "a.en-qtx.tsv", "--json")
    kinds = {finding["name"]: finding["pairs"] for finding in json.loads(out)["findings"]}
    assert kinds["test"] == 1
    assert kinds["valid"] == 700


def test_columns(capsys: Capture, corpus: Path) -> None:
    out, _ = checked(
        capsys, "--pairs", corpus / "a.en-qtx.tsv", "--columns", "2,1", "--from", "qtx", "--to", "en", "--json"
    )
    value = json.loads(out)
    assert value["languages"] == {"source": "qtx", "target": "en"}
    assert {finding["name"]: finding["pairs"] for finding in value["findings"]}["empty"] == 1


def test_unequal_files_exit_1(capsys: Capture, corpus: Path, tmp_path: Path) -> None:
    lines = (corpus / "a.qtx").read_text().split("\n")
    lines[200:200] = ["Nemi ta paroli.", "Vo."]
    (tmp_path / "b.qtx").write_text("\n".join(lines))
    out, err = checked(capsys, "--source", corpus / "a.en", "--target", tmp_path / "b.qtx", code=1)
    assert out == ""
    assert f"a.en has 700 lines and {tmp_path / 'b.qtx'} has 702: line n of one must be" in err
    assert "The line lengths stop matching at about line " in err
    assert "the target is 2 lines late" in err


def test_what_is_wrong_is_said(capsys: Capture, corpus: Path) -> None:
    for arguments, code, message in [
        ([], 2, "nothing to check: give --source and --target, or --pairs."),
        (["--source", "a.en"], 2, "--source is given 1 times and --target 0 times: give both equally often."),
        (["--pairs", "-"], 1, "standard input (-) cannot be checked, because a corpus is read several times."),
        (["--pairs", "no.tsv"], 1, "there is no file no.tsv."),
        ([*files(corpus), "--keep", "everything"], 2, '--keep: "everything" cannot be kept.'),
        ([*files(corpus), "--max-ratio", "0"], 2, "--max-ratio must be between 1 and 1e+06, not 0.0."),
        (
            [*files(corpus), "--clean", "out.csv"],
            2,
            "--clean out.csv: the file is a table, so its name must end in .tsv",
        ),
        (["--pairs", corpus / "a.en-qtx.tsv", "--clean", corpus / "a.en-qtx.tsv"], 2, "is never overwritten"),
        ([*files(corpus), "--columns", "1"], 2, "--columns: '1' does not name two columns."),
    ]:
        _, err = checked(capsys, *arguments, code=code)
        assert message in err


def test_hostile_text_does_not_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fit_line("a\x1b[31mb\x00c\td ") == "a\\x1b[31mb\\x00c\\td"
    assert fit_line("x" * 100) == "x" * 79 + "…"
    assert fit_line("日本" * 50) == "日本" * 19 + "日…"


def test_shares_in_words() -> None:
    assert [format_share(share) for share in (1, 0.5, 0.0001, 0.00001)] == ["100.00%", " 50.00%", "  0.01%", " <0.01%"]
    assert format_share(0) == "      0"


def test_nothing_remains(capsys: Capture, tmp_path: Path) -> None:
    """Then nothing is said of training; and one pair is not several."""
    (tmp_path / "a.en-de.tsv").write_text("\tein Hund\n")
    clean = tmp_path / "clean.en-de.tsv"
    for flags in ([], ["--clean", clean]):
        out, err = checked(capsys, "--pairs", tmp_path / "a.en-de.tsv", *flags)
        assert "a.en-de.tsv: 1 pair, en and de\n" in err and "next:" not in err
        assert err.endswith("no pair remains to train on: see the examples above\n")
    assert f"{clean} has 0 pairs; 1 was left out, as the table says." in out


def test_several_corpora_are_counted_and_files_named(capsys: Capture, corpus: Path) -> None:
    both = [*files(corpus), "--pairs", corpus / "a.en-qtx.tsv"]
    out, err = checked(capsys, *both, "--examples", "1")
    assert err.startswith("2 corpora: 1,400 pairs, en and qtx\n")
    assert "  line 41 of a.en (same as line 11 of a.en)" in out.splitlines()


def test_runs_in_words() -> None:
    import numpy as np

    corpora = [ParallelFiles("a.en", "a.de"), ParallelFiles("b.tsv")]
    nothing = DuplicatePairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    runs = [
        MisalignedRun(1, 5, 1004, 2),
        MisalignedRun(0, 1, 3),
        *(MisalignedRun(0, n, n + 4, -1) for n in range(10, 50, 10)),
    ]
    report = CheckReport(corpora, [100, 2000], ("en", "de"), np.zeros(2100, np.uint16), nothing, runs)
    assert describe_moved_runs(report, runs) == [
        "  6 runs of moved lines, 1,023 lines in all:",
        "    lines 5-1,004 of b.tsv  the target is 2 lines late",
        "    lines 1-3 of a.en",
        *(f"    lines {n}-{n + 4} of a.en  the target is 1 line early" for n in (10, 20, 30)),
        "    …",
    ]


def test_under_a_terminal_the_table_is_drawn_and_progress_is_wiped_away(corpus: Path) -> None:
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "headway", "check", *map(str, files(corpus)), "--examples", "1"]
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": "80",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    process = subprocess.Popen(command, env=environment, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    seen = b""
    while select.select([outer], [], [], 300)[0]:
        try:
            seen += os.read(outer, 65536)
        except OSError:
            break
    os.close(outer)
    assert process.wait(timeout=300) == 0
    text = seen.decode()
    assert "reading …" in text and "learning …" in text and "checking 700 of 700 pairs" in text
    assert "│ pairs that remain" in text
    shown = [line.rpartition("\x1b[2K")[2] for line in text.replace("\r\n", "\n").split("\n")]
    assert not any("checking" in line for line in shown)
    assert any(line.startswith("next: ") for line in shown)


def test_no_torch_is_needed(corpus: Path) -> None:
    code = "import sys; from headway.cli import main; sys.exit(main(sys.argv[1:]) or 'torch' in sys.modules)"
    command = [sys.executable, "-c", code, "check", *map(str, files(corpus, "fine"))]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    assert subprocess.run(command, env=environment, capture_output=True, timeout=300).returncode == 0


def test_a_random_file_ends_well(capsys: Capture, tmp_path: Path) -> None:
    chance = random.Random(3)
    for name in ("x.tsv", "x.jsonl"):
        (tmp_path / name).write_bytes(chance.randbytes(20_000) + b"\t\n" * 50 + b"\xff\xfe\n")
        out, _ = checked(capsys, "--pairs", tmp_path / name, "--from", "en", "--to", "de")
        assert "not UTF-8" in out


def test_columns_are_for_pairs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("x\n")
    files = ["--source", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.de")]
    assert main(["check", *files, "--columns", "1,2"]) == 2
    assert "error: --columns needs --pairs." in capsys.readouterr().err
