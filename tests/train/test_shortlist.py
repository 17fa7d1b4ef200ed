"""The setting train.shortlist: made from the training text before the first step, kept with the model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.config.config import Config, read_config
from headway.config.schema import make_part
from headway.data.corpora import ParallelCorpus, parallel_from_memory
from headway.data.toy import toy_corpus
from headway.errors import ConfigError, HeadwayError
from headway.text.shortlist import SHORTLIST_FILE, Shortlist
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train import shortlist as module
from headway.train.shortlist import FrequentShortlist, LexicalShortlist, count_lexicons, load_or_build_shortlist

PAIRS = [(pair.source, pair.target) for pair in toy_corpus(120)]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def tagged() -> Tokenizers:
    both = Tokenizer.train([side for pair in PAIRS for side in pair], "bpe(400)", tags=["de", "qtx"])
    return Tokenizers(both, both)


def corpus(to: str, pairs: list[tuple[str, str]] = PAIRS) -> ParallelCorpus:
    return parallel_from_memory([a for a, _ in pairs], [b for _, b in pairs], "en", to)


def test_a_training_makes_it_and_goes_on_with_it(
    train_toy: Callable[..., Path], toy: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--set", "train.steps=8", "--set", "train.validate_every=4", "--set", "train.shortlist=lexical(best=3)"]
    out = train_toy(*quick)
    assert f"{SHORTLIST_FILE} made from 100 pairs" in capsys.readouterr().err
    found = Shortlist.load(out)
    assert found.about == {"best": "3", "frequent": "100", "pairs": "100"}
    assert Config.load(out / "config.json").train.shortlist == LexicalShortlist.Config(best=3)
    assert headway.load(out, device="cpu")("A dog runs.", shortlist=True) is not None

    from headway.cli.app import main

    files = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
    named = [word for name, file in files.items() for word in (f"--{name}", str(toy / file))]
    again = [*named, *tiny, "--out", str(out), "--set", "train.steps=12", "--set", "train.validate_every=4"]
    assert main(["train", *again]) == 0, "another shortlist, or none, changes no step"
    assert np.array_equal(Shortlist.load(out).targets, found.targets), "what was made stays"
    assert main(["train", *again, "--set", "train.steps=14", "--set", "train.shortlist=frequent(20)"]) == 0
    assert Shortlist.load(out).is_fixed


def test_it_is_kept_in_the_cache(own_cache: None, tagged: Tokenizers, monkeypatch: pytest.MonkeyPatch) -> None:
    part = make_part("shortlist", "lexical(5, frequent=7)")
    first = load_or_build_shortlist(part, [corpus("")], tagged, ())
    assert first.about == {"best": "5", "frequent": "7", "pairs": "120"}
    monkeypatch.setattr(module, "build_shortlist", lambda *arguments: pytest.fail("made again"))
    assert np.array_equal(load_or_build_shortlist(part, [corpus("")], tagged, ()).targets, first.targets)
    with pytest.raises(pytest.fail.Exception):
        load_or_build_shortlist(make_part("shortlist", "lexical(6, frequent=7)"), [corpus("")], tagged, ())


def test_pairs_come_from_all_parts_of_the_text(tagged: Tokenizers) -> None:
    for part in (LexicalShortlist.Config(pairs=50), FrequentShortlist.Config(pairs=50)):
        lexicon = count_lexicons(part, [corpus("", PAIRS[:60]), corpus("", PAIRS[60:])], tagged, ())[""]
        some = PAIRS[::3]
        assert lexicon.pairs == len(some) == 40
        tokens = sum(map(len, tagged.target.encode_batch([target for _, target in some])))
        assert lexicon.frequency.sum() == tokens


def test_each_tag_has_the_words_of_its_language(own_cache: None, tagged: Tokenizers) -> None:
    german = [(source, "Das ist gut.") for source, _ in PAIRS]
    part, tags = LexicalShortlist.Config(best=5, frequent=5), ("de", "qtx")
    found = load_or_build_shortlist(part, [corpus("qtx"), corpus("de", german)], tagged, tags)
    target_ids = [set(tagged.target.encode(text)) for text in ("Das ist gut.", PAIRS[0][1])]
    ids = tagged.source.encode(PAIRS[0][0])
    lists = [set(found.candidates([tagged.source.tags[tag], *ids])) for tag in tags]
    assert target_ids[0] <= lists[0] and not target_ids[0] <= lists[1]
    one = load_or_build_shortlist(part, [corpus("qtx")], tagged, tags)
    with pytest.raises(HeadwayError, match="made without text in this target language"):
        one.candidates([tagged.source.tags["de"], *ids])
    with pytest.raises(HeadwayError, match="no target of this text is in de or qtx: name its language with --to."):
        load_or_build_shortlist(part, [corpus("fr")], tagged, tags)


@pytest.mark.parametrize(
    ("shortlist", "message"),
    [
        ("lexical(best=0)", "train.shortlist.best: 0 is out of range"),
        ("frequent(0)", "train.shortlist.frequent: 0 is out of range"),
        ("lexicon", '"lexicon" is not a kind of shortlist. Did you mean "lexical"?'),
    ],
)
def test_what_is_no_setting_is_refused(shortlist: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(").replace("?", r"\?")):
        read_config({"train": {"shortlist": shortlist}})


@pytest.mark.parametrize("shortlist", ["lexical", "frequent"])
def test_a_language_model_has_no_source(shortlist: str) -> None:
    table: dict[str, Any] = {
        "model": {"encoder": {"layers": 0}},
        "train": {"objective": "causal", "shortlist": shortlist},
    }
    with pytest.raises(ConfigError, match="train.shortlist: a shortlist needs a source sentence"):
        read_config(table)
