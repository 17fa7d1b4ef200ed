"""The importer: a plan that fits is written as a model directory; anything else is refused before a byte is written."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel

from headway.convert.architecture import ConversionError, find_family, read_size
from headway.convert.huggingface.gpt2 import read_gpt2
from headway.convert.importer import ImportPlan
from headway.convert.json_files import read_json_object
from headway.convert.weight_files import TensorsSource
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.vocabulary import byte_alphabet


def byte_tokenizer(special: dict[str, int] | None = None) -> ImportedTokenizer:
    """One token a byte, as GPT-2's before its merges, and an end token."""
    letters = {letter: n for n, letter in enumerate(byte_alphabet())}
    library = Library(models.BPE(vocab={**letters, "<|endoftext|>": 256}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    special = special or {"pad": 256, "start": 256, "end": 256}
    return ImportedTokenizer({"imported": "tokenizers", "model": json.loads(library.to_str()), "special": special})


@pytest.fixture
def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(1)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 257, "initializer_range": 0.3}
    return GPT2LMHeadModel(GPT2Config(**sizes)).eval()


def make_plan(gpt2: GPT2LMHeadModel, **changes: Any) -> ImportPlan:
    tokenizer = byte_tokenizer()
    plan = ImportPlan(
        architecture=read_gpt2(gpt2.config.to_dict()),
        weights=TensorsSource(gpt2.state_dict()),
        tokenizers=Tokenizers(tokenizer, tokenizer),
        card="# A model\n",
    )
    return replace(plan, **changes)


@torch.no_grad()
def test_an_imported_model_computes_what_the_original_does(gpt2: GPT2LMHeadModel, tmp_path: Path) -> None:
    report = make_plan(gpt2).write(tmp_path / "model")
    assert (report.family, report.objective, report.dtype) == ("GPT-2", "causal", "float32")
    assert report.parameters == sum(p.numel() for p in gpt2.parameters())
    loaded = load_model(tmp_path / "model")
    ids = torch.randint(0, 257, (3, 20))
    logits = loaded.model.logits(loaded.model(None, ids).hidden)
    torch.testing.assert_close(logits, gpt2(ids).logits, rtol=0, atol=1e-5)
    assert loaded.tokenizers.target.decode(loaded.tokenizers.target.encode("Grüße ☃")) == "Grüße ☃"
    assert (tmp_path / "model" / "README.md").read_text() == "# A model\n"


def test_weights_that_do_not_fit_are_refused(gpt2: GPT2LMHeadModel, tmp_path: Path) -> None:
    weights = gpt2.state_dict()
    gone = {name: tensor for name, tensor in weights.items() if name != "transformer.wpe.weight"}
    cases = [
        (gone, "the tensor transformer.wpe.weight is missing in the weights"),
        (weights | {"transformer.wpe.weight": torch.zeros(31, 16)}, "has the shape .*, which does not fit"),
        (weights | {"value_head.weight": torch.zeros(2)}, "hold the tensor value_head.weight .one of 1., which"),
    ]
    for tensors, message in cases:
        with pytest.raises(HeadwayError, match=message):
            make_plan(gpt2, weights=TensorsSource(tensors)).write(tmp_path / "model")
    rules = make_plan(gpt2).architecture
    with pytest.raises(ConversionError, match="no rule gives exactly the tensor"):
        make_plan(gpt2, architecture=replace(rules, rules=rules.rules[1:])).write(tmp_path / "model")
    with pytest.raises(ConversionError, match="this GPT-2 model cannot be built: .*d_model"):
        make_plan(gpt2, architecture=replace(rules, model={**rules.model, "d_model": -1})).write(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_config_that_means_something_else_is_refused(gpt2: GPT2LMHeadModel) -> None:
    config = gpt2.config.to_dict()
    with pytest.raises(ConversionError, match="activation_function = 'tanh' in its config.json is not supported"):
        read_gpt2({**config, "activation_function": "tanh"})
    for wrong in (0, -1, True, "12", 2**31, None, [1]):
        with pytest.raises(ConversionError, match="is not a size"):
            read_size({"d_model": wrong}, "d_model")
    with pytest.raises(ConversionError, match="n_layer = 10001 in its config.json is not a size from 1 to 10,000"):
        read_gpt2({**config, "n_layer": 10_001})
    assert find_family("gpt2") is read_gpt2
    with pytest.raises(ConversionError, match='models of the type "dodo" cannot be imported. Supported: .*gpt2'):
        find_family("dodo")
    reasons = {"whisper": "no sound", "clip": "no images"}
    for name, reason in reasons.items():
        with pytest.raises(ConversionError, match=f"{name} models cannot be imported: .*{reason}"):
            find_family(name)


def test_a_json_file_from_elsewhere_holds_one_object(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(HeadwayError, match="config.json is missing"):
        read_json_object(path)
    for damaged in (b"\xff", b"{", b"[" * 200_000, b"1" * 10_000):
        path.write_bytes(damaged)
        with pytest.raises(HeadwayError, match="is not JSON"):
            read_json_object(path)
    path.write_text("[]")
    with pytest.raises(HeadwayError, match="it must hold one JSON object"):
        read_json_object(path)
    path.write_text('{"a": 1}')
    assert read_json_object(path) == {"a": 1}


def test_an_imported_config_imports_no_code(
    gpt2: GPT2LMHeadModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a reader takes over from a downloaded file."""
    (tmp_path / "evil_import.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\nclass Evil: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    plan = make_plan(gpt2)
    decoder = {**plan.architecture.model["decoder"], "feedforward": "evil_import:Evil"}
    architecture = replace(plan.architecture, model={**plan.architecture.model, "decoder": decoder})
    with pytest.raises(ConversionError, match="only you can allow it to run"):
        replace(plan, architecture=architecture).write(tmp_path / "model")
    assert not (tmp_path / "mark").exists()
