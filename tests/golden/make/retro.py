"""Makes tests/golden/retro.safetensors with retro-pytorch 0.3.9 (and einops), in float64.

python tests/golden/make/retro.py

Three things are changed in the reference. Its learned null key and value are left out. The projection behind its
encoder is the identity. And nothing is rotated, except in `out.encoded`: it shifts the positions of the queries of
chunked cross-attention twice, so that all but one of a chunk have the position 0.
"""

import functools
import importlib.util
import json
import sys
import types
from pathlib import Path

import torch
from safetensors.torch import save_file

CHUNK, NEIGHBOURS, LENGTH, BATCH, SEED = 4, 2, 18, 2, 11
SIZES = {
    "num_tokens": 40, "max_seq_len": 24, "enc_dim": 8, "dec_dim": 8, "enc_depth": 2, "dec_depth": 3,
    "dec_cross_attn_layers": (1, 3), "heads": 2, "dim_head": 32, "chunk_size": CHUNK, "pad_id": 0,
}  # fmt: skip
GOLDEN = Path(__file__).parents[1] / "retro.safetensors"


def import_reference() -> types.ModuleType:
    """The module of the network alone: the package itself needs an index, its trainer and more."""
    found = importlib.util.find_spec("retro_pytorch")
    assert found is not None and found.submodule_search_locations
    package, retrieval = types.ModuleType("retro_pytorch"), types.ModuleType("retro_pytorch.retrieval")
    package.__path__ = list(found.submodule_search_locations)
    retrieval.BERT_VOCAB_SIZE = 1  # type: ignore[attr-defined]
    sys.modules |= {"retro_pytorch": package, "retro_pytorch.retrieval": retrieval}
    return importlib.import_module("retro_pytorch.retro_pytorch")


@torch.no_grad()
def main() -> None:
    torch.manual_seed(SEED)
    reference = import_reference()
    for name in ("Encoder", "Decoder"):  # RETRO does not hand on how many heads it is given
        setattr(reference, name, functools.partial(getattr(reference, name), heads=SIZES["heads"]))
    model = reference.RETRO(**SIZES).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 0.5, 0.3)
    for layer in model.decoder.layers:
        if layer[1] is not None:
            layer[1].fn.cross_attn.null_k = layer[1].fn.cross_attn.null_v = None
    model.encoder.project_out.weight.copy_(torch.eye(SIZES["enc_dim"]))
    model.encoder.project_out.bias.zero_()
    ids = torch.randint(1, SIZES["num_tokens"], (BATCH, LENGTH))
    shape = (BATCH, LENGTH // CHUNK, NEIGHBOURS, 2 * CHUNK)
    retrieved = torch.randint(1, SIZES["num_tokens"], shape)
    retrieved[0, 1, 0, 3:] = 0  # a neighbour at the end of its document
    retrieved[1, 3, 1, 1:] = 0
    chunks = torch.randn(BATCH * shape[1], CHUNK, SIZES["dec_dim"], dtype=torch.float64)
    tensors = {"in.ids": ids, "in.retrieved": retrieved, "in.chunks": chunks}
    rotary = model.encoder.rotary_pos_emb
    rotary.inv_freq = 1e4 ** -(torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    embedded, mask = model.token_emb(retrieved).flatten(0, 2), (retrieved != 0).flatten(0, 2)
    source = chunks.repeat_interleave(NEIGHBOURS, 0)
    tensors["out.encoded"] = model.encoder(embedded, mask=mask, chunked_seq=source)
    for part in (model.encoder, model.decoder):
        part.rotary_pos_emb.inv_freq.zero_()
    tensors["out.logits"] = model(ids, retrieved)
    tensors["out.without"] = model(ids)
    unused = ("rotary_pos_emb", "project_out", "null_")
    weights = {name: value for name, value in model.state_dict().items() if not any(part in name for part in unused)}
    tensors |= {f"w.{name}": value for name, value in weights.items()}
    config = {**SIZES, "neighbours": NEIGHBOURS}
    metadata = {"config": json.dumps(config), "reference": "retro-pytorch 0.3.9", "seed": str(SEED)}
    save_file({name: value.contiguous() for name, value in tensors.items()}, GOLDEN, metadata)


if __name__ == "__main__":
    main()
