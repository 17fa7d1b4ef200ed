"""GGUF: read back by the package gguf, and by transformers, which dequantises it."""

import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from random_models import LINES, language_model_table, translator_table, write_random_model
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from headway.convert.architecture import ConversionError
from headway.convert.export.formats import ExportReport, export_model
from headway.convert.export.stored_model import open_model
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.text.tokenizer.tokenizer import Tokenizer

LLAMA = {"position": "rope", "feedforward": "swiglu(64)", "mixer": "attention(4, groups=2, bias=false)"}
QWEN3 = {"kind": "attention", "heads": 2, "d_k": 6, "bias": False, "qk_norm": "rmsnorm(1e-6)"}


def export(model: Path, out: Path, dtype: str = "") -> ExportReport:
    return export_model(open_model(model), "gguf", out, dtype)


def table(**changes: Any) -> dict[str, Any]:
    made = {**language_model_table(**{**LLAMA, **changes}), "norm": "rmsnorm(1e-6)"}
    return {**made, "d_model": 32, "embedding": {"scale": False, "tied": "none"}}


def load_by_transformers(path: Path) -> Any:
    """As its from_pretrained(gguf_file=…) does, which asks for one more package."""
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    width = reader.fields[f"{architecture}.attention.key_length"].contents()  # which this reader leaves out
    config = AutoConfig.for_model(**{**load_gguf_checkpoint(path)["config"], "head_dim": width})
    model = AutoModelForCausalLM.from_config(config)
    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    model.load_state_dict(tensors)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Llama", {}),
        ("Llama", {"position": "rope(base=500, layout='halves')", "mixer": "attention(4, d_k=6, bias=false)"}),
        ("Qwen2", {"mixer": "attention(4, output_bias=false)"}),
        ("Qwen3", {"mixer": QWEN3, "position": "rope(layout='halves')"}),
    ],
)
def test_it_is_read_back(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", table(**changes), "causal")
    report = export(tmp_path / "model", tmp_path / "out")
    assert report.format == f"GGUF ({family})"
    assert report.files == ("model.gguf",)
    reader = gguf.GGUFReader(tmp_path / "out" / "model.gguf")
    found = {tensor.name: torch.tensor(tensor.data) for tensor in reader.tensors}
    weights = load_model(tmp_path / "model").model.state_dict()
    for ours, theirs in {
        "embeddings.decoder.words.weight": "token_embd.weight",
        "head.weight": "output.weight",
        "stacks.decoder.blocks.1.sublayers.feedforward.gate.weight": "blk.1.ffn_gate.weight",
        "stacks.decoder.blocks.1.sublayers.self.value.weight": "blk.1.attn_v.weight",
        "stacks.decoder.blocks.0.residuals.feedforward.norm.gain": "blk.0.ffn_norm.weight",
    }.items():
        assert torch.equal(found[theirs].view(weights[ours].shape), weights[ours])
    query = found["blk.0.attn_q.weight"]
    ours_query = weights["stacks.decoder.blocks.0.sublayers.self.query.weight"]
    if family == "Llama" and "halves" not in str(changes):
        assert torch.equal(query, ours_query)  # both in neighbouring channels
    if family == "Qwen3":
        assert torch.equal(query, ours_query)  # both by halves
    theirs = load_by_transformers(tmp_path / "out" / "model.gguf")
    model = load_model(tmp_path / "model").model
    ids = torch.randint(6, 300, (2, 12))
    logits = model.logits(model(None, ids).hidden)
    torch.testing.assert_close(theirs(ids).logits, logits, rtol=1e-5, atol=1e-5)


def test_types_of_weights(tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", table(feedforward="swiglu(40)"), "causal")
    wanted = load_model(tmp_path / "model").model.state_dict()["head.weight"].numpy()
    for dtype, kind, error in (("float16", "F16", 1e-3), ("bfloat16", "BF16", 1e-2), ("q8_0", "Q8_0", 1e-2)):
        export(tmp_path / "model", tmp_path / dtype, dtype)
        tensors = {t.name: t for t in gguf.GGUFReader(tmp_path / dtype / "model.gguf").tensors}
        output = tensors["output.weight"]
        assert output.tensor_type.name == kind
        np.testing.assert_allclose(gguf.quants.dequantize(output.data, output.tensor_type), wanted, atol=error)
        assert tensors["output_norm.weight"].tensor_type.name == "F32"
        narrow = tensors["blk.0.ffn_down.weight"].tensor_type.name  # rows of 40, no multiple of 32
        assert narrow == ("F16" if kind == "Q8_0" else kind)


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_the_tokenizer_is_in_the_metadata(kind: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(LINES * 3, kind)
    write_random_model(tmp_path / "model", table(), "causal", tokenizer)
    report = export(tmp_path / "model", tmp_path / "out")
    assert any("split into words" in line for line in report.lost) == (kind == "bpe")
    fields = gguf.GGUFReader(tmp_path / "out" / "model.gguf").fields
    assert fields["tokenizer.ggml.model"].contents() == "gpt2"
    assert fields["tokenizer.ggml.tokens"].contents() == [tokenizer.spelling(n) for n in range(tokenizer.size)]
    kinds = fields["tokenizer.ggml.token_type"].contents()
    controls = {n for n, one in enumerate(kinds) if one == gguf.TokenType.CONTROL}
    assert controls == tokenizer.control_ids
    assert fields["tokenizer.ggml.eos_token_id"].contents() == 2
    newline = tokenizer.encode("x\n")[-1]
    assert fields["tokenizer.ggml.bos_token_id"].contents() == newline
    if kind == "bpe":
        merges = fields["tokenizer.ggml.merges"].contents()
        assert len(merges) == len(tokenizer.to_json()["model"]["merges"])
    assert fields["general.license"].contents() == "mit"


def test_others_are_refused_by_their_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (table(position="alibi"), 'decoder.position is "alibi"'),
        (table(feedforward="relu(32)"), 'decoder.feedforward is "relu"'),
        ({**table(), "norm": "layernorm"}, 'norm is "layernorm"'),
        (table(feedforward="swiglu(32, bias=true)"), 'decoder.feedforward is "swiglu" with bias = True'),
        (table(position="rope(scaling='yarn(4, length=16)')"), 'the scaling "yarn"'),
        (
            table(mixer="attention(4, output_bias=false)", mask=["causal", "causal & local(3)"]),
            'decoder.mask is "local"',
        ),
    ]
    for number, (model, reason) in enumerate(cases):
        write_random_model(tmp_path / str(number), model, "causal")
        with pytest.raises(ConversionError, match=reason):
            export(tmp_path / str(number), tmp_path / "out")
    write_random_model(tmp_path / "translator", translator_table())
    with pytest.raises(ConversionError, match='by the objective "causal", not "translation"'):
        export(tmp_path / "translator", tmp_path / "out")
    write_random_model(tmp_path / "unigram", table(), "causal", Tokenizer.train(LINES * 3, "unigram"))
    with pytest.raises(ConversionError, match='its tokenizer is "unigram"'):
        export(tmp_path / "unigram", tmp_path / "out")
    write_random_model(tmp_path / "model", table(), "causal")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(HeadwayError, match="GGUF needs the package gguf"):
        export(tmp_path / "model", tmp_path / "out")
