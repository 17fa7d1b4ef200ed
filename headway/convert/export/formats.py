"""Formats to export to: the interface of one, the table of all, and `export_model`.

A format is one class. It is made with the type of the weights that the user wants (one of its `dtypes`, "" for the
stored one), says why it cannot express a model, and writes into an empty folder."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from headway.convert.architecture import ConversionError
from headway.convert.export.stored_model import StoredModel
from headway.errors import HeadwayError, did_you_mean
from headway.files.atomic import atomic_directory


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What an export found, checked and lost: sentences, and the files that it wrote."""

    format: str  # as its users call it: "Hugging Face (GPT-2)"
    found: tuple[str, ...]
    checked: tuple[str, ...]
    lost: tuple[str, ...]
    files: tuple[str, ...] = ()


class ExportFormat(Protocol):
    """One format."""

    dtypes: tuple[str, ...]  # of weights that it can write, beside the stored one

    def unsupported(self, model: StoredModel) -> str:
        """Why it cannot express this model, with the kind that stands in the way; "" if it can."""

    def write(self, model: StoredModel, folder: Path) -> ExportReport:
        """Write the files of a supported model into an empty folder."""


# Name -> "module:class". Nothing is imported before it is needed.
FORMATS: dict[str, str] = {
    "huggingface": "headway.convert.export.huggingface.format:HuggingFaceFormat",
    "ctranslate2": "headway.convert.export.ctranslate2.format:CTranslate2Format",
    "gguf": "headway.convert.export.gguf.format:GGUFFormat",
    "onnx": "headway.convert.export.onnx.format:OnnxFormat",
    "torch-export": "headway.convert.export.torch_export:TorchExportFormat",
}


def find_format(name: str, dtype: str = "") -> ExportFormat:
    """A format by its name. Raises HeadwayError for one that there is not, or that cannot have this type."""
    if name not in FORMATS:
        raise HeadwayError(
            f'there is no format "{name}".{did_you_mean(name, [*FORMATS])} Choose one of: {", ".join(FORMATS)}.'
        )
    module, _, target = FORMATS[name].partition(":")
    make: Callable[[str], ExportFormat] = getattr(import_module(module), target)
    made = make(dtype)
    if dtype and dtype not in made.dtypes:
        known = ", ".join(made.dtypes) or "none: leave it out"
        raise HeadwayError(f'weights of {name} cannot be "{dtype}". Choose one of: {known}.')
    return made


def export_model(model: StoredModel, format_name: str, out: Path, dtype: str = "") -> ExportReport:
    """Write a model as the new directory `out`. Raises ConversionError if the format cannot express it."""
    chosen = find_format(format_name, dtype)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise HeadwayError(f"{out} is not empty. Choose another --out.")
    if reason := chosen.unsupported(model):
        raise ConversionError(f"{model.folder} cannot be exported to {format_name}: {reason}")
    with atomic_directory(out) as partial:
        return chosen.write(model, partial)
