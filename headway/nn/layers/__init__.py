"""Layers without token mixing: what surrounds the mixers in a block and in the model.

embedding.py    ids -> vectors                      feedforward.py  relu, gelu, silu, swiglu, geglu, none
norms.py        layer norm, RMS norm                moe.py          mixture of experts
residual.py     post- and pre-norm, DeepNorm …      heads.py        logits, masked LM, pooled, embedding
linear.py       Dense, the base class Linear        kan.py          Kolmogorov-Arnold networks, splines
                                                    ista.py         CRATE's step towards a sparse code
                                                    bitlinear.py    BitNet, ternary weights
                                                    rwkv_channel_mix.py  RWKV's feed-forward, with a token shift
stream_norms.py batch, instance, group norm         heads.py        logits, masked LM, pooled, embedding
residual.py     post- and pre-norm, DeepNorm …      kan.py          Kolmogorov-Arnold networks, splines
linear.py       Dense, the base class Linear        bitlinear.py    BitNet, ternary weights
lora.py         a wrapper of any linear layer       int8.py         8-bit inference on a CPU

ids ── embedding ──► x ── [ residual( norm, mixer | feedforward ) ] × layers ──► head ──► logits
"""
