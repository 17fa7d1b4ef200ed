"""headway translate --file"""

from pathlib import Path

import pytest

from headway.cli.root import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def page(tmp_path: Path, toy: Path) -> Path:
    source = (toy / "train.en").read_text().splitlines()[0]
    (tmp_path / "page.html").write_text(f"<h1>{source}</h1>\n<code>x y</code>\n")
    return tmp_path / "page.html"


def test_a_document_lies_beside_the_old_one(capsys: Capture, translator_dir: Path, page: Path, toy: Path) -> None:
    target = (toy / "train.qtx").read_text().splitlines()[0]
    command = ["translate", "--model", str(translator_dir), "--file", str(page)]
    assert main(command) == 0
    out = (
        page.with_name("page.qtx.html")
        if page.with_name("page.qtx.html").exists()
        else page.with_name("page.translated.html")
    )
    assert out.read_text() == f"<h1>{target}</h1>\n<code>x y</code>\n"
    assert capsys.readouterr() == ("", f"{out}: 1 of 1 segments translated\n")
    assert main(command) == 1
    assert capsys.readouterr().err == f"error: {out} is there already. Remove it, or name another file with --output.\n"
    other = page.with_name("other.htm")
    assert main([*command, "--output", str(other)]) == 0
    assert other.read_text() == out.read_text()


def test_warnings_are_shown(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("dog " * 200)
    assert main(["translate", "-m", str(translator_dir), "--file", str(tmp_path / "a.txt"), "--max-length", "5"]) == 0
    assert 'warning: "dog dog' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--file", "a.html", "text"], "text and --file were both given: choose one."),
        (["--file", "a.html", "--input", "b"], "--input is for lines of text, not for --file."),
        (["--file", "a.html", "--n-best", "2"], "--n-best is for lines of text, not for --file."),
        (["--file", "a.html", "--json"], "--json is for lines of text, not for --file."),
        (
            ["--file", "a.html", "--from", "auto"],
            "--from auto is for lines of text, not for --file: name its language.",
        ),
        (["--file", "a.html", "--output", "./a.html"], "--output is the file of --file: name another."),
        (["--file", "a.docx", "--output", "b.pdf"], "--output: b.pdf must end in .docx, as a.docx does."),
    ],
)
def test_wrong_usage(capsys: Capture, arguments: list[str], told: str) -> None:
    assert main(["translate", "--model", "m", *arguments]) == 2
    assert capsys.readouterr().err == f"error: {told}\nhelp: headway translate --help\n"


def test_unknown_types_are_refused_before_a_model_is_loaded(capsys: Capture) -> None:
    assert main(["translate", "--model", "m", "--file", "a.pdf"]) == 1
    known = ".txt, .html, .htm, .srt, .po, .docx, .odt"
    assert capsys.readouterr().err == f"error: a.pdf: .pdf files are not known here. Known: {known}.\n"
