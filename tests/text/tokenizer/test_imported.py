"""Imported tokenizers: ids of the original, exact text back, damaged files refused."""

import base64
import builtins
import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from headway.errors import ConfigError, HeadwayError
from headway.text.lm_text import encode_after_line_end, line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer, detect_spelling_style
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

LINES = [f"the dog {n} sees a cat in the garden, and the cat sees {n} dogs" for n in range(200)]
SPECIAL = {"pad": 3, "start": 3, "end": 1, "unknown": 0}


@pytest.fixture(scope="module")
def spm() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=40, model_type="unigram", byte_fallback=False,
        unk_id=0, eos_id=1, bos_id=-1, minloglevel=9,
    )  # fmt: skip
    return model.getvalue()


def describe(spm: bytes, **more: Any) -> dict[str, Any]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    own = [processor.IdToPiece(n) for n in range(processor.GetPieceSize())]
    vocabulary = [*own[:3], "<pad>", *own[3:]]
    return {
        "imported": "sentencepiece",
        "model": base64.b64encode(spm).decode(),
        "vocabulary": vocabulary,
        "special": SPECIAL,
    } | more


def describe_words(**more: Any) -> dict[str, Any]:
    library = Library(models.WordPiece(vocab={"[UNK]": 0, "[CLS]": 1, "dog": 2, "##s": 3}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    special = {"pad": 1, "start": 1, "end": 1}
    return {"imported": "tokenizers", "model": json.loads(library.to_str()), "special": special} | more


def test_sentencepiece_keeps_its_pieces_under_other_ids(spm: bytes, tmp_path: Path) -> None:
    tokenizer = ImportedTokenizer(describe(spm))
    text = "the dog 7 sees a cat"
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    assert [tokenizer._spellings[n] for n in tokenizer.encode(text)] == processor.EncodeAsPieces(text)
    assert tokenizer.decode([tokenizer.start, *tokenizer.encode(text), tokenizer.end]) == text
    assert tokenizer.decode(tokenizer.encode("the ☃")) == "the \ufffd"
    assert {tokenizer.end, tokenizer.pad} <= tokenizer.control_ids
    Tokenizers(tokenizer, tokenizer).save(tmp_path / "tokenizer.json")
    again = Tokenizers.load(tmp_path / "tokenizer.json")
    assert again.shared and again.target.encode(text) == tokenizer.encode(text)
    assert again.target.fingerprint() == tokenizer.fingerprint()
    stream = again.target.stream_decoder()
    assert "".join(stream.push(n) for n in tokenizer.encode(text)) == text
    assert repr(tokenizer) == f"ImportedTokenizer(sentencepiece, {tokenizer.size} entries)"


def test_entries_beyond_the_vocabulary_are_unused(spm: bytes) -> None:
    tokenizer = ImportedTokenizer(describe(spm, size=128))
    assert tokenizer.size == 128 and 127 in tokenizer.control_ids


def test_wordpiece_joins_its_pieces() -> None:
    tokenizer = ImportedTokenizer(describe_words())
    assert tokenizer.encode("dogs dog") == [2, 3, 2]
    assert tokenizer.decode([2, 3, 2]) == "dogs dog"


def test_texts_of_a_language_model_begin_after_the_start_token(spm: bytes) -> None:
    tokenizer = ImportedTokenizer(describe(spm))
    assert line_end_id(tokenizer) == tokenizer.start
    assert encode_after_line_end("the dog", tokenizer) == tokenizer.encode("the dog")


def test_what_it_cannot_do_is_refused(spm: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = ImportedTokenizer(describe(spm))
    with pytest.raises(HeadwayError, match="an imported tokenizer has no dropout"):
        tokenizer.encode_batch(["a"], dropout=0.1)
    with pytest.raises(HeadwayError, match="text 1: the character at index 0 is U\\+D800"):
        tokenizer.encode_batch(["a", "\ud800"])
    with pytest.raises(ConfigError, match='an "imported" tokenizer belongs to a model of another toolkit'):
        Tokenizer.train(LINES, "imported")

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name == "sentencepiece":
            raise ImportError(name)
        return import_module(name, *rest, **options)

    import_module = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HeadwayError, match="needs the package sentencepiece. Install it"):
        ImportedTokenizer(describe(spm))


def test_damaged_files_are_refused(spm: bytes) -> None:
    cases = [
        (describe(spm, special={}), "cannot be read: KeyError"),
        (describe(spm, special=[]), "cannot be read"),
        (describe(spm, vocabulary=3), "cannot be read"),
        (describe(spm, tags={"de": "x"}), "cannot be read"),
        (describe(spm, source_prefix={"de": 3}), "cannot be read"),
        (describe(spm, size=7), "has 41 entries and claims 7"),
        (describe(spm, size=10**9), "entries and claims"),
        (describe(spm, special={**SPECIAL, "end": 99_999}), "names the id 99999, and has"),
        (describe(spm, tags={"de": -1}), "names the id -1, and has"),
        (describe(spm, model="AAAA"), "sentencepiece model of this tokenizer is damaged"),
        (describe(spm, model="%%"), "sentencepiece model of this tokenizer is damaged"),
        (describe(spm, model=base64.b64encode(spm[:99]).decode()), "sentencepiece model of this tokenizer is damaged"),
        ({"imported": "morse"}, '"morse" is not a kind of imported tokenizer'),
        (describe_words(model={}), "this tokenizer cannot be read"),
    ]
    for data, message in cases:
        with pytest.raises(HeadwayError, match=message):
            ImportedTokenizer(data)
    words = describe_words()
    words["model"]["model"]["vocab"]["far"] = 2_000_000
    with pytest.raises(HeadwayError, match="this tokenizer has 2000001 entries, more than"):
        ImportedTokenizer(words)
    with pytest.raises(HeadwayError, match=r"this tokenizer \(WordLevel\) spells its entries neither"):
        detect_spelling_style({"model": {"type": "WordLevel"}})
