"""Which models can be traced: those whose layers run the same operations for every length, and keep nothing from token
to token but keys and values."""

from typing import Any

from headway.config.config import Config
from headway.nn.mixers.additive import AdditiveAttention
from headway.nn.mixers.attention import Attention
from headway.nn.mixers.general import GeneralAttention
from headway.nn.mixers.shared_kv import SharedKVAttention

# Mixers whose cache, if any, is a KV cache, and which attend in one product over all keys.
MIXERS = {mixer.Config().kind for mixer in (Attention, SharedKVAttention, AdditiveAttention, GeneralAttention)}
LINEARS = {"dense"}  # others round their inputs: a last bit more or less would change a whole step


def unsupported(config: Config) -> str:
    """The slot and the kind that cannot be traced; "" if everything can."""
    model: Any = config.model
    if model.head.kind == "pooled" and model.head.pooling != "first":
        return f"the head takes the {model.head.pooling} of all tokens, and a graph is not told which are padding."
    if model.reasoner is not None:
        return f'reasoner is "{model.reasoner.kind}": a graph is no input of what is exported.'
    for side in model.sides:
        stack = getattr(model, side)
        for slot in ("mixer", "cross"):
            for part in stack.tiled(slot):
                if part is not None and part.kind not in MIXERS:
                    return (
                        f'{side}.{slot} is "{part.kind}", which is no attention over keys and values: a graph would be '
                        "bound to one length."
                    )
        for part in stack.tiled("feedforward"):
            if getattr(part, "reads_previous", False):
                return f'{side}.feedforward is "{part.kind}", which keeps a state from token to token.'
        if stack.frontend is not None:
            return f'{side}.frontend is "{stack.frontend.kind}": a graph reads ids.'
        if stack.streams == 2:
            return f"{side}.streams is 2: a graph has one stream."
        if stack.memory_tokens is not None:
            return f'{side}.memory_tokens is "{stack.memory_tokens.kind}", which runs in segments.'
        if stack.retrieval is not None:
            return f'{side}.retrieval is "{stack.retrieval.kind}", and a graph is not told what was retrieved.'
    if model.linear.kind not in LINEARS:
        return f'linear is "{model.linear.kind}", whose rounding no graph repeats exactly.'
    return ""


def describe_lost(config: Config) -> tuple[str, ...]:
    """What a graph does not have, a sentence each."""
    if config.model.embedding.segments > 1:
        return ("segments: every token is of the first",)
    return ()
