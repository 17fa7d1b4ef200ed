"""Tokenizers as Hugging Face reads them, with our ids: tokenizer.json and tokenizer_config.json.

A tokenizer of ours is a tokenizer.json already. What is added: names of the control tokens, which text never matches
here nor there (split_special_tokens); language tags, spelled >>de<< as those of OPUS-MT are, which text does match;
and the ids that stand around every text.

    translator        ids ⟨/s⟩               the source begins with a tag where there are several target languages
    language model    line end, ids          as every text is encoded for it: see headway.text.lm_text
    next sentences    ⟨s⟩ ids ⟨/s⟩ ids ⟨/s⟩   pairs, as BERT reads them; a single text is the first of a pair
"""

import json
from pathlib import Path
from typing import Any

from headway.convert.architecture import Json
from headway.convert.export.huggingface.sentencepiece_files import (
    complete_config,
    is_sentencepiece,
    write_sentencepiece,
)
from headway.convert.export.stored_model import StoredModel
from headway.files.atomic import write_text_atomically
from headway.text.lm_text import line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.tokenizer.vocabulary import UNKNOWN, format_tag

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def write_tokenizer(
    folder: Path, tokenizer: Tokenizer, objective: str, max_tokens: int, reads_pairs: bool = False
) -> None:
    """The files of one side."""
    folder.mkdir(exist_ok=True)
    data, config = make_tokenizer_files(tokenizer, objective, reads_pairs)
    if not isinstance(tokenizer, ImportedTokenizer) or not tokenizer.original_config:
        config["model_max_length"] = max_tokens
    for name, table in (("tokenizer.json", data), ("tokenizer_config.json", config)):
        write_text_atomically(folder / name, json.dumps(table, ensure_ascii=False, indent=1) + "\n")


def write_tokenizers(model: StoredModel, folder: Path, max_tokens: int) -> list[str]:
    """Write those of both sides; returns what is lost where one has no tokenizer.json. For formats that are of use
    without."""
    sides = {"": model.tokenizers.source} | ({} if model.tokenizers.shared else {"target": model.tokenizers.target})
    lost = []
    for place, tokenizer in sides.items():
        if is_sentencepiece(tokenizer):
            assert isinstance(tokenizer, ImportedTokenizer)
            name = write_sentencepiece(folder / place, tokenizer, "", max_tokens)[0]
            lost.append(f"tokenizer.json: its tokenizer is the sentencepiece model {Path(place, name)}")
        else:
            write_tokenizer(folder / place, tokenizer, model.objective, max_tokens, model.reads_pairs)
    return lost


def make_tokenizer_files(tokenizer: Tokenizer, objective: str, reads_pairs: bool = False) -> tuple[Json, Json]:
    """tokenizer.json and tokenizer_config.json. reads_pairs: of a model that tells next sentences."""
    if isinstance(tokenizer, ImportedTokenizer):
        return _imported_files(tokenizer)
    data = tokenizer.to_json()
    special = {"pad_token": tokenizer.pad, "bos_token": tokenizer.start, "eos_token": tokenizer.end}
    if objective == "masked":
        special["mask_token"] = tokenizer.mask
    names = {role: tokenizer.spelling(n) for role, n in special.items()}
    data["added_tokens"] = [_added_token(n, names[role], special=True) for role, n in special.items()]
    for tag, n in tokenizer.tags.items():
        spelling = spell_tag(tag)
        _rename_entry(data["model"]["vocab"], format_tag(tag), spelling, n)
        data["added_tokens"].append(_added_token(n, spelling, special=False, rstrip=True))
    data["added_tokens"].sort(key=lambda token: token["id"])
    if objective == "translation":
        data["post_processor"] = _template([], [(names["eos_token"], tokenizer.end)])
    elif reads_pairs:
        data["post_processor"] = _pair_template(
            (names["bos_token"], tokenizer.start), (names["eos_token"], tokenizer.end)
        )
    else:
        _encode_after_line_end(data, tokenizer)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        **({"unk_token": UNKNOWN} if tokenizer.kind == "wordpiece" else {}),
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": objective != "masked",  # text for a masked model contains the mask
        "padding_side": "right",
    }
    if reads_pairs:
        config |= {"cls_token": names["bos_token"], "sep_token": names["eos_token"]}
        config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return data, config


def spell_tag(tag: str) -> str:
    return f">>{tag}<<"


def _added_token(n: int, content: str, *, special: bool, rstrip: bool = False) -> Json:
    return {
        "id": n, "content": content, "single_word": False, "lstrip": False, "rstrip": rstrip, "normalized": False,
        "special": special,
    }  # fmt: skip


def _rename_entry(vocabulary: Any, old: str, new: str, n: int) -> None:
    if isinstance(vocabulary, dict):
        entries = [(new if name == old else name, number) for name, number in vocabulary.items()]
        vocabulary.clear()
        vocabulary.update(entries)
    else:
        vocabulary[n] = [new, vocabulary[n][1]]


def _template(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> Json:
    """The library's post-processor that puts these tokens around every text."""

    def around(text: str, segment: int) -> list[Json]:
        def tokens(named: list[tuple[str, int]]) -> list[Json]:
            return [{"SpecialToken": {"id": name, "type_id": segment}} for name, _ in named]

        return [*tokens(before), {"Sequence": {"id": text, "type_id": segment}}, *tokens(after)]

    return {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": [*around("A", 0), *around("B", 1)],
        "special_tokens": {name: {"id": name, "ids": [n], "tokens": [name]} for name, n in [*before, *after]},
    }


def _pair_template(start: tuple[str, int], end: tuple[str, int]) -> Json:
    """[CLS] A [SEP] B [SEP], of which all up to the first [SEP] is segment 0."""
    table = _template([start], [end])
    second = table["pair"][len(table["single"]) :]
    return {**table, "pair": [*table["single"], *(part for part in second if _special_id(part) != start[0])]}


def _special_id(part: Json) -> str:
    return str(part.get("SpecialToken", {}).get("id", ""))


def _encode_after_line_end(data: Json, tokenizer: Tokenizer) -> None:
    """A line end stands before the text, in place of the space that Headway puts there for translators."""
    first = line_end_id(tokenizer)
    spelling = next(name for name, n in _vocabulary(data).items() if n == first)
    data["post_processor"] = _template([(spelling, first)], [])
    if tokenizer.kind != "wordpiece":
        data["normalizer"] = None
        data["decoder"] = {
            "type": "Sequence",
            "decoders": [BYTE_LEVEL, {"type": "Strip", "content": "\n", "start": 1, "stop": 0}],
        }


def _vocabulary(data: Json) -> dict[str, int]:
    vocabulary = data["model"]["vocab"]
    return vocabulary if isinstance(vocabulary, dict) else {entry[0]: n for n, entry in enumerate(vocabulary)}


def _imported_files(tokenizer: ImportedTokenizer) -> tuple[Json, Json]:
    """Those that it came with."""
    data = tokenizer.to_json()
    roles = {"pad_token": tokenizer.pad, "bos_token": tokenizer.start, "eos_token": tokenizer.end}
    roles |= {"mask_token": tokenizer.mask, "unk_token": tokenizer.unknown}
    names = {role: tokenizer.spelling(n) for role, n in roles.items() if n >= 0}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names, "clean_up_tokenization_spaces": False}
    return data["model"], complete_config(tokenizer, config)
