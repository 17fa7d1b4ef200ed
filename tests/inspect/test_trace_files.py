"""A trace's two files: what was saved is what is read, and what is damaged says so."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from headway.errors import HeadwayError
from headway.inspect.trace import Trace, load_trace
from headway.translate.translator import load_translator


@pytest.fixture(scope="module")
def trace(translator_dir: Path) -> Trace:
    return load_translator(translator_dir).trace("The dog sees a red house.", beam_size=3)


@pytest.fixture
def folder(trace: Trace, tmp_path: Path) -> Path:
    return trace.save(tmp_path / "a" / "traced")


def test_what_was_saved_is_what_is_read(trace: Trace, folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["trace.json", "trace.safetensors"]
    again = load_trace(folder)
    for field in fields(Trace):
        if field.name != "tensors":
            assert getattr(again, field.name) == getattr(trace, field.name), field.name
    assert again.tensors.keys() == trace.tensors.keys()
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in trace.tensors.items())
    assert again.tree() == trace.tree()


def test_a_language_model_too(lm_dir: Path, masked_dir: Path, tmp_path: Path) -> None:
    import headway

    for model in (lm_dir, masked_dir):
        found = headway.load(model).trace("The dog", length=0)
        again = load_trace(found.save(tmp_path / model.parent.name))
        assert (again.kind, again.source, again.written) == (found.kind, found.source, found.written)


def test_the_files_can_be_read_without_headway(folder: Path) -> None:
    """As the documentation says: JSON and safetensors."""
    facts = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    tensors = load_file(folder / "trace.safetensors")
    assert facts["format_version"] == 1
    assert facts["tensors"] == {name: list(tensor.shape) for name, tensor in tensors.items()}
    assert {name.split(".")[0] for name in tensors} == {"encoder", "decoder", "output"}
    cross = tensors["decoder.0.cross.weights"]
    assert cross.shape == (4, len(facts["target"]["ids"]), len(facts["source"]["ids"]))
    assert facts["beam"][0]["fates"].count("runs") == 3
    assert all(str(token) in facts["pieces"] for step in facts["beam"] for token in step["ids"])
    assert facts["model"]["d_model"] == 48


def test_it_is_written_over(trace: Trace, folder: Path) -> None:
    (folder / "trace.json").write_text("x")
    trace.save(folder)
    assert load_trace(folder).output == trace.output


def damaged(folder: Path, change: Any) -> None:
    facts = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    change(facts)
    (folder / "trace.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("beam"), r"is damaged: it has no 'beam'"),
        (lambda f: f.update(kind="poem"), r'is damaged: "poem" is not a kind of trace'),
        (lambda f: f.update(text=3), r"is damaged: '3' is not a string"),
        (lambda f: f["source"].update(ids=["a"]), r"is damaged: 'a' is not an integer"),
        (lambda f: f["source"]["ids"].append(3), r"is damaged: \d+ ids have \d+ pieces"),
        (lambda f: f.update(source=[1]), r"is damaged: a part of it has the wrong type"),
        (lambda f: f["beam"][0]["fates"].append("runs"), r"is damaged: a step of the beam is inconsistent"),
        (lambda f: f["beam"][0].update(fates=["lost"] * len(f["beam"][0]["ids"])), r"a step of the beam is inconsist"),
        (lambda f: f["beam"][1]["parents"].__setitem__(0, 99), r"a step of the beam extends a hypothesis that does"),
        (lambda f: f["found"][0].update(logp="much"), r"is damaged: 'much' is not a number"),
        (lambda f: f.update(pieces={"x": "y"}), r"is damaged: 'x' is not a token id"),
        (lambda f: f["tensors"].pop("encoder.embedded"), r"is inconsistent: encoder.embedded is missing in trace.json"),
        (lambda f: f["tensors"].update({"encoder.embedded": [1]}), r"is inconsistent: encoder.embedded is \[1\] in"),
        (lambda f: f["tensors"].update(more=[1]), r"more is \[1\] in trace.json and missing in trace.safetensors"),
        (lambda f: f.update(format_version=2), r"was written in format 2, and this Headway reads up to 1. Install a"),
        (lambda f: f.update(format_version="one"), r"is not a trace: it has no format_version"),
        (lambda f: f.update(format_version=True), r"is not a trace: it has no format_version"),
        (lambda f: f.pop("format_version"), r"is not a trace: it has no format_version"),
    ],
)  # fmt: skip
def test_facts_that_are_wrong(folder: Path, change: Any, message: str) -> None:
    damaged(folder, change)
    with pytest.raises(HeadwayError, match=message):
        load_trace(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '"trace"', "null", "[" * 100_000, "\x00", "NaN"])
def test_facts_that_are_no_facts(folder: Path, content: str) -> None:
    (folder / "trace.json").write_text(content)
    with pytest.raises(HeadwayError, match=r"trace.json is damaged: it is not JSON|is not a trace"):
        load_trace(folder)


def test_tensors_that_are_damaged_missing_or_others(folder: Path) -> None:
    path = folder / "trace.safetensors"
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-10], b"\x80\x04." * 50):
        path.write_bytes(content)
        with pytest.raises(HeadwayError, match=r"trace.safetensors is damaged or not a safetensors file"):
            load_trace(folder)
    save_file({"other": torch.zeros(2)}, path)
    with pytest.raises(HeadwayError, match="is inconsistent"):
        load_trace(folder)
    path.unlink()
    with pytest.raises(HeadwayError, match="there is no file"):
        load_trace(folder)


def test_no_trace_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for wrong in (tmp_path, tmp_path / "none", tmp_path / "file"):
        with pytest.raises(HeadwayError, match=r"holds no trace: there is no trace.json. Make one: headway trace"):
            load_trace(wrong)
    (tmp_path / "trace.json").mkdir()
    with pytest.raises(HeadwayError, match="trace.json cannot be read: Is a directory"):
        load_trace(tmp_path)


def test_a_folder_that_cannot_be_written(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for wrong in ("file", "file/inside"):
        with pytest.raises(HeadwayError, match="cannot be written: "):
            trace.save(tmp_path / wrong)
