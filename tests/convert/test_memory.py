"""A model of 1 GB is imported in memory no larger than its largest tensor and 500 MB, the interpreter included."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from convert.test_importer import byte_tokenizer
from headway.convert.streaming import TensorHeader, write_tensor_stream

WIDTH, LAYERS, WORDS = 1024, 19, 16_384
CODE = """
import re, sys
from pathlib import Path
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
plan_import(sys.argv[1], ImportOptions(allow_pickle=True)).write(Path(sys.argv[2]))
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


def list_tensors() -> list[TensorHeader]:
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (WORDS, WIDTH), "wpe.weight": (WIDTH, WIDTH)}
    shapes |= {f"ln_f.{end}": (WIDTH,) for end in ("weight", "bias")}
    for n in range(LAYERS):
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{n}.{name}.{end}": (WIDTH,) for end in ("weight", "bias")}
        for name, inputs, outputs in (
            ("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1),
        ):  # fmt: skip
            shapes[f"h.{n}.{name}.weight"] = (inputs * WIDTH, outputs * WIDTH)
            shapes[f"h.{n}.{name}.bias"] = (outputs * WIDTH,)
    return [TensorHeader(f"transformer.{name}", torch.float32, shape) for name, shape in shapes.items()]


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "safetensors"
    folder.mkdir()
    config = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 16, "n_positions": WIDTH, "vocab_size": WORDS}
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "eos_token_id": 256, **config}))
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer().to_json()["model"]))
    headers = list_tensors()
    weights = folder / "model.safetensors"
    write_tensor_stream(weights, headers, (torch.randn(header.shape) * 0.02 for header in headers))
    assert weights.stat().st_size > 10**9
    pickled = shutil.copytree(folder, tmp_path / "pickle", ignore=lambda *_: ["model.safetensors"])
    torch.save(load_file(weights), pickled / "pytorch_model.bin")
    largest = max(header.bytes for header in headers)
    for source in (folder, pickled):
        command = [sys.executable, "-c", CODE, str(source), str(tmp_path / f"{source.name}-out")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < largest + 500 * 10**6
