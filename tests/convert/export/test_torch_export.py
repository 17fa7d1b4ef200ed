"""Export to torch.export: PyTorch, without Headway, gives the logits of the model."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from random_models import language_model_table, translator_table, write_random_model

from headway.convert.export.formats import export_model
from headway.convert.export.stored_model import open_model
from headway.storage.model_dir import load_model

CHECK = 'import sys\nassert not [name for name in sys.modules if name.startswith("headway")]\n'


def run_without_headway(code: str, results: str, folder: Path) -> dict[str, torch.Tensor]:
    """What a fresh process computes with the programs in this folder."""
    script = folder / "use.py"
    script.write_text(f'{CHECK}{code}\ntorch.save({results}, "found.pt")\n{CHECK}')
    subprocess.run([sys.executable, "-I", "-W", "ignore", str(script)], cwd=folder, check=True, timeout=300)
    found: dict[str, torch.Tensor] = torch.load(folder / "found.pt")
    return found


@torch.no_grad()
def test_a_translator_gives_our_logits_without_headway(tmp_path: Path) -> None:
    table = translator_table(layers=1, mixer="attention(4, groups=2)", position="rope")
    write_random_model(tmp_path / "model", table)
    report = export_model(open_model(tmp_path / "model"), "torch-export", tmp_path / "my-model-pt2")
    assert {"encoder.pt2", "decoder.pt2", "tokenizer.json"} < set(report.files) and "logits differ" in report.checked[0]
    page = (Path(__file__).parents[3] / "docs/exporting.md").read_text()
    snippet = re.findall(r"```python\n(import torch\n.*?)```", page, re.DOTALL)[0]
    more = """
second = logits
source, several = torch.arange(4, 4 + 33)[None], torch.arange(8, 15)[None]
alone, *_ = decoder(several, torch.ones_like(source), encoder(source, torch.ones_like(source)))
"""
    found = run_without_headway(snippet + more, "dict(second=second, alone=alone)", tmp_path)
    model = load_model(tmp_path / "model").model
    source = torch.arange(4, 4 + 33)[None]
    want = model.logits(model.decode(torch.arange(8, 15)[None], memory=model.encode(source)))
    torch.testing.assert_close(found["alone"], want, rtol=1e-5, atol=1e-5)
    ids = torch.tensor([[4, 100, 101, 2], [4, 102, 2, 0]])
    memory = model.encode(ids, ids != 0)
    start = torch.tensor([[1], [1]])
    first = model.logits(model.decode(start, memory=memory)).argmax(-1)
    want = model.logits(model.decode(torch.cat([start, first], 1), memory=memory))
    torch.testing.assert_close(found["second"], want[:, 1:], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_language_model_gives_our_logits(tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", language_model_table(layers=1, position="learned(64)"), "causal")
    export_model(open_model(tmp_path / "model"), "torch-export", tmp_path / "out")
    model = load_model(tmp_path / "model").model
    step = torch.export.load(tmp_path / "out/model.pt2").module()
    sizes = json.loads((tmp_path / "out/config.json").read_text())["past"].values()
    for rows, steps in ((1, [1, 1]), (3, [7, 1, 56])):
        ids = torch.randint(4, 300, (rows, sum(steps)))
        past, found, end = [torch.zeros(rows, size[1], 0, size[3]) for size in sizes], [], 0
        for part in ids.split(steps, 1):
            end += part.shape[1]
            logits, *past = step(part, torch.ones(rows, end, dtype=torch.long), past)
            found.append(logits)
        torch.testing.assert_close(torch.cat(found, 1), model.logits(model.decode(ids)), rtol=1e-5, atol=1e-5)
    with pytest.raises((AssertionError, RuntimeError)):  # it has learned 64 positions
        step(torch.ones(1, 65, dtype=torch.long), torch.ones(1, 65, dtype=torch.long), [x[:1, :, :0] for x in past])
