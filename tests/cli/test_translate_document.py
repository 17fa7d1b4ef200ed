"""headway translate --document"""

from pathlib import Path

import pytest

from headway.cli.app import main
from headway.cli.translate_document import default_output_path

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def page(tmp_path: Path, toy: Path) -> Path:
    source = (toy / "train.en").read_text().splitlines()[0]
    (tmp_path / "page.html").write_text(f"<h1>{source}</h1>\n<code>x y</code>\n")
    return tmp_path / "page.html"


def test_a_document_lies_beside_the_old_one(capsys: Capture, translator_dir: Path, page: Path, toy: Path) -> None:
    target = (toy / "train.qtx").read_text().splitlines()[0]
    command = ["translate", "--model", str(translator_dir), "--document", str(page)]
    assert main(command) == 0
    out = (
        page.with_name("page.qtx.html")
        if page.with_name("page.qtx.html").exists()
        else page.with_name("page.translated.html")
    )
    assert out.read_text() == f"<h1>{target}</h1>\n<code>x y</code>\n"
    assert capsys.readouterr() == ("", f"{out}: 1 of 1 segments translated\n")
    assert main(command) == 1
    assert capsys.readouterr().err == f"error: {out} exists already. Remove it, or give another file with --out.\n"
    other = page.with_name("other.htm")
    assert main([*command, "--output", str(other)]) == 0
    assert other.read_text() == out.read_text()


def test_warnings_are_shown(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("dog " * 200)
    assert (
        main(["translate", "-m", str(translator_dir), "--document", str(tmp_path / "a.txt"), "--max-length", "5"]) == 0
    )
    assert 'warning: "dog dog' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--document", "a.html", "text"], "text and --document were both given: choose one."),
        (["--document", "a.html", "--input", "b"], "--input is for lines of text, not for --document."),
        (["--document", "a.html", "--n-best", "2"], "--n-best is for lines of text, not for --document."),
        (["--document", "a.html", "--json"], "--json is for lines of text, not for --document."),
        (["--document", "a.html", "--output", "./a.html"], "--out is the input document: choose another file."),
        (
            ["--document", "a.docx", "--output", "b.pdf"],
            "--out: b.pdf must end in .docx, as a translation of a.docx does.",
        ),
    ],
)
def test_wrong_usage(capsys: Capture, arguments: list[str], told: str) -> None:
    assert main(["translate", "--model", "m", *arguments]) == 2
    assert capsys.readouterr().err == f"error: {told}\nhelp: headway translate --help\n"


def test_unknown_types_are_refused_before_a_model_is_loaded(capsys: Capture) -> None:
    assert main(["translate", "--model", "m", "--document", "a.exe"]) == 1
    known = ".txt, .html, .htm, .md, .srt, .vtt, .po, .json, .xliff, .xlf, .tmx, .docx, .odt, .odp, .pptx, .xlsx, "
    known += ".epub, .pdf"
    assert capsys.readouterr().err == f"error: a.exe: .exe files are not supported. Supported: {known}.\n"


def test_the_translation_of_a_pdf_is_text(capsys: Capture) -> None:
    assert default_output_path("my.report.PDF", "de") == "my.report.de.txt"
    assert default_output_path("a.DOCX", "de") == "a.de.DOCX"
    assert main(["translate", "--model", "m", "--document", "a.pdf", "--output", "b.pdf"]) == 2
    assert "--out: b.pdf must end in .txt, as a translation of a.pdf does." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "to", "code", "told"),
    [
        ("The weather is nice today.\nWe went for a walk.", "de", 0, "is in en\n"),
        ("Das Wetter ist heute schön.\nWir gingen spazieren.", "en", 0, "is in de\n"),
        ("Das Wetter ist heute schön.\nWir gingen spazieren.", "de", 1,
         "is in de already; the available models translate from en to de."),
        ("Sää on tänään kaunis, joten menimme kävelylle.", "de", 1,
         'seems to be in "fi"; the available models translate from en to de.'),
        ("12345\n", "de", 1, "has no text to detect its language by. Name it with --from."),
    ],
)  # fmt: skip
def test_the_language_of_a_document_can_be_told_by_its_text(
    capsys: Capture, tmp_path: Path, text: str, to: str, code: int, told: str
) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert (
        main(["translate", "--model", "en-de", "--from", "auto", "--to", to, "--document", str(tmp_path / "a.txt")])
        == code
    )
    said = capsys.readouterr().err
    assert f"{tmp_path / 'a.txt'} {told}" in said
    assert (tmp_path / f"a.{to}.txt").exists() == (code == 0)
    if not code:
        made = (tmp_path / f"a.{to}.txt").read_text().splitlines()
        assert len(made) == 2 and made != text.splitlines()
