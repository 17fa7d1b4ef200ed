"""Kernels written in Triton, for what PyTorch's own do not do or not fast enough. Each has a form in plain PyTorch that
it equals. Nothing here is imported unless there is a GPU."""
