"""From what the user names to an ImportPlan: find the files, detect their format, let that format plan.

A format is a module with two functions:

    detect(path) -> bool                     whether this directory or file looks like one of its own
    plan_import(path, options) -> ImportPlan
"""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from headway.convert import mapping
from headway.convert.hub import download_model, is_hub_name
from headway.convert.importer import ImportPlan
from headway.convert.options import ImportOptions
from headway.errors import HeadwayError

DAMAGES = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
CTRANSLATE2 = "a directory of CTranslate2"
FORMATS = {
    "a GGUF file": "headway.convert.gguf.model_file",
    "a model of Marian (.npz)": "headway.convert.marian_npz",
    CTRANSLATE2: "headway.convert.ctranslate2.directory",
    "a Hugging Face directory": "headway.convert.huggingface.directory",
}


def plan_import(source: str, options: ImportOptions) -> ImportPlan:
    """A plan for a directory, a file, or a name on the hub."""
    path = Path(source)
    if path.exists():
        if options.revision:
            raise HeadwayError(f"--revision {options.revision}: {source} is a local path, and has none. Remove it.")
    elif is_hub_name(source):
        path = download_model(source, options.revision, options.allow_pickle)
        options = replace(options, origin=options.origin or source)
    else:
        raise HeadwayError(
            f"there is no file or directory {source}, and it is not a name on the Hugging Face hub (ORG/NAME)."
        )
    reader = mapping if options.mapping is not None else detect_format(path)
    if options.tokenizer is not None and reader.__name__ != FORMATS[CTRANSLATE2]:
        raise HeadwayError(
            f"--tokenizer {options.tokenizer}: {source} is not {CTRANSLATE2}, and has its tokenizer in it. Remove it."
        )
    try:
        return reader.plan_import(path, options)  # type: ignore[no-any-return]
    except DAMAGES as error:  # a value of another kind than every such file has
        raise HeadwayError(
            f"{source} cannot be read: {type(error).__name__}: {error}. One of its files is damaged: download it again."
        ) from error


def detect_format(path: Path) -> ModuleType:
    for module in map(import_module, FORMATS.values()):
        if module.detect(path):
            return module
    raise HeadwayError(f"{path} is not a model that can be imported: it is none of {', '.join(FORMATS)}.")
