"""Mapping files: an unknown model, named by its user, computes what the original does; mistakes are named."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

from convert.test_importer import byte_tokenizer
from headway.cli.app import main
from headway.convert.architecture import ConversionError
from headway.convert.mapping import expand_rules, read_change, read_mapping
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.storage.model_dir import load_model

MAPPING = """
family = "Dodo"
objective = "causal"
max_tokens = 32
unused = ["lm_head.*"]

[model]
d_model = 16
norm = "layernorm"
embedding = {scale = false, tied = "all"}
encoder = {layers = 0}
decoder.layers = 2
decoder.position = "learned(32)"
decoder.mixer = "attention(2)"
decoder.feedforward = "gelu_tanh(64)"
decoder.residual = "pre"

[text]
eos_token_id = 256
vocab_size = 257

[tensors]
"embeddings.decoder.words.weight" = "transformer.wte.weight"
"stacks.decoder.positions.0.table.weight" = "transformer.wpe.weight"
"stacks.decoder.ends.norm.gain" = "transformer.ln_f.weight"
"stacks.decoder.ends.norm.bias" = "transformer.ln_f.bias"
"""
BLOCK, HEAD = "stacks.decoder.blocks.{n}.", "transformer.h.{n}."


def write_mapping(path: Path) -> None:
    lines = [MAPPING]
    for ours, theirs in (("self", "ln_1"), ("feedforward", "ln_2")):
        for own, end in (("gain", "weight"), ("bias", "bias")):
            lines.append(f'"{BLOCK}residuals.{ours}.norm.{own}" = "{HEAD}{theirs}.{end}"\n')
    for end in ("weight", "bias"):
        for n, name in enumerate(("query", "key", "value")):
            source = f'{{name = "{HEAD}attn.c_attn.{end}", transpose = true, rows = [{16 * n}, 16]}}'
            lines.append(f'"{BLOCK}sublayers.self.{name}.{end}" = {source}\n')
        for ours, theirs in (
            ("self.output", "attn.c_proj"),
            ("feedforward.inner", "mlp.c_fc"),
            ("feedforward.outer", "mlp.c_proj"),
        ):
            source = f'{{name = "{HEAD}{theirs}.{end}", transpose = true}}'
            lines.append(f'"{BLOCK}sublayers.{ours}.{end}" = {source}\n')
    path.write_text("".join(lines))


@torch.no_grad()
def test_a_model_is_described_by_its_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 257}
    original = GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.3)).eval()
    save_file({name: t.contiguous().clone() for name, t in original.state_dict().items()}, tmp_path / "x.safetensors")
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_tokenizer().to_json()["model"]))
    write_mapping(tmp_path / "map.toml")
    arguments = [
        str(tmp_path / "x.safetensors"),
        "--mapping",
        str(tmp_path / "map.toml"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(["import", *arguments]) == 0
    assert "found: Dodo language model" in capsys.readouterr().err
    loaded = load_model(tmp_path / "out")
    ids = torch.randint(0, 257, (3, 20))
    logits = loaded.model.logits(loaded.model(None, ids).hidden)
    torch.testing.assert_close(logits, original(ids).logits, rtol=0, atol=1e-5)
    (tmp_path / "x.safetensors").rename(tmp_path / "model.safetensors")
    plan = plan_import(str(tmp_path), ImportOptions(mapping=tmp_path / "map.toml"))
    assert plan.architecture.family == "Dodo"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dodo = 1", "there is no key 'dodo'. Known: family"),
        ("objective = 'causal'\n[model]\n[text]", "the table .tensors. is missing"),
        ("[model]\n[text]\n[tensors]", "objective must be one of translation, causal, masked"),
    ],
)
def test_mistakes_in_a_mapping_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(content)
    with pytest.raises(ConversionError, match=message):
        read_mapping(tmp_path / "map.toml")


def test_tensors_are_named_by_patterns(tmp_path: Path) -> None:
    rules = expand_rules(
        {"a.{n}.b": {"name": "x.{n}", "skip_rows": 2, "shape": [4]}}, ["a.0.b", "a.1.b", "c"], tmp_path
    )
    assert [(rule.ours, rule.theirs) for rule in rules] == [("a.0.b", "x.0"), ("a.1.b", "x.1")]
    assert rules[0].shape((6,)) == (4,)
    with pytest.raises(ConversionError, match="the model has no tensor d. It has, for example, c"):
        expand_rules({"d": "x"}, ["c"], tmp_path)
    for value in (3, {}, {"name": "x", "turn": True}, {"name": "x", "rows": 3}, {"name": "x", "rows": [1]}):
        with pytest.raises(ConversionError, match="cannot be read"):
            read_change(value, "a", tmp_path)
