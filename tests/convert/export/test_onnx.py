"""Export to ONNX: onnxruntime, without Headway, gives the logits and the ids of the model."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import pytest
import torch
from random_models import LINES, language_model_table, translator_table, write_random_model
from torch import Tensor

from headway.config.search import Search
from headway.convert.architecture import ConversionError
from headway.convert.export.formats import ExportReport, export_model, find_format
from headway.convert.export.onnx import format as onnx_format
from headway.convert.export.onnx.graphs import save_graph
from headway.convert.export.onnx.sessions import OnnxDecoder, OnnxStepper, open_session
from headway.convert.export.stored_model import open_model
from headway.decode.dispatch import decode
from headway.decode.reference.model import ModelStepper
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model
from headway.storage.registry import model_directory
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer

POSITIONS = ["sinusoidal", "rope", "alibi", "t5", "shaw", "learned(64)", "transformer_xl", "none"]


def export(folder: Path, dtype: str = "") -> ExportReport:
    """From folder/model to folder/out."""
    return export_model(open_model(folder / "model"), "onnx", folder / f"out{dtype}", dtype)


def random_batch(model: Transformer, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Ids and which are real: the last row is the longest."""
    ids = torch.randint(4, model.config.source_vocabulary or 5, (rows, length))
    valid = torch.arange(length) < torch.linspace(1, length, rows).round()[:, None]
    return ids, valid


def check_translator(folder: Path, sizes: list[tuple[int, int, list[int]]]) -> None:
    """Logits of random shapes: all at once and in steps of these lengths."""
    model = load_model(folder / "model").model
    stepper = OnnxStepper(folder / "out/onnx")
    for rows, length, steps in sizes:
        source, valid = random_batch(model, rows, length)
        target = torch.randint(4, 300, (rows, sum(steps)))
        with torch.no_grad():
            want = model.logits(model.decode(target, memory=model.encode(source, valid)))
        for lengths in (steps, [sum(steps)]):
            state = stepper.start(source, valid, rows)
            found = [state.step(ids) for ids in target.split(lengths, 1)]
            np.testing.assert_allclose(np.concatenate(found, 1), want, rtol=1e-5, atol=1e-5)


def check_searches(folder: Path, rows: int) -> None:
    """Greedy and beam search over the graphs find the ids that they find over the model."""
    loaded = load_model(folder / "model")
    stepper = OnnxStepper(folder / "out/onnx")
    source, valid = random_batch(loaded.model, rows, 12)
    tokens = special_tokens(loaded.tokenizers.target)
    for beam_size in (1, 4):
        search = Search(beam_size=beam_size, n_best=beam_size, max_length=16)
        ours, theirs = (
            decode(s, source, valid, special_tokens=tokens, search=search, search_kind="reference")
            for s in (ModelStepper(loaded.model), stepper)
        )
        assert [[h.ids for h in row] for row in theirs] == [[h.ids for h in row] for row in ours]
        assert len({tuple(row[0].ids) for row in ours}) > 1


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a translator, `model`, and its graphs, `out`."""
    folder = tmp_path_factory.mktemp("translator")
    torch.manual_seed(1)
    table = translator_table(mixer="attention(4, groups=2)", residual="residual_dual")
    masks = ["causal", "causal & local(3)"]
    table["decoder"] = {**table["decoder"], "position": ["sinusoidal", "shaw"], "mask": masks}
    table["encoder"] = {**table["encoder"], "feedforward": "swiglu(24)", "layers": 1, "position": "t5"}
    tokenizer = Tokenizer.train(LINES, "bytes", tags=["de", "fr"])
    write_random_model(folder / "model", table, tokenizer=tokenizer)
    report = export(folder)
    assert "logits differ by" in report.checked[0] and report.format == "ONNX (float32)"
    assert set(report.files) == {
        "config.json", "generation_config.json", "onnx/decoder_model_merged.onnx", "onnx/encoder_model.onnx",
        "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    return folder


def test_a_translator_gives_our_logits_and_ids(translator: Path) -> None:
    check_translator(translator, [(3, 11, [4, 1, 1]), (1, 1, [1]), (1, 30, [1, 40, 1]), (5, 2, [2, 3])])
    check_searches(translator, 200)


def test_names_and_settings_are_those_of_optimum(translator: Path) -> None:
    config = json.loads((translator / "out" / "config.json").read_text())
    assert config["model_type"] == "t5"  # two groups of four: not d_model wide together, as Marian's would be
    assert (config["num_heads"], config["d_kv"], config["decoder_start_token_id"]) == (2, 4, 1)
    generation = json.loads((translator / "out" / "generation_config.json").read_text())
    assert generation["bad_words_ids"] == [[n] for n in generation["suppress_tokens"]]
    session = open_session(translator / "out/onnx/decoder_model_merged.onnx")
    names = [value.name for value in session.get_inputs()]
    assert names[:2] == ["input_ids", "encoder_attention_mask"] and names[-1] == "use_cache_branch"
    assert {"past_key_values.1.decoder.value", "past_key_values.0.encoder.key", "encoder_hidden_states"} < set(names)
    assert [value.name for value in session.get_outputs()][:3] == [
        "logits", "present.0.decoder.key", "present.0.decoder.value"
    ]  # fmt: skip


def test_the_first_step_ignores_what_is_given_as_past(translator: Path) -> None:
    """Runtimes differ in how they say that there is none: with no tokens, or with one that means nothing."""
    session = open_session(translator / "out/onnx/decoder_model_merged.onnx")
    hidden = np.random.default_rng(1).normal(size=(2, 5, 16)).astype(np.float32)
    feeds = {
        "input_ids": np.array([[1, 7], [1, 9]]),
        "encoder_attention_mask": np.ones((2, 5), np.int64),
        "encoder_hidden_states": hidden,
        "use_cache_branch": np.array([False]),
    }
    outputs = []
    for length in (0, 1, 3):
        past = {
            value.name: np.full((2, value.shape[1], length, value.shape[3]), 9, np.float32)
            for value in session.get_inputs()
            if value.name.startswith("past_key_values")
        }
        outputs.append(session.run(None, {**feeds, **past}))
    for one, other, another in zip(*outputs):
        assert one.shape == other.shape and np.array_equal(one, other) and np.array_equal(one, another)


def test_the_snippet_of_the_documentation_translates(
    translator: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs/exporting.md").read_text()
    code = re.findall(r"```python\n(import json.*?)```", page, re.DOTALL)[0]
    loaded = load_model(translator / "model")
    source, tokenizer = re.findall(r'">>de<< (.*?)"', code)[0], loaded.tokenizers.source
    (translator / "my-model-onnx").symlink_to(translator / "out")
    monkeypatch.chdir(translator)
    exec(code, {})
    ids = torch.tensor([[tokenizer.tags["de"], *tokenizer.encode(source), tokenizer.end]])
    found = decode(
        ModelStepper(loaded.model),
        ids,
        special_tokens=special_tokens(tokenizer),
        search=Search(beam_size=1, max_length=100),
        search_kind="reference",
    )
    assert capsys.readouterr().out == tokenizer.decode(found[0][0].ids) + "\n"


@pytest.mark.parametrize("changes", [{"position": ["learned(64)", "rope"], "mixer": "attention(4, groups=1, d_v=6)"}])
def test_a_language_model_gives_our_logits(changes: dict[str, Any], tmp_path: Path) -> None:
    write_random_model(
        tmp_path / "model", language_model_table(feedforward=["moe(3, 2)", "relu(8)"], **changes), "causal"
    )
    report = export(tmp_path)
    assert "transformers.js cannot run it: keys and values have different sizes. onnxruntime can" in report.lost
    model = load_model(tmp_path / "model").model
    session = open_session(tmp_path / "out/onnx/model.onnx")
    assert {value.name for value in session.get_inputs()} == {
        "input_ids", "attention_mask", *(f"past_key_values.{n}.{part}" for n in (0, 1) for part in ("key", "value")),
    }  # fmt: skip
    for rows, steps in ((1, [1, 1, 1]), (4, [5, 1, 3]), (2, [60, 1])):
        ids, valid = random_batch(model, rows, sum(steps))
        with torch.no_grad():
            want = model.logits(model.decode(ids, valid))[valid]
        for left in (False, True):  # padding before the text, as generation needs it
            padded, mask = ids.clone(), valid.clone()
            for row, length in enumerate(valid.sum(1).tolist() if left else ()):
                padded[row], mask[row] = ids[row].roll(-length), valid[row].roll(-length)
            decoder, found, end = OnnxDecoder(session), [], 0
            for part in padded.split(steps, 1):
                end += part.shape[1]
                found.append(decoder.step(part.numpy(), attention_mask=mask[:, :end].long().numpy()))
            np.testing.assert_allclose(np.concatenate(found, 1)[mask.numpy()], want, rtol=1e-5, atol=1e-5)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert (config["model_type"], config["num_key_value_heads"], config["head_dim"]) == ("llama", 1, 4)


def test_a_masked_model_gives_our_logits(tmp_path: Path) -> None:
    table = {"d_model": 16, "encoder": translator_table(layers=1)["encoder"], "decoder": {"layers": 0}}
    write_random_model(tmp_path / "model", {**table, "head": "masked", "embedding": {"segments": 2}}, "masked")
    report = export(tmp_path)
    assert "segments: every token is of the first" in report.lost
    assert "onnx/model.onnx" in report.files and "generation_config.json" not in report.files
    model = load_model(tmp_path / "model").model
    ids, valid = random_batch(model, 3, 8)
    feeds = {"input_ids": ids.numpy(), "attention_mask": valid.long().numpy()}
    found = open_session(tmp_path / "out/onnx/model.onnx").run(["logits"], feeds)[0]
    with torch.no_grad():
        want = model.logits(model.encode(ids, valid).values)
    np.testing.assert_allclose(found[valid.numpy()], want[valid], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"mixer": "mamba", "position": "none"}, 'decoder.mixer is "mamba"'),
        ({"mixer": "rnn", "position": "none"}, 'decoder.mixer is "rnn"'),
        ({"feedforward": "rwkv_channel_mix"}, 'decoder.feedforward is "rwkv_channel_mix"'),
        ({"memory_tokens": "prefix(2)"}, 'decoder.memory_tokens is "prefix"'),
    ],
)
@pytest.mark.parametrize("name", ["onnx", "torch-export"])
def test_a_kind_that_no_graph_holds_is_refused_by_its_name(
    changes: dict[str, str], kind: str, name: str, tmp_path: Path
) -> None:
    write_random_model(tmp_path / "model", language_model_table(**changes), "causal")
    with pytest.raises(ConversionError, match=f"cannot be exported to {name}: {kind}"):
        export_model(open_model(tmp_path / "model"), name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bitnet_is_refused(tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", {**language_model_table(), "linear": "bitnet"}, "causal")
    assert 'linear is "bitnet"' in find_format("onnx").unsupported(open_model(tmp_path / "model"))


@pytest.mark.parametrize("is_large", [False, True])
def test_int8_is_smaller_and_near(
    is_large: bool, translator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr("headway.convert.export.onnx.graphs.MAX_SINGLE_FILE", 1000)
    (tmp_path / "model").symlink_to(translator / "model")
    monkeypatch.setattr(onnx_format, "write_float_graphs", lambda model, folder: copy_graphs(translator, folder))
    report = export(tmp_path, "int8")
    assert report.format == "ONNX (int8)" and "the same in int8" in report.checked[1]
    graphs = [f"onnx/{name}_quantized.onnx" for name in ("decoder_model_merged", "encoder_model")]
    weights = [f"{graph}_data" for graph in graphs] if is_large else []
    assert {file for file in report.files if file.startswith("onnx/")} == {*graphs, *weights}
    config = json.loads((tmp_path / "outint8/config.json").read_text())
    assert config.get("transformers.js_config") == ({"use_external_data_format": True} if is_large else None)
    model = load_model(tmp_path / "model").model
    source, valid = random_batch(model, 8, 10)
    target = torch.randint(4, 250, (8, 6))
    found = torch.from_numpy(OnnxStepper(tmp_path / "outint8/onnx", "_quantized").start(source, valid, 8).step(target))
    with torch.no_grad():
        want = model.logits(model.decode(target, memory=model.encode(source, valid)))
    assert 0 < (found - want).pow(2).mean() < 0.01 * want.pow(2).mean()
    if not is_large:
        for graph in graphs:
            small, large = (folder / graph for folder in (tmp_path / "outint8", translator / "out"))
            assert small.stat().st_size < large.with_name(small.name.replace("_quantized", "")).stat().st_size


def copy_graphs(folder: Path, out: Path) -> list[str]:
    """Those of a folder, saved again: as large ones where the limit says so."""
    names = ["encoder_model", "decoder_model_merged"]
    for name in names:
        save_graph(onnx_ir.load(folder / f"out/onnx/{name}.onnx"), out / f"{name}.onnx")
    return names


def test_graphs_that_compute_something_else_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_random_model(tmp_path / "model", translator_table(layers=1))
    monkeypatch.setattr(onnx_format, "write_float_graphs", lambda model, folder: ["encoder_model"])
    monkeypatch.setattr(
        "headway.convert.export.onnx.sessions.run_graphs",
        lambda folder: lambda source, valid, target: torch.zeros(3, 6, 320),
    )
    with pytest.raises(ConversionError, match="the exported graphs differ from the model by .* nothing was written"):
        export(tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_named_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_random_model(tmp_path / "model", translator_table(layers=1))
    monkeypatch.setattr(onnx_format, "NEEDED", ("onnx", "no_such_package"))
    with pytest.raises(
        HeadwayError, match=r"needs the package no_such_package. Install it: pip install headway\[onnx\]"
    ):
        export(tmp_path)


@pytest.mark.slow
def test_the_bundled_model_gives_the_ids_of_its_floats(tmp_path: Path) -> None:
    """Greedy and beam search over the graphs in float32, and int8 that agrees with it on most sentences."""
    (tmp_path / "model").symlink_to(model_directory("en-de"))
    export(tmp_path)
    export(tmp_path, "int8")
    loaded = load_model(tmp_path / "model")
    tokenizer = loaded.tokenizers.source
    lines = [line for line in LINES if len(line) > 1] + [
        "I would like to book a table for two people tomorrow evening."
    ]
    rows = [[tokenizer.tags["de"], *tokenizer.encode(line), tokenizer.end] for line in lines]
    source = torch.tensor([row + [0] * (max(map(len, rows)) - len(row)) for row in rows])
    steppers = [
        ModelStepper(loaded.model),
        OnnxStepper(tmp_path / "out/onnx"),
        OnnxStepper(tmp_path / "outint8/onnx", "_quantized"),
    ]
    tokens = special_tokens(tokenizer)
    for beam_size in (1, 4):
        search = Search(beam_size=beam_size)
        ours, theirs, int8 = (
            [row[0].ids for row in decode(s, source, source != 0, special_tokens=tokens, search=search)]
            for s in steppers
        )
        assert theirs == ours
        assert sum(one == other for one, other in zip(int8, ours)) > len(lines) / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        *({"feedforward": kind} for kind in ("gelu", "gelu_tanh", "silu", "swiglu", "moe(4, 1)", "kan", "none")),
        *({"mixer": kind} for kind in ("additive(4)", "general(4)", ["attention(4)", "shared_kv(4)"])),
        *({"residual": kind} for kind in ("post", "deepnorm", "residual_dual")),
        {"layers": 4, "distinct_layers": 2},
        {"position": POSITIONS, "layers": len(POSITIONS), "residual": "pre"},
        {"mixer": 'attention(4, qk_norm="rmsnorm", output_norm="rmsnorm")', "position": "xpos"},
    ],
)
def test_other_kinds(changes: dict[str, Any], tmp_path: Path) -> None:
    table = translator_table(**changes)
    if "mixer" in changes:
        table["encoder"] = {**table["encoder"], "mixer": "attention(4)", "position": "rope"}
    write_random_model(tmp_path / "model", {**table, "embedding": {"tied": "none"}, "norm": "rmsnorm"})
    export(tmp_path)
    check_translator(tmp_path, [(3, 11, [4, 1, 1]), (1, 1, [1])])
    check_searches(tmp_path, 20)
