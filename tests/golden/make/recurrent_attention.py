"""Makes tests/golden/recurrent_attention.safetensors with joeynmt 2.3.0 (PyPI, installed without its dependencies):
its additive (Bahdanau) and general (Luong) attention, one query at a time as a decoder asks, in float64."""

import json
import sys

import torch
from joeynmt.attention import BahdanauAttention, LuongAttention
from safetensors.torch import save_file

BATCH, QUERIES, KEYS, WIDTH, HIDDEN, SEED = 2, 3, 5, 8, 6, 1


def main(path: str) -> None:
    torch.manual_seed(SEED)
    query, values = (torch.randn(BATCH, length, WIDTH, dtype=torch.float64) for length in (QUERIES, KEYS))
    valid = torch.tensor([[True] * KEYS, [True] * 3 + [False] * (KEYS - 3)])
    tensors = {"in.query": query, "in.values": values, "in.valid": valid}
    for name, attention in (
        ("additive", BahdanauAttention(HIDDEN, WIDTH, WIDTH).double()),
        ("general", LuongAttention(WIDTH, WIDTH).double()),
    ):
        attention.compute_proj_keys(values)
        steps = [attention(query[:, t : t + 1], valid[:, None], values) for t in range(QUERIES)]
        context, weights = (torch.cat(parts, dim=1) for parts in zip(*steps))
        tensors |= {f"out.{name}.context": context, f"out.{name}.weights": weights}
        tensors |= {f"w.{name}.{key}": weight for key, weight in attention.state_dict().items()}
    config = {"d_model": WIDTH, "hidden": HIDDEN, "seed": SEED}
    metadata = {"config": json.dumps(config), "reference": "joeynmt 2.3.0, joeynmt/attention.py"}
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata)


if __name__ == "__main__":
    main(sys.argv[1])
