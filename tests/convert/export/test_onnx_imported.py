"""Imported models exported to ONNX: onnxruntime gives the logits of the original in transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from convert.language_models import END, import_model, stir
from convert.translators import FORMS, make_batch, write
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from headway.convert.export.formats import export_model
from headway.convert.export.onnx.sessions import OnnxDecoder, OnnxStepper, open_session
from headway.convert.export.stored_model import open_model

SIZES = {
    "vocab_size": 257, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("form", ["Marian", "Marian with two vocabularies", "Pegasus", "T5 1.1"])
def test_translators(form: str, tmp_path: Path) -> None:
    theirs = FORMS[form]()
    write(theirs, tmp_path / "model")
    report = export_model(open_model(tmp_path / "model"), "onnx", tmp_path / "out")
    assert any(
        line.startswith("the tokenizer: its tokenizer is an imported sentencepiece model") for line in report.lost
    )
    c = theirs.config
    source, valid = make_batch(5, c.vocab_size, c.eos_token_id, c.pad_token_id)
    target = torch.randint(3, 79, (5, 7))
    target[:, 0] = c.decoder_start_token_id
    want = theirs(input_ids=source, attention_mask=valid.long(), decoder_input_ids=target).logits
    state = OnnxStepper(tmp_path / "out/onnx").start(source, valid, 5)
    found = np.concatenate([state.step(part) for part in target.split([3, 1, 3], 1)], 1)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * float(want.abs().max()))


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize(
    "make",
    [
        lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_theta=5000.0)),
        lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=6)),
    ],
)
def test_language_models(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    theirs = stir(make())
    import_model(theirs, tmp_path)
    report = export_model(open_model(tmp_path / "ours"), "onnx", tmp_path / "out")
    assert "tokenizer.json" in report.files
    ids = torch.randint(0, END, (3, 24))
    decoder = OnnxDecoder(open_session(tmp_path / "out/onnx/model.onnx"))
    found, end = [], 0
    for part in ids.split([20, 1, 3], 1):
        end += part.shape[1]
        found.append(decoder.step(part.numpy(), attention_mask=np.ones((3, end), np.int64)))
    want = theirs(input_ids=ids).logits
    np.testing.assert_allclose(np.concatenate(found, 1), want, rtol=1e-5, atol=1e-5 * float(want.abs().max()))
