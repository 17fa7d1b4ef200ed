"""Makes tests/golden/gau.safetensors with FLASH-pytorch 0.1.9, in float64.

python tests/golden/make/gau.py FILE
"""

import json
import sys

import torch
from flash_pytorch import GAU
from safetensors.torch import save_file
from torch import nn

WIDTH, D_K, HIDDEN, LENGTH, SEED = 12, 6, 24, 11, 5


def randomise(module: nn.Module) -> nn.Module:
    for parameter in module.double().eval().parameters():
        nn.init.normal_(parameter, parameter.mean().item(), 0.4)
    return module


@torch.no_grad()
def main() -> None:
    torch.manual_seed(SEED)
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 4]])
    tensors = {"in.x": x, "in.pad": ~mask}
    for causal in (False, True):
        name = "causal" if causal else "full"
        settings = {"dim": WIDTH, "query_key_dim": D_K, "expansion_factor": HIDDEN / WIDTH, "causal": causal}
        module = randomise(GAU(**settings, add_residual=False))
        tensors |= {f"w.gau_{name}.{key}": value for key, value in module.state_dict().items()}
        tensors[f"out.gau_{name}"] = module(x)
        tensors[f"out.gau_{name}_padded"] = module(x, mask=mask)
    config = {"dim": WIDTH, "query_key_dim": D_K, "hidden": HIDDEN, "n": LENGTH}
    metadata = {"config": json.dumps(config), "reference": "FLASH-pytorch 0.1.9", "seed": str(SEED)}
    save_file({key: value.contiguous() for key, value in tensors.items()}, sys.argv[1], metadata)


if __name__ == "__main__":
    main()
