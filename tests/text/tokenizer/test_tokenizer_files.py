"""One file for the tokenizers of a model."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from headway.errors import HeadwayError
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters", "wordpiece"])
def test_shared(kind: str, trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizers(trained[kind], trained[kind]).save(path)
    loaded = Tokenizers.load(path)
    assert loaded.shared
    assert loaded.source.kind == kind
    assert loaded.source.tags == {"de": 4, "fr": 5}
    assert loaded.source.fingerprint() == trained[kind].fingerprint()
    assert tokenizers.Tokenizer.from_file(str(path)).get_vocab_size() == trained[kind].size
    assert list(tmp_path.iterdir()) == [path]


def test_separate(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    path = str(tmp_path / "tokenizer.json")
    Tokenizers(trained["bpe"], trained["characters"]).save(path)
    loaded = Tokenizers.load(path)
    assert not loaded.shared
    assert (loaded.source.kind, loaded.target.kind) == ("bpe", "characters")
    assert loaded.target.fingerprint() == trained["characters"].fingerprint()
    assert sorted(json.loads(Path(path).read_text("utf-8"))) == ["format_version", "source", "target"]


def test_saving_again_gives_the_same_bytes(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for pair in (Tokenizers(trained["bpe"], trained["bpe"]), Tokenizers(trained["bpe"], trained["unigram"])):
        pair.save(first)
        Tokenizers.load(first).save(second)
        assert first.read_bytes() == second.read_bytes()


def refused(path: Path, content: str | bytes, match: str) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(HeadwayError, match=match) as caught:
        Tokenizers.load(path)
    assert str(path) in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"does not exist\. A model directory holds"):
        Tokenizers.load(tmp_path / "tokenizer.json")
    with pytest.raises(HeadwayError, match="cannot be read: Is a directory"):
        Tokenizers.load(tmp_path)


def test_a_damaged_file(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizers(trained["bpe"], trained["bpe"]).save(path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"\xff\xfe"):
        refused(path, content, "truncated or damaged")


def test_a_newer_file(tmp_path: Path) -> None:
    match = "has format_version 2; this Headway reads 1. Update Headway"
    refused(tmp_path / "tokenizer.json", '{"format_version": 2, "source": {}}', match)


def changed(data: dict[str, Any], **model: Any) -> str:
    return json.dumps({**data, "model": {**data["model"], **model}})


def test_foreign_files(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    path, ours = tmp_path / "tokenizer.json", trained["bpe"].to_json()
    vocabulary = ours["model"]["vocab"]
    refused(path, "[1, 2]", "not a tokenizer of Headway: it has no model")
    refused(path, '{"format_version": 1, "source": {}}', "it has no model")
    refused(path, changed(ours, type="WordLevel"), 'its model "WordLevel" is none of')
    refused(path, changed(ours, vocab={"<s>": 0}), "does not start with ⟨pad⟩ ⟨s⟩ ⟨/s⟩ ⟨mask⟩")
    refused(path, changed(ours, vocab={**vocabulary, "x": 0}), "its ids are not 0, 1, 2")
    refused(path, changed(ours, vocab={**vocabulary, "xx": len(vocabulary)}), "its size, 513, is not a multiple of 64")
    refused(path, json.dumps({**ours, "added_tokens": [{"id": 0}]}), "added tokens, which would match text")
    refused(path, changed(ours, type="Unigram", vocab=[1, [], "x"]), "does not start with ⟨pad⟩")
    refused(path, changed(ours, dropout=0.1), "it has dropout")
    refused(path, json.dumps({**ours, "normalizer": None}), "does not put a space before the text")
    refused(path, json.dumps({**ours, "pre_tokenizer": None}), "this tokenizer cannot be read")
    no_byte = {("xx" if name == "!" else name): n for name, n in vocabulary.items()}
    refused(path, changed(ours, vocab=no_byte), "does not have an entry for every byte")
    strange = {
        ("▁the" if name == "⟨unused:0⟩" else name): n
        for name, n in trained["bytes"].to_json()["model"]["vocab"].items()
    }
    refused(path, changed(trained["bytes"].to_json(), vocab=strange), "this tokenizer cannot be read: '▁'")
    refused(path, changed(ours, merges=[["no", "such"]]), "this tokenizer cannot be read: .*out of vocabulary")
    refused(path, json.dumps({**ours, "version": "9.0"}), "this tokenizer cannot be read: Unknown tokenizer version")
