"""Kernels written in Triton, for what PyTorch's own do not do or not fast enough. Each has a form in plain PyTorch that
it equals. None is imported unless there is a GPU."""

import importlib.util

# Known from the start: a compiler that has to ask would leave its graph for that.
HAS_TRITON = importlib.util.find_spec("triton") is not None
