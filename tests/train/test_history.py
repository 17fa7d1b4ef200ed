"""history.jsonl tells what happened, once; TensorBoard if asked for."""

import json
from pathlib import Path

from headway.train.history import History, read_history


def test_one_object_a_line(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add("step", 10, loss=1.5, bleu=None)
    history.add("validation", 10, loss=2.0, bleu=3.5)
    history.close()
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == read_history(tmp_path)
    assert read_history(tmp_path) == [
        {"kind": "step", "step": 10, "loss": 1.5},
        {"kind": "validation", "step": 10, "loss": 2.0, "bleu": 3.5},
    ]


def test_each_line_is_there_at_once(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add("step", 1)
    assert len(read_history(tmp_path)) == 1
    history.close()


def test_what_is_done_again_is_told_once(tmp_path: Path) -> None:
    history = History(tmp_path)
    for step in (10, 20, 30):
        history.add("step", step)
    history.close()
    again = History(tmp_path, since=20)
    again.add("step", 30, loss=1.0)
    again.close()
    assert [entry["step"] for entry in read_history(tmp_path)] == [10, 20, 30]
    assert read_history(tmp_path)[-1]["loss"] == 1.0


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text('{"kind": "step", "step": 1}\n{"kind": "st')
    assert read_history(tmp_path) == [{"kind": "step", "step": 1}]
    assert read_history(tmp_path / "nowhere") == []
