"""The stored size of a model."""

from pathlib import Path

import pytest

from headway.compare.measurements import model_bytes
from headway.config.config import read_config
from headway.nn.transformer import Transformer
from headway.storage.model_dir import LoadedModel, write_tensors
from headway.storage.packing import pack_bitnet_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer


@pytest.mark.parametrize("linear", ["dense", "bitnet"])
def test_the_size_of_a_model_is_that_of_its_file(linear: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["a b"], "bytes")
    sizes = {"d_model": 32, "vocabulary": tokenizer.size, "linear": linear, "encoder": {"layers": 0}}
    config = read_config({"model": {**sizes, "decoder": {"layers": 2}}, "train": {"objective": "causal"}})
    model = Transformer(config.model)
    loaded = LoadedModel(config, model, Tokenizers(tokenizer, tokenizer))
    weights = pack_bitnet_model(loaded)[1] if linear == "bitnet" else model.state_dict()
    write_tensors(tmp_path / "model.safetensors", weights)
    data = (tmp_path / "model.safetensors").read_bytes()
    assert model_bytes(model) == len(data) - 8 - int.from_bytes(data[:8], "little")
    if linear == "dense":
        assert model_bytes(model) == 4 * config.model.parameter_count()
