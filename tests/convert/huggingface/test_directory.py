"""Hugging Face directories: the family by config.json, languages, the licence; damaged ones are refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel

import headway.convert.architecture as architectures
from headway.convert.architecture import Architecture, ConversionError, Json
from headway.convert.huggingface.directory import choose_languages, read_architecture
from headway.convert.huggingface.generation import read_search
from headway.convert.huggingface.gpt2 import read_gpt2
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.tokenizer_files import read_model_text
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError
from headway.storage.card import read_card
from headway.storage.model_dir import load_model
from headway.text.tokenizer.vocabulary import byte_alphabet


@pytest.fixture(scope="module")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As transformers saves it: a small GPT-2 that reads bytes, with a vocabulary that is padded to 264."""
    folder = tmp_path_factory.mktemp("hub") / "gpt2"
    torch.manual_seed(1)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 264, "initializer_range": 0.3}
    GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=256, eos_token_id=256)).save_pretrained(folder)
    library = Library(models.BPE(vocab={letter: n for n, letter in enumerate(byte_alphabet())}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    library.save(str(folder / "tokenizer.json"))
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# GPT-2\n")
    return folder


@torch.no_grad()
def test_a_directory_becomes_a_model(gpt2_folder: Path, tmp_path: Path) -> None:
    report = plan_import(str(gpt2_folder), ImportOptions()).write(tmp_path / "model")
    assert (report.family, report.objective, report.vocabulary) == ("GPT-2", "causal", 264)
    assert any("all 2,112 logits are finite" in what for what in report.checked)
    loaded = load_model(tmp_path / "model")
    ids = torch.tensor([loaded.tokenizers.target.encode("Grüße ☃")])
    logits = loaded.model.logits(loaded.model(None, ids).hidden)
    original = GPT2LMHeadModel.from_pretrained(gpt2_folder).eval()
    torch.testing.assert_close(logits, original(ids).logits, rtol=0, atol=1e-5)
    card = (tmp_path / "model" / "README.md").read_text()
    assert read_card(tmp_path / "model").licence == "mit"
    assert f"| imported from | {gpt2_folder} |" in card and "family GPT-2" in card


def test_an_existing_model_is_replaced_and_other_files_stay(gpt2_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "README.md").write_text("old")
    plan_import(str(gpt2_folder), ImportOptions()).write(out, overwrite=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert "GPT-2" in (out / "README.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_weights_that_are_not_finite_are_refused(gpt2_folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(gpt2_folder, tmp_path / "broken")
    model = GPT2LMHeadModel.from_pretrained(gpt2_folder)
    torch.nn.init.constant_(model.transformer.wpe.weight, float("nan"))
    model.save_pretrained(broken)
    with pytest.raises(HeadwayError, match="computes values that are not finite"):
        plan_import(str(broken), ImportOptions()).write(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_is_no_model_is_refused(gpt2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HeadwayError, match="there is no file or directory .*, and it is not a name on the"):
        plan_import(str(tmp_path / "gone"), ImportOptions())
    with pytest.raises(HeadwayError, match="--revision v1: .* is a local path, and has none"):
        plan_import(str(gpt2_folder), ImportOptions(revision="v1"))
    with pytest.raises(HeadwayError, match="is not a model that can be imported: it is none of "):
        plan_import(str(tmp_path), ImportOptions())
    broken = shutil.copytree(gpt2_folder, tmp_path / "broken")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps({**config, "layer_norm_epsilon": "small"}))
    with pytest.raises(HeadwayError, match=r"config.json is damaged: ValueError: could not convert"):
        plan_import(str(broken), ImportOptions())
    (broken / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "gptq"}}))
    with pytest.raises(ConversionError, match=r"its weights are quantized .gptq., which is not supported"):
        plan_import(str(broken), ImportOptions())


def make_architecture(**more: object) -> Architecture:
    values: Json = {"family": "Dodo", "objective": "translation", "model": {}, "rules": ()}
    return Architecture(**{**values, **more})


def test_languages_are_the_models_or_those_that_are_given(gpt2_folder: Path) -> None:
    tokenizers = read_model_text(ModelFolder.open(gpt2_folder), "causal").tokenizers
    silent = ModelText(tokenizers=tokenizers)
    known = ModelText(tokenizers=tokenizers, source_languages=("en",), target_languages=("de", "fr"))
    given = ImportOptions(source_language="en", target_language="de")
    assert choose_languages(make_architecture(), silent, given) == (("en",), ("de",))
    assert choose_languages(make_architecture(), silent, ImportOptions()) == ((), ())
    assert choose_languages(make_architecture(), known, given) == (("en",), ("de", "fr"))
    with pytest.raises(ConversionError, match="--to it: the model itself says de, fr. Remove --to"):
        choose_languages(make_architecture(), known, ImportOptions(target_language="it"))
    with pytest.raises(ConversionError, match="--from en: this Dodo model does not translate"):
        choose_languages(make_architecture(objective="causal"), silent, given)


def test_a_family_reads_its_own_text_and_a_translator_gets_a_search(
    gpt2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ModelFolder.open(gpt2_folder)
    folder.generation["num_beams"] = 6
    monkeypatch.setattr(architectures, "find_family", lambda name: read_gpt2)
    assert read_architecture(folder).search == {}
    monkeypatch.setattr(
        "headway.convert.huggingface.directory.find_family",
        lambda name: lambda config: make_architecture(search={"alpha": 0.5}),
    )
    found = read_architecture(folder)
    assert found.search == {"beam_size": 6, "penalty": "power", "alpha": 0.5, "stopping": "score"}
    assert not found.lost


def test_search_settings_are_those_of_the_generation_config() -> None:
    settings = {
        "num_beams": 4, "length_penalty": 0.8, "max_length": 512, "min_length": 3, "no_repeat_ngram_size": 3,
        "early_stopping": True, "repetition_penalty": 1.2, "num_beam_groups": 1, "diversity_penalty": 0.0,
    }  # fmt: skip
    search, lost = read_search(settings)
    assert search == {
        "beam_size": 4, "penalty": "power", "alpha": 0.8, "max_length": 511, "min_length": 2, "no_repeat_ngram": 3,
    }  # fmt: skip
    assert lost == ["repetition_penalty = 1.2 of its generation config"]
    search, lost = read_search({"do_sample": True, "num_beams": 2, "top_p": 0.9, "max_new_tokens": 7})
    assert search == {"beam_size": 1, "sample": True, "temperature": 1.0, "top_k": 50, "top_p": 0.9, "max_length": 7}
    assert lost == ["num_beams = 2 while sampling: Headway samples without a beam"]
    assert read_search({"num_beams": "many", "length_penalty": True})[0]["alpha"] == 1.0
