"""Makes tests/golden/performer.safetensors with performer-pytorch 1.1.4, in float64.

Its features have an eps of 1e-4 added by default, relative to the largest feature of all keys, future ones included;
here it is 0.

python tests/golden/make/performer.py FILE
"""

import json
import sys

import torch
from performer_pytorch.performer_pytorch import (
    causal_linear_attention_noncuda,
    gaussian_orthogonal_random_matrix,
    linear_attention,
    softmax_kernel,
)
from safetensors.torch import save_file

SEED, HEADS, LENGTH, WIDTH, VALUES, FEATURES = 1, 2, 33, 8, 5, 20


@torch.no_grad()
def main() -> None:
    torch.manual_seed(SEED)
    projection = gaussian_orthogonal_random_matrix(FEATURES, WIDTH).double()
    q, k = torch.randn(2, 1, HEADS, LENGTH, WIDTH, dtype=torch.float64)
    v = torch.randn(1, HEADS, LENGTH, VALUES, dtype=torch.float64)
    features = [
        softmax_kernel(x, projection_matrix=projection, is_query=x is q, normalize_data=True, eps=0.0) for x in (q, k)
    ]
    tensors = {"in.q": q, "in.k": k, "in.v": v, "w.projection": projection}
    tensors["out.full"] = linear_attention(*features, v)
    tensors["out.causal"] = causal_linear_attention_noncuda(*features, v, chunk_size=1, eps=0.0)
    metadata = {"config": json.dumps({}), "reference": "performer-pytorch 1.1.4", "seed": str(SEED)}
    save_file({name: x.contiguous() for name, x in tensors.items()}, sys.argv[1], metadata)


if __name__ == "__main__":
    main()
