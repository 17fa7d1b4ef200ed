"""Methods of search, as values of search.method. Needs no torch.

beam            token after token, from left to right: models that predict the next token
mask_predict    all tokens at once, again and again: models that were trained by the objective masked_target"""

from dataclasses import dataclass

from headway.config.schema import Part, number


class BeamMethod:
    """Beam search, greedy search and sampling: see Search."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "beam"


class MaskPredictMethod:
    """Conditional masked language models: see headway.decode.mask_predict."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "mask_predict"
        iterations: int = number(10, low=1, high=1000)  # of masking the least certain tokens and predicting them again
        length_beam: int = number(5, low=1, high=1000)  # lengths that are tried for each sentence, the likeliest first
