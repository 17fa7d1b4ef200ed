"""Back-translation: which lines become pairs, why others do not, and that it can go on anywhere."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.data.parallel_files import ParallelFiles, read_parallel
from headway.errors import HeadwayError
from headway.translate.options import TranslateOptions
from headway.translate.results import Guess, Translation
from headway.translate.translator import Translator, load_translator
from headway.workflows.back_translation import (
    REJECT_REASONS,
    BackTranslation,
    PairFilter,
    RejectReason,
    SyntheticPair,
    format_pairs,
    initial_counts,
    make_pairs,
)


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return load_translator(translator_dir)


@pytest.fixture(scope="module")
def lines(toy: Path) -> list[str]:
    return (toy / "train.en").read_text().splitlines()


def way(translator: Translator, **changes: object) -> BackTranslation:
    search = changes.pop("search", translator.search(beam_size=1))
    options = TranslateOptions(search=search)  # type: ignore[arg-type]
    return BackTranslation(translator=translator, options=options, pair_filter=PairFilter(max_tokens=60), **changes)  # type: ignore[arg-type]


def test_the_source_is_the_machines_with_a_tag_and_the_target_is_the_line(
    translator: Translator, lines: list[str], toy: Path
) -> None:
    known = (toy / "train.qtx").read_text().splitlines()
    assert way(translator, tag="<BT>").pairs([f" {lines[0]} ", lines[1]]) == [
        SyntheticPair(f"<BT> {known[0]}", lines[0]),
        SyntheticPair(f"<BT> {known[1]}", lines[1]),
    ]
    assert way(translator).pairs(lines[:1]) == [SyntheticPair(known[0], lines[0])]


def test_lines_without_a_pair(translator: Translator, lines: list[str]) -> None:
    found = way(translator).pairs(["", " \t", lines[0], "dog " * 100])
    assert [one for one in found if not isinstance(one, SyntheticPair)] == ["blank", "blank", "long"]
    assert isinstance(found[2], SyntheticPair)


def test_what_is_drawn_depends_on_the_line_and_not_on_its_group(translator: Translator, lines: list[str]) -> None:
    drawing = way(translator, search=translator.search(sample=True, temperature=2.0, seed=1))
    whole = drawing.pairs(lines[:6])
    assert drawing.pairs(lines[:2]) + drawing.pairs(lines[2:6], first=2) == whole
    assert drawing.pairs(lines[2:6]) != whole[2:]


def made(
    text: str, tokens: list[int], warnings: list[str], source: str = "ein Satz", logp: float = -0.1
) -> Translation:
    guess = Guess(text, 0.0, logp * len(tokens), tokens, [logp] * len(tokens))
    return Translation(source, [guess], warnings)


RUNNING = "wir gehen heute alle zusammen ins kino"


@pytest.mark.parametrize(
    ("ids", "translation", "reason"),
    [
        ([5, 6, 7], made("a sentence", [8, 9, 10], []), None),
        ([5, 6, 7], made(" ", [8], []), "empty"),
        ([5, 6, 7], made("a sen", [8, 9], ["the output was cut at 2 tokens"]), "cut"),
        ([5, 6, 7], made("a a a", [8] * 20, []), "loop"),
        ([5] * 20, made("a a a", [8] * 20, []), None),  # the line does the same
        ([5, 6, 7], made(RUNNING.upper(), [8, 9, 10], [], source=RUNNING), "copy"),
        ([5, 6], made("a sentence", list(range(12)), []), None),  # within the slack
        ([5, 6], made("a sentence", list(range(13)), []), "ratio"),
        (list(range(40)), made("a sentence", [8, 9, 10], []), "ratio"),
        (list(range(40)), made("a sentence", list(range(14)), []), None),
        ([5, 6, 7], made("4000 Euro", [8, 9, 10], [], source="40,000 euros"), "number"),
        ([5, 6, 7], made("40.000 Euro", [8, 9, 10], [], source="40,000 euros"), None),
        ([5, 6, 7], made("a sentence", [8, 9, 10], [], logp=-2.5), "score"),
        ([5, 6, 7], made("a sentence", [8, 9, 10], [], logp=-1.5), None),
    ],
)
def test_faults(ids: list[int], translation: Translation, reason: RejectReason | None) -> None:
    assert PairFilter(max_tokens=60, min_score=-2.0, keep_numbers=True).reject_translation(ids, translation) == reason
    if reason in ("score", "number"):
        assert PairFilter(max_tokens=60).reject_translation(ids, translation) is None
    if reason == "ratio":
        assert PairFilter(max_tokens=60, max_length_ratio=math.inf).reject_translation(ids, translation) is None


def test_an_output_that_does_not_end_gives_no_pair(translator: Translator, lines: list[str]) -> None:
    short = way(translator, search=translator.search(beam_size=1, max_length=3))
    assert short.pairs(lines[:2]) == ["cut", "cut"]


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_groups_and_counts(translator: Translator, lines: list[str], at_once: int) -> None:
    text = ["", *lines[:10], "dog " * 100]
    found, counts = [], initial_counts()
    for made, counts in make_pairs(iter(text), way(translator), initial_counts(), at_once):
        found += [one for one in made if isinstance(one, SyntheticPair)]
        assert counts["pairs"] == len(found)
    assert [pair.target for pair in found] == lines[:10]
    assert (counts["lines"], counts["pairs"], counts["blank"], counts["long"]) == (12, 10, 1, 1)
    assert sum(counts[reason] for reason in REJECT_REASONS) == 2


def test_it_goes_on_from_any_group(translator: Translator, lines: list[str]) -> None:
    text = ["", *lines[:9]]
    whole = list(make_pairs(iter(text), way(translator), initial_counts(), 3))
    for done in range(len(whole)):
        rest = list(make_pairs(iter(text), way(translator), whole[done][1], 3))
        assert rest == whole[done + 1 :]


@pytest.mark.parametrize("other", [["changed"], [], ["a", "b", "c", "d", "changed"], ["abc", "d", "e", "f", "g"]])
def test_another_text_is_refused(translator: Translator, other: list[str]) -> None:
    text = ["a", "b", "c", "d", "e"]
    _, counts = next(make_pairs(iter(text), way(translator), initial_counts(), 5))
    with pytest.raises(HeadwayError, match=r"the first 5 lines of the text are not those that this was begun with"):
        next(make_pairs(iter(other), way(translator), counts, 5))


def test_lines_are_read_as_they_are_needed(translator: Translator) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield ""

    next(make_pairs(endless(), way(translator), initial_counts(), 4))
    assert read == 4


AWKWARD = [SyntheticPair("<BT> a\tb", "c\rd"), SyntheticPair("<BT> “x”\u2028y", 'say "z"\\n\ttab')]


@pytest.mark.parametrize("name", ["x.jsonl", "x.tsv", "x.ndjson.gz", "x.tab.xz"])
def test_what_is_written_reads_back_as_training_text(tmp_path: Path, name: str) -> None:
    plain = name.removesuffix(".gz").removesuffix(".xz")
    (tmp_path / plain).write_text(format_pairs(AWKWARD, name), encoding="utf-8", newline="")
    expected = (
        AWKWARD
        if "json" in name
        else [SyntheticPair("<BT> a b", "c d"), SyntheticPair(AWKWARD[1].source, 'say "z"\\n tab')]
    )
    assert list(read_parallel(ParallelFiles(str(tmp_path / plain)))) == expected


def test_json_rows_name_their_sides() -> None:
    assert json.loads(format_pairs(AWKWARD[:1], "x.jsonl")) == {"source": "<BT> a\tb", "target": "c\rd"}
