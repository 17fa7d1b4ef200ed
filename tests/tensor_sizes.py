"""How large the tensors become that a computation makes, on the way forth and back."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _LargestTensor(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            if isinstance(x, Tensor):
                self.numel = max(self.numel, x.numel())
        return result


def max_numel(run: Callable[[], Tensor]) -> int:
    """Numbers in the largest tensor that `run` and the backward pass of its result make."""
    with _LargestTensor() as largest:
        run().sum().backward()  # type: ignore[no-untyped-call]
    return largest.numel
