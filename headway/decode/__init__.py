"""Decoding: source ids in, hypotheses (ids and scores) out. Searches that find the same, each with its folder.

    headway.translate                which engine: native, CTranslate2 or torch (translate/backends.py, probe)
       │
       ├─ native/ NativeEngine             int8 by our C kernels, without torch
       ├─ ctranslate2/ Ct2Engine           CTranslate2's own C++ beam search, without torch
       │
       └─ torch_backend.TorchEngine ── dispatch.decode ── request        the request, checked; one job for each row
                                          │
                ┌─────────────────────────┼─────────────────────────────┐
            cuda/ CUDA graphs, Triton   cpu/ int8 by native/,        reference/ any model, any setting:
                                          float32 in torch              the specification
                                          (+ shortlist)

    types        Hypothesis, BeamStep, Engine: what goes in and out                          (no torch)
    probe        which engine without torch can run a stored model                           (no torch)
    stored_config  config.json as plain JSON, checked                                        (no torch)
    request      SearchTask and its SearchJobs                                               (no torch)
    dispatch     decode, stream: which of the searches runs
    mask_predict all tokens at once, for models that were trained so
    batching     batches of similar lengths                                                  (no torch)
    padding      rows of ids as one padded tensor
    constraints  constrained decoding: phrases that an output must contain                   (no torch)
    banned_tokens  tokens that an output may not contain, as -inf in its log-probabilities
    shortlist    searching a part of the vocabulary
    lattice      hypotheses from the candidates of all steps; cuda/lattice on a GPU          (no torch)
    batch_pool   batches on several threads                                                  (no torch)
    forking      what is made anew in a forked process                                       (no torch)
    stop         ending searches from outside                                                (no torch)

The beam search stopping rule is stated once, in reference/beam_search.py.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.config.search import Search
    from headway.decode.dispatch import decode, stream
    from headway.decode.reference.model import Stepper, StepperState
    from headway.decode.types import BeamStep, Hypothesis, Recorder
    from headway.text.tokenizer.special_tokens import SpecialTokens

__all__ = [
    "BeamStep",
    "Hypothesis",
    "Recorder",
    "Search",
    "SpecialTokens",
    "Stepper",
    "StepperState",
    "decode",
    "stream",
]

_HOME = {
    "BeamStep": "headway.decode.types",
    "Hypothesis": "headway.decode.types",
    "Recorder": "headway.decode.types",
    "Search": "headway.config.search",
    "SpecialTokens": "headway.text.tokenizer.special_tokens",
    "Stepper": "headway.decode.reference.model",
    "StepperState": "headway.decode.reference.model",
    "decode": "headway.decode.dispatch",
    "stream": "headway.decode.dispatch",
}


def __getattr__(name: str) -> Any:
    """Import each name when it is first used: settings and results are needed without torch."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
