"""The network: tensors in, tensors out. Knows nothing of text, files or HTTP.

transformer.py   Transformer: embed -> encoder -> decoder -> logits
stack.py         Stack: the layers of one side
block.py         Block: mixer, cross-attention and feed-forward, each in a residual
build.py         build modules from configs; Scope and Cost
context.py       Context: what every layer of one forward pass is given; traces, losses, statistics
sequence.py      token positions, padding, packed texts, encoder output
segments.py      where tokens stand in segments of a fixed length, for mixers that go from segment to segment
memory_tokens.py MemoryTokens: learned vectors beside the text, which may go from segment to segment
retro.py         Retro: neighbours of each chunk, encoded; chunked_cross.py: the layers that attend to them
chunked_encoder.py  encoder output of texts that are too long for the encoder
shared_layers.py checks of what layers share: weights, keys and values
query_stream.py  QueryStream: vectors that know a position but not its token (XLNet)
derived_cross.py cross-attention that a config leaves out
reasoner.py      message passing over graphs (graphs.py); node_listener.py: the sub-layer that attends to their nodes
init.py          weight initialisation
statistics.py    statistics reported by layers

mixers/     attention and what can replace it         positions/  positional encodings
layers/     feed-forward, norms, residuals, heads …   masks/      attention masks
cache/      KV caches for decoding                    ops/        kernels: attention, retention, Triton, C

ids (B, T) ─ Embedding ─ Stack [ Block × layers ] ─ head ─► logits (B, T, V)
                           │ mixer(x, ctx, cache) ─ ops.attention.attend(q, k, v, mask, score_mod)
"""
