"""The whole check on a corpus with one fault of every kind, and what is written without them."""

import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from headway.data.check import FAULT_KINDS, CheckReport, CheckSettings, check
from headway.data.check.check import find_duplicates
from headway.data.check.examples import FaultExample, find_examples
from headway.data.check.faults import FAULT_BITS, FAULT_NAMES
from headway.data.check.inputs import InputFiles, find_languages
from headway.data.check.report import PairLocation, report_to_json
from headway.data.check.write_clean import check_output, write_clean
from headway.data.parallel_files import ParallelFiles, read_parallel
from headway.errors import ConfigError, HeadwayError
from headway.text.language_id import find_other_language

Row = tuple[str, str]
Put = Callable[..., ParallelFiles]

LANGUAGES = CheckSettings(source_language="en", target_language="de")


def damaged(rows: list[Row]) -> tuple[list[Row], dict[str, list[int]]]:
    """A copy with faults, and where they are."""
    rows = list(rows)
    places: dict[str, list[int]] = {}

    def spoil(kind: str, number: int, source: str, target: str) -> None:
        rows[number] = (source, target)
        places.setdefault(kind, []).append(number)

    spoil("encoding", 100, rows[100][0], "Größe".encode().decode("latin-1") + " " + rows[100][1])
    spoil("control", 120, rows[120][0], rows[120][1] + "\0")
    spoil("control", 121, rows[121][0] + "\u2028More.", rows[121][1])
    spoil("empty", 140, "", rows[140][1])
    spoil("empty", 141, rows[141][0], "...")
    spoil("copy", 160, rows[160][0], rows[160][0].upper())
    for number in (180, 181, 182):
        spoil("swapped", number, *rows[number][::-1])
    spoil("script", 200, rows[200][0], "Ο παλιός δάσκαλος διαβάζει το γράμμα στον κήπο.")
    spoil("language", 220, rows[220][0], "Le vieux professeur lit une longue lettre dans le jardin.")
    spoil("language", 221, rows[221][0], "The painter reads two newspapers before the storm, although it rains.")
    spoil("long", 240, *(" ".join([side] * 40) for side in rows[240]))
    spoil("ratio", 260, rows[260][0], "Ja.")
    for number in (300, 420, 540):
        spoil("misaligned", number, rows[number][0], rows[number + 5][1])
    targets = [target for _, target in rows[700:730]]
    for number, target in zip(range(700, 730), targets[-1:] + targets[:-1]):
        spoil("misaligned", number, rows[number][0], target)
    spoil("duplicate", 1000, *rows[10])
    spoil("duplicate", 1200, *rows[10])
    return rows, places


@pytest.fixture(scope="module")
def found(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> tuple[CheckReport, dict[str, list[int]]]:
    """A check of the damaged corpus in two tables, beside texts that hold some of it."""
    folder = tmp_path_factory.mktemp("check")
    spoilt, places = damaged(rows)
    parts = {
        "one": spoilt[:640],
        "two": spoilt[640:],
        "valid": [rows[5]],
        "test": [("No.", "Nein."), (rows[9][0], "Ja.")],
    }
    files = {}
    for name, part in parts.items():
        path = folder / f"{name}.en-de.tsv"
        path.write_bytes("".join(f"{source}\t{target}\n" for source, target in part).encode())
        files[name] = ParallelFiles(str(path), "", "en", "de")
    report = check([files["one"], files["two"]], LANGUAGES, valid=[files["valid"]], test=[files["test"]])
    return report, {**places, "valid": [5], "test": [9]}


def test_every_fault_is_found_and_nothing_else(found: tuple[CheckReport, dict[str, list[int]]]) -> None:
    report, places = found
    assert report.pairs == 1500
    assert set(places) == {*FAULT_NAMES} - {"broken"}
    for kind, numbers in places.items():
        missed = set(numbers) - set(report.numbers(kind).tolist())
        if kind == "misaligned":  # some look right by chance, and some have lengths that do not fit
            missed -= set(report.numbers("ratio").tolist())
            assert len(missed) <= 1, missed
        else:
            assert not missed, kind
    spoilt = {number for numbers in places.values() for number in numbers}
    false = sorted(set(np.flatnonzero(report.faults).tolist()) - spoilt)
    assert len(false) <= 2, false
    assert not report.notes


def test_the_run_is_named_with_its_offset(found: tuple[CheckReport, dict[str, list[int]]]) -> None:
    (run,) = found[0].runs
    assert run.corpus == 1
    assert abs(run.first - 61) <= 1 and abs(run.last - 90) <= 1
    assert run.offset == 1  # the target is one line late


def test_places_and_duplicates_over_two_corpora(found: tuple[CheckReport, dict[str, list[int]]]) -> None:
    report = found[0]
    assert [report.locate(number) for number in (0, 639, 640, 1499)] == [
        PairLocation(0, 1), PairLocation(0, 640), PairLocation(1, 1), PairLocation(1, 860),
    ]  # fmt: skip
    assert report.original(1000) == report.original(1200) == 10
    assert report.format_location(PairLocation(1, 361)) == "line 361 of two.en-de.tsv"
    assert report.lines_of("duplicate") == {str(report.corpora[1]): [361, 561]}


def test_what_goes_adds_up(found: tuple[CheckReport, dict[str, list[int]]]) -> None:
    report = found[0]
    for keep in ((), ("copy", "misaligned"), tuple(kind.name for kind in FAULT_KINDS)):
        gone = dict(report.removed(keep))
        assert sum(gone.values()) == report.pairs - report.clean(keep).sum()
        assert not {kind.name for kind in gone} & set(keep)
    assert report.clean(["control"])[121] and not report.clean()[121]


def test_examples_say_what_is_wrong(found: tuple[CheckReport, dict[str, list[int]]], rows: list[Row]) -> None:
    report = found[0]
    examples = find_examples(report, 1)
    assert set(examples) == {finding.kind.name for finding in report.findings()}
    details = {kind: example.detail for kind, (example,) in examples.items()}
    assert details == {
        "encoding": "target: Ã¶ at character 3",
        "control": "target: U+0000 at character " + str(len(rows[120][1]) + 1),
        "empty": "source: no letter or digit",
        "copy": "",
        "swapped": "",
        "script": "target: Greek",
        "language": "target: fr",
        "long": details["long"],
        "ratio": f"{len(rows[260][0])} and 3 characters",
        "misaligned": "",
        "duplicate": "same as line 11 of one.en-de.tsv",
        "valid": "",
        "test": "",
    }
    assert details["long"].startswith("source: ") and "words, target: " in details["long"]
    assert examples["valid"] == [FaultExample(PairLocation(0, 6), *rows[5], "")]
    assert find_examples(report, 0)["copy"] == []
    assert len(find_examples(report, 9)["duplicate"]) == 2


def test_everything_for_programs(found: tuple[CheckReport, dict[str, list[int]]]) -> None:
    report = found[0]
    value = report_to_json(report, find_examples(report, 1), ["copy"], "out.tsv")
    assert value["pairs"] == 1500 and value["lines"] == [640, 860]
    assert value["languages"] == {"source": "en", "target": "de"}
    assert value["remains"] == report.clean(["copy"]).sum()
    kinds = {finding["name"]: finding for finding in value["findings"]}
    assert kinds["copy"]["left_out"] == 0 and kinds["empty"]["left_out"] == 2
    assert kinds["duplicate"]["lines"] == report.lines_of("duplicate")
    assert kinds["duplicate"]["examples"][0]["line"] == 361
    assert kinds["swapped"]["share"] == kinds["swapped"]["pairs"] / 1500
    assert value["runs"][0]["offset"] == 1


@pytest.mark.parametrize(
    ("ending", "unpack"),
    [("", bytes), (".gz", gzip.decompress), (".xz", lzma.decompress), (".zst", zstandard.decompress)],
)
def test_a_clean_corpus_can_be_read_again(
    found: tuple[CheckReport, dict[str, list[int]]], tmp_path: Path, ending: str, unpack: Callable[[bytes], bytes]
) -> None:
    report = found[0]
    out = tmp_path / f"clean.tsv{ending}"
    assert write_clean(report, out) == report.clean().sum()
    everything = [pair for files in report.corpora for pair in read_parallel(files)]
    expected = [pair for pair, clean in zip(everything, report.clean()) if clean]
    assert list(read_parallel(ParallelFiles(str(out)))) == expected
    if ending != ".zst":
        assert unpack(out.read_bytes()) == "".join(f"{s}\t{t}\n" for s, t in expected).encode()
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    again = check([ParallelFiles(str(out))], LANGUAGES) if not ending else None
    assert again is None or again.pairs - again.clean().sum() <= 5


def test_tabs_inside_a_side_become_spaces_and_a_kept_fault_stays(put: Put, rows: list[Row], tmp_path: Path) -> None:
    files = put([("a\tb", "c\td"), *rows[:300], ("x", "\x01 y")])
    report = check([files], LANGUAGES)
    out = tmp_path / "out.tsv"
    write_clean(report, out, FAULT_NAMES)
    lines = out.read_bytes().split(b"\n")
    assert lines[0] == b"a b\tc d" and lines[-2] == b"x\t\x01 y"
    assert len(lines) == 303


def test_an_interrupted_writing_leaves_what_was_there(
    put: Put, rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = check([put(rows[:100])], LANGUAGES)
    out = tmp_path / "out.tsv"
    out.write_text("before")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headway.data.check.write_clean.decode_pairs", fail)
    with pytest.raises(KeyboardInterrupt):
        write_clean(report, out)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "out.tsv"]


def test_processes_find_the_same(put: Put, rows: list[Row]) -> None:
    files = put(damaged(rows)[0])
    one = check([files], LANGUAGES)
    two = check([files], CheckSettings(source_language="en", target_language="de", workers=2))
    assert one.faults.tolist() == two.faults.tolist()
    assert one.runs == two.runs


def test_languages_are_told_by_the_text_where_nobody_says_them(put: Put, rows: list[Row]) -> None:
    spoilt, _ = damaged(rows)
    told = check([put(spoilt)])
    assert told.languages == ("en", "de")
    assert told.faults.tolist() == check([put(spoilt)], LANGUAGES).faults.tolist()


def test_a_language_that_nobody_knows_is_compared_with_the_other_side(put: Put, rows: list[Row]) -> None:
    rows = [(source, target.translate(str.maketrans("aeiourstn", "ouaeitsrm"))) for source, target in rows[:600]]
    rows[50] = rows[50][::-1]
    rows[60] = (rows[60][0], rows[61][0])
    rows[70] = (rows[70][0], "Старый учитель читает письмо в саду.")
    report = check([put(rows)], CheckSettings(source_language="en", target_language="qtx"))
    assert report.notes == ["the target language (qtx) cannot be identified, so it was not checked"]
    assert report.numbers("swapped").tolist() == [50]
    assert 60 in report.numbers("language")
    assert report.numbers("script").tolist() == [70]


def test_a_wrong_language_for_the_whole_corpus(put: Put, rows: list[Row]) -> None:
    report = check([put(rows[:300])], CheckSettings(source_language="en", target_language="fr"))
    assert "most of the target does not look like fr: are the languages right?" in report.notes
    assert len(report.numbers("language")) > 290


def test_a_small_corpus_is_checked_as_far_as_it_goes(put: Put) -> None:
    report = check([put([("1", "1"), ("Yes.", "Ja."), ("Yes.", "Ja.")])])
    assert report.notes == [
        "the source language is not clear, so it was not checked: set it with --from",
        "the target language is not clear, so it was not checked: set it with --to",
        "too few pairs to learn which words translate each other: wrong translations were not looked for",
    ]
    assert [(f.kind.name, f.pairs) for f in report.findings()] == [("duplicate", 1)]


def test_the_first_of_equal_pairs_stays() -> None:
    hashes = np.array([5, 3, 5, 9, 3, 5], np.uint64)
    found = find_duplicates(hashes)
    assert found.numbers.tolist() == [2, 4, 5]
    assert found.originals.tolist() == [0, 1, 0]


def test_what_overlaps(put: Put, rows: list[Row]) -> None:
    held = put([("Yes, of course.", "Ja, natürlich."), rows[0], ("Unlike.", rows[1][1])], "valid")
    train = [
        ("yes of course", "ja natürlich"),  # both sides, up to case and punctuation
        ("Yes, of course.", "Gewiss."),  # a short source alone is chance
        (rows[0][0], "Anders."),  # a long one is not
        ("Otherwise.", rows[1][1].lower()),
        *rows[100:400],
    ]
    report = check([put(train)], LANGUAGES, valid=[held])
    assert report.numbers("valid").tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"max_ratio": 0.5}, "--max-ratio must be between 1 and 1e+06, not 0.5."),
        ({"max_ratio": float("nan")}, "--max-ratio must be between 1 and 1e+06, not nan."),
        ({"max_words": 0}, "--max-words must be between 1 and 1e+09, not 0."),
        ({"doubt": 2.0}, "--max-doubt must be between 0 and 1, not 2.0."),
        (
            {"keep": ("copied",)},
            '--keep: "copied" cannot be kept. Did you mean "copy"? Choose from: '
            f'{", ".join(n for n in FAULT_NAMES if n != "broken")}.',
        ),
    ],
)  # fmt: skip
def test_wrong_settings(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CheckSettings(**setting)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_files_without_a_line(put: Put) -> None:
    files = put([])
    with pytest.raises(HeadwayError) as caught:
        check([files])
    assert str(caught.value) == f"{files.source} and {files.target}: the corpus is empty."


def test_where_a_clean_corpus_cannot_go(put: Put, rows: list[Row], tmp_path: Path) -> None:
    files = put(rows[:3], table=True)
    for out, message in [
        (
            tmp_path / "x.txt",
            "the file is a table, so its name must end in .tsv or .tab, optionally followed by .gz, .bz2, .xz, .zst.",
        ),
        (tmp_path / "no" / "x.tsv", f"the folder {tmp_path / 'no'} does not exist."),
        (Path(files.source), "this file is being checked and is never overwritten. Give another one."),
        (tmp_path / "folder.tsv", "this is a folder. Give a file."),
    ]:
        (tmp_path / "folder.tsv").mkdir(exist_ok=True)
        with pytest.raises(ConfigError) as caught:
            check_output(out, [files])
        assert str(caught.value) == f"--clean {out}: {message}"
    link = tmp_path / "link.tsv"
    link.symlink_to(files.source)
    with pytest.raises(ConfigError, match="is never overwritten"):
        check_output(link, [files])
    check_output(tmp_path / "x.tsv.gz", [files])


def test_files_as_they_are_given() -> None:
    given = InputFiles(["a.en", "b.en"], ["a.de", "b.de"], ["c.en-de.tsv"])
    corpora = given.corpora(("2", "1"), ("", ""))
    assert corpora[1] == ParallelFiles("b.en", "b.de", "en", "de")
    assert corpora[2] == ParallelFiles("c.en-de.tsv", "", "en", "de", ("2", "1"))
    assert find_languages(corpora) == ("en", "de")
    assert find_languages(InputFiles(pairs=["x.tsv", "y.en-de.tsv"]).corpora(None, ("", ""))) == ("en", "de")
    assert find_languages(InputFiles(["a"], ["b"]).corpora(None, ("", "fr"))) == ("", "fr")
    for wrong, message in [
        (
            InputFiles(["a"], [], prefix="valid-"),
            "--valid-source is given 1 times and --valid-target 0 times: give both equally often.",
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            wrong.corpora(None, ("", ""))
        assert str(caught.value) == message
    with pytest.raises(ConfigError, match="nothing to check: give --source and --target, or --pairs"):
        find_languages([])
    two = InputFiles(["a.en", "b.en"], ["a.de", "b.fr"]).corpora(None, ("", ""))
    with pytest.raises(ConfigError) as caught:
        find_languages(two)
    assert str(caught.value) == (
        "the file names have several target languages: de, fr. Check one pair of languages at a time, or set the "
        "language with --to."
    )


def test_every_kind_has_a_bit_of_its_own() -> None:
    assert len({FAULT_BITS[name] for name in FAULT_NAMES}) == len(FAULT_KINDS) <= 16


def test_names_are_no_foreign_language(put: Put, rows: list[Row]) -> None:
    names = "Zbigniew Krzysztof Kuźmiuk, Grażyna Staniszewska"
    spoilt = [(f"By {names}.", f"Von {names}."), ("We read.", "Musimy znaleźć rozwiązanie."), *rows[:600]]
    report = check([put(spoilt)], LANGUAGES)
    assert report.numbers("language").tolist() == [1]
    assert find_other_language(spoilt[0][0], "en")  # by itself it would be one


def test_free_translations_in_a_sorted_corpus_are_not_taken_for_moved_lines(tmp_path: Path) -> None:
    """Sentences that begin alike are translated alike, and so not word by word in many lines one after the other."""
    generator = random.Random(3)
    words = [f"word{number}" for number in range(400)]
    pairs = []
    for _ in range(6000):
        chosen = generator.sample(words, 6)
        pairs.append((" ".join(chosen), " ".join(f"{word}x" for word in chosen)))
    for _ in range(6):
        beginning, free = generator.sample(words, 4), generator.sample(words, 4)
        for _ in range(25):
            rest = generator.sample(words, 2)
            target = [f"{word}x" for word in (*free, *rest)]
            pairs.append((f"{' '.join(beginning)} {' '.join(rest)}", " ".join(target)))
    pairs.sort()
    path = tmp_path / "sorted.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    assert check([ParallelFiles(str(path))], CheckSettings(workers=1)).runs == []
    late = [b for _, b in pairs[1001:1101]]
    moved = [*pairs[:1000], *zip([a for a, _ in pairs[1000:1100]], late), *pairs[1100:]]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in moved))
    [run] = check([ParallelFiles(str(path))], CheckSettings(workers=1)).runs
    assert abs(run.first - 1001) < 9 and abs(run.last - 1100) < 9 and run.offset == -1


def test_headers_quotes_and_other_formats_are_checked_by_their_own_lines(tmp_path: Path) -> None:
    plain = tmp_path / "a.tsv"
    plain.write_text("en\tde\nOne.\tEins.\nTwo.\tZwei.\tDrei.\nOne.\tEins.\n")
    report = check([ParallelFiles(str(plain))], CheckSettings(workers=1))
    assert report.lines == [3]
    assert report.lines_of("broken") == {str(plain): [3]} and report.lines_of("duplicate") == {str(plain): [4]}
    assert "line 1 is taken as a header (en, de)" in report.notes[0]
    assert report.format_location(report.locate(2)) == "line 4"
    quoted = tmp_path / "b.csv"
    quoted.write_text('en,de\n"One, or\nmore.",Eins.\nTwo.,Zwei.\nTwo.,Zwei.\n')
    report = check([ParallelFiles(str(quoted))], CheckSettings(workers=1))
    assert report.lines == [3] and report.lines_of("duplicate") == {str(quoted): [3]}
    assert report.format_location(report.locate(2)) == "row 3"
    assert write_clean(report, tmp_path / "clean.tsv.bz2") == 2
    assert list(read_parallel(ParallelFiles(str(tmp_path / "clean.tsv.bz2")))) == [
        ("One, or more.", "Eins."),
        ("Two.", "Zwei."),
    ]
    [files] = InputFiles(pairs=[str(quoted)]).corpora(None, ("", ""))
    assert find_languages([files]) == ("en", "de")
