"""Operations: pure functions of tensors, each with a naive form that is the specification of the faster ones.

attention.py         attend: scaled dot-product attention, by one of several kernels
block_attention.py   attention that skips what its mask hides, block by block: for CPUs
varlen_attention.py  attention over packed texts (varlen), each query sees one interval of keys
dilated_attention.py attention among every r-th token of segments (LongNet): dense and gathered
lsh_attention.py     attention among tokens that are hashed alike (Reformer): dense and chunked
clustered_attention.py  attention of groups of similar queries: dense and by groups
partial_softmax.py   a softmax computed in parts and merged, for the two above
additive.py          additive (Bahdanau) scores, all at once or in pieces
local_window.py      Luong's window and Gaussian around a centre
retrieval.py         the best keys of each query
hard_attention.py    the choice of one key, straight-through
rnn.py               steps of a GRU and an LSTM, token by token or by PyTorch's loop
retention.py         retention: recurrent, parallel and chunkwise
compressive_memory.py the memory of Infini-attention: written by segments, read by linear attention
light_convolution.py light-weight and dynamic convolution: a short filter for each head
test_time_training.py training of the inner model of TTT: primal and dual
splines.py           B-spline bases, for Kolmogorov-Arnold layers
scan.py              linear recurrences, h = a ⊙ h + b: recurrent and chunked
wkv.py               the decaying average of RWKV-4: recurrent and chunkwise
delta_rule.py        the matrices of RWKV-7: recurrent and chunkwise
token_shift.py       the token before each, past padding
linear_attention.py  attention by products of features, over all keys or the past
random_features.py   Performer's random features
selective_scan.py    Mamba's scan, whose states exist for one chunk at a time
causal_convolution.py  a short convolution in each channel, with a window between calls
cross_entropy.py     output projection and cross-entropy in one, in chunks
dropout.py           dropout without the cost of PyTorch's random numbers
fused.py             norm, dropout and bias gradient in one kernel each, for eager training on a GPU
int8_rows.py         8-bit matrices in numpy: quantise, pack for the C kernels

triton/   GPU kernels in Triton, called by the above        native/   CPU kernels in C, for int8 decoding
"""
