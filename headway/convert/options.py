"""What an import is told beside its source."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    allow_pickle: bool = False  # read PyTorch's .bin, where there is nothing else
    source_language: str = ""  # where the model does not say
    target_language: str = ""
    revision: str = ""  # of a name on the hub
    tokenizer: Path | None = None  # the directory of its tokenizer files, for models of CTranslate2
    mapping: Path | None = None  # names the tensors of a safetensors file
    origin: str = ""  # what the card calls the source, where that is more than a path
