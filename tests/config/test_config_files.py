"""Every file in configs/ is a config that is taken, and its model can be built."""

import tomllib
from pathlib import Path

import pytest
import torch

from headway.config.config import read_config
from headway.config.schema import from_dict
from headway.nn.transformer import Transformer

FOLDER = Path(__file__).parents[2] / "configs"
FILES = sorted(FOLDER.glob("*.toml"))


def test_there_are_some() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_model_can_be_built(path: Path) -> None:
    config = read_config(tomllib.loads(path.read_text(encoding="utf-8")))
    with torch.device("meta"):
        model = Transformer(from_dict(Transformer.Config, config.to_dict()["model"] | {"vocabulary": 100}))
    assert model.config.parameter_count() == sum(p.numel() for p in model.parameters())
