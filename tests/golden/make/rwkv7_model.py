"""Makes tests/golden/rwkv7_model.safetensors: a whole RWKV-7 model, by the package of its authors, rwkv 0.8.32.

python tests/golden/make/rwkv7_model.py

The package computes in float32, with 0.606531 for exp(-1/2). Its stored weights and its logits are kept, and the state
after the last token: the inputs of time mixing and channel mixing, and the matrix of each head, [value, key].
"""

import json
import os
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

os.environ |= {"RWKV_V7_ON": "1", "RWKV_JIT_ON": "0", "RWKV_CUDA_ON": "0"}

from rwkv.model import RWKV_x070

SEED = 7
CONFIG = {
    "dim": 16,
    "heads": 2,
    "layers": 3,
    "ff": 20,
    "vocabulary": 11,
    "n": 45,
    "ranks": {"w": 3, "a": 4, "v": 5, "g": 6},
}
GOLDEN = Path(__file__).parents[1] / "rwkv7_model.safetensors"


def make_weights() -> dict[str, torch.Tensor]:
    """Random, with nothing at its initial value."""
    d, hidden, heads, vocabulary = (CONFIG[name] for name in ("dim", "ff", "heads", "vocabulary"))
    shapes = {"emb.weight": (vocabulary, d), "head.weight": (vocabulary, d)}
    for norm in ("blocks.0.ln0", "ln_out"):
        shapes |= {f"{norm}.weight": (d,), f"{norm}.bias": (d,)}
    for layer in range(CONFIG["layers"]):
        own = {f"{norm}.{part}": (d,) for norm in ("ln1", "ln2", "att.ln_x") for part in ("weight", "bias")}
        own |= {f"att.x_{name}": (d,) for name in "rwkvag"} | {f"att.{name}": (d,) for name in ("k_k", "k_a")}
        own |= {f"att.{name}.weight": (d, d) for name in ("receptance", "key", "value", "output")}
        own |= {
            "att.r_k": (heads, d // heads),
            "ffn.x_k": (d,),
            "ffn.key.weight": (hidden, d),
            "ffn.value.weight": (d, hidden),
        }
        for name, rank in CONFIG["ranks"].items():
            if name != "v" or layer:
                own |= {f"att.{name}1": (d, rank), f"att.{name}2": (rank, d)}
                own |= {} if name == "g" else {f"att.{name}0": (d,)}
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in own.items()}
    weights = {}
    for name, shape in shapes.items():
        about = 1.0 if ("ln" in name and name.endswith("weight")) or name.endswith(("k_k", "k_a")) else 0.0
        scale = 0.3 if len(shape) == 1 else shape[-1] ** -0.5
        weights[name] = about + scale * torch.randn(shape)
        if ".x_" in name:
            weights[name] = torch.rand(shape)
    return weights


def main() -> None:
    torch.manual_seed(SEED)
    weights, ids = make_weights(), torch.randint(CONFIG["vocabulary"], (CONFIG["n"],))
    with tempfile.TemporaryDirectory() as folder:
        torch.save(weights, f"{folder}/model.pth")
        model = RWKV_x070(f"{folder}/model", "cpu fp32")
        logits, state = model.forward(ids.tolist(), None, full_output=True)
    tensors = {f"w.{name}": value for name, value in weights.items()}
    tensors |= {"in.ids": ids[None], "out.logits": logits[None]}
    for number, name in enumerate(("time_shift", "state", "channel_shift")):
        tensors[f"out.{name}"] = torch.stack(state[number::3])[None]  # (1, layers, …)
    metadata = {"config": json.dumps(CONFIG), "reference": "rwkv==0.8.32 model.py (RWKV_x070)", "seed": str(SEED)}
    save_file({name: value.contiguous() for name, value in tensors.items()}, GOLDEN, metadata)


if __name__ == "__main__":
    main()
