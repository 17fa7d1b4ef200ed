"""In, out, in with everything that a directory holds: weights, config, tokenizer, languages, chat template. What comes
out is loaded by transformers, gives the same ids for a text, and computes the same."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from convert.multilingual import FAMILIES, make_original
from convert.translators import (
    lively_pegasus,
    make_lines,
    mt5,
    save_marian,
    save_t5,
    sentencepiece_model,
    stir,
    t5,
    untie,
)
from random_models import language_model_table, write_random_model

from headway.convert.architecture import ConversionError
from headway.convert.export.formats import ExportReport, export_model
from headway.convert.export.stored_model import open_model
from headway.convert.gguf.model_file import plan_import as plan_gguf
from headway.convert.huggingface.directory import plan_import
from headway.convert.options import ImportOptions
from headway.storage.model_dir import load_model, read_tensors
from headway.text.tokenizer.imported import ImportedTokenizer

TEMPLATE = "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}{% endfor %}"
TASKS = {f"translation_en_to_{code}": {"prefix": f"translate english to {name}: "} for code, name in
         (("de", "german"), ("fr", "french"))}  # fmt: skip
SPELLED = (*make_lines(300, seed=9), *["translate english to german: french:"] * 20)
SPOKEN = ImportOptions(source_language="en", target_language="de")
CHAT = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>"}
LLAMA_PIECES = {"pad_id": -1, "unk_id": 0, "bos_id": 1, "eos_id": 2, "byte_fallback": True, "size": 320}


def save_tasks(folder: Path, fast: bool) -> None:
    """A T5 with tasks, whose tokenizer can spell them."""
    model = t5(vocab_size=160)
    model.config.task_specific_params = TASKS
    save_t5(folder, model)
    (folder / "spiece.model").write_bytes(sentencepiece_model(100, SPELLED))
    if fast:
        transformers.T5Tokenizer.from_pretrained(folder).save_pretrained(folder)
        (folder / "spiece.model").unlink()


def save_multilingual(family: str) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        make_original(family, folder.parent / "made").folder.rename(folder)

    return save


def save_llama(folder: Path) -> None:
    """tokenizer.model alone, with a chat template in a file of its own."""
    folder.mkdir()
    (folder / "tokenizer.model").write_bytes(sentencepiece_model(**LLAMA_PIECES))
    (folder / "tokenizer_config.json").write_text(json.dumps({**CHAT, "auto_map": {"AutoTokenizer": "evil.Tokenizer"}}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    stir(transformers.LlamaForCausalLM(make_llama_config())).save_pretrained(folder)


def make_llama_config(**changes: Any) -> transformers.LlamaConfig:
    return transformers.LlamaConfig(**{
        "vocab_size": 330, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 20, "max_position_embeddings": 4096, "bos_token_id": 1, "eos_token_id": 2, **changes,
    })  # fmt: skip


def save_qwen(folder: Path) -> None:
    """tokenizer.json, with a chat template among the settings."""
    folder.mkdir()
    (folder / "tokenizer.model").write_bytes(sentencepiece_model(**LLAMA_PIECES))
    (folder / "tokenizer_config.json").write_text(json.dumps({**CHAT, "chat_template": TEMPLATE}))
    tokenizer = transformers.LlamaTokenizer.from_pretrained(folder)
    (folder / "tokenizer.model").unlink()
    tokenizer.save_pretrained(folder)
    config = make_llama_config().to_dict()
    stir(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**config))).save_pretrained(folder)


def save_xlm_roberta(folder: Path) -> None:
    folder.mkdir()
    pieces = sentencepiece_model(60, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "XLMRobertaTokenizer"}))
    config = transformers.XLMRobertaConfig(
        vocab_size=70, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20,
        max_position_embeddings=40, pad_token_id=1, type_vocab_size=1,
    )  # fmt: skip
    stir(transformers.XLMRobertaForMaskedLM(config)).save_pretrained(folder)


DIRECTORIES: dict[str, tuple[Callable[[Path], Any], ImportOptions]] = {
    **{
        family: (save_multilingual(family), SPOKEN if family == "BART" else ImportOptions()) for family in FAMILIES
    },
    "Marian": (save_marian, ImportOptions()),
    "Marian to several": (lambda folder: save_marian(folder, tags=("fra", "ron")), ImportOptions()),
    "Marian, two vocabularies": (lambda folder: save_marian(folder, separate=True), ImportOptions()),
    "T5": (save_t5, SPOKEN),
    "T5, tokenizer.json": (lambda folder: save_t5(folder, fast=True), SPOKEN),
    "T5 with tasks": (lambda folder: save_tasks(folder, False), ImportOptions()),
    "T5 with tasks, tokenizer.json": (lambda folder: save_tasks(folder, True), ImportOptions()),
    "MADLAD": (lambda folder: save_t5(folder, tags=("de", "fr")), ImportOptions(source_language="en")),
    "mT5": (lambda folder: save_t5(folder, untie(mt5(), 1.0)), SPOKEN),
    "mT5, tied": (lambda folder: save_t5(folder, mt5()), SPOKEN),
    "Llama": (save_llama, ImportOptions()),
    "Qwen2": (save_qwen, ImportOptions()),
    "XLM-RoBERTa": (save_xlm_roberta, ImportOptions()),
}  # fmt: skip


def import_and_export(name: str, folder: Path) -> ExportReport:
    save, options = DIRECTORIES[name]
    save(folder / "theirs")
    plan_import(folder / "theirs", options).write(folder / "ours")
    report = export_model(open_model(folder / "ours"), "huggingface", folder / "out")
    plan_import(folder / "out", options).write(folder / "again")
    return report


@torch.no_grad()
@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_directory_comes_back(name: str, tmp_path: Path) -> None:
    report = import_and_export(name, tmp_path)
    assert not any("languages" in line for line in report.lost)
    ours, again = (read_tensors(tmp_path / folder / "model.safetensors") for folder in ("ours", "again"))
    assert ours.keys() == again.keys() and all(torch.equal(ours[key], again[key]) for key in ours)
    before, after = (json.loads((tmp_path / folder / "tokenizer.json").read_text()) for folder in ("ours", "again"))
    assert before == after
    before, after = (json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("ours", "again"))
    if before["search"].get("max_length") is None:  # transformers has no maximum by the length of the source
        after["search"].pop("max_length", None)
        before["search"].pop("max_length", None)
    assert before == after

    theirs, out = (transformers.AutoTokenizer.from_pretrained(tmp_path / folder) for folder in ("theirs", "out"))
    assert type(theirs) is type(out)
    lines = [*make_lines(20), "", " A dog,  12 Häuser\n", "<s> </s>"]
    assert [theirs(line).input_ids for line in lines] == [out(line).input_ids for line in lines]
    if name in ("Llama", "Qwen2"):
        talk = [{"role": "user", "content": "the dog"}]
        found = out.apply_chat_template(talk, tokenize=False)
        assert found == theirs.apply_chat_template(talk, tokenize=False) == "[user] the dog"
        assert "evil" not in (tmp_path / "out" / "tokenizer_config.json").read_text()
    config = transformers.AutoConfig.from_pretrained(tmp_path / "theirs")
    model: Any = getattr(transformers, config.architectures[0])
    one = model.from_pretrained(tmp_path / "theirs").eval()
    ids = torch.randint(5, 50, (2, 9))  # no padding
    given = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
    auto: Any = transformers.AutoModelForMaskedLM if name == "XLM-RoBERTa" else transformers.AutoModelForCausalLM
    auto = transformers.AutoModelForSeq2SeqLM if given else auto
    other = auto.from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(
        other(input_ids=ids, **given).logits, one(input_ids=ids, **given).logits, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("family", ["NLLB", "M2M100", "mBART-50", "mBART"])
def test_an_exported_tokenizer_still_names_languages(family: str, tmp_path: Path) -> None:
    import_and_export(family, tmp_path)
    theirs, out = (transformers.AutoTokenizer.from_pretrained(tmp_path / folder) for folder in ("theirs", "out"))
    for source in {"NLLB": ("eng_Latn", "fra_Latn"), "M2M100": ("en", "fr")}.get(family, ("en_XX", "fr_XX")):
        theirs.src_lang = out.src_lang = source
        assert theirs("the dog").input_ids == out("the dog").input_ids


def test_pieces_that_no_family_gives_these_ids_are_refused(tmp_path: Path) -> None:
    """A vocabulary backwards: every file of transformers would give other ids."""
    content = sentencepiece_model(60)
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
    backwards = [pieces.IdToPiece(n) for n in reversed(range(pieces.GetPieceSize()))]
    last = len(backwards) - 1
    special = {"pad": last, "start": last - 1, "end": last - 1, "unknown": last - 2}
    tokenizer = ImportedTokenizer(
        {
            "imported": "sentencepiece",
            "model": base64.b64encode(content).decode(),
            "special": special,
            "vocabulary": backwards,
        }
    )
    table = language_model_table(
        position="rope(layout='halves')", feedforward="swiglu(32)", mixer="attention(4, bias=false)"
    )
    table |= {"norm": "rmsnorm(1e-6)", "embedding": {"scale": False}}
    write_random_model(tmp_path / "model", table, "causal", tokenizer)
    with pytest.raises(ConversionError, match="sentencepiece model without tokenizer.json, and read again"):
        export_model(open_model(tmp_path / "model"), "huggingface", tmp_path / "out")


def test_a_name_of_a_file_that_a_model_directory_claims_is_not_written(tmp_path: Path) -> None:
    """tokenizer.json of a model directory may come from anybody: names in it lead nowhere else."""
    save_llama(tmp_path / "theirs")
    plan_import(tmp_path / "theirs", ImportOptions()).write(tmp_path / "ours")
    path = tmp_path / "ours" / "tokenizer.json"
    data = json.loads(path.read_text())
    data["original"]["files"] = ["../../evil.model", "spiece.model/../../x"]
    path.write_text(json.dumps(data))
    export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer.model").exists()
    assert {file.name for file in tmp_path.iterdir()} == {"theirs", "ours", "out"}
    for wrong in (3, ["x"], {"config": 3, "files": "x"}):
        path.write_text(json.dumps({**data, "original": wrong}))
        assert load_model(tmp_path / "ours").tokenizers.target.encode("the dog")


def test_half_a_character_in_the_settings_is_replaced(tmp_path: Path) -> None:
    save_llama(tmp_path / "theirs")
    path = tmp_path / "theirs" / "tokenizer_config.json"
    path.write_text(json.dumps({**CHAT, "more": ["\ud800"]}))
    plan_import(tmp_path / "theirs", ImportOptions()).write(tmp_path / "ours")
    assert '"more": ["?"]' in (tmp_path / "ours" / "tokenizer.json").read_text()


def test_what_was_said_beside_ids_does_not_change_what_ids_mean(tmp_path: Path) -> None:
    save_llama(tmp_path / "theirs")
    plan_import(tmp_path / "theirs", ImportOptions()).write(tmp_path / "ours")
    tokenizer = load_model(tmp_path / "ours").tokenizers.target
    assert isinstance(tokenizer, ImportedTokenizer)
    assert tokenizer.original_config["chat_template"] == TEMPLATE
    plain = ImportedTokenizer({name: value for name, value in tokenizer.to_json().items() if name != "original"})
    assert plain.fingerprint() == tokenizer.fingerprint()


def test_the_settings_of_a_search_come_back(tmp_path: Path) -> None:
    model = lively_pegasus()
    for name, changes in (
        ("beam", {"num_beams": 3, "early_stopping": True, "min_length": 4, "max_length": 30, "length_penalty": 0.8}),
        ("sampling", {"num_beams": 1, "do_sample": True, "temperature": 0.7, "top_k": 11, "top_p": 0.9}),
    ):
        folder = tmp_path / name
        model.generation_config = transformers.GenerationConfig(**{"max_length": 30, **changes}, eos_token_id=1)
        save_t5(folder / "theirs", model)
        path = folder / "theirs" / "spiece.model"
        transformers.T5Tokenizer.from_pretrained(folder / "theirs").save_pretrained(folder / "theirs")
        path.unlink(missing_ok=True)
        plan_import(folder / "theirs", SPOKEN).write(folder / "ours")
        export_model(open_model(folder / "ours"), "huggingface", folder / "out")
        plan_import(folder / "out", SPOKEN).write(folder / "again")
        before, after = (json.loads((folder / part / "config.json").read_text()) for part in ("ours", "again"))
        assert before["search"] == after["search"]


@pytest.mark.parametrize("normalised", [False, True])
def test_gguf_keeps_ids_and_chat_template(normalised: bool, tmp_path: Path) -> None:
    save_llama(tmp_path / "theirs")
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    pieces = sentencepiece_model(**LLAMA_PIECES, model_type="bpe", **({} if normalised else plain))
    (tmp_path / "theirs" / "tokenizer.model").write_bytes(pieces)
    plan_import(tmp_path / "theirs", ImportOptions()).write(tmp_path / "ours")
    report = export_model(open_model(tmp_path / "ours"), "gguf", tmp_path / "out")
    plan_gguf(tmp_path / "out" / report.files[0], ImportOptions()).write(tmp_path / "again")
    ours, again = (load_model(tmp_path / folder).tokenizers.target for folder in ("ours", "again"))
    assert isinstance(again, ImportedTokenizer)
    assert again.original_config == {"chat_template": TEMPLATE}
    lines = [*make_lines(50), "", " the  dog ", "Ｔｈｅ ﬁne dog\tsees ½"]
    assert ours.encode_batch(lines) == again.encode_batch(lines)
    assert any("how its sentencepiece model normalises text" in line for line in report.lost) == normalised


def test_gguf_has_no_unigram_model(tmp_path: Path) -> None:
    save_llama(tmp_path / "theirs")
    plan_import(tmp_path / "theirs", ImportOptions()).write(tmp_path / "ours")
    with pytest.raises(ConversionError, match="its sentencepiece model is no BPE, which is the only one of llama.cpp"):
        export_model(open_model(tmp_path / "ours"), "gguf", tmp_path / "out")
