"""Kernels written in Triton, for what PyTorch's own do not do or not fast enough. Each has a form in plain PyTorch that
it equals. None is imported unless there is a GPU."""

import importlib.util

# Those that replace what PyTorch or its compiler would do as well, and were measured to be worth it: "between" (norms,
# dropout, biases in steps that are not compiled), "settle" (a step of decoding after its scores) and "begin", a graph of
# what a search does before its first step. Off are "attend" and "norm" (a step of decoding before its scores).
# benchmarks/train_gpu.py and benchmarks/decode_gpu.py take others with --kernels.
USED = {"between", "settle", "begin"}

# Known from the start: a compiler that has to ask would leave its graph for that.
HAS_TRITON = importlib.util.find_spec("triton") is not None
