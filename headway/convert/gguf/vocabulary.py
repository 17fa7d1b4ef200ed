"""The tokenizer in the metadata of a GGUF file.

    tokenizer.ggml.model = "llama"   pieces with scores: a sentencepiece model (BPE by scores), built again
    tokenizer.ggml.model = "gpt2"    tokens and merges: byte-level BPE, after a split that tokenizer.ggml.pre names

Other tokenizers are refused, and so are splits by other names."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.convert.architecture import ConversionError, Json
from headway.convert.huggingface.tokenizer_files import describe_sentencepiece
from headway.errors import HeadwayError
from headway.text.tokenizer.imported import ImportedTokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5  # types of a token; sentencepiece has the same numbers
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES: Json = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2_SPLIT = {**BYTES, "use_regex": True}


def _split_by(pattern: str) -> Json:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, BYTES]}


# tokenizer.ggml.pre -> how text is split before merging
LLAMA3_SPLIT = _split_by(WORDS + r"\p{N}{1,3}" + REST)
SPLITS = {
    "gpt-2": GPT2_SPLIT,
    "llama-bpe": LLAMA3_SPLIT,
    "llama3": LLAMA3_SPLIT,
    "qwen2": _split_by(WORDS + r"\p{N}" + REST),
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, GPT2_SPLIT]},
}
NORMALISED = {"qwen2"}  # to NFC
MERGES_IGNORED = {"llama-bpe", "llama3"}  # for words that are entries themselves


def read_vocabulary(metadata: Json, path: Path, size: int) -> ImportedTokenizer:
    """The tokenizer, for a model with so many embeddings."""
    kind = metadata.get("tokenizer.ggml.model")
    makers = {"llama": _describe_llama, "gpt2": _describe_gpt2}
    if kind not in makers:
        raise ConversionError(
            f"{path} has a tokenizer of the kind {kind!r}, which Headway cannot build again: only llama and gpt2."
        )
    try:
        tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
        if not 0 < len(tokens) == len(types) <= size:
            raise ValueError(f"{len(tokens)} tokens, {len(types)} types, {size} embeddings")
        data = makers[kind](metadata, tokens, types, path)
        # Where it does not say: as llama.cpp does it.
        starts = kind == "llama" or metadata.get("tokenizer.ggml.pre") in MERGES_IGNORED
        adds_start = metadata.get("tokenizer.ggml.add_bos_token", starts) is True
        special = _special_ids(metadata, types)
        ends = {metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eot", "eom")} - {None, special["end"]}
        more: Json = {"special": special, "size": size, "adds_start": adds_start}
        if isinstance(template := metadata.get("tokenizer.chat_template"), str):
            more["original"] = {"config": {"chat_template": template}, "files": []}
        return ImportedTokenizer({**data, **more, **({"other_ends": sorted(ends)} if ends else {})})
    except HeadwayError:
        raise
    except (KeyError, TypeError, ValueError, struct.error, OverflowError) as error:
        raise HeadwayError(f"{path}: its vocabulary is damaged: {error}. Download it again.") from None


def _special_ids(metadata: Json, types: Sequence[int]) -> dict[str, int]:
    names = {"start": "bos", "end": "eos", "pad": "padding", "unknown": "unknown", "mask": "mask"}
    found = {ours: metadata.get(f"tokenizer.ggml.{theirs}_token_id") for ours, theirs in names.items()}
    if found["unknown"] is None and UNKNOWN in types:
        found["unknown"] = types.index(UNKNOWN)
    found["pad"] = found["end"] if found["pad"] is None else found["pad"]
    found["start"] = found["end"] if found["start"] is None else found["start"]
    if found["end"] is None:
        raise KeyError("tokenizer.ggml.eos_token_id")
    return {name: n for name, n in found.items() if n is not None}


def _describe_gpt2(metadata: Json, tokens: Sequence[str], types: Sequence[int], path: Path) -> Json:
    split = metadata.get("tokenizer.ggml.pre")
    if split not in SPLITS:
        raise ConversionError(
            f"{path} splits text by {split!r} before merging (tokenizer.ggml.pre), which Headway does not know, only "
            f"{', '.join(SPLITS)}."
        )
    added = [
        {
            "id": n, "content": token, "special": kind == CONTROL, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False,
        }
        for n, (token, kind) in enumerate(zip(tokens, types)) if kind in (CONTROL, USER_DEFINED)
    ]  # fmt: skip
    model = {
        "type": "BPE",
        "vocab": {token: n for n, token in enumerate(tokens)},
        "merges": [merge.split(" ") for merge in _list_merges(metadata, tokens, types)],
        "ignore_merges": split in MERGES_IGNORED,
    }
    library: Json = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if split in NORMALISED else None,
        "pre_tokenizer": SPLITS[split],
        "decoder": BYTES,
        "model": model,
    }
    return {"imported": "tokenizers", "model": library}


def _list_merges(metadata: Json, tokens: Sequence[str], types: Sequence[int]) -> Sequence[str]:
    """None where entries are single bytes: an empty list cannot be written."""
    if all(len(token) == 1 for token, kind in zip(tokens, types) if kind == NORMAL):
        return metadata.get("tokenizer.ggml.merges", ())  # type: ignore[no-any-return]
    return metadata["tokenizer.ggml.merges"]  # type: ignore[no-any-return]


def _describe_llama(metadata: Json, tokens: Sequence[str], types: Sequence[int], path: Path) -> Json:
    scores = metadata["tokenizer.ggml.scores"]
    if len(scores) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens, {len(scores)} scores")
    unknown = _special_ids(metadata, types).get("unknown", -1)
    types = [  # some files call entries unknown that are only unused
        UNKNOWN if n == unknown else UNUSED if kind == UNKNOWN else kind for n, kind in enumerate(types)
    ]
    pieces = [
        _field(1, _field(1, token.encode()) + _field(2, struct.pack("<f", score)) + _field(3, kind))
        for token, score, kind in zip(tokens, scores, types)
    ]
    trainer = b"".join(
        _field(number, value)
        for number, value in ((3, 2), (4, len(tokens)), (35, 1), (40, unknown), (41, -1), (42, -1), (43, -1))
    )  # model_type = BPE, vocab_size, byte_fallback, ids of <unk> <s> </s> <pad>
    charsmap = bytes(n & 255 for n in metadata.get("tokenizer.ggml.precompiled_charsmap", ()))
    prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
    squeeze = bool(metadata.get("tokenizer.ggml.remove_extra_whitespaces", False))
    normaliser = b"".join(
        _field(number, value) for number, value in ((2, charsmap), (3, int(prefix)), (4, int(squeeze)), (5, 1))
    )
    model = b"".join(pieces) + _field(2, trainer) + _field(3, normaliser)
    return describe_sentencepiece(model, None, {})


def _field(number: int, value: Any) -> bytes:
    """A field of a protocol buffer: an integer, bytes, or (four bytes of field 2 in a piece) a float."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value % 2**64)
    if number == 2 and len(value) == 4:
        return _varint(number << 3 | 5) + bytes(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + bytes(value)


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])
