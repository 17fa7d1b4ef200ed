"""What is planned for a time budget on a CPU: size, vocabulary and steps by what the machine does in that time."""

from pathlib import Path
from typing import Any

import pytest
import torch
from quick_training import PAIRS

import headway
from headway.config.config import Config
from headway.config.presets import CorpusStatistics
from headway.config.sources import Layer, compose, parse_assignment
from headway.data.corpora import parallel_from_memory
from headway.train import budget_plan
from headway.train.budget_plan import BudgetPlan, measure_token_rate, plan_new_model
from headway.train.preparation import EncodingProgress
from headway.train.progress import ReportClock
from headway.train.setup import collect_layers
from headway.train.sources import TrainingFiles, TrainingTexts

CPU = torch.device("cpu")
CAPTIONS = CorpusStatistics(lines=29_000, words=370_000, characters=1_900_000)


def upper(*assignments: str) -> list[Layer]:
    return [Layer(text, parse_assignment(text)) for text in assignments]


@pytest.fixture
def rate(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets how many tokens a second this machine trains a model of so many parameters on."""

    def set_rate(tokens: float) -> None:
        def measured(config: Config, length: int) -> float:
            return tokens * 1e6 / config.model.parameter_count()

        monkeypatch.setattr(budget_plan, "measure_token_rate", measured)

    return set_rate


def planned(*assignments: str, preset: str = "small", objective: str = "translation") -> BudgetPlan:
    plan = plan_new_model(preset, objective, upper(*assignments), CAPTIONS, CPU)
    assert plan is not None
    return plan


def test_little_time_a_small_model_with_a_small_vocabulary_and_small_steps(rate: Any) -> None:
    rate(6000)
    plan = planned("train.seconds=360")
    assert plan.preset == "tiny"
    assert 1024 <= plan.settings["tokenizer"]["size"] <= 2560
    train = plan.settings["train"]
    assert 512 <= train["batch_tokens"] <= 1024
    assert (train["steps"], train["schedule"]["warmup"]) == (0, pytest.approx(200, abs=40))
    assert "steps of" in plan.reason and "fit into 6:00" in plan.reason


def test_more_time_a_larger_model_up_to_what_the_text_can_train(rate: Any) -> None:
    rate(6000)
    assert planned("train.seconds=360000").preset == "small"
    assert planned("train.seconds=36000000").preset == "small"
    assert planned("train.seconds=36000000", preset="medium").preset == "medium"


def test_in_little_time_no_step_is_too_small(rate: Any) -> None:
    rate(60)
    train = planned("train.seconds=60").settings["train"]
    assert (train["batch_tokens"], train["schedule"]["warmup"]) == (512, 1)


def test_what_the_user_has_set_is_timed_and_kept(rate: Any) -> None:
    rate(6000)
    assert "tokenizer" not in planned("train.seconds=360", "tokenizer=bpe(4000)").settings
    assert "tokenizer" not in planned("train.seconds=360", "tokenizer=bytes").settings
    texts = TrainingTexts([parallel_from_memory(*zip(*PAIRS), "en", "de")], [])
    given = upper("train.seconds=360", "train.batch_tokens=4096", "train.schedule.warmup=7")
    layers, reason = collect_layers(texts, TrainingFiles(), "auto", given, planned_for=CPU)
    config, origins = compose(layers)
    assert (config.train.batch_tokens, config.train.schedule.warmup, config.train.steps) == (4096, 7, 0)
    assert origins["train.steps"] == "time budget (auto)"
    assert "fit into 6:00" in reason


@pytest.mark.parametrize(("seconds", "device"), [(0, "cpu"), (360, "cuda")])
def test_nothing_is_planned_without_a_time_budget_or_on_a_gpu(seconds: int, device: str) -> None:
    given = upper(f"train.seconds={seconds}")
    assert plan_new_model("small", "translation", given, CAPTIONS, torch.device(device)) is None


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_language_models(rate: Any, objective: str) -> None:
    rate(6000)
    plan = planned("train.seconds=120", f"train.objective={objective}", preset="small_lm", objective=objective)
    assert plan.preset == "tiny_lm"
    assert plan.settings["tokenizer"]["size"] < 2048
    rate(6_000_000)
    assert planned("train.seconds=12000", preset="small_lm", objective=objective).preset == "small_lm"


@pytest.mark.parametrize("name", ["tiny", "tiny_lm"])
def test_the_rate_is_measured(name: str) -> None:
    from headway.config.presets import find_preset

    vocabulary = {"model": {"vocabulary": 320, "source_vocabulary": 320, "d_model": 16}}
    config, _ = compose([Layer("", find_preset(name)), Layer("", vocabulary)])
    assert measure_token_rate(config, 32) > 10


@pytest.mark.parametrize(
    ("name", "objective"),
    [("tiny_lm", "masked"), ("tiny_lm", "masked(unit='words')"), ("tiny_lm", "permutation"),
     ("tiny", "span_corruption"), ("tiny", "denoising")],
)  # fmt: skip
def test_the_rate_of_other_objectives_is_measured(name: str, objective: str) -> None:
    from headway.config.presets import find_preset_for

    changes = {"model": {"vocabulary": 320, "source_vocabulary": 320, "d_model": 16}, "train": {"objective": objective}}
    config, _ = compose([Layer("", find_preset_for(name, objective.partition("(")[0])), Layer("", changes)])
    assert measure_token_rate(config, 32) > 10


def test_a_resumed_run_keeps_what_was_planned(tmp_path: Path, rate: Any) -> None:
    small = {"model.d_model": 16, "tokenizer": "bytes", "train.decode_lines": 2}
    options = {"languages": ("en", "qtx"), "set": small, "device": "cpu", "progress": False}
    rate(400)
    headway.train(PAIRS, out=tmp_path / "m", seconds=2, **options)
    before = Config.load(tmp_path / "m" / "config.json")
    assert before.train.steps == 0
    rate(400_000)  # the machine is less busy now, and would be given larger steps
    result = headway.train(PAIRS, out=tmp_path / "m", seconds=3, **options)
    after = Config.load(tmp_path / "m" / "config.json")
    assert (after.model, after.train.batch_tokens) == (before.model, before.train.batch_tokens)
    assert after.train.seconds == 3 and result.step > 0


def test_fine_tuning_takes_small_steps_where_time_is_short(tmp_path: Path, rate: Any) -> None:
    small = {"model.d_model": 16, "tokenizer": "bytes", "train.decode_lines": 2}
    options = {"languages": ("en", "qtx"), "device": "cpu", "progress": False}
    headway.train(PAIRS, out=tmp_path / "base", steps=1, set=small, **options)
    rate(60)
    headway.train(PAIRS, out=tmp_path / "tuned", from_model=tmp_path / "base", seconds=2, **options)
    train = Config.load(tmp_path / "tuned" / "config.json").train
    assert (train.batch_tokens, train.steps) == (512, 0)
    assert train.schedule.warmup < 200


# ---- what is said meanwhile


def test_encoding_says_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    said: list[str] = []
    progress = EncodingProgress(said.append, 1000, "pairs")
    for seconds, rows in ((101, 100), (106, 400), (107, 500), (112, 800), (118, 1000)):
        clock[0] = float(seconds)
        progress.on_rows(rows)
    assert said == [
        "encoding 1,000 pairs",
        "encoded 400 of 1,000 pairs, 0:09 left",
        "encoded 800 of 1,000 pairs, 0:03 left",
    ]


def test_a_log_has_its_first_line_soon_and_one_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    reports = ReportClock()
    due = []
    for seconds in (101, 104, 110, 150, 170):
        clock[0] = float(seconds)
        due.append(reports.is_due())
        if due[-1]:
            reports.add_report()
    assert due == [False, True, False, False, True]
