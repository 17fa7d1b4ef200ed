"""HuggingFaceFormat: a folder that transformers loads without Headway."""

from pathlib import Path

from headway.convert.architecture import Json
from headway.convert.export.formats import ExportReport
from headway.convert.export.huggingface.card import find_tokenizer_class, format_card, has_two_folders
from headway.convert.export.huggingface.generation import (
    describe_lost_search,
    describe_tasks,
    find_bos,
    make_generation_config,
)
from headway.convert.export.huggingface.marian_files import is_marian_pair, write_marian_tokenizer
from headway.convert.export.huggingface.match import FamilyMatch, match_families
from headway.convert.export.huggingface.sentence_modules import SENTENCE, write_sentence_modules
from headway.convert.export.huggingface.sentencepiece_files import (
    describe_difference,
    is_sentencepiece,
    unsupported_sentencepiece,
    write_sentencepiece,
)
from headway.convert.export.huggingface.tensors import DTYPES, write_weights
from headway.convert.export.huggingface.tokenizer import write_tokenizer
from headway.convert.export.stored_model import MAX_POSITIONS, StoredModel
from headway.convert.json_files import write_json
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
        return choose_family(model)[1]

    def write(self, model: StoredModel, folder: Path) -> ExportReport:
        match, reason = choose_family(model)
        assert match is not None and match.architecture is not None and not reason
        tables = match.family.make_tables(match.config)
        path = folder / SAFETENSORS
        headers = write_weights(path, match.architecture, match.config, match.weights, self.dtype, tables)
        max_tokens = count_positions(match)
        dtype = str(headers[0].dtype).removeprefix("torch.")
        config = {**match.config, **token_settings(model), "dtype": dtype}
        config.pop("num_labels", None)  # which id2label says
        if sentence := config.pop(SENTENCE, None):
            write_sentence_modules(folder, sentence, model.config.model.d_model)
        write_json(folder / "config.json", config)
        if model.objective != "masked":
            write_json(folder / "generation_config.json", make_generation_config(model, max_tokens))
        self._write_tokenizers(model, match, folder)
        lost = (*model.describe_lost(), *self._describe_lost(model, match, folder))
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

    def _write_tokenizers(self, model: StoredModel, match: FamilyMatch, folder: Path) -> None:
        source, target = model.tokenizers.source, model.tokenizers.target
        max_tokens = count_positions(match)
        if is_marian_pair(model.tokenizers) and match.family.model_type == "marian":
            write_marian_tokenizer(folder, model, max_tokens)
            return
        if is_sentencepiece(target):
            assert isinstance(target, ImportedTokenizer)
            write_sentencepiece(folder, target, match.family.model_type, max_tokens)
            return
        write_tokenizer(folder, source, model.objective, max_tokens, model.reads_pairs)
        if has_two_folders(model):
            write_tokenizer(folder / "target", target, model.objective, max_tokens)

    def _describe_lost(self, model: StoredModel, match: FamilyMatch, folder: Path) -> tuple[str, ...]:
        lost = list(describe_lost_search(model)) if model.objective == "translation" else []
        source = model.tokenizers.source
        if isinstance(source, ImportedTokenizer) and (source.source_prefix or source.source_suffix):
            assert match.architecture is not None
            if describe_difference(folder, match.architecture, model.tokenizers):
                lost.append("the tokens that name the languages of a text: add them as the original's tokenizer does")
        objective = model.config.train.objective
        if objective.kind == "match" and not model.config.labels and (objective.low, objective.high) != (0, 1):
            lost.append(f"the range of its scores, {objective.low:g} to {objective.high:g}: they are from 0 to 1")
        if model.is_int8 and self.dtype != "int8":
            lost.append("the storage in int8: its matrices are written as floats of the same values")
        if (loader := find_tokenizer_class(model, match.family)) != "AutoTokenizer":
            lost.append(f"AutoTokenizer, which takes {match.family.name}'s own class: load its tokenizer by {loader}")
        if match.config.get("attn_type") == "uni":
            lost.append("batches: transformers can compute attn_type = uni for one text at a time only")
        has_limit = model.objective != "permutation" and model.max_positions == MAX_POSITIONS
        if has_limit and any(part["kind"] != "learned" for part in _positions(model)):
            lost.append(f"texts of more than {MAX_POSITIONS} tokens")
        return tuple(lost)


def choose_family(model: StoredModel) -> tuple[FamilyMatch | None, str]:
    """The first family that computes the same and has a place for the tokenizer; or the nearest, and why not."""
    matches = match_families(model)
    if not matches:
        return None, f"no family of transformers is known for {model.objective} models."
    if matches[0].differences:
        nearest = matches[0]
        return nearest, f"the nearest family is {nearest.family.name}, but {nearest.differences[0].removesuffix('.')}."
    reasons = []
    for match in matches:
        if match.differences:
            break
        reasons.append(unsupported_tokenizers(model, match))
        if not reasons[-1]:
            return match, ""
    return matches[0], reasons[0]


def unsupported_tokenizers(model: StoredModel, match: FamilyMatch) -> str:
    """Why this family has no place for them; "" if it has."""
    if not is_sentencepiece(model.tokenizers.target) and not is_sentencepiece(model.tokenizers.source):
        return ""
    if is_marian_pair(model.tokenizers) and match.family.model_type == "marian":
        return ""
    assert match.architecture is not None
    config = {**match.config, **token_settings(model)}
    generation = {} if model.objective == "masked" else make_generation_config(model, count_positions(match))
    return unsupported_sentencepiece(model, match.family.model_type, match.architecture, config, generation)


def count_positions(match: FamilyMatch) -> int:
    return int(match.config.get("max_position_embeddings") or match.config.get("n_positions") or MAX_POSITIONS)


def _positions(model: StoredModel) -> list[dict[str, object]]:
    table = model.config.model.to_dict()
    return [part for side in ("encoder", "decoder") if table[side]["layers"] for part in table[side]["position"]]


def token_settings(model: StoredModel) -> Json:
    """The special ids and the labels in a config.json, and T5's tasks."""
    tokens = special_tokens(model.tokenizers.target)
    if model.objective == "translation":
        tasks = describe_tasks(model.tokenizers.source)
        return {
            **({"task_specific_params": tasks} if tasks else {}),
            "bos_token_id": find_bos(model.tokenizers.target),
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
