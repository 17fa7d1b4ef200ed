"""Makes tests/golden/attn_gym_masks.safetensors with attn-gym 0.0.17 (PyPI, installed without its dependencies):

    PYTHONPATH=/path/of/attn_gym python tests/golden/make/attn_gym_masks.py

Each tensor is the mask over n positions, its name the kind and its numbers: our window is one more than theirs.
"""

import json
from pathlib import Path

import torch
from attn_gym.masks import (
    generate_dilated_sliding_window,
    generate_doc_mask_mod,
    generate_global_sliding_window,
    generate_prefix_lm_mask,
)
from safetensors.torch import save_file

N = 48
q, k, zero = torch.arange(N)[:, None], torch.arange(N)[None], torch.tensor(0)
documents = torch.arange(N) // 7 + (torch.arange(N) > 30)
tensors = {"in.n": torch.tensor(N), "in.documents": documents}
for window, rate in ((8, 2), (9, 3), (30, 4), (5, 1), (3, 7)):
    tensors[f"out.atrous_{rate}_{window + 1}"] = generate_dilated_sliding_window(window, rate)(zero, zero, q, k)
for window, positions in ((4, (0,)), (2, (0, 1, 20)), (6, ()), (0, (47,))):
    is_global = torch.isin(torch.arange(N), torch.tensor(positions, dtype=torch.long))
    name = "_".join(map(str, (window + 1, *positions)))
    tensors[f"out.longformer_{name}"] = generate_global_sliding_window(window, is_global)(zero, zero, q, k)
for length in (0, 1, 10, 48):
    tensors[f"out.prefix_{length}"] = generate_prefix_lm_mask(length)(zero, zero, q, k)
starts = torch.cat([torch.tensor([0]), (documents.diff() > 0).nonzero().flatten() + 1, torch.tensor([N])])
inside = generate_doc_mask_mod(lambda b, h, q, k: k <= q, starts)
tensors["out.document_causal"] = inside(zero, zero, q, k)
tensors = {name: value.contiguous() for name, value in tensors.items()}
metadata = {"config": json.dumps({"n": N}), "reference": "attn-gym 0.0.17", "seed": "0"}
save_file(tensors, Path(__file__).parent.parent / "attn_gym_masks.safetensors", metadata)
