"""Makes tests/golden/linear_attention.safetensors with fla-core 0.6.0 (over the past) and performer-pytorch 1.1.4 (over
all keys), in float64.

python tests/golden/make/linear_attention.py FILE
"""

import json
import sys

import torch
import torch.nn.functional as F
from fla.ops.linear_attn.naive import naive_chunk_linear_attn
from performer_pytorch.performer_pytorch import linear_attention
from safetensors.torch import save_file

SEED, HEADS, LENGTH, WIDTH, VALUES = 1, 2, 64, 6, 5  # fla's chunks have 64 tokens
EPS = 1e-10  # what fla adds to the divisor


@torch.no_grad()
def main() -> None:
    torch.manual_seed(SEED)
    q, k = torch.randn(2, 1, HEADS, LENGTH, WIDTH, dtype=torch.float64)
    v = torch.randn(1, HEADS, LENGTH, VALUES, dtype=torch.float64)
    features = [F.elu(x) + 1 for x in (q, k)]
    past = naive_chunk_linear_attn(*(x.transpose(1, 2) for x in (*features, v)), scale=1.0, normalize=True)
    tensors = {"in.q": q, "in.k": k, "in.v": v, "out.causal": past.transpose(1, 2)}
    tensors["out.full"] = linear_attention(*features, v)
    reference = "fla-core 0.6.0, naive_chunk_linear_attn; performer-pytorch 1.1.4, linear_attention"
    metadata = {"config": json.dumps({"eps": EPS}), "reference": reference, "seed": str(SEED)}
    save_file({name: x.contiguous() for name, x in tensors.items()}, sys.argv[1], metadata)


if __name__ == "__main__":
    main()
