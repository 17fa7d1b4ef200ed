"""Adapters: trained by one call, saved as a small directory, used over their base and no other, merged."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_training import PAIRS, QUICK, TEXT

import headway
from headway.cli.app import main
from headway.errors import HeadwayError
from headway.nn.layers.lora import LoraConfig, lora_layers
from headway.storage.adapter import load_adapter, save_adapter
from headway.storage.model_dir import load_model
from headway.train.checkpoints import list_checkpoints
from headway.translate.translator import Translator

FINE: dict[str, Any] = {"steps": 4, "device": "cpu", "progress": False, "set": {"train.validate_every": 2}}
LINES = [source for source, _ in PAIRS[:6]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return headway.train(PAIRS, out=tmp_path_factory.mktemp("base") / "m", languages=("en", "qtx"), **QUICK).folder


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("adapter") / "law"
    headway.train(PAIRS[:30], out=out, from_model=base, lora=LoraConfig(4, alpha=64), **FINE)
    return out


def test_a_small_directory_and_an_untouched_base(base: Path, adapter: Path) -> None:
    names = {path.name for path in adapter.iterdir()}
    assert {"adapter.json", "adapter.safetensors", "README.md"} <= names and "model.safetensors" not in names
    loaded = load_adapter(adapter)
    assert (loaded.lora, loaded.base) == (LoraConfig(4, 64), str(base))
    assert all(name.rpartition(".")[2] in ("lora_a", "lora_b") for name in loaded.weights)
    assert any(float(tensor.abs().sum()) for name, tensor in loaded.weights.items() if name.endswith("lora_b"))
    [checkpoint, *_] = list_checkpoints(adapter)
    assert checkpoint.weights.keys() == loaded.weights.keys()
    assert "| adapter of | m |" in (adapter / "README.md").read_text()
    assert 'Use it: `headway translate --adapter . "…"`' in (adapter / "README.md").read_text()


def test_several_over_one_base_in_python(base: Path, adapter: Path, tmp_path: Path) -> None:
    translator = headway.load(base)
    assert isinstance(translator, Translator)
    before = translator(LINES)
    other = headway.train(PAIRS[30:], out=tmp_path / "other", from_model=base, lora=2, **FINE)
    one, two = translator.with_adapter(adapter), other.translator
    scores = [[pair.score for pair in each.score(PAIRS[:4])] for each in (translator, one, two)]
    assert all(a != b for a, b, c in zip(*scores)) and all(b != c for a, b, c in zip(*scores))
    assert translator(LINES) == before
    model, adapted = (each.engines.loaded[0].model for each in (translator, one))
    assert adapted.output_embedding is model.output_embedding and not lora_layers(model)
    assert f"<Translator '{base}' with 'law': en → qtx; engine torch" in repr(one)
    for again in (pickle.loads(pickle.dumps(one)), headway.load(adapter), headway.load_translator(adapter)):
        assert again(LINES) == one(LINES) and repr(again) == repr(one)
    with pytest.raises(HeadwayError, match="is an adapter, which runs in torch, not in native"):
        headway.load(adapter, engine="native")


def test_merged_it_scores_the_same(base: Path, adapter: Path, tmp_path: Path) -> None:
    translator = headway.load_translator(base, device="cpu", engine="torch").with_adapter(adapter)
    assert main(["-q", "merge", "--adapter", str(adapter), "--out", str(tmp_path / "merged")]) == 0
    merged = headway.load_translator(tmp_path / "merged", device="cpu", engine="torch")
    for one, other in zip(translator.score(PAIRS[:8]), merged.score(PAIRS[:8])):
        assert one.token_logps == pytest.approx(other.token_logps, abs=1e-5)
    assert translator(LINES) == merged(LINES)
    again = ["-q", "merge", "--model", str(base), "--adapter", str(adapter), "--out", str(tmp_path / "merged")]
    assert main(again) == 1 and main([*again, "--overwrite"]) == 0
    assert main([*again[:-1], str(adapter)]) == 2


def test_the_command_line(base: Path, adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.en-qtx.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    out = tmp_path / "cli"
    words = ["train", "--from-model", str(base), "--pairs", str(tmp_path / "a.en-qtx.tsv"), "--steps", "2"]
    lora = ["--lora", "3", "--lora-alpha", "9", "--lora-layers", "*.value"]
    assert main([*words, *lora, "--out", str(out)]) == 0
    err = capsys.readouterr().err
    assert "adapter: 288 weights in 3 linear layers" in err and f'next: headway translate --adapter {out} "…"' in err
    assert load_adapter(out).lora == LoraConfig(3, 9, "*.value")
    expected = headway.load_translator(base).with_adapter(adapter)(LINES[0])
    for model in (["--model", str(base)], []):
        assert main(["translate", *model, "--adapter", str(adapter), LINES[0]]) == 0
        assert capsys.readouterr().out.strip() == expected.strip()
    pairs = str(tmp_path / "a.en-qtx.tsv")
    assert (
        main(["evaluate", "--model", str(base), "--adapter", str(adapter), "--compare", str(base), "--pairs", pairs])
        == 0
    )
    scores = [line.split("\t")[2] for line in capsys.readouterr().out.splitlines() if line.count("\t") == 3]
    assert len(scores) == 3 and scores[1] != scores[2]
    assert main(["train", "--lora", "3", "--pairs", "x.tsv", "--out", str(tmp_path / "x")]) == 2
    assert main([*words, "--lora-alpha", "3", "--out", str(tmp_path / "x")]) == 2


def test_it_resumes_and_only_as_what_it_was(base: Path, tmp_path: Path) -> None:
    steady = {"train.validate_every": 2, "train.schedule": "constant(0.01)"}

    def tune(name: str, steps: int, lora: Any = 2) -> dict[str, torch.Tensor]:
        out = tmp_path / name
        headway.train(PAIRS, out=out, from_model=base, lora=lora, **{**FINE, "steps": steps, "set": steady})
        return list_checkpoints(out)[-1].weights

    tune("halves", 2)
    resumed, whole = tune("halves", 4), tune("whole", 4)
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
    for other in (3, None):
        with pytest.raises(HeadwayError, match=r"the run was started with lora .*, and this is .*"):
            tune("halves", 6, other)


def test_with_a_moving_average_of_the_weights(base: Path, tmp_path: Path) -> None:
    averaged = {**FINE, "set": {"train.ema": 0.5, "train.validate_every": 2}}
    headway.train(PAIRS, out=tmp_path / "m", from_model=base, lora=2, **{**averaged, "steps": 2})
    headway.train(PAIRS, out=tmp_path / "m", from_model=base, lora=2, **averaged)
    assert load_adapter(tmp_path / "m").weights


def test_a_language_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {**QUICK, "preset": "tiny_lm", "set": TEXT}
    base = headway.train(LINES * 20, out=tmp_path / "lm", **options)
    tuned = headway.train(LINES * 10, out=tmp_path / "a", from_model=base.folder, lora=2, **FINE)
    text = LINES[0]
    for again in (pickle.loads(pickle.dumps(tuned.language_model)), copy.deepcopy(tuned.language_model)):
        assert again.perplexity(text) == tuned.language_model.perplexity(text)
        assert repr(again) == repr(tuned.language_model) and "with 'a'" in repr(again)
    assert tuned.language_model.perplexity(text) != base.language_model.perplexity(text)
    words = ["--model", str(base.folder), "--adapter", str(tmp_path / "a")]
    assert main(["generate", *words, "--max-length", "3", "--beam-size", "1", "The"]) == 0
    expected = tuned.language_model("The", length=3, beam_size=1)
    assert capsys.readouterr().out == f"{expected}\n"
    (tmp_path / "text.txt").write_text(text)
    assert main(["evaluate", *words, "--text", str(tmp_path / "text.txt")]) == 0
    adapted = capsys.readouterr().out
    assert main(["evaluate", *words[:2], "--text", str(tmp_path / "text.txt")]) == 0
    assert adapted.startswith("perplexity ") and adapted != capsys.readouterr().out
    assert "headway merge --adapter . --out DIR" in (tmp_path / "a" / "README.md").read_text()


# ---- errors


def test_over_another_model_it_is_refused(adapter: Path, tmp_path: Path) -> None:
    other = headway.train(PAIRS, out=tmp_path / "m", seed=9, **QUICK)
    with pytest.raises(HeadwayError, match="is an adapter of another model, .*: these are other weights. Give that"):
        other.translator.with_adapter(adapter)
    model = load_model(other.folder)
    with pytest.raises(HeadwayError, match="an adapter belongs to one model in a directory: load that, not"):
        Translator([model]).with_adapter(adapter)


def test_an_adapter_is_no_model(adapter: Path) -> None:
    with pytest.raises(HeadwayError, match="is an adapter, not a model: use it with --adapter, or make a model of it"):
        load_model(adapter)


def test_an_adapter_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="lora: an adapter needs a model to adapt: give from_model"):
        headway.train(PAIRS, out=tmp_path / "m", lora=2, **QUICK)


def test_what_is_no_adapter(base: Path, adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="is no adapter: it has no adapter.json"):
        load_adapter(tmp_path)
    table = json.loads((adapter / "adapter.json").read_text())
    for text, message in (
        ("{", "is damaged. Copy the adapter again"),
        ("[]", "is damaged. Copy the adapter again"),
        (json.dumps({**table, "rank": -1}), "is damaged. Copy the adapter again"),
        (json.dumps({**table, "format_version": 9}), "is of a kind or format that this Headway does not know"),
    ):
        (tmp_path / "adapter.json").write_text(text)
        with pytest.raises(HeadwayError, match=message):
            load_adapter(tmp_path)
    weights = load_adapter(adapter).weights
    name = next(iter(weights))
    for wrong in (
        {key: tensor for key, tensor in weights.items() if key != name},
        {**weights, "more": torch.zeros(1)},
        {**weights, name: torch.zeros(1, 1)},
    ):
        save_adapter(tmp_path / "a", LoraConfig(4, 64), base, wrong, "card")
        with pytest.raises(HeadwayError, match="does not fit its adapter.json"):
            headway.load_translator(base).with_adapter(tmp_path / "a")
