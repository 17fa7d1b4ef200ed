"""The studies in studies/: every variant can be built, and has the parameters that the study asks for."""

from dataclasses import replace
from pathlib import Path

import pytest

from headway.compare.parameter_budget import TOLERANCE
from headway.compare.study import Study, read_study
from headway.compare.trials import plan_trials
from headway.train.sources import TrainingFiles

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))


def on_toy_text(study: Study, toy: Path) -> Study:
    """The same study with text of our own, and a vocabulary that this text has."""
    if study.toy is not None:
        return replace(study, toy=replace(study.toy, lines=200))
    if study.files.text:
        files = TrainingFiles(text=[str(toy / "text.txt")])
    else:
        files = TrainingFiles(source=[str(toy / "train.en")], target=[str(toy / "train.qtx")])
    config = {**study.config, "tokenizer": study.config.get("tokenizer", {"kind": "bpe", "size": 384})}
    return replace(study, files=files, config=config, test_source="", test_target="")


@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_variant_can_be_built(path: Path, quick: bool, toy: Path, tmp_path: Path) -> None:
    study = on_toy_text(read_study(path, quick=quick), toy)
    plan = plan_trials(study, tmp_path)
    assert [f"{variant.name}: {variant.refusal}" for variant in plan.variants if variant.refusal] == []
    assert len(plan.trials) == len(study.choices()) * study.budget.seeds
    if plan.target is not None:
        assert all(abs(trial.fit.parameters - plan.target) <= TOLERANCE * plan.target for trial in plan.trials)
    else:
        assert study.budget.parameters == "free"
    assert len({trial.folder for trial in plan.trials}) == len(plan.trials)


def test_each_says_what_is_claimed() -> None:
    assert len(STUDIES) >= 10
    for path in STUDIES:
        assert path.read_text(encoding="utf-8").startswith(("# Claim: ", "# Claims: ")), path
