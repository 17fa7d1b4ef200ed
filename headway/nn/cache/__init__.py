"""Caches of incremental decoding: what each layer keeps of the tokens it has already processed.

    kv.py              LayerCache, the protocol that beam search, speculation and training rely on
                       KVCache            keys and values of all earlier tokens     (self-attention)
                       CrossKVCache       keys and values of the encoder output     (cross-attention)
                       DecoderState       the caches of all layers of a decoder
    sliding_window.py  SlidingWindowKVCache   the last tokens only, in a ring buffer    (a mask with a lookback)
                       InputWindowCache       layer inputs instead of keys and values   (Transformer-XL)
    recurrent.py       RecurrentState         tensors of fixed size            (retention, RWKV, Infini-attention …)
                       CrossState             a summary of the encoder output  (linear cross-attention)
    memory_state.py    MemoryState            caches of a segment, and a memory        (memory tokens)
    token_history.py   TokenHistory           the ids alone: all is computed anew          (mutual content, XLNet)
    composite.py       CompositeCache         several of these as one                   (LSRA)

A mixer makes its own with `new_cache`, and so may a feed-forward. `Transformer.new_state` collects them into a
DecoderState.
"""
