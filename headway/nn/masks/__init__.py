"""Attention masks: which keys each query may attend to.

masks.py       Mask: a composable rule over positions, with full, causal, local (sliding window), & and |
               BoundMask: a mask applied to the positions of one batch, as a dense tensor, as a bias,
               as intervals of keys (varlen attention) or as FlexAttention's BlockMask
sparse.py      masks for long texts: strided, atrous, fixed, Longformer, BigBird, segments
texts.py       prefix, document
block_plan.py  which blocks of keys each block of queries needs: what ops.block_attention computes

config "causal & local(256)"  ── make_mask ──►  Mask  ── Context.bound_mask ──►  BoundMask  ──►  ops.attention
"""
