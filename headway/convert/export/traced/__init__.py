"""Our modules as graphs of tensor operations, for exporters that trace: ONNX and torch.export.

Transformer ── support.unsupported: the kind that no graph can hold, or ""
    │
    └─ programs: encoder, decoder with keys and values as inputs ── tracing ──► TracedGraph
         └─ cache: the KV cache of a traced decoder             (dynamic batch and lengths, names of axes)
"""
