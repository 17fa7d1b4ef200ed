"""The text of models of CTranslate2: which files split it, in the directory or in the one that --tokenizer names."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from convert.ct2_models import change_model, convert, copy_files, read_variables, save_model
from convert.language_models import stir
from convert.multilingual import make_original
from convert.test_bert import DISTIL, LINES, SIZES, wordpiece
from convert.test_runtimes import make_arrays, marian_ct2, spm, write_opus
from convert.translators import make_lines, save_t5, sentencepiece_model

from headway.convert.architecture import ConversionError
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.translate.language_model import LanguageModel
from headway.translate.translator import load_translator

__all__ = ["marian_ct2", "spm"]


@pytest.mark.parametrize("family", ["NLLB", "M2M100"])
def test_sentencepiece_alone_is_enough(family: str, tmp_path: Path) -> None:
    """The vocabulary of CTranslate2 says which ids pieces and languages have."""
    original = make_original(family, tmp_path / family, encoder_attention_heads=2)
    pieces = "sentencepiece.bpe.model"
    converted = convert(original.folder, tmp_path / "ct2", copy=())
    shutil.copy(tmp_path / family / "pieces" / pieces, converted)
    plan_import(str(converted), ImportOptions()).write(tmp_path / "ours")
    translator = load_translator(tmp_path / "ours")
    direction = translator.direction_tokens("en", "de")
    for line in [*make_lines(20), "the ☃ sees 你好, Grüße!", "</s> a __de__ eng_Latn"]:
        ids = direction.wrap_source(translator.tokenizers.source.encode(line))
        assert ids == original.encode(line) or "</s>" in line, line
    assert direction.target_lead == (original.forced,)


def test_the_directory_of_the_original_is_enough(tmp_path: Path) -> None:
    save_t5(tmp_path / "theirs")
    converted = convert(tmp_path / "theirs", tmp_path / "ct2", copy=())
    for options, message in (
        ({}, r"none of source.spm, target.spm, tokenizer.json, spiece.model, .* --tokenizer DIR"),
        ({"tokenizer": tmp_path / "gone"}, "gone is not a directory. Name one with the tokenizer files"),
    ):
        with pytest.raises(HeadwayError, match=message):
            plan_import(str(converted), ImportOptions(**options))
    plan = plan_import(str(converted), ImportOptions(tokenizer=tmp_path / "theirs"))
    assert plan.architecture.search["beam_size"] == 4, "its generation_config.json was read, too"
    copy_files(tmp_path / "theirs", converted)
    beside = plan_import(str(converted), ImportOptions())
    assert plan.tokenizers.target.encode("the dog") == beside.tokenizers.target.encode("the dog")
    with pytest.raises(
        HeadwayError, match="--tokenizer .*: .* is not a directory of CTranslate2, and has its tokenizer"
    ):
        plan_import(str(tmp_path / "theirs"), ImportOptions(tokenizer=tmp_path))


def test_the_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "theirs", "GPT-2")
    converted = convert(tmp_path / "theirs", tmp_path / "ct2")
    table = json.loads((converted / "tokenizer.json").read_text())
    table["model"]["vocab"]["!"], table["model"]["vocab"]['"'] = 1, 0
    (converted / "tokenizer.json").write_text(json.dumps(table))
    with pytest.raises(ConversionError, match="is of another model: the id 0 is '\"' there and '!' in the vocabulary"):
        plan_import(str(converted), ImportOptions())


def test_llamas_sentencepiece_model(tmp_path: Path) -> None:
    """Whose prompts begin with the start token, as CTranslate2's examples and transformers write them."""
    save_model(tmp_path / "theirs", "Llama")
    converted = convert(tmp_path / "theirs", tmp_path / "ct2", copy=())
    model = sentencepiece_model(60, pad_id=-1, unk_id=0, bos_id=1, eos_id=2)
    (converted / "tokenizer.model").write_bytes(model)
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.IdToPiece(n) for n in range(processor.GetPieceSize())]
    filled = [*pieces, *(f"<extra_id_{n}>" for n in range(257 - len(pieces)))]
    (converted / "vocabulary.json").write_text(json.dumps(filled))
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (converted / "config.json").write_text(json.dumps({**tokens, "layer_norm_epsilon": 1e-3}))
    plan = plan_import(str(converted), ImportOptions())
    tokenizer = plan.tokenizers.target
    assert (tokenizer.start, tokenizer.end, tokenizer.size) == (1, 2, 257)
    for line in make_lines(10):
        assert tokenizer.encode(line) == processor.EncodeAsIds(line)
    (converted / "tokenizer.model").unlink()
    with pytest.raises(ConversionError, match="has no tokenizer: none of"):
        plan_import(str(converted), ImportOptions())


def test_sides_that_need_a_model_each(marian_ct2: Path, spm: bytes, tmp_path: Path) -> None:
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    (folder / "source.spm").unlink()
    (folder / "vocab.txt").write_text("")
    with pytest.raises(ConversionError, match="has no source.spm, nor one sentencepiece .* --tokenizer DIR"):
        plan_import(str(folder), ImportOptions())
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ConversionError, match="has no source.spm and target.spm, which a model whose decoder starts"):
        plan_import(str(folder), ImportOptions())
    write_opus(tmp_path / "opus", spm, make_arrays())
    plans = [plan_import(str(marian_ct2), ImportOptions(tokenizer=place)) for place in (None, tmp_path / "opus")]
    assert plans[0].tokenizers.target.fingerprint() == plans[1].tokenizers.target.fingerprint()


def test_mbart_writes_the_language_that_the_user_says(tmp_path: Path) -> None:
    original = make_original("mBART", tmp_path / "mBART", spare=0, encoder_attention_heads=2)
    start = original.model.config.decoder_start_token_id
    for name in ("config.json", "generation_config.json"):
        table = json.loads((original.folder / name).read_text())
        (original.folder / name).write_text(json.dumps({**table, "decoder_start_token_id": 2}))
    with pytest.raises(ConversionError, match="does not say which language .* Say it with --to"):
        plan_import(str(original.folder), ImportOptions())
    for spelled in ("de", "de_DE"):
        plan = plan_import(str(original.folder), ImportOptions(target_language=spelled))
        assert plan.target_languages == ("de",) and plan.tokenizers.target.start == start
    assert plan_import(str(original.folder), ImportOptions(target_language="ro")).target_languages == ("ro",)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["Bert", "DistilBert", "sentence-transformers"])
def test_encoders_make_the_vectors_of_the_original(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absolute = "absolute"  # which the converter asks for, and transformers no longer says
    monkeypatch.setattr(transformers.BertConfig, "position_embedding_type", absolute, raising=False)
    name, sizes = ("DistilBert", DISTIL) if kind == "DistilBert" else ("Bert", {**SIZES, "layer_norm_eps": 1e-3})
    model = getattr(transformers, f"{name}Model")
    theirs = stir(model(model.config_class(**sizes)))
    theirs.save_pretrained(tmp_path / "theirs")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=wordpiece(), unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip
    fast.save_pretrained(tmp_path / "theirs")
    converted = convert(tmp_path / "theirs", tmp_path / "ct2")
    if kind == "sentence-transformers":
        modules = [{"type": f"x.{one}", "path": path} for one, path in (("Transformer", ""), ("Pooling", "1_Pooling"))]
        (converted / "modules.json").write_text(json.dumps(modules))
        (converted / "1_Pooling").mkdir()
        (converted / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    report = plan_import(str(converted), ImportOptions()).write(tmp_path / "ours")
    assert report.objective == "embedding"
    ours = LanguageModel(load_model(tmp_path / "ours"))
    for line in filter(None, LINES):
        ids = torch.tensor([[2, *wordpiece().encode(line, add_special_tokens=False).ids, 3]])
        found = theirs(ids)
        wanted = {
            "Bert": lambda out: out.pooler_output[0],
            "DistilBert": lambda out: out.last_hidden_state[0, 0],
            "sentence-transformers": lambda out: out.last_hidden_state[0].mean(0),
        }[kind](found)
        torch.testing.assert_close(torch.as_tensor(ours.embed([line])[0]), wanted, rtol=1e-5, atol=1e-5)
    if kind == "Bert":
        for name, value in (("encoder/embeddings_merge", 0), ("pooler_activation", 0)):
            whole = (converted / "model.bin").read_bytes()
            change_model(converted, {name: np.array(value, np.int8)}, name="TransformerEncoderSpec")
            message = "not two, added to each other" if "merge" in name else "pooler_activation = 0 is not supported"
            with pytest.raises(ConversionError, match=message):
                plan_import(str(converted), ImportOptions())
            (converted / "model.bin").write_bytes(whole)


def test_words_that_no_tokenizer_has_are_refused(marian_ct2: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    change_model(folder, {"decoder/start_from_zero_embedding": np.array(0, np.int8)})
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "decoder_start_token": "<begin>"}))
    with pytest.raises(ConversionError, match="the vocabulary for source.spm lacks the end or the start token"):
        plan_import(str(folder), ImportOptions())
    (folder / "tokenizer.json").write_text("{}")
    words = read_variables(folder / "model.bin")["decoder/embeddings/weight"]
    change_model(folder, {"encoder/embeddings_0/weight": np.concatenate([words, words[:1]])})
    with pytest.raises(ConversionError, match="has two vocabularies, and its tokenizer files are those of one"):
        plan_import(str(folder), ImportOptions())
