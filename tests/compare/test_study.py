"""Studies: read from TOML, strict, and their grids."""

from pathlib import Path
from typing import Any

import pytest

from headway.compare.axes import Axis
from headway.compare.study import Budget, Study, ToyText, check_study, read_study, shorten_table, study_from_table
from headway.errors import ConfigError
from headway.train.sources import TrainingFiles

TEXT = {"text": ["a.txt"]}
TABLE: dict[str, Any] = {"text": TEXT, "vary": {"mixer": ["attention", "retention"]}, "budget": {"steps": 10}}


def test_a_file_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "mixers.toml"
    path.write_text(
        """sample = 2
        lengths = [64]
        [text]
        source = "a.en"
        target = ["a.de"]
        pairs = "more.tsv"
        columns = ["en", "de"]
        test_source = "t.en"
        test_target = "t.de"
        [vary]
        mixer = ["attention", "retention"]
        train.clip = [1.0, 2.0]
        [budget]
        for = "3m"
        parameters = 1000
        seeds = 3
        [settings]
        preset = "tiny"
        config.model.dropout = 0.0
        """
    )
    study = read_study(path)
    assert study.name == "mixers" and study.preset == "tiny" and study.config == {"model": {"dropout": 0.0}}
    assert study.files.source == [f"{tmp_path}/a.en"] and study.files.columns == ("en", "de")
    assert study.test_source == f"{tmp_path}/t.en" and study.lengths == (64,)
    assert study.axes == (Axis("mixer", ("attention", "retention")), Axis("train.clip", (1.0, 2.0)))
    assert study.budget == Budget(seconds=180.0, parameters=1000, seeds=3)
    assert study.budget.describe() == "180 s of training each"
    assert len(study.choices()) == 2 and study.choices()[0] == {"mixer": "attention", "train.clip": 1.0}


def test_a_sample_is_always_the_same_and_has_the_first() -> None:
    axes = (Axis("d_model", tuple(range(8, 88, 8))), Axis("dropout", (0.0, 0.1)))
    study = Study(name="s", files=TrainingFiles(text=["a"]), axes=axes, budget=Budget(steps=1), sample=5)
    drawn = study.choices()
    assert drawn == study.choices() and len(drawn) == 5 and drawn[0] == {"d_model": 8, "dropout": 0.0}
    assert len({str(choice) for choice in drawn}) == 5


def test_budgets_become_settings() -> None:
    assert Budget(tokens=1001).train_settings(100)["steps"] == 11
    assert Budget(seconds=5).train_settings(100) == {"steps": 0, "epochs": 0, "seconds": 5, "patience": 0}
    assert Budget(steps=7).describe() == "7 steps each" and Budget(tokens=5).describe() == "5 tokens each"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": {}}, "needs one budget, steps, tokens or time, and nothing was given"),
        ({"budget": {"steps": 1, "tokens": 2}}, "steps and tokens was given"),
        ({"budget": {"steps": 1, "seeds": 0}}, "seeds = 0: give at least 1"),
        ({"budget": {"steps": 1, "parameters": -5}}, "parameters = -5: give a positive number"),
        ({"budget": {"steps": 1, "parameters": "as many"}}, "parameters = 'as many': give a positive number"),
        ({"budget": {"steps": "many"}}, "steps = 'many': give a whole number of at least 0"),
        ({"budget": {"untrained": "yes"}}, "untrained = 'yes': write true or false"),
        ({"lengths": [128, 0]}, "lengths = 0: give a whole number of at least 1"),
        ({"test_lengths": ["long"]}, "test_lengths = 'long': give a whole number"),
        ({"sample": 2.5}, r"sample = 2\.5: give a whole number"),
        ({"text": {}, "toy": {"task": "copy", "length": "long"}}, "length = 'long': give a whole number"),
        ({"budget": {"for": "soon"}}, "'soon' is not a duration"),
        ({"budget": {"hours": 1}}, r'there is no "hours" in \[budget\]'),
        ({"budget": 3}, r"\[budget\] must be a section"),
        ({"vary": {}}, "nothing varies"),
        ({"vary": {"mixer": []}}, "mixer has no values to vary"),
        ({"vary": {"mixer": ["a", "a"]}}, "mixer has the value a twice"),
        ({"vary": {"train.seed": [1], "train": {"seed": [2]}}}, "an axis is given twice"),
        ({"vary": {"a": list(range(40)), "b": list(range(40))}}, "this grid has 1,600 variants"),
        ({"text": {"source": "a", "target": "b"}, "test_lengths": [8]}, "test_lengths are for language models"),
        ({"budget": {"untrained": True, "seeds": 2}}, "untrained models cost the same with every seed"),
        ({"budget": {"untrained": True, "steps": 2}}, "steps and untrained was given"),
        ({"probes": ["coding_rat"]}, r'there is no probe "coding_rat"\. Did you mean "coding_rate"\?'),
        ({"text": {"source": "a", "target": "b"}, "probes": ["coding_rate"]}, "probes and answers are for language"),
        ({"toy": {"task": "copy", "length": 3}}, r"\[toy\] makes the text, and \[text\] names files"),
        ({"text": {}, "toy": {"task": "copy"}}, r"\[toy\] needs length"),
        ({"text": {}, "toy": {"tasks": "copy"}}, r'there is no "tasks" in \[toy\]'),
        ({"texts": {}}, r'there is no "texts".* Did you mean "text"\?'),
        ({"text": {**TEXT, "test_source": "a"}}, "test_source and test_target belong together"),
        ({"text": {**TEXT, "test_source": "a", "test_target": "b"}}, "a language model is measured on valid_text"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        study_from_table(TABLE | change, Path("folder"), "name")


def test_the_file_is_named_in_errors(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[vary]\n")
    with pytest.raises(ConfigError, match=r"s\.toml: "):
        read_study(tmp_path / "s.toml")


def test_a_study_made_in_python_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="give --source and --target"):
        check_study(Study(name="s", files=TrainingFiles(), axes=(), budget=Budget(steps=1)))


def test_a_short_edition_changes_what_it_names() -> None:
    table = TABLE | {
        "settings": {"preset": "tiny_lm", "config": {"model": {"d_model": 64, "dropout": 0.1}}},
        "budget": {"tokens": 10, "seeds": 3},
        "quick": {
            "text": {"text": "b.txt"},
            "lengths": [],
            "budget": {"steps": 2},
            "settings": {"config": {"model": {"d_model": 16}}},
        },
    }
    full, quick = (study_from_table(shorten_table(table, quick), Path("folder"), "name") for quick in (False, True))
    assert full.budget == Budget(tokens=10, seeds=3) and quick.budget == Budget(steps=2, seeds=3)
    assert full.files.text == ["folder/a.txt"] and quick.files.text == ["folder/b.txt"]
    assert quick.config == {"model": {"d_model": 16, "dropout": 0.1}} and quick.preset == "tiny_lm"
    assert quick.axes == full.axes and quick.lengths == () != full.lengths


def test_a_short_edition_may_have_other_text_altogether() -> None:
    table = TABLE | {"quick": {"toy": {"task": "copy", "length": 3}}}
    quick = study_from_table(shorten_table(table, True), Path("folder"), "name")
    assert quick.toy == ToyText(task="copy", length=3) and not quick.files.text
    with pytest.raises(ConfigError, match=r'there is no "txt" in \[quick\]'):
        shorten_table(TABLE | {"quick": {"txt": {}}}, True)
