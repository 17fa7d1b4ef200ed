"""A large model is exported tensor by tensor: memory holds the largest, not the model."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headway.config.config import read_config
from headway.convert.importer import list_shapes
from headway.convert.streaming import TensorHeader, write_tensor_stream
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

EXPORT = """
import resource, sys
from pathlib import Path
from headway.convert.export.formats import export_model
from headway.convert.export.stored_model import open_model
export_model(open_model(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["huggingface", "gguf"])
def test_a_gigabyte_takes_no_more_than_its_largest_tensor_and_500_mb(name: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([], "bytes")
    side = {
        "layers": 16, "mixer": "attention(16, bias=false)", "feedforward": "swiglu(5504)", "residual": "pre",
        "position": "rope",
    }  # fmt: skip
    model = {
        "d_model": 1024,
        "norm": "rmsnorm",
        "encoder": {"layers": 0},
        "decoder": side,
        "vocabulary": tokenizer.size,
    }
    embedding = {"scale": False, "tied": "none"}
    config = read_config(
        {"tokenizer": "bytes", "model": {**model, "embedding": embedding}, "train": {"objective": "causal"}}
    )
    headers = [TensorHeader(name, torch.float32, shape) for name, shape in list_shapes(config).items()]
    folder = tmp_path / "model"
    folder.mkdir()
    write_tensor_stream(folder / "model.safetensors", headers, (torch.randn(header.shape) for header in headers))
    Tokenizers(tokenizer, tokenizer).save(folder / "tokenizer.json")
    config.save(folder / "config.json")
    assert sum(header.bytes for header in headers) > 10**9
    command = [sys.executable, "-c", EXPORT, str(folder), name, str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert int(run.stdout) < max(header.bytes for header in headers) + 500 * 10**6
