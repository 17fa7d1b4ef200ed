"""Makes tests/golden/linformer_attention.safetensors with linformer 0.2.3 (PyPI, installed without its dependencies):
its self-attention, also with the keys' projection for values too, shorter than its longest text, and with a context."""

import json
import sys

import torch
from linformer import LinformerSelfAttention
from safetensors.torch import save_file

BATCH, LENGTH, CONTEXT, MAX_POSITIONS, WIDTH, HEADS, PROJECTED, SEED = 2, 9, 6, 12, 16, 4, 5, 1


@torch.no_grad()
def main(path: str) -> None:
    torch.manual_seed(SEED)
    theirs = LinformerSelfAttention(WIDTH, MAX_POSITIONS, PROJECTED, HEADS).double().eval()
    for weight in theirs.parameters():
        weight.normal_(0.0, 0.4)
    x, context = (torch.randn(BATCH, length, WIDTH, dtype=torch.float64) for length in (LENGTH, CONTEXT))
    weights = {f"w.{name}": weight.clone() for name, weight in theirs.state_dict().items()}
    outputs = {"out.heads": theirs(x), "out.heads_context": theirs(x, context=context)}
    theirs.proj_v.copy_(theirs.proj_k)
    outputs |= {"out.kv": theirs(x), "out.kv_context": theirs(x, context=context)}
    config = {"heads": HEADS, "seed": SEED}
    metadata = {"config": json.dumps(config), "reference": "linformer 0.2.3, linformer/linformer.py"}
    tensors = {"in.x": x, "in.context": context, **weights, **outputs}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata)


if __name__ == "__main__":
    main(sys.argv[1])
