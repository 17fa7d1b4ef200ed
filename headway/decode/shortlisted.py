"""A model that may say only what its shortlist names for a source. This is the specification: a faster search computes
fewer rows of the output layer, and finds the same."""

from typing import Any, Generic

import torch
from torch import Tensor

from headway.decode.stepper import S, Stepper
from headway.errors import HeadwayError
from headway.text.shortlist import Shortlist


class Listed(Generic[S]):
    """What a model remembers of N hypotheses, and what each may say."""

    def __init__(self, inner: S, allowed: Tensor) -> None:
        self.inner = inner
        self.allowed = allowed  # (N, V)

    def select(self, rows: Tensor) -> None:
        self.inner.select(rows)
        self.allowed = self.allowed[rows]


class Shortlisted(Generic[S]):
    """Each row has the candidates of its own source, whatever its neighbours have."""

    def __init__(self, stepper: Stepper[S], shortlist: Shortlist) -> None:
        self.stepper = stepper
        self.shortlist = shortlist
        self.vocabulary = stepper.vocabulary
        self.device = stepper.device

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> Listed[S]:
        assert source is not None
        real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
        ids, kept = source.cpu().numpy(), real.cpu().numpy()
        allowed = self.shortlist.mask([row[keep] for row, keep in zip(ids, kept)])
        return Listed(self.stepper.start(source, valid, rows), torch.from_numpy(allowed).to(self.device))

    def step(self, state: Listed[S], ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """log_softmax of the logits that are allowed. That of all of them, less a number that each of a row has in
        common, will do for logits; so models that vote do so before."""
        logps = self.stepper.step(state.inner, ids, valid)
        return logps.masked_fill(~state.allowed, -torch.inf).log_softmax(-1)


def shortlisted(stepper: Any, source: Tensor | None) -> Any:
    """The same model with its shortlist; refused where there is none, or nothing to ask it about."""
    if source is None:
        raise HeadwayError("a shortlist names words for a source, and a language model reads none. Search without it.")
    found = getattr(stepper, "shortlist", None)  # only models of ours have one
    if found is None:
        raise HeadwayError(
            "this model has no shortlist. Make one: headway shortlist --model DIR --source FILE --target FILE; or search "
            "without it."
        )
    if found.target_size != stepper.vocabulary:
        raise HeadwayError(
            f"the shortlist was made for {found.target_size} words, and the model has {stepper.vocabulary}. Make it anew: "
            "headway shortlist"
        )
    return Shortlisted(stepper, found)
