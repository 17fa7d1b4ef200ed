"""What layers tell of themselves, and what the loss is made of, reach the history: the same whether a batch is taken
whole or in pieces, by one process or by two, compiled or not; and none of it enters a validation loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_loop import MARKS, FewPairs, make_config
from test_run import Seen, train, training
from test_team import command, run

from headway.config.config import Config, from_table
from headway.nn.statistics import Mean, Statistics, added, kept
from headway.nn.transformer import Transformer
from headway.train.distributed import Team
from headway.train.history import History, read_history
from headway.train.loader import unlabelled
from headway.train.loss import Told, batch_loss, cross_entropy
from headway.train.progress import Moment, Tally, _summed
from headway.train.trainer import Trainer
from headway.train.validation import mean_loss

CPU = torch.device("cpu")
LOADS = ["encoder.0.feedforward.load", "decoder.0.feedforward.load"]
EXPERTS = [f"model.{side}.feedforward=moe(4, 2, 'relu(8)', balance=0.05)" for side in ("encoder", "decoder")]


def with_experts(experts: str = "moe(4, 2, 'relu(8)', balance=0.5, z=0.1)", **train: Any) -> Config:
    table = make_config(**train).to_dict()
    for side in ("encoder", "decoder"):
        table["model"][side]["feedforward"] = experts
    return from_table(table)


def trainer(experts: str = "moe(4, 2, 'relu(8)', balance=0.5, z=0.1)", **train: Any) -> Trainer:
    config = with_experts(experts, **train)
    torch.manual_seed(1)
    return Trainer(config, Transformer(config.model), FewPairs(), MARKS, CPU)


def first_step(of: Trainer) -> Told:
    pieces = next(of.steps())
    return of.step(pieces, sum(piece.labelled for piece in pieces))


def values(statistics: Statistics) -> dict[str, Any]:
    return {name: mean.value() for name, mean in statistics.items()}


def test_the_parts_of_a_loss_make_it_up() -> None:
    model = trainer().model.train()
    batch = next(trainer().steps())[0]
    told = batch_loss(model, batch, 0.1)
    assert list(told.parts) == ["cross_entropy", "balance", "z"]
    torch.testing.assert_close(sum(told.parts.values()), told.loss.detach())
    torch.testing.assert_close(told.parts["cross_entropy"], cross_entropy(model, batch, 0.1).detach())
    # An even load costs 0.5 · 2 a layer and label; this one a little more.
    assert 2.0 <= float(told.parts["balance"]) / batch.labelled < 2.6
    assert list(told.statistics) == LOADS
    assert not any(number.requires_grad for mean in told.statistics.values() for number in mean)


def test_a_loss_that_is_all_cross_entropy_has_no_parts() -> None:
    told = batch_loss(trainer("relu(8)").model.train(), next(trainer().steps())[0], 0.1)
    assert told.parts == {} and told.statistics == {}


def test_pieces_tell_what_the_whole_tells() -> None:
    """To the choice; only the balance loss is each piece's own, and their mean another number than that of the whole."""
    whole, cut = (trainer("moe(4, 2, 'relu(8)', z=0.1)", micro_batch_tokens=budget) for budget in (100_000, 40))
    pieces = next(cut.steps())
    assert len(pieces) > 1 == len(next(whole.steps()))
    real = sum(int(piece.source_valid.sum()) for piece in pieces)  # type: ignore[union-attr]
    one, other = first_step(whole), first_step(cut)
    for name in LOADS:
        assert torch.equal(one.statistics[name].total, other.statistics[name].total)
        assert torch.equal(one.statistics[name].over, other.statistics[name].over)
    assert float(one.parts["cross_entropy"]) == pytest.approx(float(other.parts["cross_entropy"]), rel=1e-5)
    assert float(one.parts["balance"]) == pytest.approx(float(other.parts["balance"]), rel=0.2)
    assert float(one.parts["balance"]) != float(other.parts["balance"])
    assert int(other.statistics[LOADS[0]].over) == 2 * real


def test_a_process_without_work_tells_nothing() -> None:
    of = trainer()
    told = batch_loss(of.model.train(), unlabelled(next(of.steps())[0]), 0.1)
    told.loss.backward()
    assert float(told.loss.detach()) == 0.0
    assert all(float(part) == 0 for part in told.parts.values())
    assert all(float(mean.over) == 0 and not mean.total.any() for mean in told.statistics.values())
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in of.model.parameters())


def test_means_are_joined_before_they_are_divided() -> None:
    one = {"a": Mean(torch.tensor([1.0, 2.0]), torch.tensor(4)), "b": Mean(torch.tensor(3.0), torch.tensor(2))}
    other = {"a": Mean(torch.tensor([5.0, 0.0]), torch.tensor(2))}
    assert values(added(one, other)) == {"a": [1.0, 2 / 6], "b": 1.5}
    lost = kept({"a": Mean(torch.tensor([torch.nan]), torch.tensor(1))}, torch.tensor(False))
    assert not lost["a"].total.any() and not lost["a"].over
    assert values(kept(one, torch.tensor(True))) == values(one)


class Twins(Team):
    """Two processes that always say the same."""

    def sum(self, numbers: torch.Tensor) -> torch.Tensor:
        return 2 * numbers.double()


def test_a_tally_is_the_mean_of_the_steps_that_were_taken() -> None:
    def told(loss: float, words: float, load: list[int]) -> Told:
        mean = Mean(torch.tensor(load), torch.tensor(sum(load)))
        return Told(torch.tensor(loss), {"cross_entropy": torch.tensor(words)}, {"load": mean})

    def tally(factor: float) -> Tally:
        made, yes, no = Tally(CPU), torch.tensor(True), torch.tensor(False)
        made.add(told(3.0 * factor, 2.0 * factor, [3, 1]), yes, 10)
        made.add(told(torch.nan, torch.nan, [0, 9]), no, 10)
        made.add(told(1.0 * factor, 1.0 * factor, [1, 3]), yes, 10)
        return made

    alone = tally(1.0)
    assert (alone.loss, alone.means) == (2.0, {"cross_entropy": 1.5, "load": [0.5, 0.5]})
    both = tally(0.5).together(Twins(0, 2))  # each has its share of the loss
    assert (both.loss, both.means) == (2.0, {"cross_entropy": 1.5, "load": [0.5, 0.5]})
    assert both.tokens == 60
    assert float(both.statistics["load"].over) == 16
    nothing = Tally(CPU)
    nothing.add(told(torch.nan, torch.nan, [1, 1]), torch.tensor(False), 10)
    assert nothing.means == {}
    assert _summed({}, Twins(0, 2)) == {}


def told_steps(out: Path) -> list[dict[str, Any]]:
    return [entry for entry in read_history(out) if entry["kind"] == "step"]


def test_the_history_tells_it(tmp_path: Path) -> None:
    seen: list[Moment] = []

    class Watcher(Seen):
        def step(self, moment: Moment) -> None:
            seen.append(moment)

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = [*EXPERTS, "model.dropout=0", "train.log_every=1", "train.steps=4"]
    train(whole, *settings, watcher=Watcher())
    train(cut, *settings, "train.micro_batch_tokens=200")
    for entry, moment in zip(told_steps(whole), seen):
        assert entry["cross_entropy"] + entry["balance"] == pytest.approx(entry["loss"], rel=1e-5)
        for name in LOADS:
            assert len(entry[name]) == 4 and sum(entry[name]) == pytest.approx(1.0, abs=1e-4)
            assert entry[name] == pytest.approx(moment.statistics[name], abs=1e-5)
        assert moment.statistics["balance"] == entry["balance"]
    one, other = told_steps(whole)[0], told_steps(cut)[0]
    assert [one[name] for name in LOADS] == [other[name] for name in LOADS]
    assert one["cross_entropy"] == pytest.approx(other["cross_entropy"], rel=1e-5)


def test_experts_learn_and_validation_is_cross_entropy_alone(tmp_path: Path) -> None:
    settings = ["model.dropout=0", "train.steps=60", "train.log_every=10", "train.validate_every=60"]
    of = training(tmp_path, *EXPERTS, *settings)
    of.run()
    told = told_steps(tmp_path)
    assert told[-1]["cross_entropy"] < 0.8 * told[0]["cross_entropy"]
    model = of.trainer.model
    losses = [mean_loss(way, of.valid, of.config, of.marks).loss for way in (model.train(), model.eval())]
    assert losses == pytest.approx([read_history(tmp_path)[-1]["loss"]] * 2, abs=1e-5)


def test_tensorboard_has_a_curve_for_each_expert(tmp_path: Path) -> None:
    history = History(tmp_path, tensorboard=True)
    history.add("step", 1, loss=1.5, **{"encoder.0.load": [0.25, None, 0.75]})
    history.close()
    [events] = (tmp_path / "tensorboard").iterdir()
    written = events.read_bytes()
    assert b"step/encoder.0.load/0" in written and b"step/encoder.0.load/2" in written
    assert b"step/encoder.0.load/1" not in written


def test_two_processes_tell_what_one_tells(toy: Path, tiny: list[str], tmp_path: Path) -> None:
    """With experts that get no token in a step, whose gradients the other process waits for all the same."""
    experts = "moe(12, 2, 'relu(8)')"
    flags = [word for side in ("encoder", "decoder") for word in ("--set", f"model.{side}.feedforward={experts}")]
    flags += ["--set", "train.batch_tokens=64"]
    one, two = tmp_path / "one", tmp_path / "two"
    for out, processes in ((one, 1), (two, 2)):
        run(processes, [*command(toy, tiny, out, 4), *flags])
    alone, together = told_steps(one), told_steps(two)
    assert alone[0]["cross_entropy"] == pytest.approx(together[0]["cross_entropy"], abs=1e-5)
    assert alone[0]["balance"] == pytest.approx(together[0]["balance"], rel=0.5)  # each process has its own
    assert [alone[0][name] for name in LOADS] == [together[0][name] for name in LOADS]
    assert len(together) == 4 and any(0 in entry[name] for entry in together for name in LOADS)
    for entry in together:
        assert entry["cross_entropy"] + entry["balance"] == pytest.approx(entry["loss"], rel=1e-5)


@pytest.mark.filterwarnings("ignore")  # the compiler warns of itself
def test_a_compiled_loss_tells_the_same_and_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the router says and however many labels count. Traced, and run as it was traced: that takes seconds."""
    from torch._dynamo.utils import counters

    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: compiler(function, backend="eager", **options))
    torch._dynamo.reset()
    plain, compiled = trainer(), trainer(compile="on")
    steps = [piece for _, pieces in zip(range(30), compiled.steps()) for piece in pieces]
    shape = steps[0].labels.shape, steps[0].source.shape  # type: ignore[union-attr]
    alike = [step for step in steps if (step.labels.shape, step.source.shape) == shape]  # type: ignore[union-attr]
    assert len({step.labelled for step in alike}) > 2
    graphs = []
    for batch in alike[:4]:
        told, expected = (of.step([batch], batch.labelled) for of in (compiled, plain))
        torch.testing.assert_close(told.loss, expected.loss)
        torch.testing.assert_close(told.parts, expected.parts)
        assert values(told.statistics) == values(expected.statistics)
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[1] == graphs[-1] > 0
