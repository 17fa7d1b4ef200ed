"""TER, chrF++ and others by name: sacreBLEU's numbers and signatures; COMET through a module with its package's API."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headway.cli.app import main
from headway.errors import ConfigError, HeadwayError
from headway.text import comet
from headway.text.metric_scores import (
    MetricScore,
    MetricSettings,
    bootstrap_means,
    compare_metric,
    compute_metric,
    parse_metrics,
)
from headway.text.metrics import paired_bootstrap
from text.test_metrics import BETTER, REFERENCES, WORSE, command_line


class StandIn:
    """A COMET model by its interface: scores by the share of words that are in the reference, or in the source."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.calls: list[dict[str, Any]] = []

    def requires_references(self) -> bool:
        return "kiwi" not in self.path

    def predict(
        self, samples: list[dict[str, str]], batch_size: int = 8, gpus: int = 1, progress_bar: bool = True
    ) -> Any:
        self.calls.append({"samples": samples, "batch_size": batch_size, "gpus": gpus, "progress_bar": progress_bar})
        scores = []
        for sample in samples:
            known = set((sample["ref"] if self.requires_references() else sample["src"]).split())
            words = sample["mt"].split()
            scores.append(sum(word in known for word in words) / max(len(words), 1))
        return SimpleNamespace(scores=scores, system_score=float(np.mean(scores)))


@pytest.fixture
def comet_package(monkeypatch: pytest.MonkeyPatch) -> dict[str, StandIn]:
    """A module `comet` with download_model and load_from_checkpoint; the models that were loaded."""
    loaded: dict[str, StandIn] = {}
    module: Any = ModuleType("comet")
    module.__spec__ = SimpleNamespace(name="comet")
    module.download_model = lambda name: f"/cache/{name}.ckpt"

    def load_from_checkpoint(path: str) -> StandIn:
        if "gated" in path:
            raise RuntimeError("401 Client Error")
        return loaded.setdefault(path, StandIn(path))

    module.load_from_checkpoint = load_from_checkpoint
    monkeypatch.setitem(sys.modules, "comet", module)
    comet.load_comet.cache_clear()
    return loaded


@pytest.mark.parametrize(
    ("metric", "arguments"),
    [
        ("ter", ["-m", "ter"]),
        ("chrf++", ["-m", "chrf", "--chrf-word-order", "2"]),
        ("chrf", ["-m", "chrf"]),
        ("bleu", ["-m", "bleu"]),
    ],
)
def test_scores_are_those_of_the_command_line(tmp_path: Path, metric: str, arguments: list[str]) -> None:
    theirs = json.loads(command_line(tmp_path, "-i", "better", *arguments, "--format", "json"))
    ours = compute_metric(metric, BETTER, REFERENCES)
    assert ours.score == pytest.approx(theirs["score"], abs=1e-7)
    assert ours.signature == theirs["signature"]
    assert ours.line.startswith(f"{theirs['name']}|{theirs['signature']} = {ours.score:.2f}")
    assert ours.higher_is_better == (metric != "ter")


@pytest.mark.parametrize("metric", ["ter", "chrf++"])
def test_the_bootstrap_is_that_of_the_command_line(tmp_path: Path, metric: str) -> None:
    arguments = ["-m", "ter"] if metric == "ter" else ["-m", "chrf", "--chrf-word-order", "2"]
    more = ["--paired-bs", "--paired-bs-n", "200", "--format", "text"]
    printed = command_line(tmp_path, "-i", "better", "worse", *arguments, *more)
    ours = paired_bootstrap(BETTER, WORSE, REFERENCES, metric=metric, samples=200)
    rows = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", printed)
    for interval, row in zip((ours.a, ours.b), rows, strict=True):
        found = (interval.score, interval.mean, interval.half_width)
        assert found == pytest.approx([float(number) for number in row], abs=1e-5)
    assert f"(p = {ours.p_value:.4f})" in printed and ours.signature in printed
    scores = [compute_metric(metric, lines, REFERENCES) for lines in (BETTER, WORSE)]
    assert compare_metric(*scores, (BETTER, WORSE), REFERENCES).p_value < 0.05


def test_lowercase_reaches_them() -> None:
    settings = MetricSettings(lowercase=True)
    for metric in ("ter", "chrf++", "bleu"):
        assert compute_metric(metric, ["GOOD DAY"], ["good day"], settings=settings).score in (0.0, pytest.approx(100))


def test_comet_scores_each_line(comet_package: dict[str, StandIn]) -> None:
    sources = ["ein Hund"] * len(BETTER)
    found = compute_metric("comet", BETTER, REFERENCES, sources)
    [(path, model)] = comet_package.items()
    assert path == "/cache/Unbabel/wmt22-comet-da.ckpt"
    assert model.calls[0]["samples"][0] == {"src": "ein Hund", "mt": BETTER[0], "ref": REFERENCES[0]}
    assert (model.calls[0]["gpus"], model.calls[0]["progress_bar"]) == (0, False)
    assert found.score == pytest.approx(np.mean(found.segments)) and len(found.segments) == len(BETTER)
    assert found.line == f"COMET|model:Unbabel/wmt22-comet-da|version:unknown = {found.score:.4f}"
    other = compute_metric("comet", WORSE, REFERENCES, sources)
    assert len(comet_package) == 1, "loaded once"
    assert compare_metric(found, other, (BETTER, WORSE), REFERENCES).p_value < 0.05
    assert compare_metric(found, found, (BETTER, BETTER), REFERENCES).p_value == 1.0


def test_quality_estimation_needs_no_references(comet_package: dict[str, StandIn]) -> None:
    found = compute_metric("comet-kiwi", ["a b", "c d"], None, ["a b", "x d"])
    assert found.segments == (1.0, 0.5)
    [model] = comet_package.values()
    assert set(model.calls[0]["samples"][0]) == {"src", "mt"}


def test_another_comet_model(comet_package: dict[str, StandIn], tmp_path: Path) -> None:
    (tmp_path / "my.ckpt").write_bytes(b"")
    settings = MetricSettings(comet_model=str(tmp_path / "my.ckpt"), device="cuda")
    compute_metric("comet", ["a"], ["a"], ["a"], settings)
    [(path, model)] = comet_package.items()
    assert path == str(tmp_path / "my.ckpt") and model.calls[0]["gpus"] == 1


def test_means_are_resampled_in_pairs() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.5, 0.1, 40), rng.normal(0.53, 0.1, 40)
    ours = bootstrap_means(*(MetricScore("comet", float(np.mean(x)), "s", "", tuple(x)) for x in (a, b)), samples=500)
    drawn = np.random.default_rng(12345).choice(40, size=(500, 40), replace=True)
    differences = np.array([b[row].mean() - a[row].mean() for row in drawn])
    count = sum(abs(one - differences.mean()) > abs(b.mean() - a.mean()) for one in differences)
    assert ours.p_value == pytest.approx((count + 1) / 501)
    assert ours.a.half_width > 0 and ours.a.mean == pytest.approx(a.mean(), abs=0.01)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: parse_metrics("bluu"), 'there is no metric "bluu". Did you mean "bleu"?'),
        (lambda: parse_metrics(" , "), "name at least one metric of: bleu, chrf, chrf"),
        (lambda: compute_metric("ter", ["a"], None), "ter compares with references, and there are none"),
        (lambda: compute_metric("comet", ["a"], ["a"]), "comet needs the source text"),
        (
            lambda: compute_metric("comet", ["a"], None, ["a"]),
            "compares with references, and there are none. Use comet-kiwi",
        ),
        (lambda: compute_metric("ter", ["a"], ["a", "b"]), "there are 1 hypotheses and 2 references"),
        (lambda: paired_bootstrap(["a"], ["a"], ["a"], metric="x"), 'metric is "x": it can be bleu, chrf'),
        (lambda: comet.load_comet("gated"), "the COMET model gated cannot be loaded: 401 Client Error"),
        (lambda: comet.load_comet("/no/such.ckpt"), "there is no COMET checkpoint /no/such.ckpt"),
    ],
)
def test_what_cannot_be_measured_is_refused(comet_package: dict[str, StandIn], call: Any, says: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        call()
    assert says in str(caught.value)


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "comet", None)
    comet.load_comet.cache_clear()
    with pytest.raises(HeadwayError, match="need unbabel-comet: pip install unbabel-comet"):
        compute_metric("comet", ["a"], ["a"], ["a"])


def test_the_verb_prints_them_with_a_test_for_each(
    translator_dir: Path,
    other_translator_dir: Path,
    toy: Path,
    comet_package: dict[str, StandIn],
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = ["--source", str(toy / "test.en"), "--target", str(toy / "test.qtx"), "--examples", "0"]
    models = ["--model", str(translator_dir), "--compare", str(other_translator_dir)]
    assert main(["evaluate", *models, *files, "--metric", "ter,chrf++,comet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("TER|nrefs:1|case:") and lines[1].startswith("chrF2++|nrefs:1|")
    assert lines[2].startswith("COMET|model:Unbabel/wmt22-comet-da|")
    header, first, second = [line.split("\t") for line in lines if "\t" in line]
    assert header == ["model", "TER", "p (TER)", "chrF2++", "p (chrF2++)", "COMET", "p (COMET)"]
    assert [first[place] for place in (2, 4, 6)] == [""] * 3
    assert all(0 < float(second[place]) <= 1 for place in (2, 4, 6))
    assert main(["evaluate", *models, *files, "--metric", "nist"]) == 2
    assert 'there is no metric "nist"' in capsys.readouterr().err
    with pytest.raises(ConfigError):
        parse_metrics("nist")
