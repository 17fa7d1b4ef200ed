"""Imported tokenizers give the ids of the original on 10,000 lines of mixed text, and the same text back.

The original is sentencepiece where a directory has its model alone, and transformers where it has tokenizer.json,
vocab.txt or merges.txt."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers
from convert.mixed_text import make_lines, make_training_lines
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

from headway.convert.huggingface.model_folder import ModelFolder
from headway.convert.huggingface.tokenizer_files import read_model_text
from headway.text.tokenizer.tokenizer import Tokenizer

ALL_LINES = make_lines(10_000)
TRAINING = make_training_lines()
SENTENCEPIECE: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram"},
    "bpe": {"model_type": "bpe"},
    "bpe with bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 800},
    "unigram with bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 800},
    "as Llama": {
        "model_type": "bpe", "byte_fallback": True, "vocab_size": 800, "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False, "split_digits": True,
    },
    "as T5": {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
}  # fmt: skip


@pytest.fixture(params=[500, pytest.param(10_000, marks=pytest.mark.slow)])
def lines(request: pytest.FixtureRequest) -> list[str]:
    return ALL_LINES[: request.param]


def train_sentencepiece(**options: Any) -> bytes:
    model = io.BytesIO()
    settings = {"vocab_size": 500, "character_coverage": 0.98, "minloglevel": 9, "num_threads": 1, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TRAINING), model_writer=model, **settings)
    return model.getvalue()


def read_tokenizer(path: Path, objective: str = "causal", **config: Any) -> Tokenizer:
    (path / "config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2, **config}))
    return read_model_text(ModelFolder.open(path), objective).tokenizers.target


def check_equal(
    lines: list[str], ours: Tokenizer, expected: list[list[int]], decode: Callable[[list[int]], str] | None = None
) -> None:
    found = ours.encode_batch(lines)
    different = [line for line, one, other in zip(lines, found, expected, strict=True) if one != other]
    assert not different, f"{len(different)} lines differ, the first: {different[0]!r}"
    assert len({n for ids in found for n in ids}) > 200, "the text must use much of the vocabulary"
    if decode is not None:
        known = [ids for ids in found[:1000] if ours.unknown not in ids]
        assert len(known) > len(found[:1000]) // 50
        assert [ours.decode(ids) for ids in known] == [decode(ids) for ids in known]


@pytest.mark.parametrize("kind", SENTENCEPIECE)
def test_sentencepiece(lines: list[str], kind: str, tmp_path: Path) -> None:
    model = train_sentencepiece(**SENTENCEPIECE[kind])
    (tmp_path / "tokenizer.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    check_equal(lines, read_tokenizer(tmp_path, model_type="llama"), processor.EncodeAsIds(lines), processor.DecodeIds)


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [
        ("as Llama", "LlamaTokenizer", "tokenizer.model"),
        ("as T5", "T5Tokenizer", "spiece.model"),
        ("unigram", "XLMRobertaTokenizer", "sentencepiece.bpe.model"),
    ],
)
def test_tokenizer_json(lines: list[str], kind: str, name: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(train_sentencepiece(**SENTENCEPIECE[kind]))
    original = getattr(transformers, name).from_pretrained(tmp_path)
    original.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    check_equal(lines, read_tokenizer(tmp_path), encode_by(original, lines), original.decode)


@pytest.mark.parametrize("config", [{}, {"do_lower_case": True}])
def test_xlnets_sentencepiece(lines: list[str], config: dict[str, bool], tmp_path: Path) -> None:
    """Its text is changed before it is split, and pieces that are defined are never parts of others."""
    controls = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"]
    model = train_sentencepiece(control_symbols=controls, user_defined_symbols=["<eop>", *".()£€"])
    (tmp_path / "spiece.model").write_bytes(model)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "XLNetTokenizer", **config}))
    original = transformers.XLNetTokenizer.from_pretrained(tmp_path)
    quoted = [*lines, "``so'' it's ( a . b )€5 x", "```  ''' 1,000, 5,5"]
    ours = read_tokenizer(tmp_path, model_type="xlnet")
    check_equal(quoted, ours, encode_by(original, quoted), original.decode)
    assert not ours.adds_start
    original.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    check_equal(quoted, read_tokenizer(tmp_path, model_type="xlnet"), encode_by(original, quoted))


def encode_by(original: Any, lines: list[str]) -> list[list[int]]:
    ids: list[list[int]] = original(lines, add_special_tokens=False)["input_ids"]
    return ids


@pytest.mark.parametrize("lowercase", [True, False])
def test_berts_vocabulary(lines: list[str], lowercase: bool, tmp_path: Path) -> None:
    trainer = BertWordPieceTokenizer(lowercase=lowercase)
    trainer.train_from_iterator(TRAINING, vocab_size=600, show_progress=False)
    trainer.save_model(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
    original = transformers.BertTokenizer(vocab=str(tmp_path / "vocab.txt"), do_lower_case=lowercase)
    check_equal(lines, read_tokenizer(tmp_path, "masked", model_type="bert"), encode_by(original, lines))


@pytest.mark.parametrize("space", [False, True])
def test_gpt2s_merges(lines: list[str], space: bool, tmp_path: Path) -> None:
    trainer = ByteLevelBPETokenizer()
    trainer.train_from_iterator(TRAINING, vocab_size=700, show_progress=False, special_tokens=["<|endoftext|>"])
    trainer.save_model(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": space}))
    files = {"vocab": str(tmp_path / "vocab.json"), "merges": str(tmp_path / "merges.txt")}
    original = transformers.GPT2Tokenizer(**files, add_prefix_space=space)
    ours = read_tokenizer(tmp_path, model_type="gpt2", bos_token_id=0, eos_token_id=0)
    check_equal(lines, ours, encode_by(original, lines))
    if not space:
        assert [ours.decode(ours.encode(line)) for line in lines[:1000]] == lines[:1000]
    original.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    check_equal(lines, read_tokenizer(tmp_path, bos_token_id=0, eos_token_id=0), encode_by(original, lines))
