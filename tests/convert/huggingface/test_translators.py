"""Marian, Pegasus, T5 and mT5: what they compute is what the originals compute, and every tensor comes back."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from convert.translators import FORMS, make_batch, make_plan, marian, mt5, pegasus, t5, untie, write
from transformers import T5ForConditionalGeneration

from headway.convert.architecture import ConversionError, find_family
from headway.convert.huggingface.t5 import read_mt5, read_t5
from headway.convert.readings import choose_reading
from headway.convert.tensor_rules import read_tensor, write_tensor
from headway.convert.weight_files import TensorsSource, open_weights
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_the_logits_are_the_originals(form: str, tmp_path: Path) -> None:
    theirs = FORMS[form]()
    report = write(theirs, tmp_path / "model")
    assert report.family in form and not report.lost
    ours = load_model(tmp_path / "model").model
    c = theirs.config
    target_size = getattr(c, "decoder_vocab_size", c.vocab_size)
    source, valid = make_batch(5, c.vocab_size, c.eos_token_id, c.pad_token_id)
    target = torch.cat([torch.full((5, 1), c.decoder_start_token_id), torch.randint(0, target_size - 1, (5, 30))], 1)
    wanted = theirs(input_ids=source, attention_mask=valid.long(), decoder_input_ids=target).logits
    assert wanted.std() > 0.3
    found = ours.logits(ours(source, target, valid).hidden)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_in_and_out_and_in_is_the_identity(form: str, tmp_path: Path) -> None:
    theirs = FORMS[form]()
    write(theirs, tmp_path / "model")
    ours = load_model(tmp_path / "model").model.state_dict()
    reading, weights = choose_reading(make_plan(theirs).architecture, TensorsSource(theirs.state_dict()))
    groups = defaultdict(list)
    for rule in reading.rules:
        groups[rule.theirs].append(rule)
    for name, rules in groups.items():
        back = write_tensor(rules, [ours[rule.ours] for rule in rules])
        assert torch.equal(back, weights.read(name)), name
        for rule in rules:
            assert torch.equal(read_tensor(rule, back), ours[rule.ours])


def test_the_weights_decide_what_is_tied(tmp_path: Path) -> None:
    """Old safetensors hold shared weights under any one of their names; some configs say what the file does not."""
    theirs = t5()
    tensors = theirs.state_dict()
    for gone in (
        ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"],
        ["shared.weight", "encoder.embed_tokens.weight", "lm_head.weight"],
        ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"],
    ):
        kept = {name: tensor for name, tensor in tensors.items() if name not in gone}
        reading, named = choose_reading(read_t5(theirs.config.to_dict()), TensorsSource(kept))
        assert reading.model["embedding"]["tied"] == "all"
        assert torch.equal(named.read("shared.weight"), tensors["shared.weight"])
    reading, _ = choose_reading(read_t5(theirs.config.to_dict()), TensorsSource(untie(t5()).state_dict()))
    assert reading.model["embedding"]["tied"] == "inputs"
    bart = marian()
    tensors = {name: tensor for name, tensor in bart.state_dict().items() if name != "final_logits_bias"}
    reading, _ = choose_reading(make_plan(bart).architecture, TensorsSource(tensors))
    assert "head" not in reading.model, "a bias that is missing is 0"
    different = bart.state_dict() | {"model.encoder.embed_tokens.weight": torch.zeros(96, 16)}
    reading, _ = choose_reading(make_plan(bart).architecture, TensorsSource(different))
    assert reading.model["embedding"]["tied"] == "target"
    with pytest.raises(ConversionError, match="hold the tensor another .one of 1., which a Marian model"):
        replace(make_plan(bart), weights=TensorsSource(bart.state_dict() | {"another": torch.zeros(1)})).write(
            tmp_path / "model"
        )
    del different["model.encoder.layers.0.fc1.weight"]
    with pytest.raises(HeadwayError, match="the tensor model.encoder.layers.0.fc1.weight is missing"):
        replace(make_plan(bart), weights=TensorsSource(different)).write(tmp_path / "model")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_half_files_keep_their_numbers(dtype: torch.dtype, tmp_path: Path) -> None:
    """T5 keeps some of its layers in float32, in files that are float16 otherwise."""
    theirs = untie(t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)).to(dtype)
    theirs.save_pretrained(tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    plan = replace(
        make_plan(theirs),
        architecture=find_family("t5")(config),
        weights=open_weights(tmp_path / "theirs"),
    )
    assert plan.write(tmp_path / "ours").dtype == str(dtype).removeprefix("torch.")
    ours = load_model(tmp_path / "ours").model
    wide = T5ForConditionalGeneration.from_pretrained(tmp_path / "theirs", dtype=torch.float32).eval()
    source, valid = make_batch(3, 96, 1, 0)
    target = torch.randint(0, 96, (3, 7))
    wanted = wide(input_ids=source, attention_mask=valid.long(), decoder_input_ids=target).logits
    torch.testing.assert_close(ours.logits(ours(source, target, valid).hidden), wanted, rtol=0, atol=1e-5)


def test_a_config_that_means_something_else_is_refused() -> None:
    for config, message in (
        (marian().config.to_dict() | {"normalize_before": True}, "normalize_before = True"),
        (marian().config.to_dict() | {"static_position_embeddings": False}, "static_position_embeddings = False"),
        (marian().config.to_dict() | {"d_model": 15}, "d_model = 15 in its config.json is odd"),
        (pegasus().config.to_dict() | {"normalize_before": False}, "normalize_before = False"),
        (t5().config.to_dict() | {"feed_forward_proj": "gated-relu"}, "feed_forward_proj = 'gated-relu'"),
        (mt5().config.to_dict() | {"transformers_version": "4.40.0"}, "written by transformers 4.40.0"),
        ({"model_type": "umt5"}, "umt5 models cannot be imported: each of its layers"),
    ):
        with pytest.raises(ConversionError, match=message):
            find_family(config["model_type"])(config)
    assert read_mt5(mt5().config.to_dict()).family == "mT5"
