"""Directories of CTranslate2 that are damaged, hostile, or of models that Headway does not compute: each an error."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.ct2_models import change_model, convert, save_model, write_ct2
from convert.test_runtimes import marian_ct2, spm
from convert.translators import save_t5, t5

import headway.convert.ctranslate2.model_file as ct2
from headway.convert.architecture import ConversionError
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError

__all__ = ["marian_ct2", "spm"]
ONE = np.array(1, np.int8)


@pytest.fixture(scope="module")
def t5_ct2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("t5")
    save_t5(folder / "theirs", t5(num_decoder_layers=2))
    return convert(folder / "theirs", folder / "ct2")


SELF = "decoder/layer_0/self_attention"
MARIAN: list[tuple[dict[str, Any], tuple[str, ...], dict[str, Any], str]] = [
    ({}, (), {"name": "WhisperSpec"}, "holds a WhisperSpec. Of CTranslate2's models, Headway imports TransformerSpec"),
    ({}, (), {"version": 5}, "is of version 5, and Headway reads 6"),
    ({"decoder/alibi": ONE}, (), {}, "decoder/alibi = 1 is not supported, only 0"),
    ({"decoder/final_logit_softcapping": np.array(30, np.float32)}, (), {}, "softcapping = 30 is not supported"),
    ({"new_setting": ONE}, (), {}, "new_setting = 1 is not supported"),
    ({f"{SELF}/new_setting": ONE}, (), {}, "new_setting = 1 is not supported"),
    ({"decoder/embeddings/multiply_by_sqrt_depth": ONE}, (), {}, "multiply_by_sqrt_depth = 1 is not supported"),
    ({"decoder/layernorm_embedding/gamma": np.ones(16, np.float32)}, (), {}, "a norm of the embeddings in one side"),
    ({"encoder/embeddings_1/weight": np.ones((2, 16), np.float32)}, (), {}, "source factors"),
    ({"encoder/scale_embeddings": np.array(3, np.float32)}, (), {}, "multiplies embeddings by 3.0, neither"),
    ({"encoder/scale_embeddings": np.array(0, np.int8)}, (), {}, "the embeddings of one side alone"),
    ({"decoder/pre_norm": ONE}, (), {}, "pre-norm without a norm at its end"),
    ({"decoder/activation": np.array(5, np.int8)}, (), {}, "decoder/activation = 5 is not supported here, only 0, 1"),
    ({"decoder/num_heads": np.array(0, np.int16)}, (), {}, "decoder/num_heads = 0 is not a size"),
    ({"decoder/num_heads": np.array(2.5, np.float32)}, (), {}, "decoder/num_heads = 2.5 is not a size"),
    ({f"{SELF}/num_heads_kv": np.array(1, np.int32)}, (), {}, "has 48 rows, and its settings .* make 32"),
    ({f"{SELF}/sliding_window": np.array(-4, np.int32)}, (), {}, "layers of the decoder differ in their sliding"),
    ({"encoder/layer_0/self_attention/sliding_window": np.array(4, np.int32),
      "encoder/layer_1/self_attention/sliding_window": np.array(4, np.int32)}, (), {}, "sliding_window = 4 is not"),
    ({f"{SELF}/queries_scale": np.array(1, np.float32)}, (), {}, "layers of the decoder differ in their attention"),
    ({f"{SELF}/rotary_dim": np.array(2, np.int32)}, (), {}, "rotary_dim = 2 is not supported, only that of whole"),
    ({f"{SELF}/relative_attention_bias": np.ones((8, 2), np.float32)}, (), {}, "is not that of the first layer"),
    ({f"{SELF}/new/weight": np.ones(3, np.float32)}, (), {}, "has no place for"),
    ({"decoder/layer_5/ffn/linear_0/weight": np.ones((32, 16), np.float32)}, (), {}, "lacks layers of the decoder"),
    ({}, ("decoder/layer_0/ffn/linear_1/bias",), {}, "some linear layers of decoder/layer_0/ffn have a bias"),
    ({}, ("decoder/layer_0/ffn/linear_0/weight",), {}, "has no matrix decoder/layer_0/ffn/linear_0/weight"),
    ({}, ("decoder/layer_1/ffn/layer_norm/gamma",), {}, "layer_norm/gamma: its norms stand elsewhere"),
    ({}, ("decoder/layer_0/ffn/layer_norm/beta",), {}, "layer norm in one side and RMS norm in the other"),
    ({}, ("decoder/embeddings/weight",), {}, "has no decoder/embeddings/weight"),
    ({}, ("decoder/projection/weight",), {}, "has no decoder/projection/weight"),
    ({"decoder/embeddings/weight": np.ones(16, np.float32)}, (), {}, r"has the shape \(16,\), not words by width"),
    ({"decoder/embeddings/weight": np.ones((9, 16), np.float32)}, (), {}, "has 300 entries, and the model 9"),
]  # fmt: skip


def test_other_models_are_refused(marian_ct2: Path, tmp_path: Path) -> None:
    for changes, without, more, message in MARIAN:
        shutil.rmtree(tmp_path / "ct2", ignore_errors=True)
        folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
        change_model(folder, changes, without, **more)
        with pytest.raises(HeadwayError, match=message):
            plan_import(str(folder), ImportOptions()).write(tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_relative_positions_that_are_not_t5s_are_refused(t5_ct2: Path, tmp_path: Path) -> None:
    bias = "encoder/layer_1/self_attention/relative_attention_bias"
    distances = tuple(f"encoder/layer_{n}/self_attention/relative_attention_max_distance" for n in range(2))
    cases: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
        ({bias: np.ones((8, 4), np.float32)}, (), "layer_1.*is not that of the first layer, and Headway's t5 shares"),
        ({}, distances, "does not say relative_attention_max_distance"),
        ({"decoder/layer_0/self_attention/head_dim": np.array(2, np.int32)}, (), "has 72 rows, and its settings"),
    ]
    for changes, without, message in cases:
        shutil.rmtree(tmp_path / "ct2", ignore_errors=True)
        folder = shutil.copytree(t5_ct2, tmp_path / "ct2")
        change_model(folder, changes, without)
        with pytest.raises(ConversionError, match=message):
            plan_import(str(folder), ImportOptions())
    equal = ct2.ModelFile(t5_ct2 / "model.bin").read_array(bias)
    shutil.copy(t5_ct2 / "model.bin", folder)
    change_model(folder, {bias: equal})  # not an alias, and yet the same
    plan_import(str(folder), ImportOptions()).write(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer_norm_epsilon": "small"}, "layer_norm_epsilon = 'small' is not a small number"),
        ({"eos_token": "<end>"}, "its vocabulary lacks <end>, the eos_token of its config.json"),
        ({"quantization_type": 1}, "quantization_type = 1 is not supported"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    change: dict[str, Any], message: str, marian_ct2: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, **change}))
    with pytest.raises(HeadwayError, match=message):
        plan_import(str(folder), ImportOptions())


def test_the_epsilon_of_the_config_counts(marian_ct2: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "layer_norm_epsilon": 1e-3}))
    plan = plan_import(str(folder), ImportOptions())
    assert plan.architecture.model["norm"] == {"kind": "layernorm", "eps": 1e-3}


def test_integers_without_scales_are_refused(marian_ct2: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    change_model(folder, {"decoder/embeddings/weight": np.zeros((300, 16), np.int8)})
    with pytest.raises(ConversionError, match="the integers of decoder/embeddings/weight have no scales"):
        ct2.ModelFile(folder / "model.bin").read("decoder/embeddings/weight")


def test_damaged_vocabularies_are_refused(marian_ct2: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    vocabulary = folder / "shared_vocabulary.json"
    for content, message in ((b"[", "is damaged. Download"), (b"[1]", "it must be a list of texts")):
        vocabulary.write_bytes(content)
        with pytest.raises(HeadwayError, match=message):
            plan_import(str(folder), ImportOptions())
    vocabulary.unlink()
    with pytest.raises(HeadwayError, match="has no shared_vocabulary.json, nor one for each side"):
        plan_import(str(folder), ImportOptions())
    save_model(tmp_path / "theirs", "GPT-2")
    converted = convert(tmp_path / "theirs", tmp_path / "lm")
    (converted / "vocabulary.json").unlink()
    with pytest.raises(HeadwayError, match="has no vocabulary.json. Download the whole model again"):
        plan_import(str(converted), ImportOptions())


def test_damaged_files_of_ctranslate2_are_refused(marian_ct2: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    whole = (marian_ct2 / "model.bin").read_bytes()
    for cut in (0, 3, 6, 20, 30, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(HeadwayError, match="is damaged or incomplete"):
            ct2.ModelFile(path)
    write_ct2(path, {}, (("a", "b"),))
    with pytest.raises(HeadwayError, match="is damaged or incomplete"):
        ct2.ModelFile(path)
    head = struct.pack("<IH", 6, 2) + b"a\0" + struct.pack("<I", 7)
    for rest in (
        struct.pack("<I", 2**31),
        struct.pack("<IH", 1, 2) + b"a\0" + struct.pack("<BIBI", 1, 2**31, 0, 4),
        struct.pack("<IH", 1, 2) + b"a\0" + struct.pack("<B", 99) + bytes(99),
        struct.pack("<I", 0) + struct.pack("<I", 2**31),
    ):
        path.write_bytes(head + rest)
        with pytest.raises(HeadwayError, match="is damaged or incomplete"):
            ct2.ModelFile(path)
    with pytest.raises(HeadwayError, match="cannot be read: No such file"):
        ct2.ModelFile(tmp_path / "gone")
    path.write_bytes(whole)
    file = ct2.ModelFile(path)
    path.write_bytes(whole[:100])
    with pytest.raises(HeadwayError, match="is damaged or incomplete"):
        file.read("decoder/embeddings/weight")
