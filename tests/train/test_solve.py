"""Models that solve problems: trained with and without a graph reasoner, resumed exactly, evaluated, in int8."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.config.config import Config
from headway.data.labelled_files import collect_rows
from headway.data.toy.algorithms import draw_problems, find_algorithms
from headway.errors import ConfigError, HeadwayError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.storage.model_dir import load_model, read_tensors, save_model
from headway.storage.packing import int8_state_dict
from headway.text.tokenizer.special_tokens import special_tokens
from headway.train.loss import batch_loss, objective_loss
from headway.train.task_dataset import TaskDataset
from headway.translate.problem_evaluation import describe_answers, evaluate_problems
from headway.translate.solver import Solver

SMALL: dict[str, Any] = {
    "model.d_model": 32, "model.decoder.layers": 1, "model.decoder.mixer": "attention(2)",
    "model.decoder.feedforward": "relu(32)", "model.reasoner.width": 16, "train.batch_tokens": 512,
    "train.max_tokens": 40, "train.schedule": "constant(0.01)", "train.validate_every": 20, "train.log_every": 20,
}  # fmt: skip
QUICK: dict[str, Any] = {"device": "cpu", "progress": False}


def make_rows(name: str = "sort", count: int = 200, size: int = 3, seed: int = 1) -> list[dict[str, Any]]:
    found = draw_problems(find_algorithms(name), random.Random(seed), 2, size, count, set(), repeated=True)
    return [json.loads(problem.to_line()) for problem in found]


def train(rows: Any, out: Path, **keywords: Any) -> Any:
    settings = {**SMALL, **keywords.pop("set", {})}
    options = {**QUICK, "preset": "transnar", "valid": rows[:20], **keywords, "set": settings}
    return headway.train(rows, out=out, task="solve", **options)


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("solver") / "model"
    train(make_rows("minimum", 600), out, steps=110)
    return out


def test_it_learns(solver: Path) -> None:
    model = headway.load(solver, device="cpu")
    assert isinstance(model, Solver) and "solve with a graph reasoner" in repr(model)
    test = collect_rows(make_rows("minimum", 80, seed=2), "solve")
    found = evaluate_problems(model, test.examples)
    scores = {score.name: score for score in found.scores}
    assert list(scores) == ["accuracy", "node_accuracy"] and scores["node_accuracy"].value > 0.6
    assert scores["accuracy"].value > 0.3 and scores["accuracy"].low < scores["accuracy"].value
    table, wrong = describe_answers(test.examples, found)
    assert [row[:2] for row in table] == [("minimum", "2"), ("minimum", "3")]
    assert len(wrong) == found.right.count(False) and all(line.startswith("wrong: ") for line in wrong)
    gates = [x for name, x in read_tensors(solver / "model.safetensors").items() if name.endswith("nodes.gate")]
    assert len(gates) == 1 and abs(float(gates[0])) > 0.01  # it listens
    card = (solver / "README.md").read_text()
    assert "solves problems with a graph reasoner" in card and "headway predict" in card
    assert Config.load(solver / "config.json").labels == ("minimum",)


def test_answers_do_not_depend_on_other_problems(solver: Path) -> None:
    model = headway.load(solver, device="cpu")
    assert isinstance(model, Solver)
    rows = make_rows("minimum", 6, size=8, seed=5)
    problems: list[Any] = [*rows, "minimum 4 2 =", "tell me", "", {"text": "minimum 4 2 =", "graph": rows[0]["graph"]}]
    together, alone = model.solve(problems), [model.solve([problem])[0] for problem in problems]
    for one, other in zip(together, alone):
        assert one.text == other.text and one.pointers == other.pointers and one.nodes == other.nodes
        assert one.probability == pytest.approx(other.probability, abs=1e-5)
        assert one.marks == pytest.approx(other.marks, abs=1e-5)
    assert together[6].nodes == ("4", "2") and together[7].nodes == () and together[8].probability == 0
    assert together[9].nodes == tuple(node[0] for node in rows[0]["graph"]["nodes"])
    assert together[0].nodes_right is not None and together[7].nodes_right is None
    assert model.solve(["minimum 4 2 ="], beam_size=3)[0].probability >= together[6].probability - 1e-6
    for given, message in (("minimum 4 2 =", "takes a list"), ([3], "problem 0 is 3"), (["1 " * 50], "at most 40")):
        with pytest.raises(HeadwayError, match=message):
            model.solve(given)  # type: ignore[arg-type]
    with pytest.raises(HeadwayError, match="continues no text"):
        model("minimum")


def test_int8(solver: Path, tmp_path: Path) -> None:
    loaded = load_model(solver)
    save_model(tmp_path / "small", loaded.config, int8_state_dict(loaded), loaded.tokenizers, "card")
    assert (tmp_path / "small/model.safetensors").stat().st_size < (solver / "model.safetensors").stat().st_size
    test = collect_rows(make_rows("minimum", 60, seed=3), "solve").examples
    whole, small = (headway.load(path, device="cpu") for path in (solver, tmp_path / "small"))
    assert isinstance(whole, Solver) and isinstance(small, Solver) and small.stepper.compute == "int8"
    same = [a.text == b.text for a, b in zip(whole.solve(test), small.solve(test))]
    assert np.mean(same) > 0.8
    assert [a.pointers for a in whole.solve(test)] == [b.pointers for b in small.solve(test)]  # the reasoner is exact


def test_resuming_is_exact(tmp_path: Path) -> None:
    rows, settings = make_rows(count=60), {"train.validate_every": 3}
    whole = train(rows, tmp_path / "whole", steps=6, set=settings)
    train(rows, tmp_path / "halves", steps=3, set=settings)
    halves = train(rows, tmp_path / "halves", steps=6, set=settings)
    one, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "halves"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert whole.result == halves.result
    changed = [dict(row, graph=dict(row["graph"], marks=[0] * len(row["graph"]["nodes"]))) for row in rows]
    with pytest.raises(HeadwayError, match="other training text"):  # the same texts, other graphs
        train(changed, tmp_path / "halves", steps=6, set=settings, valid=rows[:20])


def test_a_reasoner_is_trained_first_and_frozen(tmp_path: Path) -> None:
    rows = make_rows(count=60)
    first = train(rows, tmp_path / "first", steps=4, set={"train.objective": "solve(answers=0)"})
    assert list(first.result.task) == ["node_accuracy", "accuracy"]
    before = read_tensors(tmp_path / "first/model.safetensors")
    settings = {"train.objective": "solve(frozen=true)", "train.schedule": "constant(0.01)", "train.validate_every": 2}
    for steps in (2, 4):  # resumed once
        result = headway.train(
            rows, out=tmp_path / "then", task="solve", from_model=tmp_path / "first", steps=steps, set=settings, **QUICK
        )
    after = read_tensors(tmp_path / "then/model.safetensors")
    assert result.model.config.labels == ("sort",) and before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and not any(name.startswith("reasoner.") for name in changed)
    assert any(".nodes." in name for name in changed)


def test_a_plain_model_and_one_that_is_given_a_reasoner(tmp_path: Path) -> None:
    rows = make_rows(count=60)
    plain = {name: value for name, value in SMALL.items() if "reasoner" not in name} | {"model.reasoner": "none"}
    result = headway.train(
        rows, out=tmp_path / "plain", task="solve", valid=rows[:9], preset="transnar", steps=2, set=plain, **QUICK
    )
    assert result.model.config.model.reasoner is None and list(result.result.task) == ["accuracy"]
    assert isinstance(result.model, Solver) and result.model.solve(["sort 3 1 ="])[0].nodes == ()
    ids = torch.randint(result.model.config.model.vocabulary, (1, 5))
    more = {"model.reasoner": "mpnn(8)", "train.schedule": "constant(0)", "train.objective": "solve"}
    options = {"from_model": tmp_path / "plain", "steps": 1, "set": more}
    other = headway.train(rows, out=tmp_path / "more", task="solve", **options, **QUICK)
    assert other.model.config.model.reasoner.numbers == 3 and other.model.encoder is not None
    with torch.no_grad():
        assert torch.equal(result.model.model.decode(ids), other.model.model.decode(ids))


def test_batches_and_losses(solver: Path) -> None:
    config, model, tokenizers = load_model(solver)
    rows = [*make_rows("minimum", 3), {"text": "hello", "answer": "7"}, {"text": "long " * 60, "answer": "7"}]
    dataset = TaskDataset(collect_rows(rows, "solve"), tokenizers.source, config)
    assert dataset.size == 4 and dataset.skipped_summary == "examples: 1 longer than 40 tokens left out"
    (shard,) = dataset.epoch(0)
    examples = [shard.examples[index] for index in range(4)]
    assert shard.lengths[:, 1].tolist() == [len(e.source) + len(e.target) for e in examples]
    special, objective = special_tokens(tokenizers.target), config.train.objective
    batch = objective.collate(examples, special, np.random.default_rng(0))
    assert batch.label_count == int((batch.labels != IGNORE_INDEX).sum()) == sum(len(e.target) + 1 for e in examples)
    for row, example in enumerate(examples):
        first = len(example.source) - 1
        expected = [IGNORE_INDEX] * first + [*example.target, special.end]
        assert batch.labels[row, : len(expected)].tolist() == expected
        assert batch.inputs is not None and batch.inputs[row, first + 1] == example.target[0]
    assert batch.graphs is not None and batch.graphs.valid.sum(1).tolist()[3] == 0
    with torch.no_grad():
        output = batch_loss(model, batch, 0.0, config.train.alignment, objective=objective)
        padded = batch_loss(model, batch.pad_to(6, 16), 0.0, config.train.alignment, objective=objective)
        parts = [objective_loss(model, batch.slice_rows(row, row + 1), objective) for row in range(4)]
    assert set(output.parts) == {"cross_entropy", "nodes"} and output.parts["nodes"] > 0
    torch.testing.assert_close(torch.stack(parts).sum(), output.parts["cross_entropy"], atol=1e-4, rtol=0)
    torch.testing.assert_close(padded.loss, output.loss, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.encoder.layers": 1}, '"solve" needs a decoder only'),
        ({"model.predicted_length": 9}, "needs an encoder and a decoder"),
        ({"model.reasoner": "none", "train.objective": "solve(frozen=true)"}, "frozen = true is for a model with"),
        ({"model.reasoner": "none", "train.objective": "solve(answers=0)"}, "answers = 0 is for a model with"),
        ({"train.objective": "solve(answers=0, frozen=true)"}, "nothing is trained"),
    ],
)
def test_configs_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    plain = {name: value for name, value in SMALL.items() if "reasoner" not in name or "model.reasoner" not in changes}
    options = {"preset": "transnar", "set": {**plain, **changes}}
    with pytest.raises(ConfigError, match=message):
        headway.train(make_rows(count=9), out="never", task="solve", **options, **QUICK)


def test_data_that_does_not_fit(tmp_path: Path, solver: Path) -> None:
    rows = [{"text": f"what is {n}", "answer": "7"} for n in range(20)]
    with pytest.raises(ConfigError, match="no problem has a graph"):
        train(rows, tmp_path / "never")
    with pytest.raises(HeadwayError, match="Give tuples of text, answer"):
        train([{"text": "", "answer": ""}], tmp_path / "never")
    with pytest.raises(HeadwayError, match="there are no problems"):
        model = headway.load(solver, device="cpu")
        assert isinstance(model, Solver)
        evaluate_problems(model, [])
