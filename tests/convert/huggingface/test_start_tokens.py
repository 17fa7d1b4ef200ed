"""Whether a start token stands before a prompt: as tokenizer_config.json says, or the template of tokenizer.json."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, processors

from headway.convert.huggingface.model_folder import ModelFolder
from headway.convert.huggingface.tokenizer_files import adds_start
from headway.errors import HeadwayError


def template(adds: bool) -> Any:
    library = Library(models.WordLevel(vocab={"<s>": 0, "x": 1}, unk_token="x"))
    if adds:
        library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return json.loads(library.to_str())


@pytest.mark.parametrize(
    ("settings", "model", "wanted"),
    [
        ({}, template(True), True),
        ({}, template(False), False),
        ({"add_bos_token": False}, template(True), False),
        ({"add_bos_token": True}, template(False), True),
        ({}, None, True),
        ({"add_bos_token": False}, None, False),
    ],
)
def test_who_decides(settings: dict[str, Any], model: Any, wanted: bool, tmp_path: Path) -> None:
    folder = ModelFolder(path=tmp_path, config={}, tokenizer_config=settings)
    assert adds_start(folder, {"start": 0}, model) == wanted
    with pytest.raises(HeadwayError, match="its tokenizer cannot be read"):
        adds_start(ModelFolder(path=tmp_path, config={}), {"start": 0}, {"model": 3})
