"""Import a directory of CTranslate2: model.bin, config.json, vocabularies, and the tokenizer files beside them."""

from dataclasses import replace
from pathlib import Path

from headway.convert.card import format_import_card
from headway.convert.ctranslate2.architecture import read_architecture
from headway.convert.ctranslate2.model_file import ModelFile
from headway.convert.ctranslate2.text import read_text
from headway.convert.huggingface.directory import choose_languages
from headway.convert.huggingface.generation import read_search
from headway.convert.huggingface.model_folder import read_optional
from headway.convert.huggingface.sentence_transformers import read_sentence_modules
from headway.convert.importer import ImportPlan
from headway.convert.options import ImportOptions

OTHER_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def detect(path: Path) -> bool:
    return path.is_dir() and (path / "model.bin").exists() and not any((path / name).exists() for name in OTHER_WEIGHTS)


def plan_import(path: Path, options: ImportOptions) -> ImportPlan:
    file = ModelFile(path / "model.bin")
    settings = read_optional(path / "config.json")
    architecture = read_architecture(file, settings, read_sentence_modules(options.tokenizer or path))
    text, folder = read_text(path, file, architecture, settings, options)
    if architecture.objective == "translation" and folder.has("generation_config.json"):
        search, lost = read_search(folder.generation)
        architecture = replace(architecture, search=search, lost=(*architecture.lost, *lost))
    sources, targets = choose_languages(architecture, text, options)
    architecture = replace(architecture, lost=(*architecture.lost, *text.lost))
    return ImportPlan(
        architecture=architecture,
        weights=file,
        tokenizers=text.tokenizers,
        source_languages=sources,
        target_languages=targets,
        card=format_import_card(architecture, path, options, [*sources, *targets]),
    )
