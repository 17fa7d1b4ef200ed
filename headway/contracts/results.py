"""What a check says: nothing, if the contract is kept; a ContractError with what was expected and found, if not."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

Outcome = Literal["passed", "failed", "not applicable"]


class ContractError(AssertionError):
    """A contract is broken."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"expected {expected}, found {found}")


class NotApplicable(Exception):
    """A check has nothing to look at, with the reason."""


class CheckResult(NamedTuple):
    name: str
    outcome: Outcome
    details: str = ""  # what was expected and found, or why it does not apply


def require(kept: bool, expected: str, found: Any) -> None:
    if not kept:
        raise ContractError(expected, found)


def require_close(found: Tensor, expected: Tensor, near: float = 1e-12, relative: float = 0.0, what: str = "") -> None:
    """Equal within `near`, or `relative` of what is expected."""
    same_shape = found.shape == expected.shape
    if same_shape and torch.allclose(found, expected, rtol=relative, atol=near):
        return
    name = f"{what}: " if what else ""
    if not same_shape:
        raise ContractError(f"{name}the shape {tuple(expected.shape)}", tuple(found.shape))
    difference = float((found - expected).abs().max())
    raise ContractError(f"{name}the same numbers to {max(near, relative):.0e}", f"a difference of {difference:.3g}")
