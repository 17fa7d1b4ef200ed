"""The search made for the CPU: what the reference search finds, without padding and without moving keys and values.

decoder.CpuDecoder       the model as a Stepper: float32 by PyTorch, int8 by kernels in C (nn/ops/native)
  │  cache               KV caches of both, in which beams never move: Int8KVCache, FloatKVCache
  │  native_tables       the model's weights and the cache, as the tables that the C code reads
  │
  ├─ in a Python loop:   reference.beam_search over CpuDecoder, for every setting
  └─ search.run_search   a whole int8 search in C: decode.native, over these tables
"""
