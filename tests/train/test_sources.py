"""What a user gives: what goes together, which languages it is in, what is held out of it."""

import gzip
from pathlib import Path

import pytest

from headway.data.parallel_files import language_from_filename
from headway.errors import ConfigError, HeadwayError
from headway.train.sources import TrainingFiles, read_texts


def write(folder: Path, name: str, lines: list[str]) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("train.en", "en"),
        ("a/b/train.tok.de.gz", "de"),
        ("x.qtx", "qtx"),
        ("x.zh-Hans.zst", "zh-hans"),
        ("x.pt_BR", "pt_br"),
        ("x.fr.xz", "fr"),
        ("train.txt", ""),
        ("train.clean", ""),
        ("train.src", ""),
        ("train.1", ""),
        ("en", ""),
        ("-", ""),
    ],
)
def test_the_language_by_the_name_of_the_file(path: str, language: str) -> None:
    assert language_from_filename(path) == language


def test_pairs_with_their_languages(tmp_path: Path) -> None:
    source, target = write(tmp_path, "t.en", ["One.", " Two. "]), write(tmp_path, "t.de", ["Eins.", "Zwei."])
    texts = read_texts(TrainingFiles(source=[source], target=[target], valid_source=[source], valid_target=[target]))
    [pairs] = texts.pairs
    assert list(pairs.read()) == [("One.", "Eins."), ("Two.", "Zwei.")]
    assert (pairs.source_language, pairs.target_language, pairs.weight) == ("en", "de", 1.0)
    assert texts.valid_pairs == texts.pairs
    assert texts.notes == []
    assert len(texts.warnings) == 1
    assert texts.statistics() == (2, 2, 9)  # the mean of both sides


def test_flags_win_over_names_and_one_stands_for_all(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.en", ["a", "b"]), write(tmp_path, "b.de", ["a", "b"])
    files = TrainingFiles(source=[one, one], target=[two, two], source_languages=["sv"], target_languages=["fi", "et"])
    texts = read_texts(files)
    assert [(p.source_language, p.target_language) for p in texts.pairs] == [("sv", "fi"), ("sv", "et")]
    assert [(p.source_language, p.target_language) for p in texts.valid_pairs] == [("sv", "fi"), ("sv", "et")]


def test_validation_text_has_languages_of_its_own_where_flags_do_not_say(tmp_path: Path) -> None:
    one = write(tmp_path, "a.en", ["a", "b"])
    targets = [write(tmp_path, f"a.{code}", ["a", "b"]) for code in ("de", "fr")]
    files = TrainingFiles(
        source=[one, one], target=targets, target_languages=["DE", "FR"], valid_source=[one], valid_target=[targets[1]]
    )
    assert [p.target_language for p in read_texts(files).valid_pairs] == ["fr"]


def test_some_pairs_are_held_out_always_the_same(tmp_path: Path) -> None:
    lines = [f"line {n}" for n in range(100)]
    one = write(tmp_path, "a.en", lines)
    first, second = (read_texts(TrainingFiles(source=[one], target=[one])) for _ in range(2))
    assert first.pairs == second.pairs
    assert first.notes == ["no validation text was given: 5 pairs are held out for it"]
    kept, held = (list(part.read()) for part in (first.pairs[0], first.valid_pairs[0]))
    assert sorted(kept + held) == sorted((line, line) for line in lines)
    assert (len(kept), len(held)) == (95, 5) == (first.pairs[0].counts.lines, first.valid_pairs[0].counts.lines)


def test_copies_of_what_is_held_out_are_not_learned(tmp_path: Path) -> None:
    """From other lines, from another corpus, and the other way. Blank lines are no copies of each other."""
    pairs = [f"one {n}\teins {n}" for n in range(60)]
    one = write(tmp_path, "a.en-de.tsv", [*pairs * 4, "\t", "\t"])
    two = write(tmp_path, "b.en-de.tsv", [*pairs, "a\tb", "\t", "\t"])
    back = write(tmp_path, "c.de-en.tsv", ["\t".join(reversed(pair.split("\t"))) for pair in pairs])
    texts = read_texts(TrainingFiles(pairs=[one, two, back]))
    held = {frozenset(pair) for p in texts.valid_pairs for pair in p.read() if all(pair)}
    learned = [pair for p in texts.pairs for pair in p.read()]
    assert held and not [pair for pair in learned if frozenset(pair) in held]
    count = sum(p.counts.lines for p in texts.valid_pairs)
    copies = 242 + 63 + 60 - count - len(learned)
    assert texts.notes == [
        f"no validation text was given: {count} pairs are held out for it; {copies} copies of them were removed from "
        "the training text"
    ]
    assert [p.counts.lines for p in texts.pairs] == [len(list(p.read())) for p in texts.pairs]


def test_one_pair_again_and_again(tmp_path: Path) -> None:
    one = write(tmp_path, "a.en-de.tsv", ["one\teins"] * 30)
    with pytest.raises(HeadwayError, match=r"no training text is left .*: all others are copies of them\. Give more"):
        read_texts(TrainingFiles(pairs=[one]))


def test_one_is_not_several(tmp_path: Path) -> None:
    two = write(tmp_path, "a.en", ["One.", "Two."])
    [note] = read_texts(TrainingFiles(source=[two], target=[two])).notes
    assert note == "no validation text was given: 1 pair is held out for it"
    assert read_texts(TrainingFiles(text=[two])).notes == [
        "no validation text was given: the last line is held out for it"
    ]


def test_packed_text_is_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.en.gz", "wt") as file:
        file.write("One.\nTwo.\n")
    path = str(tmp_path / "a.en.gz")
    assert read_texts(TrainingFiles(source=[path], target=[path])).pairs[0].source_language == "en"


def test_running_text_from_several_files_keeps_its_lines(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.txt", ["first", "", "third"]), str(tmp_path / "b.txt")
    Path(two).write_text("no line end")
    valid = write(tmp_path, "v.txt", ["held"])
    texts = read_texts(TrainingFiles(text=[one, two], valid_text=[valid]))
    assert texts.text is not None and texts.valid_text is not None
    assert list(texts.text.read()) == ["first", "", "third", "no line end"]
    assert list(texts.valid_text.read()) == ["held"]
    assert texts.statistics().lines == 4
    assert texts.statistics().words == 5


def test_the_end_of_a_running_text_is_held_out(tmp_path: Path) -> None:
    texts = read_texts(TrainingFiles(text=[write(tmp_path, "a.txt", [f"line {n}" for n in range(60)])]))
    assert texts.text is not None and texts.valid_text is not None
    assert list(texts.valid_text.read()) == ["line 57", "line 58", "line 59"]
    assert list(texts.text.read())[-1] == "line 56"
    assert texts.notes == ["no validation text was given: the last 3 lines are held out for it"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give --source and --target, or --pairs, for a translator, or --text for a language model"),
        (
            {"source": ["a"], "target": ["b"], "text": ["c"]},
            "give --source and --target, or --pairs, for a translator, or --text",
        ),
        ({"source": ["a"]}, "--source was given once and --target 0 times: give as many of one as of the other"),
        (
            {"source": ["a"], "target": ["b"], "valid_source": ["c"]},
            "--valid-source was given once and --valid-target 0",
        ),
        ({"text": ["a"], "valid_source": ["b"]}, "a language model is validated on --valid-text"),
        ({"source": ["a"], "target": ["b"], "valid_text": ["c"]}, "a translator is validated on --valid-source and"),
        (
            {"source": ["a"] * 3, "target": ["b"] * 3, "target_languages": ["de", "fr"]},
            "--to was given 2 times for 3 corpora: give it once for all, or once for each",
        ),
        (
            {"source": ["a"], "target": ["b"], "source_languages": ["de", "fr"]},
            "--from was given 2 times for 1 corpus: give it once",
        ),
        (
            {"source": ["a"], "target": ["b"], "columns": ["7", "9"]},
            "--columns applies to the files of --pairs and --valid-pairs, and there are none: leave it out",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_read(
    given: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_texts(TrainingFiles(**given))


def test_files_that_say_nothing_are_refused(tmp_path: Path) -> None:
    blank, one = write(tmp_path, "blank.en", ["", " "]), write(tmp_path, "one.de", ["a", "b"])
    with pytest.raises(HeadwayError, match=r"blank.en and .*one.de hold no sentence pair"):
        read_texts(TrainingFiles(source=[blank], target=[one]))
    with pytest.raises(HeadwayError, match=r"blank.en: there is no text in it"):
        read_texts(TrainingFiles(text=[blank]))
    with pytest.raises(HeadwayError, match=r"blank.en: there is no text in it"):
        read_texts(TrainingFiles(text=[one], valid_text=[blank]))


def test_too_little_to_hold_some_out_is_refused(tmp_path: Path) -> None:
    one = write(tmp_path, "one.en", ["only"])
    with pytest.raises(HeadwayError, match=r"a corpus of one pair cannot be split: give validation text, too"):
        read_texts(TrainingFiles(source=[one], target=[one]))
    with pytest.raises(
        HeadwayError, match=r"is too short to hold some of it out. Give validation text, too: --valid-text"
    ):
        read_texts(TrainingFiles(text=[one]))


def test_files_of_unequal_length_are_refused(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.en", ["a", "b"]), write(tmp_path, "a.de", ["a"])
    with pytest.raises(HeadwayError, match=r"a.en has 2 lines and .*a.de has 1"):
        read_texts(TrainingFiles(source=[one], target=[two]))


def test_several_targets_need_names_for_all(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.de", ["a", "b"]), write(tmp_path, "b.txt", ["a", "b"])
    with pytest.raises(ConfigError, match=r"some targets are de, and the language of others is not known: give --to"):
        read_texts(TrainingFiles(source=[one, one], target=[one, two]))


def test_both_ways(tmp_path: Path) -> None:
    pairs = write(tmp_path, "a.en-de.tsv", [f"one {n}\teins {n}" for n in range(60)])
    files = TrainingFiles(pairs=[pairs], both_ways=True, weights=[2.0])
    texts = read_texts(files)
    assert [(p.source_language, p.target_language, p.weight) for p in texts.pairs] == [
        ("en", "de", 2.0),
        ("de", "en", 2.0),
    ]
    there, back = (list(p.read()) for p in texts.pairs)
    assert back == [(target, source) for source, target in there]
    held, other = (list(p.read()) for p in texts.valid_pairs)
    assert other == [(target, source) for source, target in held]  # nothing that is held out is learned the other way
    assert len({p.identity for p in (*texts.pairs, *texts.valid_pairs)}) == 4
    with pytest.raises(ConfigError, match=r"--both-ways needs the languages of both sides, and one is not known"):
        read_texts(TrainingFiles(pairs=[write(tmp_path, "a.tsv", ["a\tb", "c\td"])], both_ways=True))


def test_what_is_held_out_does_not_come_back_varied(tmp_path: Path) -> None:
    pairs = write(tmp_path, "a.en-de.tsv", [f"One {n}.\tEins {n}." for n in range(60)])
    texts = read_texts(TrainingFiles(pairs=[pairs], vary=1.0))
    plain, more = texts.pairs
    held = {source for [p] in [texts.valid_pairs] for source, _ in p.read()}
    assert more.counts.lines > 40
    assert not held & {source for source, _ in plain.read()}
    numbers = {source.split()[1].rstrip(".") for source in held}
    learned = [source for source, _ in more.read()]
    assert not [s for s in learned if s.lower().startswith("one ") and s.split()[1].rstrip(".") in numbers]
    assert len(read_texts(TrainingFiles(pairs=[pairs], vary=0.0)).pairs) == 1


@pytest.mark.parametrize("wrong", [{"both_ways": True}, {"vary": 0.5}])
def test_pairs_are_needed_for_some_flags(tmp_path: Path, wrong: dict[str, object]) -> None:
    text = write(tmp_path, "a.txt", ["a", "b"])
    with pytest.raises(ConfigError, match=r"is for corpora of pairs, not for --text"):
        read_texts(TrainingFiles(text=[text], **wrong))  # type: ignore[arg-type]
