"""A model of 1 GB is imported in memory no larger than its largest tensor and 500 MB, the interpreter included."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from convert.test_importer import byte_tokenizer
from headway.convert.streaming import TensorHeader, write_tensor_stream

WIDTH, LAYERS, WORDS = 1024, 19, 16_384
CODE = """
import re, sys
from pathlib import Path
from typing import Any
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


@pytest.mark.slow
@pytest.mark.parametrize("quantisation", [None, "int8"])
def test_memory_is_bounded_for_ctranslate2(quantisation: str | None, tmp_path: Path) -> None:
    from ctranslate2.specs import Activation, TransformerDecoderModelSpec

    spec = TransformerDecoderModelSpec.from_config(LAYERS, 16, activation=Activation.GELUTanh)
    spec.decoder.scale_embeddings = False
    draw = np.random.default_rng(0)
    sizes = {
        "self_attention/linear_0": (3, 1),
        "self_attention/linear_1": (1, 1),
        "linear_0": (4, 1),
        "linear_1": (1, 4),
    }

    def fill(layer: Any, name: str, value: Any) -> None:
        if value is not None:
            return
        path = f"{'self_attention/' if 'self_attention' in name else ''}{name.split('/')[-2]}"
        if name.endswith("gamma") or name.endswith("beta"):
            setattr(layer, name.split("/")[-1], np.full(WIDTH, name.endswith("gamma"), np.float32))
        elif name.endswith("weight"):
            rows, columns = sizes.get(path, (WORDS // WIDTH, 1))
            layer.weight = draw.normal(0, 0.02, (rows * WIDTH, columns * WIDTH)).astype(np.float32)

    spec._visit(fill)
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.decoder.position_encodings.encodings = draw.normal(0, 0.02, (WIDTH, WIDTH)).astype(np.float32)
    folder = tmp_path / "ct2"
    folder.mkdir()
    tokenizer = byte_tokenizer()
    spellings = [tokenizer.spelling(n) for n in range(tokenizer.size)]
    spec.register_vocabulary([*spellings, *(f"<extra_id_{n}>" for n in range(WORDS - len(spellings)))])
    spec.config.eos_token = spec.config.bos_token = spec.config.unk_token = spellings[256]
    spec.validate()
    spec.optimize(quantization=quantisation)
    spec.save(str(folder))
    del spec
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer.to_json()["model"]))
    command = [sys.executable, "-c", CODE, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 10**9
    assert int(done.stdout) < WORDS * WIDTH * 4 + 500 * 10**6
