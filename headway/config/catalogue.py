"""The catalogue: every kind of every slot, as one table. It needs no torch: docs and config errors read it.

To add a kind: write its module, add one line here, write one page in docs/. Old names: headway.config.renamed.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from headway.errors import ConfigError, did_you_mean


class Entry(NamedTuple):
    slot: str
    kind: str
    target: str  # "module:Class"; the class owns a nested Config
    line: str  # one line that describes it
    cost: str = ""  # of a sequence of length n
    reference: str = ""
    names: str = ""  # other names, separated by commas: nicknames and titles of papers, which a search finds too


CATALOGUE: tuple[Entry, ...] = (
    # order
    Entry("position", "none", "headway.nn.positions.positions:NoPosition", "no positions: order is not seen", "0", names="NoPE, no positional encoding"),
    Entry("position", "counting", "headway.nn.positions.counting:Counting", "1, 2, 3 … added to every channel: the naive one, which fails", "O(n)", names="naive positions, index, integer positions"),
    Entry("position", "normalised", "headway.nn.positions.counting:Normalised", "position / (length - 1) added to every channel: depends on the length", "O(n)", names="normalized, relative index, fraction of the text"),
    Entry("position", "sinusoidal", "headway.nn.positions.positions:Sinusoidal", "sines and cosines added to x", "O(n)", "Vaswani 2017", names="sine, sin-cos, absolute positions, Attention Is All You Need"),
    Entry("position", "learned", "headway.nn.positions.positions:Learned", "a learned vector for each position added to x", "O(n)", "Gehring 2017", names="absolute position embedding, Convolutional Sequence to Sequence Learning"),
    Entry("position", "rope", "headway.nn.positions.positions:Rope", "queries and keys rotated by their position", "O(n)", "Su 2021", names="rotary, RoFormer, Enhanced Transformer with Rotary Position Embedding"),
    Entry("position", "xpos", "headway.nn.positions.xpos:XPos", "rope whose scores also fade with distance", "O(n)", "Sun 2022", names="extrapolatable position, LeX, A Length-Extrapolatable Transformer"),
    Entry("position", "alibi", "headway.nn.positions.positions:Alibi", "scores lowered in proportion to distance", "O(n²)", "Press 2022", names="Attention with Linear Biases, Train Short Test Long"),
    Entry("position", "t5", "headway.nn.positions.t5:T5Bias", "a learned bias for each distance, added to the scores", "O(n²) a layer", "Raffel 2020", names="relative position bias, bucketed bias, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer"),
    Entry("position", "shaw", "headway.nn.positions.shaw:Shaw", "a learned vector for each distance, added to keys and values", "O(n²) a layer", "Shaw 2018", names="relative position representations, Self-Attention with Relative Position Representations"),
    Entry("position", "transformer_xl", "headway.nn.positions.transformer_xl:TransformerXL", "scores of query and distance, added to those of query and key", "O(n²) a layer", "Dai 2019", names="Transformer-XL, TransformerXL, xl, relative positional encoding, Attentive Language Models beyond a Fixed-Length Context"),
    # which keys a query may attend to
    Entry("mask", "full", "headway.nn.masks.masks:FullMask", "every key", "O(n²)", names="bidirectional, dense"),
    Entry("mask", "causal", "headway.nn.masks.masks:CausalMask", "only the past and the present", "O(n²)", "Vaswani 2017", names="autoregressive, lower triangular, look-ahead mask"),
    Entry("mask", "local", "headway.nn.masks.masks:LocalMask", "sliding window: keys fewer than `window` positions away", "O(n·window)", "Child 2019", names="sliding window, Mistral, SWA, banded, neighbourhood attention"),
    Entry("mask", "prefix", "headway.nn.masks.texts:PrefixMask", "the first `length` positions and all earlier ones: for encoders", "O(n²)", "Raffel 2020", names="prefix LM, prefix language model, UniLM"),
    Entry("mask", "document", "headway.nn.masks.texts:DocumentMask", "every key of the query's own text", "O(n²)", names="documents, packed, block diagonal, sequence packing"),
    Entry("mask", "atrous", "headway.nn.masks.sparse:AtrousMask", "dilated sliding window: every `rate`-th key fewer than `window` positions away", "O(n·window/rate)", "Child 2019; Beltagy 2020", names="dilated, dilated sliding window, dilated attention"),
    Entry("mask", "longformer", "headway.nn.masks.sparse:LongformerMask", "sliding window, and tokens that see all and are seen by all", "O(n·window)", "Beltagy 2020", names="global tokens, global attention, The Long-Document Transformer, LED"),
    Entry("mask", "strided", "headway.nn.masks.sparse:StridedMask", "every s-th position, counted from the query", "O(n²/s)", "Child 2019", names="Sparse Transformer, Generating Long Sequences with Sparse Transformers"),
    Entry("mask", "fixed", "headway.nn.masks.sparse:FixedMask", "the query's own block, and the last positions of every other", "O(n√n)", "Child 2019", names="Sparse Transformer, Generating Long Sequences with Sparse Transformers"),
    Entry("mask", "bigbird", "headway.nn.masks.sparse:BigBirdMask", "neighbouring, first, last and random blocks", "O(n)", "Zaheer 2020", names="Big Bird, BigBird, Transformers for Longer Sequences, block sparse, ITC"),
    Entry("mask", "segments", "headway.nn.masks.sparse:SegmentsMask", "the query's own segment, and `memory` positions before it", "O(n·(length + memory))", "Dai 2019", names="Transformer-XL, TransformerXL, segment recurrence, chunked attention"),
    Entry("mask", "all", "headway.nn.masks.masks:AllMask", "what all of `parts` allow; written a & b", names="and, intersection"),
    Entry("mask", "any", "headway.nn.masks.masks:AnyMask", "what at least one of `parts` allows; written a | b", names="or, union"),
    # mixing of positions
    Entry("mixer", "attention", "headway.nn.mixers.attention:Attention", "multi-head attention; grouped or single keys with `groups`", "O(n²)", "Vaswani 2017; Shazeer 2019; Ainslie 2023", names="self-attention, multi-head attention, MHA, scaled dot-product attention, softmax attention, cross-attention, GQA, grouped-query attention, MQA, multi-query attention, Attention Is All You Need, Fast Transformer Decoding: One Write-Head is All You Need, GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints"),
    Entry("mixer", "shared_kv", "headway.nn.mixers.shared_kv:SharedKVAttention", "attention over keys and values that are computed once for all such layers", "O(n²)", "Sun 2024", names="YOCO, You Only Cache Once, decoder-decoder, cross-layer KV sharing, You Only Cache Once: Decoder-Decoder Architectures for Language Models"),
    Entry("mixer", "longformer", "headway.nn.mixers.longformer:LongformerAttention", "attention whose global tokens have projections of their own", "O(n·window)", "Beltagy 2020", names="Longformer, The Long-Document Transformer, global attention"),
    Entry("mixer", "additive", "headway.nn.mixers.additive:AdditiveAttention", "attention whose scores are a small network over query and key", "O(n²·d)", "Bahdanau 2015", names="Bahdanau attention, concat attention, MLP attention, Neural Machine Translation by Jointly Learning to Align and Translate"),
    Entry("mixer", "general", "headway.nn.mixers.general:GeneralAttention", "attention whose queries are the input itself: x · Wy", "O(n²)", "Luong 2015", names="Luong attention, multiplicative attention, bilinear attention, Effective Approaches to Attention-based Neural Machine Translation"),
    Entry("mixer", "location", "headway.nn.mixers.location:LocationAttention", "the query alone scores up to `max_positions` positions", "O(n²)", "Luong 2015", names="location-based attention, Effective Approaches to Attention-based Neural Machine Translation"),
    Entry("mixer", "luong_local", "headway.nn.mixers.luong_local:LuongLocalAttention", "attention to a window around a centre that the query predicts", "O(n²)", "Luong 2015", names="local attention, local-p, local-m, predictive alignment, Effective Approaches to Attention-based Neural Machine Translation"),
    Entry("mixer", "unlimiformer", "headway.nn.mixers.unlimiformer:Unlimiformer", "attention to the `top_k` best keys alone, of a source of any length", "O(n²)", "Bertsch 2023", names="retrieval attention, top-k attention, Unlimiformer: Long-Range Transformers with Unlimited Length Input"),
    Entry("mixer", "hard_attention", "headway.nn.mixers.hard_attention:HardAttention", "each query attends to one key alone; straight-through gradients", "O(n²)", "Xu 2015", names="stochastic attention, straight-through, Gumbel attention, Show Attend and Tell: Neural Image Caption Generation with Visual Attention"),
    Entry("mixer", "rnn", "headway.nn.mixers.rnn:RNN", "a GRU or an LSTM, in both directions in an encoder", "O(n), token by token", "Cho 2014; Hochreiter 1997", names="GRU, LSTM, BiLSTM, recurrent neural network, seq2seq, Long Short-Term Memory, Learning Phrase Representations using RNN Encoder-Decoder"),
    Entry("mixer", "convolution", "headway.nn.mixers.convolution:GatedConvolution", "a gated convolution over `width` neighbours", "O(n·width)", "Gehring 2017", names="ConvS2S, GLU convolution, CNN, Convolutional Sequence to Sequence Learning"),
    Entry("mixer", "retention", "headway.nn.mixers.retention:Retention", "no softmax: the past decays, and is kept as one matrix a head", "O(n)", "Sun 2023; Sun 2024", names="RetNet, gated retention, gRet, Retentive Network: A Successor to Transformer for Large Language Models, You Only Cache Once: Decoder-Decoder Architectures for Language Models"),
    Entry("mixer", "linear_attention", "headway.nn.mixers.linear_attention:LinearAttention", "a feature map in place of the softmax: keys and values are summed once", "O(n)", "Katharopoulos 2020", names="linear transformer, kernel attention, elu feature map, Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention"),
    Entry("mixer", "performer", "headway.nn.mixers.performer:Performer", "linear attention by random features that approximate the softmax", "O(n)", "Choromanski 2021", names="FAVOR+, FAVOR, positive orthogonal random features, Rethinking Attention with Performers"),
    Entry("mixer", "mamba", "headway.nn.mixers.mamba:Mamba", "a state space model whose step, input and readout depend on the token", "O(n)", "Gu 2023", names="S6, S4, SSM, selective state space model, structured state space, Mamba: Linear-Time Sequence Modeling with Selective State Spaces"),
    Entry("mixer", "mingru", "headway.nn.mixers.mingru:MinGRU", "a recurrent unit that is trained by a scan; its gate sees one token", "O(n)", "Feng 2024", names="minGRU, Were RNNs All We Needed?"),
    Entry("mixer", "ssru", "headway.nn.mixers.ssru:SSRU", "a forgetting average in every channel, then a ReLU; the decoder of Firefox's translators", "O(n)", "Kim 2019", names="Simpler Simple Recurrent Unit, SRU, Marian student, bergamot, tiny11, From Research to Production and Back: Ludicrously Fast Neural Machine Translation"),
    Entry("mixer", "longnet", "headway.nn.mixers.longnet:LongNet", "dilated attention: segments of several lengths, of which every r-th token attends", "O(n)", "Ding 2023", names="dilated attention, LongNet: Scaling Transformers to 1,000,000,000 Tokens"),
    Entry("mixer", "lsra", "headway.nn.mixers.lsra:LongShortRangeAttention", "attention over half of the channels, a short convolution over the others", "O(n²)", "Wu 2020; Wu 2019", names="Lite Transformer, Long-Short Range Attention, lightweight convolution, dynamic convolution, DynamicConv, LightConv, Pay Less Attention with Lightweight and Dynamic Convolutions"),
    Entry("mixer", "gau", "headway.nn.mixers.gau:GatedAttentionUnit", "attention without softmax inside a gated linear unit; replaces the feed-forward too", "O(n²)", "Hua 2022", names="Gated Attention Unit, FLASH, Transformer Quality in Linear Time, squared ReLU attention, relu²"),
    Entry("mixer", "crate", "headway.nn.mixers.crate:SubspaceAttention", "attention whose queries, keys and values are one projection", "O(n²)", "Yu 2023", names="CRATE, MSSA, multi-head subspace self-attention, White-Box Transformers via Sparse Rate Reduction"),
    Entry("mixer", "dcmha", "headway.nn.mixers.dcmha:ComposedAttention", "attention whose heads are composed anew for every pair of tokens", "O(n²)", "Xiao 2024", names="DCFormer, dynamically composable multi-head attention, Improving Transformers with Dynamically Composable Multi-Head Attention"),
    Entry("mixer", "rwkv4", "headway.nn.mixers.rwkv4:RWKV4", "RWKV-4's time mixing: a decaying average of values in every channel", "O(n)", "Peng 2023", names="RWKV, RWKV-4, RWKV v4, Dove, Raven, time mixing, WKV, RWKV: Reinventing RNNs for the Transformer Era"),
    Entry("mixer", "rwkv7", "headway.nn.mixers.rwkv7:RWKV7", "RWKV-7's time mixing: a matrix a head, in which each token corrects one value", "O(n)", "Peng 2025", names="RWKV, RWKV-7, RWKV v7, Goose, time mixing, delta rule, RWKV-7 Goose with Expressive Dynamic State Evolution"),
    Entry("mixer", "infini", "headway.nn.mixers.infini:InfiniAttention", "attention within segments, and a compressive memory of all earlier ones", "O(n·segment)", "Munkhdalai 2024", names="Infini-attention, infini-transformer, Leave No Context Behind: Efficient Infinite Context Transformers with Infini-attention, compressive memory"),
    Entry("mixer", "linformer", "headway.nn.mixers.linformer:Linformer", "attention to a fixed number of keys, each a learned mixture of all tokens; encoders only", "O(n)", "Wang 2020", names="low-rank attention, Linformer: Self-Attention with Linear Complexity"),
    Entry("mixer", "ttt", "headway.nn.mixers.ttt:TTT", "the state is a small model that learns from the text, token by token", "O(n)", "Sun 2024", names="TTT-Linear, TTT-MLP, test-time training, Learning to (Learn at Test Time): RNNs with Expressive Hidden States"),
    Entry("mixer", "reformer", "headway.nn.mixers.reformer:Reformer", "attention among tokens that are hashed alike; encoders only", "O(n log n)", "Kitaev 2020", names="LSH attention, locality-sensitive hashing, Reformer: The Efficient Transformer"),
    Entry("mixer", "clustered", "headway.nn.mixers.clustered:ClusteredAttention", "similar queries attend as one, each by itself to the keys that matter; encoders only", "O(n)", "Vyas 2020", names="clustered attention, improved clustered attention, Fast Transformers with Clustered Attention"),
    # each position by itself
    Entry("feedforward", "relu", "headway.nn.layers.feedforward:FeedForward", "max(0, xW₁ + b₁)W₂ + b₂", "O(n)", "Vaswani 2017", names="FFN, MLP, position-wise feed-forward, rectified linear unit, Attention Is All You Need"),
    Entry("feedforward", "gelu", "headway.nn.layers.feedforward:FeedForward", "the same with GELU", "O(n)", "Hendrycks 2016", names="Gaussian error linear unit, Gaussian Error Linear Units (GELUs), BERT's activation"),
    Entry("feedforward", "gelu_tanh", "headway.nn.layers.feedforward:FeedForward", "GELU by its tanh formula, as GPT-2", "O(n)", "Hendrycks 2016", names="gelu_new, approximate GELU, GPT-2's activation, Gaussian Error Linear Units (GELUs)"),
    Entry("feedforward", "silu", "headway.nn.layers.feedforward:FeedForward", "the same with SiLU (swish)", "O(n)", "Ramachandran 2017", names="swish, sigmoid linear unit, Searching for Activation Functions"),
    Entry("feedforward", "swiglu", "headway.nn.layers.feedforward:GatedFeedForward", "(silu(xW) ⊙ xV)W₂", "O(n)", "Shazeer 2020", names="GLU, gated linear unit, Llama's feed-forward, GLU Variants Improve Transformer"),
    Entry("feedforward", "geglu", "headway.nn.layers.feedforward:GatedFeedForward", "(gelu(xW) ⊙ xV)W₂", "O(n)", "Shazeer 2020", names="gated GELU, GLU, gated linear unit, GLU Variants Improve Transformer"),
    Entry("feedforward", "geglu_tanh", "headway.nn.layers.feedforward:GatedFeedForward", "the same with GELU's tanh formula, as T5 1.1 and Gemma", "O(n)", "Shazeer 2020; Raffel 2020", names="gated-gelu, T5 v1.1, mT5, MADLAD, Gemma's feed-forward, GLU Variants Improve Transformer"),
    Entry("feedforward", "reglu_squared", "headway.nn.layers.feedforward:GatedFeedForward", "(relu(xW)² ⊙ xV)W₂", "O(n)", "Ma 2025", names="relu2, squared ReLU, BitNet's feed-forward, BitNet b1.58 2B4T Technical Report"),
    Entry("feedforward", "moe", "headway.nn.layers.moe:MixtureOfExperts", "several feed-forwards, of which each token uses `top_k`", "O(n)", "Shazeer 2017; Fedus 2022; Jiang 2024", names="MoE, mixture of experts, sparse experts, Switch Transformer, Mixtral, Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer, Switch Transformers: Scaling to Trillion Parameter Models with Simple and Efficient Sparsity, Mixtral of Experts"),
    Entry("feedforward", "kan", "headway.nn.layers.kan:KAN", "a learned spline on every connection, in place of activations", "O(n)", "Liu 2024", names="Kolmogorov-Arnold network, Kolmogorov-Arnold Networks, B-splines, efficient-kan"),
    Entry("feedforward", "ista", "headway.nn.layers.ista:ISTA", "a step towards a sparse code, by one dictionary", "O(n)", "Yu 2023", names="CRATE, sparse coding, iterative shrinkage-thresholding, White-Box Transformers via Sparse Rate Reduction"),
    Entry("feedforward", "rwkv_channel_mix", "headway.nn.layers.rwkv_channel_mix:RWKVChannelMix", "RWKV's channel mixing: relu² of each token mixed with the one before", "O(n)", "Peng 2023; Peng 2025", names="RWKV, channel mixing, channel mix, token shift, squared relu"),
    Entry("feedforward", "none", "headway.nn.layers.feedforward:NoFeedForward", "no feed-forward: the layer is its mixer alone", "0", names="attention only, no MLP"),
    # residual connections, norms and linear layers
    Entry("residual", "post", "headway.nn.layers.residual:PostNorm", "norm(x + f(x))", "", "Vaswani 2017", names="post-norm, post-LN, Attention Is All You Need"),
    Entry("residual", "pre", "headway.nn.layers.residual:PreNorm", "x + f(norm(x)), one more norm at the end", "", "Xiong 2020", names="pre-norm, pre-LN, On Layer Normalization in the Transformer Architecture"),
    Entry("residual", "deepnorm", "headway.nn.layers.residual:DeepNorm", "norm(α·x + f(x)), α and the first weights by depth", "", "Wang 2022", names="DeepNet, DeepNet: Scaling Transformers to 1000 Layers"),
    Entry("residual", "residual_dual", "headway.nn.layers.residual:ResiDual", "post, and a second stream without norms; their sum at the end (ResiDual)", "", "Xie 2023", names="ResiDual, dual residual connections, ResiDual: Transformer with Dual Residual Connections"),
    Entry("residual", "crate", "headway.nn.layers.residual:CrateResidual", "pre, but feed-forwards continue from the normed stream", "", "Yu 2023", names="CRATE, residual from the norm"),
    Entry("norm", "layernorm", "headway.nn.layers.norms:LayerNorm", "centred and scaled, with gain and bias", "", "Ba 2016", names="layer normalization, LN"),
    Entry("norm", "rmsnorm", "headway.nn.layers.norms:RMSNorm", "scaled by the root mean square, with gain", "", "Zhang 2019", names="root mean square layer normalization, Llama's norm"),
    Entry("norm", "batchnorm", "headway.nn.layers.stream_norms:BatchNorm", "each channel over the batch; in evaluation by running averages", "", "Ioffe 2015", names="batch normalization, BN, BatchNorm1d"),
    Entry("norm", "instancenorm", "headway.nn.layers.stream_norms:InstanceNorm", "each channel over its text: for encoders alone", "", "Ulyanov 2016", names="instance normalization, IN, InstanceNorm1d, contrast normalization"),
    Entry("norm", "groupnorm", "headway.nn.layers.stream_norms:GroupNorm", "groups of channels of each token", "", "Wu 2018", names="group normalization, GN"),
    Entry("norm", "none", "headway.nn.layers.norms:NoNorm", "no normalisation", names="no norm"),
    Entry("linear", "dense", "headway.nn.layers.linear:Dense", "xWᵀ + b", names="linear layer, fully connected, nn.Linear"),
    Entry("linear", "bitnet", "headway.nn.layers.bitlinear:BitLinear", "ternary weights (-1, 0, 1) and int8 inputs", "", "Ma 2024; Wang 2023", names="BitNet b1.58, BitLinear, 1-bit LLM, ternary weights, quantisation-aware training, QAT, The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits, BitNet: Scaling 1-bit Transformers for Large Language Models"),
    # learned vectors beside the text
    Entry("memory_tokens", "prefix", "headway.nn.memory_tokens:MemoryTokens", "learned vectors before the text, which all its tokens attend to", "O(n²)", "Burtsev 2020", names="Memory Transformer, MemTransformer, registers, prefix tokens"),
    Entry("memory_tokens", "recurrent", "headway.nn.memory_tokens:RecurrentMemory", "before and after each segment: what is written after one is read before the next", "O(n·segment)", "Bulatov 2022", names="RMT, Recurrent Memory Transformer, memory tokens"),
    # what a decoder looks up
    Entry("retrieval", "retro", "headway.nn.retro:Retro", "each chunk attends to neighbours of the chunk before, retrieved from an index", "O(n)", "Borgeaud 2022", names="RETRO, retrieval-enhanced Transformer, chunked cross-attention, nearest neighbours, Improving language models by retrieving from trillions of tokens"),
    # what a stack reads
    Entry("frontend", "tokens", "headway.nn.frontends.frontend:TokenFrontEnd", "ids of text, each with its vector", "O(n)", names="token embedding, words, subwords"),
    Entry("frontend", "patches", "headway.nn.frontends.patches:Patches", "pictures as patches, with positions of rows and columns", "O(n)", "Dosovitskiy 2021", names="ViT, Vision Transformer, patch embedding, image patches, class token, An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale"),
    Entry("frontend", "mel", "headway.nn.frontends.mel:Mel", "sound as log-mel frames, through two convolutions", "O(n)", "Radford 2022", names="Whisper, log-mel spectrogram, audio, speech, convolutional stem, Robust Speech Recognition via Large-Scale Weak Supervision"),
    # graphs beside the text
    Entry("reasoner", "mpnn", "headway.nn.reasoner:MessagePassingReasoner", "messages between the nodes of a graph, whose states decoder layers listen to", "O(nodes²) a round", "Bounsi 2024; Ibarz 2022", names="TransNAR, NAR, neural algorithmic reasoner, neural algorithmic reasoning, MPNN, Triplet-GMPNN, graph neural network, GNN, PGN, gated cross-attention, Transformers meet Neural Algorithmic Reasoners, A Generalist Neural Algorithmic Learner"),
    Entry("reasoner", "none", "headway.nn.reasoner:NoReasoner", "text alone", "0", names="no graph"),
    # rotary positions for longer texts
    Entry("rope_scaling", "linear", "headway.nn.positions.rope_scaling:LinearScaling", "all rates of rotation divided by `factor`", "", "Chen 2023", names="position interpolation, PI, Extending Context Window of Large Language Models via Positional Interpolation"),
    Entry("rope_scaling", "llama3", "headway.nn.positions.rope_scaling:Llama3Scaling", "slow rates divided by `factor`, fast ones kept", "", "Grattafiori 2024", names="Llama 3 rope scaling, NTK by parts, The Llama 3 Herd of Models"),
    Entry("rope_scaling", "yarn", "headway.nn.positions.rope_scaling:YarnScaling", "the same by the number of the channel, with longer queries and keys", "", "Peng 2023", names="YaRN, NTK by parts, YaRN: Efficient Context Window Extension of Large Language Models"),
    # outputs
    Entry("head", "logits", "headway.nn.layers.heads:LogitsHead", "one score for each token of the vocabulary", names="LM head, output projection, softmax, unembedding"),
    Entry("head", "masked", "headway.nn.layers.heads:MaskedLMHead", "the same after a transform, as BERT's masked language model", "", "Devlin 2019", names="MLM head, BERT, BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"),
    Entry("head", "pooled", "headway.nn.layers.heads:PooledHead", "one vector for the text, and class scores", "", "Devlin 2019", names="CLS, pooler, classification, classifier, BERT, BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"),
    Entry("head", "tags", "headway.nn.layers.heads:TagHead", "class scores for every token", "", "Devlin 2019", names="token classification, sequence labelling, tagging, NER, named entity recognition, part of speech"),
    Entry("head", "embedding", "headway.nn.layers.heads:EmbeddingHead", "one vector for the text: the mean of its tokens, or the first", "", "Reimers 2019", names="sentence embedding, sentence-transformers, SBERT, pooling, Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks"),
    # training
    Entry("objective", "translation", "headway.train.objectives:TranslationObjective", "the target, given the source", names="seq2seq, sequence to sequence, machine translation, NMT"),
    Entry("objective", "causal", "headway.train.objectives:CausalObjective", "the next token, given those before", "", "Radford 2018", names="CLM, causal language model, next token prediction, autoregressive, GPT, Improving Language Understanding by Generative Pre-Training"),
    Entry("objective", "permutation", "headway.train.permutation_objective:PermutationObjective", "tokens in a random order, each given those before it in that order", "", "Yang 2019", names="PLM, permutation language model, two-stream attention, partial prediction, XLNet, XLNet: Generalized Autoregressive Pretraining for Language Understanding"),
    Entry("objective", "masked", "headway.train.masked_objective:MaskedObjective", "hidden tokens, given those around; also next sentences", "", "Devlin 2019; Joshi 2020", names="MLM, masked language model, cloze, NSP, next sentence prediction, whole-word masking, span masking, SpanBERT, SpanBERT: Improving Pre-training by Representing and Predicting Spans, BERT, BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"),
    Entry("objective", "classify", "headway.train.task_objectives:ClassifyObjective", "the label of a text", "", "Devlin 2019", names="text classification, sentiment, language identification, topic, sequence classification"),
    Entry("objective", "tag", "headway.train.task_objectives:TagObjective", "the tag of every word", "", "Devlin 2019", names="token classification, sequence labelling, NER, named entity recognition, part of speech, POS"),
    Entry("objective", "match", "headway.train.task_objectives:MatchObjective", "the label or the score of two texts, read together", "", "Devlin 2019", names="cross-encoder, sentence pair classification, natural language inference, NLI, paraphrase, STS, reranking"),
    Entry("objective", "embed", "headway.train.task_objectives:EmbedObjective", "vectors that are alike for texts that belong together, and for no others in the batch", "", "Henderson 2017; Reimers 2019", names="contrastive, InfoNCE, in-batch negatives, bi-encoder, sentence embeddings, MultipleNegativesRankingLoss, SimCSE, CLIP loss, Efficient Natural Language Response Suggestion for Smart Reply"),
    Entry("objective", "solve", "headway.train.solve_objective:SolveObjective", "the answer to a problem, and with a reasoner what is to be said of the nodes of its graph", "", "Bounsi 2024", names="TransNAR, CLRS, CLRS-Text, algorithmic reasoning, The CLRS-Text Algorithmic Reasoning Language Benchmark"),
    Entry("objective", "span_corruption", "headway.train.denoising:SpanCorruptionObjective", "the spans of a text that are missing", "", "Raffel 2020", names="T5, text-to-text, sentinel tokens, span masking, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer"),
    Entry("objective", "denoising", "headway.train.denoising:DenoisingObjective", "a text whose spans are masked and whose lines are shuffled", "", "Lewis 2020", names="BART, mBART, text infilling, sentence permutation, token deletion, denoising autoencoder, Denoising Sequence-to-Sequence Pre-training for Natural Language Generation"),
    Entry("objective", "masked_target", "headway.train.masked_targets:MaskedTargetObjective", "masked tokens of the target, given the source and the others", "", "Ghazvininejad 2019", names="CMLM, conditional masked language model, non-autoregressive translation, NAT, Mask-Predict: Parallel Decoding of Conditional Masked Language Models"),
    Entry("search", "beam", "headway.config.search_methods:BeamMethod", "token after token: beam search, greedy search, sampling", "n steps", names="autoregressive, left to right, greedy"),
    Entry("search", "mask_predict", "headway.config.search_methods:MaskPredictMethod", "all tokens at once, the least certain ones again and again", "`iterations` steps", "Ghazvininejad 2019", names="non-autoregressive, NAT, iterative refinement, CMLM, Mask-Predict: Parallel Decoding of Conditional Masked Language Models"),
    Entry("alignment", "none", "headway.train.guided_alignment:NoAlignment", "attention is not guided", names="unsupervised attention"),
    Entry("alignment", "guided", "headway.train.guided_alignment:GuidedAlignment", "one head learns the word alignment", "", "Chen 2016; Garg 2019", names="guided alignment, word alignment, Guided Alignment Training for Topic-Aware Neural Machine Translation, Jointly Learning to Align and Translate with Transformer Models"),
    Entry("shortlist", "none", "headway.train.shortlist:NoShortlist", "every step scores the whole vocabulary", names="full vocabulary, full softmax"),
    Entry("shortlist", "lexical", "headway.train.shortlist:LexicalShortlist", "likely translations of the source tokens, and frequent tokens", "", "Jean 2015; L'Hostis 2016", names="vocabulary selection, vocabulary reduction, On Using Very Large Target Vocabulary for Neural Machine Translation, Vocabulary Selection Strategies for Neural Machine Translation"),
    Entry("shortlist", "frequent", "headway.train.shortlist:FrequentShortlist", "only the most frequent tokens, for every sentence", names="vocabulary selection, top-k vocabulary"),
    Entry("augmentation", "none", "headway.train.augmentation:NoAugmentation", "everything as it is", names="no augmentation"),
    Entry("augmentation", "pictures", "headway.train.augmentation:PictureAugmentation", "pictures cut, mirrored, turned and coloured by chance", "", "Krizhevsky 2012; Szegedy 2015", names="random resized crop, RandomResizedCrop, horizontal flip, colour jitter, ColorJitter, data augmentation, ImageNet Classification with Deep Convolutional Neural Networks, Going Deeper with Convolutions"),
    Entry("optimiser", "adam", "headway.train.optimisers:AdamOptimiser", "Adam as in the paper: β 0.9, 0.98, ε 1e-9", "", "Kingma 2015", names="Adam: A Method for Stochastic Optimization"),
    Entry("optimiser", "adamw", "headway.train.optimisers:AdamWOptimiser", "Adam with decoupled weight decay", "", "Loshchilov 2019", names="decoupled weight decay, Decoupled Weight Decay Regularization"),
    Entry("optimiser", "sgd", "headway.train.optimisers:SGDOptimiser", "plain gradient descent", names="stochastic gradient descent"),
    Entry("optimiser", "momentum", "headway.train.optimisers:MomentumOptimiser", "gradient descent with momentum", names="heavy ball, SGD with momentum, Nesterov"),
    Entry("optimiser", "adagrad", "headway.train.optimisers:AdaGradOptimiser", "rates shrink with each weight's past gradients", "", "Duchi 2011", names="AdaGrad, Adaptive Subgradient Methods for Online Learning and Stochastic Optimization"),
    Entry("optimiser", "rmsprop", "headway.train.optimisers:RMSPropOptimiser", "rates by a running mean of squared gradients", "", "Hinton 2012", names="RMSProp, Neural Networks for Machine Learning: lecture 6"),
    Entry("optimiser", "muon", "headway.train.optimisers:MuonOptimiser", "orthogonalised momentum for matrices, AdamW for the rest", "", "Jordan 2024", names="Newton-Schulz, MomentUm Orthogonalized by Newton-Schulz, Muon: An optimizer for hidden layers in neural networks"),
    Entry("schedule", "noam", "headway.train.schedules:NoamSchedule", "d^-½ · min(step^-½, step · warmup^-1½)", "", "Vaswani 2017", names="Noam learning rate, warm-up, warmup, Attention Is All You Need"),
    Entry("schedule", "inverse_sqrt", "headway.train.schedules:InverseSqrtSchedule", "the same shape with a peak that you set", names="inverse square root, rsqrt, warm-up, warmup, fairseq"),
    Entry("schedule", "cosine", "headway.train.schedules:CosineSchedule", "warm-up, then half a cosine to `floor`", "", "Loshchilov 2017", names="cosine annealing, cosine decay, warm-up, warmup, SGDR: Stochastic Gradient Descent with Warm Restarts"),
    Entry("schedule", "linear", "headway.train.schedules:LinearSchedule", "warm-up, then a straight line to `floor`", names="linear decay, warm-up, warmup"),
    Entry("schedule", "constant", "headway.train.schedules:ConstantSchedule", "warm-up, then a constant rate", names="constant learning rate, fixed learning rate, warm-up, warmup"),
    # tokenizers
    Entry("tokenizer", "bpe", "headway.text.tokenizer.tokenizer:Bpe", "merged byte pairs", "", "Sennrich 2016", names="BPE, byte pair encoding, subwords, Neural Machine Translation of Rare Words with Subword Units"),
    Entry("tokenizer", "unigram", "headway.text.tokenizer.tokenizer:Unigram", "the most likely split into pieces", "", "Kudo 2018", names="SentencePiece, unigram language model, subword regularisation, Subword Regularization: Improving Neural Network Translation Models with Multiple Subword Candidates"),
    Entry("tokenizer", "bytes", "headway.text.tokenizer.tokenizer:Bytes", "one token a byte", names="byte-level, UTF-8, ByT5"),
    Entry("tokenizer", "characters", "headway.text.tokenizer.tokenizer:Characters", "one token a character", names="character-level, code points, chars"),
    Entry("tokenizer", "wordpiece", "headway.text.tokenizer.tokenizer:WordPiece", "BERT's pieces; does not keep spacing", "", "Schuster 2012", names="WordPiece, BERT, Japanese and Korean Voice Search"),
    Entry("tokenizer", "imported", "headway.text.tokenizer.tokenizer:Imported", "that of an imported model, with its ids", names="sentencepiece, tokenizer.json, Hugging Face"),
)  # fmt: skip


def slots() -> list[str]:
    return list(dict.fromkeys(entry.slot for entry in CATALOGUE))


def kinds(slot: str) -> list[str]:
    return [entry.kind for entry in CATALOGUE if entry.slot == slot]


def find_entry(slot: str, kind: str) -> Entry:
    """The entry of a kind. Raises ConfigError with a suggestion if there is none."""
    for entry in CATALOGUE:
        if (entry.slot, entry.kind) == (slot, kind):
            return entry
    allowed = kinds(slot)
    hint = did_you_mean(kind, allowed)
    if not hint and (named := [entry.kind for entry in search(kind) if entry.slot == slot]):
        hint = f' Did you mean "{named[0]}"?'
    raise ConfigError(f'"{kind}" is not a kind of {slot}.{hint} Choose one of: {", ".join(allowed)}.')


def search(text: str, others: Sequence[Entry] = ()) -> list[Entry]:
    """The entries with these words, the best first: in the kind or one of the other names, in the reference, in the
    line. Case, accents and punctuation are ignored, and a word may be cut short. `others`: of installed packages."""
    wanted = _words(text)
    found = [(rank, entry) for entry in (*CATALOGUE, *others) if (rank := _rank(entry, wanted)) is not None]
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def find_by_name(text: str) -> list[Entry]:
    """The entries of which this is the kind or one of the other names, whatever its case and punctuation."""
    return [entry for entry in CATALOGUE if _rank(entry, _words(text)) == 0]


def all_names(entry: Entry) -> list[str]:
    """The kind, and what else it is called."""
    return [entry.kind, *filter(None, entry.names.split(", "))]


def _rank(entry: Entry, wanted: list[str]) -> int | None:
    """How well an entry matches, 0 best; None: not at all."""
    names = [_words(name) for name in all_names(entry)]
    others = [_words(field) for field in (entry.reference, entry.line, entry.slot)]
    joined = "".join(wanted)
    if not joined:
        return None
    if any("".join(name) == joined for name in names):
        return 0
    for rank, fields in ((1, names), (2, others)):
        if any("".join(field[start:]).startswith(joined) for field in fields for start in range(len(field))):
            return rank
    every = [word for field in (*names, *others) for word in field]
    return 3 if all(any(word.startswith(part) for word in every) for part in wanted) else None


def _words(text: str) -> list[str]:
    """Without case, accents, punctuation, a plural's -s, and the difference between -ise and -ize."""
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)*", plain.replace("iz", "is"))
    return [re.sub(r"(?<=\w\w[^s])s$", "", word) for word in words]
