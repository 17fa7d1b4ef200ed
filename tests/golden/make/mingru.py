"""Makes tests/golden/mingru.safetensors with minGRU-pytorch 0.2.1, in float64.

python tests/golden/make/mingru.py FILE
"""

import json
import sys

import torch
from minGRU_pytorch import minGRU
from safetensors.torch import save_file

SEED, WIDTH, EXPANSION, LENGTH = 1, 8, 1.5, 21


@torch.no_grad()
def main() -> None:
    torch.manual_seed(SEED)
    layer, x = minGRU(WIDTH, EXPANSION).double(), torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    first, state = layer(x, return_next_prev_hidden=True)
    later, last = layer(x, prev_hidden=state, return_next_prev_hidden=True)
    candidate, gate = layer.to_hidden_and_gate.weight.chunk(2)
    tensors = {
        "in.x": x,
        "w.candidate.weight": candidate,
        "w.gate.weight": gate,
        "w.output.weight": layer.to_out.weight,
        "out.first": first,
        "out.later": later,
        "out.state": last[:, 0],
    }
    config = {"dim": WIDTH, "expansion": EXPANSION}
    metadata = {"config": json.dumps(config), "reference": "minGRU-pytorch 0.2.1, minGRU", "seed": str(SEED)}
    save_file({name: x.contiguous() for name, x in tensors.items()}, sys.argv[1], metadata)


if __name__ == "__main__":
    main()
