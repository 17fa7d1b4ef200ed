"""The tokenizer of a model in the metadata of a GGUF file.

byte-level BPE    "gpt2": spellings and merges; how text is split into words before is a name that llama.cpp knows
sentencepiece     "llama": pieces with their scores
"""

import base64
from typing import Any

from headway.convert.architecture import Json
from headway.convert.sentencepiece_file import read_settings
from headway.text.lm_text import line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer, detect_spelling_style
from headway.text.tokenizer.tokenizer import Tokenizer

# The patterns by which llama.cpp splits text into words, as tokenizer.json writes them, and their names there.
SPACES_PATTERN = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
SIGNS_PATTERN = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
PATTERNS = {
    WORDS_PATTERN + r"|\p{N}{1,3}" + SIGNS_PATTERN + SPACES_PATTERN: "llama-bpe",
    WORDS_PATTERN + r"|\p{N}" + SIGNS_PATTERN + SPACES_PATTERN: "qwen2",
}
GPT2_SPLIT = "gpt-2"
BPE = 2  # in the file of a sentencepiece model


def unsupported_tokenizer(tokenizer: Tokenizer) -> str:
    """Why GGUF has no such tokenizer; "" if it has."""
    if not isinstance(tokenizer, ImportedTokenizer):
        return "" if tokenizer.kind in ("bpe", "bytes", "characters") else f'its tokenizer is "{tokenizer.kind}".'
    data = tokenizer.to_json()
    if data["imported"] == "sentencepiece":
        if data.get("vocabulary"):
            return "its sentencepiece model has ids of its own."
        algorithm = read_settings(base64.b64decode(data["model"])).algorithm
        return "" if algorithm == BPE else "its sentencepiece model is no BPE, which is the only one of llama.cpp's."
    style = detect_spelling_style(data["model"])
    model = data["model"]["model"]["type"]
    if model != "BPE" or style != "bytes":
        return f"its tokenizer is a {model} with entries that are spelled as {style}."
    return ""


def find_split(tokenizer: Tokenizer) -> str:
    """The name of the way in which llama.cpp splits text as this tokenizer does; "" if there is none."""
    if tokenizer.kind == "bytes":
        return GPT2_SPLIT  # whatever the words are, there are no merges
    if not isinstance(tokenizer, ImportedTokenizer):
        return ""
    split: Json = tokenizer.to_json()["model"].get("pre_tokenizer") or {}
    parts = split.get("pretokenizers", [split])
    if len(parts) == 1 and parts[0].get("type") == "ByteLevel" and parts[0].get("use_regex", True):
        return GPT2_SPLIT
    patterns = [part["pattern"].get("Regex", "") for part in parts if part.get("type") == "Split"]
    return PATTERNS.get(patterns[0], "") if len(patterns) == 1 else ""


def describe_lost_tokenizer(tokenizer: Tokenizer) -> tuple[str, ...]:
    if isinstance(tokenizer, ImportedTokenizer) and tokenizer.to_json()["imported"] == "sentencepiece":
        settings = read_settings(base64.b64decode(tokenizer.to_json()["model"]))
        if settings.charsmap or settings.squeezes:
            return (
                "how its sentencepiece model normalises text (Unicode, runs of spaces), which llama.cpp leaves out",
            )
        return ()
    if find_split(tokenizer):
        return ()
    return (
        "how text is split into words before merging, which llama.cpp knows by name for other tokenizers alone: give "
        "it ids, or expect other splits of some words",
    )


def add_tokenizer(writer: Any, tokenizer: Tokenizer) -> None:
    if isinstance(tokenizer, ImportedTokenizer) and tokenizer.to_json()["imported"] == "sentencepiece":
        _add_sentencepiece(writer, tokenizer)
    else:
        _add_byte_bpe(writer, tokenizer)
    template = tokenizer.original_config.get("chat_template") if isinstance(tokenizer, ImportedTokenizer) else None
    if isinstance(template, str):
        writer.add_chat_template(template)
    writer.add_bos_token_id(line_end_id(tokenizer))
    writer.add_eos_token_id(tokenizer.end)
    writer.add_pad_token_id(tokenizer.pad)


def _add_byte_bpe(writer: Any, tokenizer: Tokenizer) -> None:
    import gguf

    data = tokenizer.to_json()
    model = data["model"]["model"] if isinstance(tokenizer, ImportedTokenizer) else data["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    kinds = [
        gguf.TokenType.CONTROL if n in tokenizer.control_ids else gguf.TokenType.NORMAL for n in range(tokenizer.size)
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(find_split(tokenizer) or "default")
    writer.add_token_list([tokenizer.spelling(n) for n in range(tokenizer.size)])
    writer.add_token_types(kinds)
    if merges:
        writer.add_token_merges(merges)
    writer.add_add_bos_token(not isinstance(tokenizer, ImportedTokenizer) or tokenizer.adds_start)
    writer.add_add_space_prefix(False)


def _add_sentencepiece(writer: Any, tokenizer: ImportedTokenizer) -> None:
    import gguf
    import sentencepiece

    model = base64.b64decode(tokenizer.to_json()["model"])
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    known = processor.GetPieceSize()
    kinds = []
    for n in range(tokenizer.size):
        if n >= known or processor.IsUnused(n):
            kinds.append(gguf.TokenType.UNUSED)
        elif processor.IsControl(n):
            kinds.append(gguf.TokenType.CONTROL)
        elif processor.IsUnknown(n):
            kinds.append(gguf.TokenType.UNKNOWN)
        else:
            kinds.append(gguf.TokenType.BYTE if processor.IsByte(n) else gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([tokenizer.spelling(n) for n in range(tokenizer.size)])
    writer.add_token_scores([processor.GetScore(n) if n < known else 0.0 for n in range(tokenizer.size)])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(processor.unk_id())
    writer.add_add_bos_token(tokenizer.adds_start)
    settings = read_settings(model)
    writer.add_add_space_prefix(settings.prefixes)
    writer.add_remove_extra_whitespaces(settings.squeezes)
    if settings.charsmap:
        writer.add_precompiled_charsmap(settings.charsmap)
