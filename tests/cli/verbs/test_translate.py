"""headway translate: a line in, a line out. C02 to C05, C08 and C09 of the terminal checks."""

import io
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headway
from headway.cli.app import main
from headway.translate.translator import Translator

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]
Runner = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def pairs(toy: Path) -> list[tuple[str, str]]:
    return list(zip((toy / "train.en").read_text().splitlines(), (toy / "train.qtx").read_text().splitlines()))


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    def give(text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def translated(capsys: Capture, model: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["translate", "--model", str(model), *arguments]) == code
    return capsys.readouterr()


# ---- where text comes from and goes to


def test_arguments(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    out, err = translated(capsys, translator_dir, pairs[0][0], "", pairs[1][0])
    assert out == f"{pairs[0][1]}\n\n{pairs[1][1]}\n"
    assert err == ""


def test_c02_standard_input(
    capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]], stdin: Callable[[str], None]
) -> None:
    """A blank line stays blank, and a last line without its end counts."""
    for arguments in ([], ["-"], ["--input", "-"]):
        stdin(f"{pairs[0][0]}\n\n{pairs[1][0]}")
        assert translated(capsys, translator_dir, *arguments) == (f"{pairs[0][1]}\n\n{pairs[1][1]}\n", "")
    stdin("")
    assert translated(capsys, translator_dir) == ("", "")


def test_files(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{pairs[0][0]}\r\n \n{pairs[1][0]}\n")
    out, _ = translated(capsys, translator_dir, "--input", str(tmp_path / "in.txt"))
    assert out == f"{pairs[0][1]}\n \n{pairs[1][1]}\n"
    nothing, _ = translated(
        capsys, translator_dir, "-i", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")
    )
    assert nothing == ""
    assert (tmp_path / "out.txt").read_bytes().decode() == out


def test_c03_a_thousand_lines_in_a_thousand_out(
    capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    """In order, and the same text for any batch size."""
    lines = [pairs[n % 7][0] if n % 5 else "" for n in range(1000)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    outputs = [
        translated(capsys, translator_dir, "-i", str(tmp_path / "in.txt"), "-b", "1", "--batch-tokens", size)[0]
        for size in ("300", "20000")
    ]
    assert outputs[0] == outputs[1]
    found = outputs[0].split("\n")[:-1]
    assert len(found) == 1000
    known = dict(zip(lines, found))
    assert found == [known[line] for line in lines]
    assert known[""] == ""
    assert len(set(known.values())) == 8


def test_c04_each_answer_comes_before_the_next_question(translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    command = [sys.executable, "-m", "headway", "translate", "--model", str(translator_dir)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        for source, target in pairs[:3]:
            process.stdin.write(source + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], 300)
            assert ready, "no answer: a deadlock"
            assert process.stdout.readline() == target + "\n"
        process.stdin.close()
        assert process.wait(timeout=300) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_c05_a_reader_that_leaves_early_is_no_error(translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    """As with `| head -1`. Input stays open meanwhile: a thread that waits there must not delay the end."""
    command = [sys.executable, "-m", "headway", "translate", "--model", str(translator_dir)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        process.stdin.write(pairs[0][0] + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == pairs[0][1] + "\n"
        process.stdout.close()
        process.stdin.write(pairs[1][0] + "\n")
        process.stdin.flush()
        assert process.wait(timeout=300) == 128 + signal.SIGPIPE
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stderr.close()


def test_c05_only_translations_on_stdout(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    out, err = translated(capsys, translator_dir, pairs[0][0], "--max-length", "2")
    assert err == "warning: line 1: the output was cut at 2 tokens\n"
    assert len(out.splitlines()) == 1
    assert "warning" not in out


def test_one_warning_for_many_of_a_line(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    line = " ".join(source for source, _ in pairs[:3])
    err = translated(capsys, translator_dir, line, "--max-length", "2")[1]
    assert err == "warning: line 1: the output was cut at 2 tokens (3 times)\n"


def test_c09_interrupted(translator_dir: Path) -> None:
    command = [sys.executable, "-m", "headway", "translate", "--model", str(translator_dir)]
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout and process.stderr
    try:
        told = process.stderr.readline()  # what to type
        assert told == b"type text to translate, one line at a time; end with Ctrl-D\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130
        assert process.stderr.read() == b"error: interrupted\n"
    finally:
        process.kill()
        process.wait()
        os.close(leader)
        os.close(follower)
        process.stdout.close()
        process.stderr.close()


def test_lines_that_wait_are_taken_together() -> None:
    from headway.cli.input_lines import LINES_PER_GROUP, group_available

    groups = list(group_available(iter([f"line {n}" for n in range(3 * LINES_PER_GROUP)])))
    assert [line for group in groups for line in group] == [f"line {n}" for n in range(3 * LINES_PER_GROUP)]
    assert max(map(len, groups)) <= LINES_PER_GROUP


def test_groups_of_a_file_are_full_and_grow() -> None:
    from headway.cli.input_lines import LINES_PER_GROUP, fill_groups

    lines = [f"line {n}" for n in range(9 * LINES_PER_GROUP + 7)]
    groups = list(fill_groups(iter(lines), 3 * LINES_PER_GROUP))
    assert [line for group in groups for line in group] == lines
    assert [len(group) for group in groups] == [
        LINES_PER_GROUP,
        2 * LINES_PER_GROUP,
        3 * LINES_PER_GROUP,
        3 * LINES_PER_GROUP,
        7,
    ]
    assert list(fill_groups(iter(lines[:LINES_PER_GROUP]), LINES_PER_GROUP)) == [lines[:LINES_PER_GROUP]]
    assert list(fill_groups([], LINES_PER_GROUP)) == []


def test_what_stands_before_a_damaged_line_of_a_file_is_taken() -> None:
    from headway.cli.input_lines import fill_groups

    def damaged() -> Iterator[str]:
        yield from ("first", "second")
        raise OSError("the file ends here")

    groups = fill_groups(damaged(), 512)
    assert next(groups) == ["first", "second"]
    with pytest.raises(OSError, match="ends here"):
        next(groups)


@pytest.mark.parametrize("most", [2, 3, 16_384])
def test_the_size_of_groups_changes_nothing(
    capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]], tmp_path: Path, most: int,
    monkeypatch: pytest.MonkeyPatch, stdin: Callable[[str], None],
) -> None:  # fmt: skip
    """Though lines are sorted by length within them. Standard input that is a file is one, too."""
    import headway.cli.input_lines as gathering
    import headway.cli.verbs.translate as verb

    text = "".join(f"{source}\n" for source, _ in pairs[:20])
    (tmp_path / "in.txt").write_text(text)
    stdin(text)
    expected, _ = translated(capsys, translator_dir)
    monkeypatch.setattr(gathering, "LINES_PER_GROUP", 2)
    monkeypatch.setattr(verb, "LINES_PER_FILE_GROUP", {"cpu": most})
    assert translated(capsys, translator_dir, "--input", str(tmp_path / "in.txt"))[0] == expected
    with (tmp_path / "in.txt").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert verb.is_regular_file("-")
        assert translated(capsys, translator_dir)[0] == expected


def test_a_line_that_waits_alone_is_taken_alone() -> None:
    from headway.cli.input_lines import group_available

    taken = threading.Event()

    def slowly() -> Iterator[str]:
        yield "first"
        taken.wait(timeout=300)
        yield "second"

    groups = group_available(slowly())
    assert next(groups) == ["first"]
    taken.set()
    assert list(groups) == [["second"]]


# ---- what is shown


def test_n_best(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    out, _ = translated(capsys, translator_dir, "--n-best", "3", pairs[0][0], "", pairs[1][0])
    rows = [line.split(" ||| ") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "0", "1", "2", "2", "2"]
    assert rows[0][1] == pairs[0][1]
    assert rows[3][1:] == ["", "0.0000"]
    scores = [float(row[2]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    assert all(len(row[2].partition(".")[2]) == 4 for row in rows)


def test_n_best_wider_than_the_beam(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    assert len(translated(capsys, translator_dir, "--n-best", "6", pairs[0][0])[0].splitlines()) == 6
    _, err = translated(capsys, translator_dir, "--n-best", "3", "-b", "2", "x", code=2)
    assert "n_best: 3 is more than beam_size = 2" in err


def test_scores(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    translator = headway.load(translator_dir)
    assert isinstance(translator, Translator)
    score, text = translated(capsys, translator_dir, "--scores", pairs[0][0])[0].rstrip("\n").split("\t")
    assert text == pairs[0][1]
    assert float(score) == pytest.approx(translator.translate([pairs[0][0]])[0].score, abs=1e-4)


def test_c08_json(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    out, _ = translated(capsys, translator_dir, "--json", pairs[0][0], "", "ü\u2028\x00 dog", "--max-length", "30")
    first, blank, odd = (json.loads(line) for line in out.split("\n")[:-1])
    assert first.keys() == {"source", "text", "score", "logp", "tokens", "token_logps", "warnings"}
    assert (first["source"], first["text"]) == pairs[0]
    assert "".join(first["tokens"]).strip() == first["text"]
    assert len(first["token_logps"]) == len(first["tokens"]) + 1
    assert first["warnings"] == []
    assert (blank["text"], blank["score"], blank["tokens"]) == ("", 0.0, [])
    assert odd["source"] == "ü\u2028\x00 dog"


def test_json_with_n_best_and_warnings(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    out, err = translated(capsys, translator_dir, "--json", "--n-best", "2", "--max-length", "3", pairs[0][0])
    found = json.loads(out)
    assert found["n_best"][0]["text"] == found["text"]
    assert len(found["n_best"]) == 2
    assert found["warnings"] == ["the output was cut at 3 tokens"]
    assert "line 1: the output was cut at 3 tokens" in err


def test_splitting(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    line = f"{pairs[0][0]}  {pairs[1][0]}"
    assert translated(capsys, translator_dir, line)[0] == f"{pairs[0][1]}  {pairs[1][1]}\n"
    assert translated(capsys, translator_dir, line, "--no-split")[0] != f"{pairs[0][1]}  {pairs[1][1]}\n"


def test_a_separator_inside_a_line_stays_inside(
    capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]], stdin: Callable[[str], None]
) -> None:
    stdin(f"{pairs[0][0]}\u2028{pairs[1][0]}\n{pairs[2][0]}\n")
    out, _ = translated(capsys, translator_dir)
    assert out.split("\n") == [f"{pairs[0][1]}\u2028{pairs[1][1]}", pairs[2][1], ""]


def test_a_line_break_in_an_argument_does_not_shift_lines(
    capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]
) -> None:
    out, _ = translated(capsys, translator_dir, f"{pairs[0][0]}\n{pairs[1][0]}", pairs[2][0])
    assert out == f"{pairs[0][1]} {pairs[1][1]}\n{pairs[2][1]}\n"


def test_a_single_text_keeps_its_lines(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    text = "\n\n".join(source for source, _ in pairs[:2])
    assert translated(capsys, translator_dir, text)[0] == f"{pairs[0][1]}\n\n{pairs[1][1]}\n"
    assert translated(capsys, translator_dir, "--scores", text)[0].count("\n") == 1


def test_nuls_go_through(capsys: Capture, translator_dir: Path, stdin: Callable[[bytes], None]) -> None:
    stdin(b"a\0b\n\0\nA dog.\n")
    out, _ = translated(capsys, translator_dir, "--max-length", "20")
    assert out.count("\n") == 3


def test_the_output_is_utf8_whatever_the_locale(run_headway: Runner, translator_dir: Path) -> None:
    done = run_headway(
        "translate", "--model", str(translator_dir), "--json", "Ünïcödé →", "--max-length", "5",
        env={"PYTHONIOENCODING": "ascii"}, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"] == "Ünïcödé →"


# ---- search


def test_search_options(capsys: Capture, translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    source, target = pairs[0]
    plain = f"{target}\n"
    assert translated(capsys, translator_dir, "-b", "1", source)[0] == plain
    assert translated(capsys, translator_dir, "--length-penalty", "1", "--penalty", "power", source)[0] == plain
    forced, _ = translated(capsys, translator_dir, "--prefix", "Kiu", source)
    assert forced.startswith("Kiu")
    sampled = [
        translated(capsys, translator_dir, "--sample", "--top-k", "1", "--seed", str(n), source)[0] for n in (1, 2)
    ]
    assert sampled == [translated(capsys, translator_dir, "-b", "1", source)[0]] * 2
    drawn = [
        translated(capsys, translator_dir, "--sample", "--temperature", "3", "--seed", seed, source)[0]
        for seed in "112"
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    strict, _ = translated(capsys, translator_dir, "--no-repeat-ngram", "1", "the the the the the the")
    assert strict.strip()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-b", "0"], "error: beam_size: 0 is out of range: it must be at least 1 and at most 10000."),
        (["--temperature", "0.5"], "error: temperature: 0.5 has no effect without sampling."),
        (["--sample", "-b", "3"], "error: beam_size: sampling has no beam, and this is 3."),
        (["--penalty", "google"], "error: --penalty: 'google' is not one of 'paper', 'power', 'none'."),
        (["--n-best", "0"], "error: --n-best: 0 is not in the range x>=1."),
        (["--batch-tokens", "0"], "error: --batch-tokens: 0 is not in the range x>=1."),
        (["--beem-size", "1"], 'error: there is no option --beem-size. Did you mean "--beam-size"?'),
        (["--device", "gpu"], 'error: "gpu" is not a device. Choose auto, cpu, cuda or cuda:0, cuda:1 …'),
    ],
)
def test_c09_wrong_usage(capsys: Capture, translator_dir: Path, arguments: list[str], message: str) -> None:
    out, err = translated(capsys, translator_dir, *arguments, "A dog.", code=2)
    assert out == ""
    assert err.startswith(message)


def test_text_and_a_file_are_too_much(capsys: Capture, translator_dir: Path) -> None:
    _, err = translated(capsys, translator_dir, "--input", "x", "A dog.", code=2)
    assert "text and --input were both given: choose one." in err


def test_the_input_is_not_written_over(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A dog.\n")
    _, err = translated(
        capsys, translator_dir, "-i", str(tmp_path / "a.txt"), "--output", f"{tmp_path}/./a.txt", code=2
    )
    assert "--out is the input file: choose another file." in err
    assert (tmp_path / "a.txt").read_text() == "A dog.\n"


def test_standard_input_may_be_closed(capsys: Capture, translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed: give text or --input FILE." in translated(capsys, translator_dir, code=2)[1]
    assert translated(capsys, translator_dir, "A dog.")[0].strip()


def test_standard_output_may_be_closed(
    capsys: Capture, translator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    told = "error: standard output is closed: open it, or give a file with --out.\n"
    assert translated(capsys, translator_dir, "A dog.", code=1)[1] == told
    translated(capsys, translator_dir, "A dog.", "--output", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text().strip()


# ---- models


def test_c09_no_model(capsys: Capture, tmp_path: Path) -> None:
    _, err = translated(capsys, tmp_path / "none", "A dog.", code=1)
    assert (
        err == f"error: there is no model directory {tmp_path}/none. Train one: headway train … --out {tmp_path}/none\n"
    )


def test_c09_no_model_at_all(capsys: Capture, shelf: object) -> None:
    assert main(["translate", "A dog."]) == 1
    assert capsys.readouterr().err == (
        "error: no installed model translates from en to de. No model is installed. Name a model directory with "
        "--model, or train one: headway train --source train.en --target train.de --out en-de; then: headway models "
        "add en-de\n"
    )


def test_damaged_models(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(translator_dir, tmp_path / "copy", ignore=shutil.ignore_patterns("checkpoints")))
    (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:1000])
    _, err = translated(capsys, copy, "A dog.", code=1)
    assert "model.safetensors is damaged or not a safetensors file. Copy it again." in err
    (copy / "model.safetensors").unlink()
    message = "has no model.safetensors: its training has not saved a model yet"
    assert message in translated(capsys, copy, "A dog.", code=1)[1]
    (copy / "config.json").write_text("{}x")
    assert "config.json is damaged: line 1 is not JSON" in translated(capsys, copy, "A dog.", code=1)[1]


def test_a_language_model_does_not_translate(capsys: Capture, lm_dir: Path) -> None:
    _, err = translated(capsys, lm_dir, "A dog.", code=1)
    assert (
        err == f"error: {lm_dir} is a language model and does not translate. Try: headway generate --model {lm_dir}\n"
    )


def test_an_ensemble(
    capsys: Capture, translator_dir: Path, other_translator_dir: Path, pairs: list[tuple[str, str]]
) -> None:
    out, _ = translated(capsys, translator_dir, "--model", str(other_translator_dir), pairs[0][0])
    assert len(out.splitlines()) == 1
    out, _ = translated(capsys, translator_dir, "--model", str(translator_dir), pairs[0][0])
    assert out == f"{pairs[0][1]}\n"


def test_a_lone_surrogate_is_refused_by_name(capsys: Capture, translator_dir: Path) -> None:
    _, err = translated(capsys, translator_dir, "A \udcff dog", code=1)
    assert "the character at index 2 is U+DCFF, a lone surrogate" in err


def test_bytes_that_are_not_utf8_are_refused_with_their_place(
    capsys: Capture, translator_dir: Path, stdin: Callable[[bytes], None]
) -> None:
    stdin(b"A dog.\n\xff\n")
    assert "standard input, line 2: byte 0xff at offset 7 is not UTF-8" in translated(capsys, translator_dir, code=1)[1]


def test_an_unknown_language(capsys: Capture, translator_dir: Path, stdin: Callable[[str], None]) -> None:
    stdin("never read")
    _, err = translated(capsys, translator_dir, "--to", "de", code=1)
    assert err == 'error: this model does not translate to "de". It knows: qtx.\n'
