"""headway generate: text that goes on, as it is written."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT

import headway
from headway.cli.app import main
from headway.translate.language_model import LanguageModel

Capture = pytest.CaptureFixture[str]


def generated(capsys: Capture, model: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["generate", "--model", str(model), *arguments]) == code
    return capsys.readouterr()


def test_the_text_is_the_models(capsys: Capture, lm_dir: Path) -> None:
    model = headway.load(lm_dir)
    assert isinstance(model, LanguageModel)
    out, err = generated(capsys, lm_dir, "--max-length", "15", "--seed", "3", "The dog")
    assert out == model("The dog", length=15, seed=3) + "\n"
    assert err == ""
    assert (
        generated(capsys, lm_dir, "--max-length", "15", "-b", "1", "The dog")[0]
        == model("The dog", length=15, beam_size=1) + "\n"
    )
    assert (
        generated(capsys, lm_dir, "--max-length", "15", "-b", "3", "The dog")[0]
        == model("The dog", length=15, beam_size=3) + "\n"
    )


def test_int8(capsys: Capture, lm_dir: Path) -> None:
    out = generated(capsys, lm_dir, "--max-length", "15", "-b", "1", "--compute", "int8", "The dog")[0]
    model = headway.load(lm_dir, compute="int8")
    assert isinstance(model, LanguageModel) and "int8" in repr(model)
    assert out == model("The dog", length=15, beam_size=1) + "\n"
    ids = torch.tensor([model.encode("The dog sees")])
    with torch.no_grad():
        rounded, plain = (network.logits(network.decode(ids)) for network in (model.network, model.model))
    assert not torch.equal(rounded, plain)
    torch.testing.assert_close(rounded, plain, rtol=0, atol=0.1 * float(plain.abs().max()))


def test_drawing(capsys: Capture, lm_dir: Path) -> None:
    tame = generated(capsys, lm_dir, "--max-length", "12", "--top-k", "1", "--seed", "1", "The")[0]
    assert tame == generated(capsys, lm_dir, "--max-length", "12", "--top-p", "0.0001", "--seed", "2", "The")[0]
    wild = {
        generated(capsys, lm_dir, "--max-length", "12", "--temperature", "2", "--seed", str(n), "The")[0]
        for n in range(3)
    }
    assert len(wild) > 1
    assert generated(capsys, lm_dir, "--max-length", "5", "--seed", "1")[0].endswith("\n")  # no prompt
    once = generated(capsys, lm_dir, "--max-length", "12", "-b", "1", "--no-repeat-ngram", "1", "The")[0]
    assert once.startswith("The")


def test_prompts_of_standard_input(capsys: Capture, lm_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is continued by itself, whatever stands before it."""
    settings = ["--max-length", "9", "--seed", "4", "--top-k", "5"]
    prompts = ["The dog", "", "A cat"]
    one_by_one = [generated(capsys, lm_dir, *settings, prompt)[0] for prompt in prompts]
    assert generated(capsys, lm_dir, *settings, *prompts)[0] == "\n".join(one_by_one)
    with io.TextIOWrapper(io.BytesIO("\n".join(prompts).encode() + b"\n"), encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        assert generated(capsys, lm_dir, *settings, "-")[0] == "\n".join(one_by_one)


@pytest.mark.slow  # starts a process of its own
def test_lines_are_answered_while_others_are_awaited_and_interrupted_in_one_line(lm_dir: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headway", "generate", "--model", str(lm_dir), "--max-length", "6", "-b", "1", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes) as process:  # type: ignore[call-overload]
        for prompt in (b"The dog", b"A cat"):
            process.stdin.write(prompt + b"\n")
            process.stdin.flush()
            while not (line := process.stdout.readline()).strip():
                assert process.poll() is None
            assert line.startswith(prompt)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"error: interrupted\n")


def test_what_is_wrong_is_said_and_nothing_is_written(
    capsys: Capture, lm_dir: Path, masked_dir: Path, translator_dir: Path
) -> None:
    for model, arguments, code, message in (
        (
            translator_dir,
            ["x"],
            1,
            f"error: {translator_dir} is a translator. Try: headway translate --model {translator_dir}",
        ),
        (masked_dir, ["x"], 1, "error: this is a masked language model: it cannot continue a text."),
        (lm_dir, ["\udcff"], 1, "error: the character at index 0 is U+DCFF, a lone surrogate"),
        (lm_dir, ["-b", "1", "--temperature", "2", "x"], 2, "error: temperature: 2.0 has no effect without sampling."),
        (lm_dir, ["--max-length", "0", "x"], 2, "error: --max-length: 0 is not in the range x>=1."),
        (lm_dir, ["--top-p", "3", "x"], 2, "error: top_p: 3.0 is out of range"),
        (lm_dir / "none", ["x"], 1, "error: there is no model directory"),
    ):
        out, err = generated(capsys, model, *arguments, code=code)
        assert out == ""
        assert err.startswith(message)
