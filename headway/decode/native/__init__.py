"""The native engine: an int8 encoder-decoder searched by our own C kernels (nn/ops/native), without torch.

probe.probe_native        can it run this model, here? ──► NativeModel
   │
model.NativeModel         config.json, model.safetensors (mmap) ──► packed weights, tables of both stacks
   │
engine.NativeEngine       the Engine protocol; batches on threads of its own
   │
search.run_search         hw_encode, hw_search ──► decode.lattice ──► hypotheses
   └ kv_cache             int8 keys and values, in which beams never move

The torch engine's int8 search on a CPU (decode/cpu) is the same `run_search` over the tables of its own model, so that
both give the same hypotheses to the last bit.
"""
