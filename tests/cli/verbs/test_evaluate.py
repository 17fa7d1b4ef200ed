"""headway evaluate: sacreBLEU's numbers with their signatures, examples, comparison; perplexity for language models."""

import re
from pathlib import Path

import pytest
import sacrebleu

import headway
from headway.cli.app import main
from headway.text.metrics import compute_scores, paired_bootstrap
from headway.translate.language_model import LanguageModel

Capture = pytest.CaptureFixture[str]


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


def evaluated(capsys: Capture, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["evaluate", *map(str, arguments)]) == code
    return capsys.readouterr()


def test_the_numbers_are_sacrebleus_on_the_saved_lines(
    capsys: Capture, translator_dir: Path, toy: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "said.txt"
    out, err = evaluated(
        capsys, "--model", translator_dir, "-s", toy / "test.en", "-t", toy / "test.qtx", "--output", saved
    )
    assert err == f"wrote the translations to {saved}\n"
    said, wanted = lines(saved), lines(toy / "test.qtx")
    assert len(said) == len(wanted) == 20
    bleu = sacrebleu.metrics.BLEU()
    assert out.splitlines()[0] == bleu.corpus_score(said, [wanted]).format(signature=str(bleu.get_signature()))
    chrf = sacrebleu.metrics.CHRF()
    assert out.splitlines()[1] == chrf.corpus_score(said, [wanted]).format(signature=str(chrf.get_signature()))
    assert re.match(r"20 lines in [\d.]+ s: [\d.]+ lines/s, \d+ tokens/s; warnings on \d+$", out.splitlines()[2])


def test_what_is_read_is_not_written_over(capsys: Capture, translator_dir: Path, toy: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("test.en", "test.qtx")]
    for file in files:
        file.write_bytes((toy / file.name).read_bytes())
    for file in files:
        words = ["--model", translator_dir, "-s", files[0], "-t", files[1], "--output", f"{tmp_path}/./{file.name}"]
        _, err = evaluated(capsys, *words, code=2)
        assert "--out is one of the input files: choose another file." in err
        assert file.read_bytes() == (toy / file.name).read_bytes()


def test_a_missing_folder_is_told_before_the_work(capsys: Capture, toy: Path, tmp_path: Path) -> None:
    words = ["--model", "none", "-s", toy / "test.en", "-t", toy / "test.qtx", "--output", tmp_path / "no" / "x.txt"]
    assert f"--out: there is no folder {tmp_path}/no." in evaluated(capsys, *words, code=2)[1]


@pytest.mark.parametrize("tokenize", ["13a", "none", "moses"])
def test_case_and_tokens(capsys: Capture, translator_dir: Path, toy: Path, tmp_path: Path, tokenize: str) -> None:
    saved = tmp_path / "said.txt"
    files = ["-s", toy / "test.en", "-t", toy / "test.qtx", "--output", saved, "-b", "1"]
    out, _ = evaluated(capsys, "--model", translator_dir, *files, "--lowercase", "--tokenize", tokenize)
    kind = "moses:qtx" if tokenize == "moses" else tokenize
    expected = compute_scores(lines(saved), lines(toy / "test.qtx"), lowercase=True, tokenize=kind)
    assert out.splitlines()[0] == expected.bleu_line
    assert "case:lc" in expected.bleu_line


def test_best_and_worst_examples(capsys: Capture, translator_dir: Path, toy: Path) -> None:
    files = ["-s", toy / "train.en", "-t", toy / "train.qtx"]
    out, _ = evaluated(capsys, "--model", translator_dir, *files, "--examples", "2", "-b", "1")
    assert out.count("\nbest: line ") == out.count("\nworst: line ") == 2
    first = out[out.index("best: line") :].splitlines()
    number = int(first[0].split()[2].rstrip(","))
    assert first[1] == f"  source     {lines(toy / 'train.en')[number - 1]}"
    assert first[2].removeprefix("  translated ") == first[3].removeprefix("  expected   ")
    none, _ = evaluated(capsys, "--model", translator_dir, *files, "--examples", "0", "-b", "1")
    assert "best" not in none


def test_comparing_with_another(
    capsys: Capture, translator_dir: Path, other_translator_dir: Path, toy: Path, tmp_path: Path
) -> None:
    files = ["-s", toy / "train.en", "-t", toy / "train.qtx", "-b", "1", "--examples", "0"]
    said = []
    for model in (translator_dir, other_translator_dir):
        evaluated(capsys, "--model", model, *files, "--output", tmp_path / "said.txt")
        said.append(lines(tmp_path / "said.txt"))
    out, _ = evaluated(capsys, "--model", translator_dir, "--compare", other_translator_dir, *files)
    header, first, second = (line.split("\t") for line in out.splitlines()[-3:])
    assert header == ["model", "BLEU", "chrF", "p (paired bootstrap)"]
    wanted = lines(toy / "train.qtx")
    for row, found, model in ((first, said[0], translator_dir), (second, said[1], other_translator_dir)):
        scores = compute_scores(found, wanted)
        assert row[:3] == [str(model), f"{scores.bleu:.2f}", f"{scores.chrf:.2f}"]
    assert first[3] == ""
    assert second[3] == f"{paired_bootstrap(*said, wanted).p_value:.3f}"
    assert float(second[3]) < 0.05


def test_perplexity(capsys: Capture, lm_dir: Path, masked_dir: Path, toy: Path) -> None:
    model = headway.load(lm_dir)
    assert isinstance(model, LanguageModel)
    found = model.perplexity((toy / "text.txt").read_text())
    out, _ = evaluated(capsys, "--model", lm_dir, "--text", toy / "text.txt")
    assert out == (
        f"perplexity {found.perplexity:.3f}, {found.loss:.4f} nats a token, {found.bits_per_character:.4f} bits a "
        f"character ({found.tokens:,} tokens)\n"
    )
    out, _ = evaluated(capsys, "--model", lm_dir, "--compare", masked_dir, "--text", toy / "text.txt")
    assert [line.partition(": ")[0] for line in out.splitlines()] == [str(lm_dir), str(masked_dir)]
    assert "hidden tokens" in out.splitlines()[1]


def test_what_is_wrong_is_said(capsys: Capture, translator_dir: Path, lm_dir: Path, toy: Path, tmp_path: Path) -> None:
    usage = "give --source and --target, or --pairs"
    pair = ["-s", toy / "test.en", "-t", toy / "test.qtx"]
    for arguments in ([], ["-s", "x"], ["-t", "x"], [*pair, "--text", "x"], ["--text", "x", "-s", "y"]):
        assert usage in evaluated(capsys, "--model", translator_dir, *arguments, code=2)[1]
    _, err = evaluated(capsys, "--model", translator_dir, "--text", toy / "text.txt", code=1)
    assert err == f"error: {translator_dir} is a translator: give --source and --target.\n"
    _, err = evaluated(capsys, "--model", lm_dir, *pair, code=1)
    assert "is a language model and does not translate" in err
    (tmp_path / "short.qtx").write_text("one\n")
    _, err = evaluated(capsys, "--model", translator_dir, "-s", toy / "test.en", "-t", tmp_path / "short.qtx", code=1)
    assert "has 20 lines and" in err and "short.qtx has 1: line n of the one must be the translation" in err
    _, err = evaluated(capsys, "--model", translator_dir, *pair, "--tokenize", "13b", code=2)
    assert "--tokenize: '13b' is not one of 'auto', '13a', 'intl', " in err
    (tmp_path / "empty").write_text("")
    _, err = evaluated(capsys, "--model", translator_dir, "-s", tmp_path / "empty", "-t", tmp_path / "empty", code=1)
    assert "there are no hypotheses to score" in err


def test_both_engines_have_the_same_score(capsys: Capture, translator_dir: Path, toy: Path, tmp_path: Path) -> None:
    """Of lines that need no second search: there each engine forbids repetition in its own way."""
    sides = [(toy / f"test.{side}").read_text().splitlines() for side in ("en", "qtx")]
    made = headway.load(translator_dir, device="cpu", engine="torch").translate(sides[0])
    for name, side in zip(("source", "target"), sides):
        kept = [line for line, one in zip(side, made) if not one.warnings]
        assert len(kept) >= 5
        (tmp_path / name).write_text("".join(f"{line}\n" for line in kept))
    files = ["--model", translator_dir, "-s", tmp_path / "source", "-t", tmp_path / "target", "--device", "cpu"]
    one, other = (evaluated(capsys, *files, "--engine", name, "-v") for name in ("torch", "ctranslate2"))
    assert one[0].splitlines()[:2] == other[0].splitlines()[:2]
    assert "engine ctranslate2, float32, cpu" in other[1]


def test_both_sides_in_one_file_of_any_kind(capsys: Capture, translator_dir: Path, toy: Path, tmp_path: Path) -> None:
    sides = lines(toy / "test.en"), lines(toy / "test.qtx")
    two = evaluated(capsys, "-m", translator_dir, "-s", toy / "test.en", "-t", toy / "test.qtx")[0].splitlines()
    table = tmp_path / "test.csv"
    table.write_text("qtx,en\n" + "".join(f'"{b}","{a}"\n' for a, b in zip(*sides)))
    out, err = evaluated(capsys, "-m", translator_dir, "--pairs", table)
    assert out.splitlines()[:2] == two[:2]
    assert err == f"{table}: line 1 is taken as a header (qtx, en)\n"
    numbered = tmp_path / "test.tsv"
    numbered.write_text("".join(f"{n}\t{b}\t{a}\n" for n, (a, b) in enumerate(zip(*sides))))
    given = ("-m", translator_dir, "--pairs", numbered, "--columns", "3,2")
    assert evaluated(capsys, *given)[0].splitlines()[:2] == two[:2]
    _, err = evaluated(capsys, *given, "-s", toy / "test.en", code=2)
    assert "give --source and --target, or --pairs." in err
    assert (
        "--columns needs --pairs."
        in evaluated(capsys, "-s", toy / "test.en", "-t", toy / "test.qtx", "--columns", "1,2", code=2)[1]
    )
    assert "--out is one of the input files" in evaluated(capsys, *given, "--output", numbered, code=2)[1]
    assert "or --pairs, or --text." in evaluated(capsys, "-m", translator_dir, code=2)[1]
