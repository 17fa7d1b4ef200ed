"""Statistics of layers and the terms of the loss reach the history: the same whether a batch is taken whole or in
micro-batches, compiled or not (by two processes: see test_distributed.py); and none of it enters a validation loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from train.test_run import Seen, train, training
from train.test_trainer import SPECIAL, FewPairs, make_config

from headway.config.config import Config, read_config
from headway.nn.statistics import LayerStatistics, PartialMean, merge_statistics, zero_unless
from headway.nn.transformer import Transformer
from headway.train.distributed import ProcessGroup
from headway.train.history import read_history
from headway.train.loader import remove_labels
from headway.train.loss import LossOutput, batch_loss, cross_entropy
from headway.train.progress import ProgressSnapshot, RunningLoss, _sum_statistics
from headway.train.trainer import Trainer
from headway.train.validation import mean_loss

CPU = torch.device("cpu")
LOADS = ["encoder.0.feedforward.load", "decoder.0.feedforward.load"]
EXPERTS = [f"model.{side}.feedforward=moe(4, 2, 'relu(8)', balance_loss=0.05)" for side in ("encoder", "decoder")]


def with_experts(experts: str = "moe(4, 2, 'relu(8)', balance_loss=0.5, z_loss=0.1)", **train: Any) -> Config:
    table = make_config(**train).to_dict()
    for side in ("encoder", "decoder"):
        table["model"][side]["feedforward"] = experts
    return read_config(table)


def trainer(experts: str = "moe(4, 2, 'relu(8)', balance_loss=0.5, z_loss=0.1)", **train: Any) -> Trainer:
    config = with_experts(experts, **train)
    torch.manual_seed(1)
    return Trainer(config, Transformer(config.model), FewPairs(), SPECIAL, CPU)


def first_step(of: Trainer) -> LossOutput:
    pieces = next(of.steps())
    return of.step(pieces, sum(piece.label_count for piece in pieces))


def values(statistics: LayerStatistics) -> dict[str, Any]:
    return {name: mean.value() for name, mean in statistics.items()}


def test_the_parts_of_a_loss_make_it_up() -> None:
    model = trainer().model.train()
    batch = next(trainer().steps())[0]
    output = batch_loss(model, batch, 0.1)
    assert list(output.parts) == ["cross_entropy", "balance", "z"]
    torch.testing.assert_close(sum(output.parts.values()), output.loss.detach())
    torch.testing.assert_close(output.parts["cross_entropy"], cross_entropy(model, batch, 0.1).detach())
    # An even load costs 0.5 · 2 a layer and label; this one a little more.
    assert 2.0 <= float(output.parts["balance"]) / batch.label_count < 2.6
    assert list(output.statistics) == LOADS
    assert not any(number.requires_grad for mean in output.statistics.values() for number in mean)


def test_a_loss_that_is_all_cross_entropy_has_no_parts() -> None:
    output = batch_loss(trainer("relu(8)").model.train(), next(trainer().steps())[0], 0.1)
    assert output.parts == {} and output.statistics == {}


def test_pieces_tell_what_the_whole_tells() -> None:
    """To the choice; only the balance loss is each piece's own, and their mean another number than that of
    the whole."""
    whole, cut = (trainer("moe(4, 2, 'relu(8)', z_loss=0.1)", micro_batch_tokens=budget) for budget in (100_000, 40))
    pieces = next(cut.steps())
    assert len(pieces) > 1 == len(next(whole.steps()))
    real = sum(int(piece.source_valid.sum()) for piece in pieces)  # type: ignore[union-attr]
    one, other = first_step(whole), first_step(cut)
    for name in LOADS:
        assert torch.equal(one.statistics[name].total, other.statistics[name].total)
        assert torch.equal(one.statistics[name].weight, other.statistics[name].weight)
    assert float(one.parts["cross_entropy"]) == pytest.approx(float(other.parts["cross_entropy"]), rel=1e-5)
    assert float(one.parts["balance"]) == pytest.approx(float(other.parts["balance"]), rel=0.2)
    assert float(one.parts["balance"]) != float(other.parts["balance"])
    assert int(other.statistics[LOADS[0]].weight) == 2 * real


def test_a_process_without_work_tells_nothing() -> None:
    of = trainer()
    output = batch_loss(of.model.train(), remove_labels(next(of.steps())[0]), 0.1)
    output.loss.backward()
    assert float(output.loss.detach()) == 0.0
    assert all(float(part) == 0 for part in output.parts.values())
    assert all(float(mean.weight) == 0 and not mean.total.any() for mean in output.statistics.values())
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in of.model.parameters())


def test_means_are_joined_before_they_are_divided() -> None:
    one = {
        "a": PartialMean(torch.tensor([1.0, 2.0]), torch.tensor(4)),
        "b": PartialMean(torch.tensor(3.0), torch.tensor(2)),
    }
    other = {"a": PartialMean(torch.tensor([5.0, 0.0]), torch.tensor(2))}
    assert values(merge_statistics(one, other)) == {"a": [1.0, 2 / 6], "b": 1.5}
    lost = zero_unless({"a": PartialMean(torch.tensor([torch.nan]), torch.tensor(1))}, torch.tensor(False))
    assert not lost["a"].total.any() and not lost["a"].weight
    assert values(zero_unless(one, torch.tensor(True))) == values(one)


class Twins(ProcessGroup):
    """Two processes that always say the same."""

    def sum(self, numbers: torch.Tensor) -> torch.Tensor:
        return 2 * numbers.double()


def test_a_tally_is_the_mean_of_the_steps_that_were_taken() -> None:
    def output(loss: float, cross_entropy: float, load: list[int]) -> LossOutput:
        mean = PartialMean(torch.tensor(load), torch.tensor(sum(load)))
        return LossOutput(torch.tensor(loss), {"cross_entropy": torch.tensor(cross_entropy)}, {"load": mean})

    def running_loss(factor: float) -> RunningLoss:
        made, yes, no = RunningLoss(CPU), torch.tensor(True), torch.tensor(False)
        made.add(output(3.0 * factor, 2.0 * factor, [3, 1]), yes, 10)
        made.add(output(torch.nan, torch.nan, [0, 9]), no, 10)
        made.add(output(1.0 * factor, 1.0 * factor, [1, 3]), yes, 10)
        return made

    alone = running_loss(1.0)
    assert (alone.loss, alone.means) == (2.0, {"cross_entropy": 1.5, "load": [0.5, 0.5]})
    both = running_loss(0.5).reduce(Twins(0, 2))  # each has its share of the loss
    assert (both.loss, both.means) == (2.0, {"cross_entropy": 1.5, "load": [0.5, 0.5]})
    assert both.tokens == 60
    assert float(both.statistics["load"].weight) == 16
    nothing = RunningLoss(CPU)
    nothing.add(output(torch.nan, torch.nan, [1, 1]), torch.tensor(False), 10)
    assert nothing.means == {}
    assert _sum_statistics({}, Twins(0, 2)) == {}


def logged_steps(out: Path) -> list[dict[str, Any]]:
    return [entry for entry in read_history(out) if entry["kind"] == "step"]


def test_the_history_tells_it(tmp_path: Path) -> None:
    seen: list[ProgressSnapshot] = []

    class Listener(Seen):
        def on_step(self, snapshot: ProgressSnapshot) -> None:
            seen.append(snapshot)

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = [*EXPERTS, "model.dropout=0", "train.log_every=1", "train.steps=4"]
    train(whole, *settings, listener=Listener())
    train(cut, *settings, "train.micro_batch_tokens=200")
    for entry, snapshot in zip(logged_steps(whole), seen):
        assert entry["cross_entropy"] + entry["balance"] == pytest.approx(entry["loss"], rel=1e-5)
        for name in LOADS:
            assert len(entry[name]) == 4 and sum(entry[name]) == pytest.approx(1.0, abs=1e-4)
            assert entry[name] == pytest.approx(snapshot.statistics[name], abs=1e-5)
        assert snapshot.statistics["balance"] == entry["balance"]
    one, other = logged_steps(whole)[0], logged_steps(cut)[0]
    assert [one[name] for name in LOADS] == [other[name] for name in LOADS]
    assert one["cross_entropy"] == pytest.approx(other["cross_entropy"], rel=1e-5)


def test_experts_learn_and_validation_is_cross_entropy_alone(tmp_path: Path) -> None:
    settings = ["model.dropout=0", "train.steps=60", "train.log_every=10", "train.validate_every=60"]
    of = training(tmp_path, *EXPERTS, *settings)
    of.run()
    output = logged_steps(tmp_path)
    assert output[-1]["cross_entropy"] < 0.8 * output[0]["cross_entropy"]
    model = of.trainer.model
    losses = [
        mean_loss(way, of.valid_dataset, of.config, of.special_tokens).loss for way in (model.train(), model.eval())
    ]
    assert losses == pytest.approx([read_history(tmp_path)[-1]["loss"]] * 2, abs=1e-5)


def language_model(**train: Any) -> Trainer:
    """A single layer of experts."""
    table = with_experts(**train).to_dict()
    table["train"]["objective"] = "causal"
    table["model"]["encoder"] = {"layers": 0}
    del table["model"]["decoder"]["cross"]
    config = read_config(table)
    torch.manual_seed(1)
    return Trainer(config, Transformer(config.model), FewPairs(), SPECIAL, CPU)


@pytest.mark.filterwarnings("ignore")  # the compiler warns of itself
def test_a_compiled_loss_reports_the_same_and_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the router says and however many labels count. Traced, and run as it was traced: that takes seconds."""
    from torch._dynamo.utils import counters

    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: compiler(function, backend="eager", **options))
    torch._dynamo.reset()
    plain, compiled = language_model(), language_model(compile="on")
    batches = [batch for _, step in zip(range(30), compiled.steps()) for batch in step]
    alike = [batch for batch in batches if batch.labels.shape == batches[0].labels.shape]
    assert len({batch.label_count for batch in alike}) > 2
    graphs = []
    for batch in alike[:4]:
        output, expected = (of.step([batch], batch.label_count) for of in (compiled, plain))
        torch.testing.assert_close(output.loss, expected.loss)
        torch.testing.assert_close(output.parts, expected.parts)
        assert list(output.parts) == ["cross_entropy", "balance", "z"]
        assert values(output.statistics) == values(expected.statistics) != {}
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[1] == graphs[-1] > 0
