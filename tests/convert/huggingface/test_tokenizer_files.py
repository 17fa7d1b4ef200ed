"""Tokenizers of Hugging Face directories: ids of the original, from each kind of file; damaged files are refused."""

import builtins
import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from transformers import BertTokenizerFast, GPT2TokenizerFast

from headway.convert.architecture import ConversionError
from headway.convert.huggingface.model_folder import ModelFolder
from headway.convert.huggingface.tokenizer_files import (
    add_tokens,
    describe_tokenizer,
    list_other_ends,
    read_limited,
    read_model_text,
    read_vocabulary,
    vocabulary_size,
)
from headway.convert.json_files import MAX_JSON_BYTES, read_json_object
from headway.errors import HeadwayError
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.vocabulary import byte_alphabet

LINES = [f"The dog {n} sees a cat in the Garden, and the cat sees {n} dogs" for n in range(200)]
TEXT = "The Garden\u00a0sees 中文 é\u0301, naïve ☃ dogs\x00 </s> [SEP]  x"


def train(**options: Any) -> bytes:
    model = io.BytesIO()
    settings = {"vocab_size": 48, "model_type": "unigram", "minloglevel": 9, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, **settings)
    return model.getvalue()


@pytest.fixture(scope="module")
def spm() -> bytes:
    return train()


def make_folder(path: Path, config: dict[str, Any], **files: Any) -> ModelFolder:
    """files: by name with _ for the dot; a table is written as JSON."""
    (path / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (path / name.replace("__", ".")).write_bytes(data)
    return ModelFolder.open(path)


def test_sentencepiece_has_its_own_ids(spm: bytes, tmp_path: Path) -> None:
    config = {"model_type": "llama", "bos_token_id": 1, "eos_token_id": [2, 7], "vocab_size": 64}
    folder = make_folder(tmp_path, config, tokenizer__model=spm)
    text = read_model_text(folder, "causal")
    found = text.tokenizers.target
    assert not text.lost and text.tokenizers.target.to_json()["other_ends"] == [7]
    assert read_model_text(folder, "translation").lost == ("the ends of a text other than 2: the ids 7",)
    assert (found.start, found.end, found.pad, found.size) == (1, 2, 2, 64)
    assert found.encode(TEXT) == sentencepiece.SentencePieceProcessor(model_proto=spm).EncodeAsIds(TEXT)


def test_fairseq_counts_its_pieces_from_another_id(spm: bytes, tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"model_type": "xlm-roberta"}, sentencepiece__bpe__model=spm)
    found = ImportedTokenizer(describe_tokenizer(folder, "masked"))
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    assert found.encode(TEXT) == [n + 1 if n else 3 for n in processor.EncodeAsIds(TEXT)]
    assert (found.start, found.pad, found.end, found.unknown, found.mask) == (0, 1, 2, 3, 49)


def test_a_vocabulary_and_added_tokens_give_other_ids(spm: bytes, tmp_path: Path) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [processor.IdToPiece(n) for n in range(48)]
    table = {piece: 47 - n for n, piece in enumerate(pieces)}
    added = {"62": {"content": "<pad>", "special": True}}
    folder = make_folder(
        tmp_path, {"eos_token_id": 45, "decoder_start_token_id": 62, "pad_token_id": 62},
        vocab__json=table, spiece__model=spm, tokenizer_config__json={"added_tokens_decoder": added},
    )  # fmt: skip
    found = ImportedTokenizer(describe_tokenizer(folder, "translation"))
    assert found.encode(TEXT) == [47 - n for n in processor.EncodeAsIds(TEXT)]
    assert (found.start, found.end, found.size) == (62, 45, 63)


def test_berts_vocabulary(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "garden", "dog", "##s", "中", "文", "e", "naive", ","]
    folder = make_folder(tmp_path, {"model_type": "bert", "pad_token_id": 0}, vocab__txt="\n".join(words).encode())
    found = ImportedTokenizer(describe_tokenizer(folder, "masked"))
    original = BertTokenizerFast(vocab={word: n for n, word in enumerate(words)})
    expected = original(TEXT.replace("[SEP]", ""), add_special_tokens=False)["input_ids"]
    assert found.encode(TEXT.replace("[SEP]", "")) == expected
    assert (found.pad, found.start, found.end, found.mask, found.unknown) == (0, 2, 3, 4, 1)


def test_gpt2s_merges(tmp_path: Path) -> None:
    table = {letter: n for n, letter in enumerate(byte_alphabet())}
    table |= {"do": 256, "dog": 257, "<|endoftext|>": 258}
    merges = "#version: 0.2\nd o\ndo g\n"
    settings = {
        "eos_token": "<|endoftext|>", "bos_token": {"content": "<|endoftext|>"},
        "added_tokens_decoder": {"259": {"content": "<end>", "special": False}},
    }  # fmt: skip
    folder = make_folder(
        tmp_path,
        {"model_type": "gpt2"},
        vocab__json=table,
        merges__txt=merges.encode(),
        tokenizer_config__json=settings,
    )
    found = ImportedTokenizer(describe_tokenizer(folder, "causal"))
    original = GPT2TokenizerFast(vocab=table, merges=[("d", "o"), ("do", "g")], additional_special_tokens=["<end>"])
    assert found.encode(TEXT) == original(TEXT)["input_ids"]
    assert (found.start, found.end, found.size) == (258, 258, 260)
    (tmp_path / "merges.txt").write_bytes(b"x yyy\n")
    with pytest.raises(HeadwayError, match="merges.txt does not fit its vocab.json"):
        describe_tokenizer(folder, "causal")
    (tmp_path / "merges.txt").write_bytes(b"")
    folder.tokenizer_config["added_tokens_decoder"] = {"300": {"content": "<end>"}}
    with pytest.raises(ConversionError, match="the added token '<end>' cannot have the id 300"):
        describe_tokenizer(folder, "causal")
    folder.config["model_type"] = "ctrl"
    with pytest.raises(ConversionError, match="the ctrl model has vocab.json and merges.txt without tokenizer.json"):
        describe_tokenizer(folder, "causal")
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ConversionError, match="has no tokenizer that can be imported"):
        describe_tokenizer(folder, "causal")


def test_damaged_files_are_refused(spm: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path, {"model_type": "llama"}, tokenizer__model=spm)
    with pytest.raises(ConversionError, match="does not say which token ends a text"):
        describe_tokenizer(folder, "translation")
    make_folder(tmp_path, {"model_type": "llama"}, tokenizer__model=spm[:50])
    with pytest.raises(HeadwayError, match="tokenizer.model is damaged"):
        describe_tokenizer(folder, "causal")
    make_folder(tmp_path, {}, tokenizer__model=spm, vocab__json={"a": 0})
    with pytest.raises(ConversionError, match="its unknown piece '<unk>' is not in the vocabulary"):
        describe_tokenizer(folder, "causal")
    random = make_folder(tmp_path, {}, tokenizer_config__json={"sp_model_kwargs": {"enable_sampling": True}})
    with pytest.raises(ConversionError, match="sp_model_kwargs, which splits text at random, is not supported"):
        describe_tokenizer(random, "causal")
    for wrong in ({"a": 1}, {"a": 0, "b": 0}, {"a": "0"}, {"a": 0, "b": 5}):
        (tmp_path / "vocab.json").write_text(json.dumps(wrong))
        with pytest.raises(ConversionError, match="is not a vocabulary"):
            read_vocabulary(tmp_path / "vocab.json")
    for size in ("many", 59, 10**9, None):
        with pytest.raises(ConversionError, match="its tokenizer has 60 entries, and vocab_size = "):
            vocabulary_size(ModelFolder(path=tmp_path, config={"vocab_size": size}), 60)
    with pytest.raises(ConversionError, match="the id 1000000000 of an added token is out of range"):
        add_tokens([], {10**9: {"content": "x"}}, tmp_path / "x")
    for added in (3, {"x": {"content": "a"}}, {"1": 3}, {"1": {}}):
        bad = ModelFolder(path=tmp_path, config={}, tokenizer_config={"added_tokens_decoder": added})
        with pytest.raises(ConversionError, match="its added tokens cannot be read"):
            bad.added_tokens()
    for model in ({}, {"model": {"vocab": 3}}, {"model": {"vocab": [3]}}, {"model": {"vocab": {"a": "b"}}}):
        make_folder(tmp_path, {}, tokenizer__json=model)
        with pytest.raises(HeadwayError, match="its tokenizer.json is damaged"):
            describe_tokenizer(folder, "causal")

    make_folder(tmp_path, {}, tokenizer__json={"model": {"dropout": 0.1}})
    with pytest.raises(ConversionError, match="its tokenizer has dropout"):
        describe_tokenizer(folder, "causal")

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name == "sentencepiece":
            raise ImportError(name)
        return import_module(name, *rest, **options)

    import_module = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refuse)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(HeadwayError, match="is a sentencepiece model: it needs the package"):
        describe_tokenizer(folder, "causal")


def test_berts_vocabulary_is_checked(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"model_type": "bert"}, vocab__txt=b"[UNK]\na\na\n")
    with pytest.raises(ConversionError, match="is not a vocabulary of BERT"):
        describe_tokenizer(folder, "masked")
    make_folder(tmp_path, {}, vocab__txt=b"\xff")
    with pytest.raises(HeadwayError, match="vocab.txt is damaged: it is not UTF-8"):
        describe_tokenizer(folder, "masked")
    make_folder(tmp_path, {}, vocab__txt=b"[UNK]\r\na\r\n")
    folder.tokenizer_config["do_basic_tokenize"] = False
    with pytest.raises(ConversionError, match="do_basic_tokenize = false or never_split is not supported"):
        describe_tokenizer(folder, "masked")


def test_files_have_a_bounded_size(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_JSON_BYTES + 1)
    with pytest.raises(HeadwayError, match="huge has 268,435,457 bytes, too many"):
        read_json_object(tmp_path / "huge")
    with pytest.raises(HeadwayError, match="huge has 268,435,457 bytes, too many"):
        read_limited(tmp_path / "huge")
    with pytest.raises(HeadwayError, match="cannot be read: No such file"):
        read_limited(tmp_path / "gone")


def test_one_end_is_none_lost(spm: bytes, tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"eos_token_id": 2}, tokenizer__model=spm)
    with pytest.raises(ConversionError, match="comes without tokenizer.json, and what the None family does to text"):
        describe_tokenizer(folder, "causal")
    folder.config["model_type"] = "mistral"
    tokenizer = ImportedTokenizer(describe_tokenizer(folder, "causal"))
    assert list_other_ends(folder, tokenizer.end) == []
    folder.generation["eos_token_id"] = [2, 5]
    assert list_other_ends(folder, tokenizer.end) == [5]
    folder.generation["eos_token_id"] = [2, "x"]
    with pytest.raises(ConversionError, match="is not a list of ids"):
        list_other_ends(folder, tokenizer.end)


@pytest.mark.parametrize(
    ("config", "model", "message"),
    [
        ({"keep_accents": True}, b"", "keep_accents is not supported"),
        ({}, b"\x0a\x02", "is damaged"),
        ({}, b"\x0a\x03\x0a\x01\xff", "is damaged"),
        ({}, b"\x0a\x00", "has no piece <s>"),
    ],
)
def test_a_sentencepiece_model_that_is_not_xlnets(
    config: dict[str, bool], model: bytes, message: str, tmp_path: Path
) -> None:
    for name, table in (("config", {"model_type": "xlnet"}), ("tokenizer_config", config)):
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    (tmp_path / "spiece.model").write_bytes(model)
    with pytest.raises(HeadwayError, match=message):
        read_model_text(ModelFolder.open(tmp_path), "causal")
