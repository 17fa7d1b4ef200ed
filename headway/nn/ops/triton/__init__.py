"""GPU kernels in Triton, for what PyTorch has no kernel for, or none that is fast enough. Each equals a form in plain
PyTorch. None is imported unless there is a GPU.

    varlen_attention.py  attention over packed texts       norms.py          layer norm, RMS norm, column sums
    beam_step.py         one step of a beam search         dropout.py        dropout + add, relu + dropout
    cross_entropy.py     loss and gradients of logits      hashing.py        random bits from a hash
    scan.py              linear recurrences
"""

import importlib.util

# At import time: asking for it inside a compiled function would break the graph.
HAS_TRITON = importlib.util.find_spec("triton") is not None
