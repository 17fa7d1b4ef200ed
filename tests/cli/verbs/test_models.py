"""headway models, and models called by their names everywhere."""

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from installing_models import OBEDIENT, OFFLINE, Shelf, make_model, read_only

from headway.cli.app import main

Capture = pytest.CaptureFixture[str]
Runner = Callable[..., "subprocess.CompletedProcess[str]"]
CARD = """---
license: apache-2.0
scores:
  newstest2015 en-de: 24.1 BLEU
  newstest2015 de-en: 27.3 BLEU
---
# A translator
"""


def ran(capsys: Capture, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main([str(argument) for argument in arguments]) == code
    return capsys.readouterr()


# ---- the verb


def test_nothing_is_installed(capsys: Capture, shelf: Shelf) -> None:
    out, err = ran(capsys, "models")
    assert out == "name\tdirections\tsize\tlicence\tscores\twhere\n"
    assert err == "no models installed. Train one, then: headway models add DIR\n"
    assert ran(capsys, "models", "--json")[0] == ""


def test_a_list(capsys: Capture, shelf: Shelf) -> None:
    shelf.add("en-de", "en de", "de en", bundled=True, card=CARD)
    shelf.add("mine", "en", "fr")
    shelf.add("nameless", "", "")
    (shelf.own / "later").mkdir()
    (shelf.own / "later" / "config.json").write_text('{"format_version": 99}')
    out, err = ran(capsys, "models")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[:2] for row in rows[1:]] == [
        ["en-de", "en ↔ de"],
        ["mine", "en → fr"],
        ["nameless", "languages unknown"],
    ]
    assert rows[1][3:5] == ["apache-2.0", "newstest2015 en-de: 24.1 BLEU; newstest2015 de-en: 27.3 BLEU"]
    assert rows[2][3:] == ["licence unknown", "", str(shelf.own / "mine")]
    assert err == f"warning: {shelf.own}/later is not a model that this version can read\n"
    first, *_ = [json.loads(line) for line in ran(capsys, "models", "--json")[0].splitlines()]
    assert first == {
        "name": "en-de",
        "objective": "translation",
        "directions": [["en", "de"], ["de", "en"]],
        "source_languages": ["en", "de"],
        "target_languages": ["de", "en"],
        "bytes": sum(file.stat().st_size for file in (shelf.bundled / "en-de").iterdir()),
        "licence": "apache-2.0",
        "scores": {"newstest2015 en-de": "24.1 BLEU", "newstest2015 de-en": "27.3 BLEU"},
        "bundled": True,
        "folder": str(shelf.bundled / "en-de"),
    }


def test_two_hundred_languages_do_not_flood_the_terminal(capsys: Capture, shelf: Shelf, tmp_path: Path) -> None:
    many = [f"q{a}{b}" for a in "abcdefghijklmn" for b in "abcdefghijklmn"]
    bundled = shelf.add("en-de", "en de", "de en", bundled=True)
    model = make_model(tmp_path / "nllb", [*many, "en", "de"], [*many, "en", "de"])
    start = time.monotonic()
    _, err = ran(capsys, "models", "add", model)
    assert "it has 39,006 directions, and translates those of no other model without --model\n" in err
    assert "de ↔ en without --model is translated by en-de, as before" in err
    out, _ = ran(capsys, "models")
    assert "between qaa, qab, " in out and "(198 in all)" in out and len(out) < 2000
    row = [json.loads(line) for line in ran(capsys, "models", "--json")[0].splitlines()][1]
    assert row["directions"] is None and len(row["target_languages"]) == 198
    assert ran(capsys, "-v", "translate", "--from", "qaa", "--to", "qab", "x")[1].startswith(
        f"model {shelf.own}/nllb\n"
    )
    assert f"model {bundled}\n" in ran(capsys, "-v", "translate", "x")[1]
    ran(capsys, "models", "default", "nllb")
    assert f"model {shelf.own}/nllb\n" in ran(capsys, "-v", "translate", "x")[1]
    assert (shelf.own / "defaults.json").read_text() == '{\n  "*": "nllb"\n}\n'
    ran(capsys, "models", "default", "en-de")
    assert f"model {bundled}\n" in ran(capsys, "-v", "translate", "x")[1]
    ran(capsys, "models", "default", "nllb")  # takes en-de over again
    assert json.loads((shelf.own / "defaults.json").read_text()) == {"*": "nllb"}
    assert time.monotonic() - start < 20
    assert main(["translate", "--from", "qaa", "x"]) == 2
    err = capsys.readouterr().err
    assert "choose one with --to" in err and len(err) < 1000


def test_a_list_on_a_terminal_fits_80_columns(shelf: Shelf) -> None:
    many = "".join(f"  test set number {n}: 24.{n} BLEU, 55.{n} chrF\n" for n in range(9))
    shelf.add("mine", "en", "fr", card=f"---\nlicense: apache-2.0\nscores:\n{many}---\n")
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "headway", "models"]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment):
        os.close(slave)
        text = b""
        try:
            while data := os.read(master, 65536):
                text += data
        except OSError:  # the other end has been closed
            pass
    os.close(master)
    lines = text.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[lines.index("mine") + 1].startswith("  en → fr, 0.1 MB, apache-2.0,")


def test_added_and_removed(capsys: Capture, shelf: Shelf, tmp_path: Path) -> None:
    model = make_model(tmp_path / "my-model", ["en"], ["de"])
    (model / "checkpoints").mkdir()
    _, err = ran(capsys, "models", "add", model, "--name", "mine")
    assert err == (
        f'copied to {shelf.own}/mine\nnext: headway translate --model mine "…"\n'
        "en → de without --model is translated by mine\n"
    )
    assert {file.name for file in (shelf.own / "mine").iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "README.md",
    }  # fmt: skip
    shutil.rmtree(model)
    assert ran(capsys, "translate", "--model", "mine", "A dog.")[0].endswith("\n")
    assert ran(capsys, "models", "remove", "mine")[1] == f"removed {shelf.own}/mine\n"
    assert list(shelf.own.iterdir()) == []


def test_what_is_added_takes_nothing_over(capsys: Capture, shelf: Shelf, tmp_path: Path) -> None:
    """Another model for a direction is used where it is named, or made the default."""
    bundled = shelf.add("en-de", "en de", "de en", bundled=True)
    model = make_model(tmp_path / "medical", ["en"], ["de"])
    told = ran(capsys, "models", "add", model)[1].splitlines()
    change = "to change that: headway models default medical"
    assert told[-1] == f"en → de without --model is translated by en-de, as before; {change}"
    assert f"model {bundled}\n" in ran(capsys, "-v", "translate", "A dog.")[1]
    told = ran(capsys, "models", "default", "medical")[1].splitlines()
    assert told == ["en → de without --model is translated by medical"]
    assert f"model {shelf.own}/medical\n" in ran(capsys, "-v", "translate", "A dog.")[1]
    assert f"model {bundled}\n" in ran(capsys, "-v", "translate", "--to", "en", "Ein Hund.")[1]
    ran(capsys, "models", "default", "en-de")
    assert f"model {bundled}\n" in ran(capsys, "-v", "translate", "A dog.")[1]
    ran(capsys, "models", "remove", "medical")
    assert ran(capsys, "models", "add", model, "--name", "en-de", code=1)[1] == (
        'error: "en-de" is the name of a bundled model, which yours would hide. Choose another --name, or say '
        "--default if yours is to be used in its place.\n"
    )
    ran(capsys, "models", "add", model, "--name", "en-de", "--default")
    assert f"model {shelf.own}/en-de\n" in ran(capsys, "-v", "translate", "A dog.")[1]


def test_a_language_model_is_added_by_its_own_name(capsys: Capture, shelf: Shelf, lm_dir: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(lm_dir, tmp_path / "my-lm"))
    assert "next: headway generate --model my-lm" in ran(capsys, "models", "add", copy)[1]
    assert ran(capsys, "models")[0].splitlines()[1].startswith("my-lm\tlanguage model\t")
    shutil.rmtree(copy)
    assert ran(capsys, "generate", "--model", "my-lm", "--max-length", "3", "The")[0].startswith("The")


def test_what_cannot_be_added(capsys: Capture, shelf: Shelf, tmp_path: Path) -> None:
    model = make_model(tmp_path / "my-model", ["en"], ["de"])
    ran(capsys, "models", "add", model)
    assert ran(capsys, "models", "add", model, code=1)[1] == (
        f'error: a model named "my-model" is installed already: {shelf.own}/my-model. Choose another --name, or '
        "remove it first: headway models remove my-model\n"
    )
    for name in ("../up", ".hidden", "a b", "-"):
        assert "is not a valid model name" in ran(capsys, "models", "add", model, f"--name={name}", code=2)[1]
    (model / "tokenizer.json").unlink()
    assert (
        "my-model is not a complete model directory: it has no tokenizer.json.\n"
        in ran(capsys, "models", "add", model, "--name", "x", code=1)[1]
    )
    (model / "tokenizer.json").touch()
    (model / "config.json").write_text("{}")
    assert (
        "config.json cannot be read by this version of Headway. Copy it again.\n"
        in ran(capsys, "models", "add", model, "--name", "x", code=1)[1]
    )


def test_a_folder_that_cannot_be_written(
    capsys: Capture, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(tmp_path / "my-model", ["en"], ["de"])
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADWAY_MODELS", str(tmp_path / "file"))
    assert (
        "my-model cannot be written: Not a directory. Free some space, or set the environment variable"
        in ran(capsys, "models", "add", model, code=1)[1]
    )


@pytest.mark.parametrize("verb", ["shortlist", "calibrate"])
def test_nothing_is_written_to_the_package(capsys: Capture, shelf: Shelf, tmp_path: Path, verb: str) -> None:
    folder = shelf.add("en-de", "en", "de", bundled=True)
    before = state(folder)
    (tmp_path / "a").write_text("a b\n" * 200)
    _, err = ran(capsys, verb, "--model", "en-de", "-s", tmp_path / "a", "-t", tmp_path / "a", code=1)
    assert err == (
        'error: "en-de" is a bundled model, which is never changed. Make a copy of your own, which is then found '
        f"first: headway models add {folder} --default\n"
    )
    assert state(folder) == before


def test_what_cannot_be_removed(capsys: Capture, shelf: Shelf, tmp_path: Path) -> None:
    shelf.add("en-de", "en", "de", bundled=True)
    training = shelf.add("training", "en", "de")
    (training / "checkpoints").mkdir()
    assert ran(capsys, "models", "remove", "en-de", code=1)[1] == (
        f"error: en-de is a bundled model and cannot be removed. Your own models are in {shelf.own}.\n"
    )
    assert ran(capsys, "models", "remove", "mine", code=1)[1] == (
        f'error: you have no model "mine" in {shelf.own}. Installed: training (en → de).\n'
    )
    assert "you have no model" in ran(capsys, "models", "remove", "..", code=1)[1]
    assert (
        "training has checkpoints, which may be the only copy of a training run."
        in ran(capsys, "models", "remove", "training", code=1)[1]
    )
    elsewhere = make_model(tmp_path / "elsewhere", ["en"], ["de"])
    (shelf.own / "linked").symlink_to(elsewhere)
    ran(capsys, "models", "remove", "linked")
    assert (elsewhere / "config.json").exists() and not (shelf.own / "linked").is_symlink()


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["remove"],
        ["--name", "x"],
        ["remove", "x", "--name", "y"],
        ["add", "x", "--json"],
        ["default"],
        ["default", "x", "--default"],
    ],
)
def test_wrong_usage(capsys: Capture, words: list[str]) -> None:
    assert (
        "use headway models, headway models add DIR [--name NAME] [--default], headway"
        in ran(capsys, "models", *words, code=2)[1]
    )


# ---- every verb that takes a model takes its name, or finds one


@pytest.fixture
def both(shelf: Shelf) -> Path:
    return shelf.add("small", "en de", "de en", bundled=True)


def test_translate(capsys: Capture, both: Path) -> None:
    text = "Guten Tag, liebe Freunde."
    there, _ = ran(capsys, "translate", "--scores", "--model", both, "--to", "de", text)
    back, _ = ran(capsys, "translate", "--scores", "--model", both, "--to", "en", text)
    assert there != back
    for words in ([], ["--model", "small", "--to", "de"], ["--model", "en-de"], ["--from", "en", "--to", "de"]):
        assert ran(capsys, "translate", "--scores", *words, text)[0] == there
    for words in (["--model", "small", "--to", "en"], ["--model", "de-en"], ["--from", "de"], ["--to", "en"]):
        assert ran(capsys, "translate", "--scores", *words, text)[0] == back
    assert f"model {both}\n" in ran(capsys, "-v", "translate", text)[1]
    assert (
        'small does not translate from "fr". Its source languages: en, de.'
        in ran(capsys, "translate", "--model", "small", "--from", "fr", text, code=1)[1]
    )
    assert (
        "no installed model translates from fr to de. Installed: small (en ↔ de)."
        in ran(capsys, "translate", "--from", "fr", "--to", "de", text, code=1)[1]
    )


def test_other_verbs(capsys: Capture, both: Path, tmp_path: Path) -> None:
    for name, text in (("a.en", "A dog.\n"), ("a.de", "Ein Hund.\n")):
        (tmp_path / name).write_text(text)
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    scored, _ = ran(capsys, "score", "--model", both, "--to", "de", "A dog.", "Ein Hund.")
    for words in ([], ["--model", "en-de"], ["--from", "en"], ["--to", "de"]):
        assert ran(capsys, "score", *words, "A dog.", "Ein Hund.")[0] == scored
        assert "BLEU" in ran(capsys, "evaluate", *words, "-s", source, "-t", target)[0]
        assert ran(capsys, "attend", *words, "A dog.", "--numbers")[0]
        assert ran(capsys, "trace", *words, "A dog.", "--out", tmp_path / "traced")[0]
    compared, _ = ran(capsys, "evaluate", "--compare", "small", "--to", "de", "-s", source, "-t", target)
    assert "\nsmall\t" in compared
    for words in (["--model", "en-de"], ["--from", "en", "--to", "de"]):
        assert "-" in ran(capsys, "align", *words, "A dog.", "Ein Hund.")[0]
        assert ran(capsys, "augment", *words, "--text", source, "--out", tmp_path / "x.de-en.tsv", "--overwrite")
    assert (
        "says that en comes first, but de does: the machine writes the source"
        in ran(capsys, "augment", "--model", "en-de", "--text", source, "--out", tmp_path / "x.en-de.tsv", code=2)[1]
    )
    ran(capsys, "pack", "small", "--out", tmp_path / "packed", "--int8")
    ran(capsys, "average", "--model", "small", "--model", "en-de", "--out", tmp_path / "mean")
    assert "is not a complete" not in ran(capsys, "models", "add", tmp_path / "packed", "--name", "packed")[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["score", "--from", "auto", "a", "b"], "--from: auto is only for headway translate: name the language."),
        (["evaluate", "--text", "x"], "--text needs a language model: give --model."),
        (["augment", "--text", "x"], "name the model: --model, or --from and --to."),
    ],
)
def test_said_before_anything_is_loaded(capsys: Capture, shelf: Shelf, words: list[str], told: str) -> None:
    assert told in ran(capsys, *words, code=2)[1]


# ---- --from auto

LINES = [
    "The weather is nice today, so we went for a walk.",
    "Das Wetter ist heute schön, also gingen wir spazieren.",
    "Aamulla satamasta lähteneet laivat palaavat ennen pimeää.",
    "",
]


def test_each_line_from_its_own_language(capsys: Capture, shelf: Shelf, tmp_path: Path) -> None:
    shelf.add("en-de", "en", "de", bundled=True)
    (tmp_path / "mixed.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    alone, _ = ran(capsys, "translate", LINES[0])
    for given in (LINES, ["--input", tmp_path / "mixed.txt"]):
        out, err = ran(capsys, "translate", "--from", "auto", *given)
        assert out == f"{alone}{LINES[1]}\n{LINES[2]}\n\n"
        assert err.splitlines()[-2:] == [
            "line 2: already in de: left as it is",
            "warning: line 3: seems to be in fi, which no model here translates: left as it is",
        ]
    out, _ = ran(capsys, "translate", "--from", "auto", "--json", "--model", "en-de", *LINES)
    found = [json.loads(line) for line in out.splitlines()]
    assert [one.get("from") for one in found] == ["en", "de", "fi", None]
    assert found[1]["text"] == LINES[1] and found[1]["tokens"] == []
    assert found[1]["warnings"] == ["already in de: left as it is"]
    out, _ = ran(capsys, "translate", "--from", "auto", "--n-best", "1", LINES[1])
    assert out == f"0 ||| {LINES[1]} ||| 0.0000\n"


def test_what_is_drawn_does_not_depend_on_other_languages(capsys: Capture, shelf: Shelf) -> None:
    shelf.add("en-de", "en", "de", bundled=True)
    drawn = ["translate", "--sample", "--seed", "3", "--max-length", "20"]
    alone = ran(capsys, *drawn, LINES[0], "", LINES[0])[0].splitlines()
    mixed = ran(capsys, *drawn, "--from", "auto", LINES[0], LINES[1], LINES[0])[0].splitlines()
    assert [mixed[0], mixed[2]] == [alone[0], alone[2]]


# ---- offline, anywhere, and without leave to write


def state(folder: Path) -> dict[Path, Any]:
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("words", [[], ["--from", "auto"], ["--engine", "torch", "--compute", "int8"]])
def test_without_sockets_and_without_writing(shelf: Shelf, tmp_path: Path, words: list[str]) -> None:
    """In a folder that holds something else, with a model that must not be written to."""
    shelf.add("en-de", "en", "de")
    (tmp_path / "en-de").mkdir()
    before = state(shelf.own)
    command = [*OBEDIENT, sys.executable, "-c", OFFLINE, "translate", *words, LINES[0]]
    with read_only(shelf.own):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n")
    assert state(shelf.own) == before
    assert list((tmp_path / "en-de").iterdir()) == []
