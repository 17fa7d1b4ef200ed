"""Going on with something else than was begun: free, asked for, or refused; and disks and files that fail."""

import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from train.test_run import SOURCE, TARGET, TEXTS, Seen, assert_same, last_weights, train

import headway.train.checkpoints
import headway.train.run
from headway.config.config import read_config
from headway.data.corpora import parallel_from_memory
from headway.errors import HeadwayError
from headway.train.checkpoints import list_checkpoints
from headway.train.resume import find_changes
from headway.train.sources import TrainingTexts

OTHER = TrainingTexts([parallel_from_memory(SOURCE[5:], TARGET[5:], "en", "qtx")], TEXTS.valid_pairs)
WEIGHTED = TrainingTexts([parallel_from_memory(SOURCE, TARGET, "en", "qtx", weight=2.0)], TEXTS.valid_pairs)


def test_budgets_and_measures_may_change(tmp_path: Path) -> None:
    train(tmp_path)
    listener = Seen()
    train(tmp_path, "train.steps=10", "train.keep_last=3", "train.log_every=1", listener=listener)
    assert "train.steps was 8 and is 10 now" in listener.notes


@pytest.mark.parametrize("changed", ["metric", "text"])
def test_scores_of_another_kind_are_not_compared_with(tmp_path: Path, changed: str) -> None:
    """BLEU of before is far above any loss, and the loss on easy text below that on hard text: with patience, a run
    that took the one for the other would stop at once, and give the old weights for the best."""
    settings = ["train.decode_lines=6", "train.metric=loss"]
    train(tmp_path, *settings, "train.metric=bleu" if changed == "metric" else "train.metric=loss")
    state = list_checkpoints(tmp_path)[-1].folder / "state.json"
    kept = json.loads(state.read_text())
    state.write_text(json.dumps({**kept, "best": dict.fromkeys(kept["best"], 99.0), "stale": 1}))
    listener = Seen()
    texts = (
        TEXTS
        if changed == "metric"
        else TrainingTexts(TEXTS.pairs, [parallel_from_memory(SOURCE[6:9], TARGET[6:9], "en", "qtx")])
    )
    outcome = train(tmp_path, *settings, "train.patience=2", "train.steps=14", texts=texts, listener=listener)
    assert listener.validations == [10, 12, 14]
    assert "step 14" in outcome.weights_origin
    assert "earlier validation scores are discarded: they cannot be compared with those to come" in listener.notes


def test_validations_go_on_counting_where_they_measure_the_same(tmp_path: Path) -> None:
    train(tmp_path)
    listener = Seen()
    train(tmp_path, "train.steps=10", "train.decode_lines=2", listener=listener)
    assert not any("are discarded" in note for note in listener.notes)
    assert list(list_checkpoints(tmp_path)[-1].state["best"]) == [2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.batch_tokens=512", "train.batch_tokens was 1024 and is 512 now"),
        ("train.seed=9", "train.seed was 1 and is 9 now"),
        ("train.schedule=constant(0.02)", "train.schedule.peak was 0.01 and is 0.02 now"),
        ("model.dropout=0.3", "model.dropout was 0.1 and is 0.3 now"),
    ],
)
def test_settings_that_steps_depend_on_are_refused_unless_asked_for(tmp_path: Path, setting: str, message: str) -> None:
    train(tmp_path)
    with pytest.raises(HeadwayError, match=f"holds a run with other settings: {message}.*--allow-changes"):
        train(tmp_path, setting, "train.steps=10")
    listener = Seen()
    assert train(tmp_path, setting, "train.steps=10", listener=listener, allow_changes=True).step == 10
    assert message in listener.notes


def test_other_shapes_are_refused_even_if_asked_for(tmp_path: Path) -> None:
    train(tmp_path)
    with pytest.raises(HeadwayError, match=r"model.d_model was 16 and is 32 now. Give the same settings, or choose"):
        train(tmp_path, "model.d_model=32", allow_changes=True)


@pytest.mark.parametrize("texts", [OTHER, WEIGHTED], ids=["other lines", "another weight"])
def test_another_text_is_refused_unless_asked_for(tmp_path: Path, texts: TrainingTexts) -> None:
    train(tmp_path)
    with pytest.raises(HeadwayError, match=r"the run in .* was started with other training text"):
        train(tmp_path, "train.steps=10", texts=texts)
    listener = Seen()
    assert train(tmp_path, "train.steps=10", texts=texts, listener=listener, allow_changes=True).step == 10
    assert "the training text has changed" in listener.notes


def test_changes_are_named_by_their_paths() -> None:
    one, other = (read_config({"model": {"d_model": size}}) for size in (64, 128))
    assert ("model.d_model", "model.d_model was 64 and is 128 now") in list(find_changes(one, other))
    assert not list(find_changes(one, one))


def test_a_disk_that_is_nearly_full_stops_the_run_before_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    free = iter([10**12, 10**12, 10**12, 5 << 20])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 0, next(free, 5 << 20)))
    with pytest.raises(HeadwayError) as caught:
        train(tmp_path)
    assert "the disk is nearly full: 5 MB are free" in str(caught.value)
    assert (
        "saving step 6 needs up to 32 MB. Free some space and run the same command again. The last checkpoint is step 4"
        in str(caught.value)
    )
    monkeypatch.undo()
    assert [found.step for found in list_checkpoints(tmp_path)] == [2, 4]
    assert train(tmp_path).step == 8


def test_a_disk_that_is_full_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a step is taken: hours later it would be said as well."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 0, 5 << 20))
    monkeypatch.setattr(headway.train.run.Trainer, "step", lambda *_: 1 / 0)
    with pytest.raises(
        HeadwayError, match=r"5 MB are free at .*, and saving a checkpoint needs up to 32 MB\. Free some space"
    ):
        train(tmp_path)
    assert not (tmp_path / "config.json").exists()


def test_what_a_checkpoint_will_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known before the first step, for an optimiser with two moments."""
    wanted: list[int] = []
    monkeypatch.setattr(headway.train.checkpoints, "refuse_full_disk", lambda out, needed, what: wanted.append(needed))
    train(tmp_path)
    assert 0.9 < wanted[0] / wanted[1] <= 1, "the rest is the state of the random numbers"


def test_a_disk_that_fills_up_while_saving_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = headway.train.checkpoints.write_tensors, []

    def failing(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        calls.append(path)
        write(path, tensors)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(headway.train.checkpoints, "write_tensors", failing)
    with pytest.raises(
        HeadwayError, match=r"step 4 could not be saved to .*: No space left on device. The last checkpoint is step 2"
    ):
        train(tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").glob("*step*")] == ["step-00000002"]


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    train(tmp_path / "straight", "train.steps=10")
    out = tmp_path / "cut"
    train(out)
    newest = list_checkpoints(out)[-1].folder
    (newest / "training.safetensors").write_bytes(b"\0" * 50)
    listener = Seen()
    assert train(out, "train.steps=10", listener=listener).step == 10
    assert f"{newest / 'training.safetensors'} is damaged" in listener.notes[1]
    assert "Resuming from step 6 instead." in listener.notes[1]
    assert_same(last_weights(tmp_path / "straight"), last_weights(out))


@pytest.mark.parametrize(
    "state",
    [
        "",
        "[]",
        "{}",
        '{"step": "x"}',
        '{"step": 1, "epoch": 1, "batch": 0, "seconds": 1, "stale": 0, "best": []}',
        '{"step": 1, "epoch": 1, "batch": 0, "seconds": NaN, "stale": 0, "best": {}}',
        '{"step": 1' + 400 * "0" + ', "epoch": 1, "batch": 0, "seconds": 1, "stale": 0, "best": {}}',
        '{"step": 1, "epoch": -1, "batch": 0, "seconds": 1, "stale": 0, "best": {}}',
    ],
)
def test_when_all_are_damaged_it_says_so(tmp_path: Path, state: str) -> None:
    train(tmp_path)
    for checkpoint in list_checkpoints(tmp_path):
        (checkpoint.folder / "state.json").write_text(state)
    with pytest.raises(
        HeadwayError, match=r"state.json is damaged. Delete .*step-00000008 to resume from the checkpoint"
    ):
        train(tmp_path, "train.steps=10")
