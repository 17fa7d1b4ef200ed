"""What sentence-transformers reads besides the encoder: how its vectors become one for a text."""

from pathlib import Path

from headway.convert.architecture import Json
from headway.convert.export.stored_model import StoredModel
from headway.convert.huggingface.sentence_transformers import MODULES, POOLING
from headway.convert.json_files import write_json

POOLINGS = {"mean": "mean_tokens", "first": "cls_token", "max": "max_tokens"}
SENTENCE = "sentence_embedding"  # among the settings of an encoder that is proposed; no file of transformers has it


def describe_sentence(model: Json) -> Json:
    """For the config of an encoder; {} if it makes no vectors of texts, or by a dense layer, as BERT's pooler does."""
    head = model["head"]
    if head["kind"] != "embedding" or head["dense"]:
        return {}
    wanted = {"pooling": head["pooling"], "normalise": head["normalise"], "max_tokens": model["max_positions"]}
    return {SENTENCE: wanted}


def has_sentence_modules(model: StoredModel) -> bool:
    return bool(describe_sentence({**model.config.model.to_dict(), "max_positions": 0}))


def write_sentence_modules(folder: Path, sentence: Json, d_model: int) -> None:
    kinds = ["Transformer", "Pooling", *(["Normalize"] if sentence["normalise"] else [])]
    paths = ["", *(f"{n}_{kind}" for n, kind in enumerate(kinds) if n)]
    for path in paths:
        (folder / path).mkdir(exist_ok=True)
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(zip(kinds, paths))
    ]
    modes = {f"{POOLING}{theirs}": sentence["pooling"] == ours for ours, theirs in POOLINGS.items()}
    write_json(folder / MODULES, modules)
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": d_model, **modes})
    settings = {"max_seq_length": sentence["max_tokens"], "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", settings)
