"""Mixers: the sub-layers in which tokens exchange information, one file each.

mixer.py      the contract: forward, new_cache, residual_outputs, and the base class of settings
attention.py  multi-head, grouped-query and multi-query attention; self- and cross-attention
shared_kv.py  attention whose keys and values are shared between layers (YOCO)
dcmha.py      attention whose heads are composed anew for every pair of tokens (DCFormer)
linear_attention.py  features in place of the softmax; self- and cross-attention
performer.py  linear attention whose random features approximate the softmax (FAVOR+)
mamba.py      Mamba: a selective state space model (S6)
mingru.py     minGRU: a gated recurrence, the simplest mixer with a state
ssru.py       SSRU: a forgetting average and a ReLU, in the decoders of Marian's students
linformer.py  attention to a fixed number of keys that mix all tokens, for encoders
reformer.py   attention among tokens that are hashed alike, for encoders
clustered.py  attention in which similar queries attend as one, for encoders
longformer.py  attention whose global tokens have projections of their own, for encoders
longnet.py    dilated attention: every r-th token of segments of several lengths (LongNet)
lsra.py       attention over half of the channels, a convolution over the others (Lite Transformer)
gau.py        gated attention unit: attention and feed-forward in one (FLASH)
crate.py      subspace self-attention: queries, keys and values are one projection (CRATE)
additive.py   scores by a small network (Bahdanau); general.py, location.py: Luong's scores
luong_local.py  a window around a predicted centre; hard_attention.py: one key for each query
unlimiformer.py  attention to the best keys alone (Unlimiformer)
scored_attention.py  shared by mixers whose weights are not the softmax of dot products
rnn.py        GRU and LSTM; in both directions in an encoder
convolution.py  gated convolution over neighbours (ConvS2S)
retention.py  retention: linear attention with decay (RetNet)
rwkv4.py      time mixing of RWKV-4: a decaying average in every channel
rwkv7.py      time mixing of RWKV-7: a matrix per head, changed by the delta rule
infini.py     attention within segments, and a compressive memory of all earlier ones (Infini-attention)
ttt.py        test-time training: the state is a small model that learns from the text (TTT-Linear, TTT-MLP)

x (B, T, d), Context  ──►  mixer  ──►  (B, T, d)      with a LayerCache: decoding, a few tokens at a time
"""
