"""HuggingFaceFormat: a folder that transformers loads without Headway."""

import json
from pathlib import Path
from typing import Any

from headway.convert.export.formats import ExportReport
from headway.convert.export.huggingface.card import find_tokenizer_class, format_card
from headway.convert.export.huggingface.generation import describe_lost_search, make_generation_config
from headway.convert.export.huggingface.marian_files import is_marian_pair, write_marian_tokenizer
from headway.convert.export.huggingface.match import FamilyMatch, match_families
from headway.convert.export.huggingface.proposals import MAX_POSITIONS
from headway.convert.export.huggingface.tensors import DTYPES, write_weights
from headway.convert.export.huggingface.tokenizer import unsupported_tokenizer, write_tokenizer
from headway.convert.export.stored_model import StoredModel
from headway.convert.weight_files import SAFETENSORS
from headway.files.atomic import write_text_atomically
from headway.text.lm_text import line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.special_tokens import special_tokens


class HuggingFaceFormat:
    """The first family that computes exactly what the model does."""

    dtypes = tuple(DTYPES)

    def __init__(self, dtype: str = "") -> None:
        self.dtype = dtype

    def unsupported(self, model: StoredModel) -> str:
        matches = match_families(model)
        is_marian = bool(matches) and matches[0].family.model_type == "marian"
        for tokenizer in (model.tokenizers.source, model.tokenizers.target):
            if (reason := unsupported_tokenizer(tokenizer)) and not (is_marian and is_marian_pair(model.tokenizers)):
                return reason
        if not matches:
            return f"no family of transformers is known for {model.objective} models."
        if matches[0].differences:
            return f"the nearest family is {matches[0].family.name}, but {matches[0].differences[0].removesuffix('.')}."
        return ""

    def write(self, model: StoredModel, folder: Path) -> ExportReport:
        match = match_families(model)[0]
        assert match.architecture is not None and not match.differences
        tables = match.family.make_tables(match.config)
        path = folder / SAFETENSORS
        headers = write_weights(path, match.architecture, match.config, match.weights, self.dtype, tables)
        max_tokens = match.config.get("max_position_embeddings") or match.config.get("n_positions") or MAX_POSITIONS
        dtype = str(headers[0].dtype).removeprefix("torch.")
        config = {**match.config, **token_settings(model), "dtype": dtype}
        config.pop("num_labels", None)  # which id2label says
        write_json(folder / "config.json", config)
        if model.objective != "masked":
            write_json(folder / "generation_config.json", make_generation_config(model, max_tokens))
        self._write_tokenizers(model, folder, max_tokens)
        lost = (*model.describe_lost(), *self._describe_lost(model, match))
        write_text_atomically(folder / "README.md", format_card(model, match.family, lost))
        return ExportReport(
            format=f"Hugging Face ({match.family.name})",
            found=model.describe(),
            checked=(
                f"its config.json, read as a {match.family.name} model, is the architecture of this model",
                f"{len(headers)} tensors in {dtype}: every weight of the model stands in one of them",
            ),
            lost=lost,
            files=tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())),
        )

    def _write_tokenizers(self, model: StoredModel, folder: Path, max_tokens: int) -> None:
        if is_marian_pair(model.tokenizers):
            write_marian_tokenizer(folder, model, max_tokens)
            return
        write_tokenizer(folder, model.tokenizers.source, model.objective, max_tokens)
        if not model.tokenizers.shared:
            write_tokenizer(folder / "target", model.tokenizers.target, model.objective, max_tokens)

    def _describe_lost(self, model: StoredModel, match: FamilyMatch) -> tuple[str, ...]:
        lost = list(describe_lost_search(model)) if model.objective == "translation" else []
        source = model.tokenizers.source
        if isinstance(source, ImportedTokenizer) and (source.source_prefix or source.source_suffix):
            lost.append("the tokens that name the languages of a text: add them as the original's tokenizer does")
        objective = model.config.train.objective
        if objective.kind == "match" and not model.config.labels and (objective.low, objective.high) != (0, 1):
            lost.append(f"the range of its scores, {objective.low:g} to {objective.high:g}: they are from 0 to 1")
        if model.is_int8 and self.dtype != "int8":
            lost.append("the storage in int8: its matrices are written as floats of the same values")
        if (loader := find_tokenizer_class(model, match.family)) != "AutoTokenizer":
            lost.append(f"AutoTokenizer, which takes {match.family.name}'s own class: load its tokenizer by {loader}")
        if any(part["kind"] != "learned" for part in _positions(model)):
            lost.append(f"texts of more than {MAX_POSITIONS} tokens")
        return tuple(lost)


def _positions(model: StoredModel) -> list[dict[str, object]]:
    table = model.config.model.to_dict()
    return [part for side in ("encoder", "decoder") if table[side]["layers"] for part in table[side]["position"]]


def token_settings(model: StoredModel) -> dict[str, Any]:
    """The special ids and the labels in a config.json."""
    tokens = special_tokens(model.tokenizers.target)
    if model.objective == "translation":
        return {
            "bos_token_id": tokens.start,
            "decoder_start_token_id": tokens.start,
            "eos_token_id": tokens.end,
            "forced_eos_token_id": None,
            "pad_token_id": tokens.pad,
            "is_encoder_decoder": True,
        }
    labels = list(model.config.labels or ["LABEL_0"] * (model.config.model.head.kind == "pooled"))
    named = {
        "id2label": {str(n): label for n, label in enumerate(labels)},
        "label2id": {label: n for n, label in enumerate(labels)},
    }
    return {
        **(named if labels else {}),
        "bos_token_id": line_end_id(model.tokenizers.target),
        "eos_token_id": tokens.end,
        "pad_token_id": tokens.pad,
    }


def write_json(path: Path, table: object) -> None:
    write_text_atomically(path, json.dumps(table, ensure_ascii=False, indent=2) + "\n")
