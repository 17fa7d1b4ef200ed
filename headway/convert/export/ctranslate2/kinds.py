"""Which kinds CTranslate2 computes."""

from typing import Any

from headway.convert.architecture import Json

FEEDFORWARDS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "swiglu": "SWISH"}
# The settings of each kind, with the values that it may have; "any": all. What is not listed is refused.
KINDS: dict[str, dict[str, Any]] = {
    "position sinusoidal": dict.fromkeys(("base", "layout", "spacing", "first"), "any"),
    "position learned": {"max_positions": "any"},
    "position none": {},
    "position rope": {"base": "any", "layout": "any", "spacing": ("open",), "scaling": (None,)},
    "mask full": {},
    "mask causal": {},
    "mixer attention": {
        **dict.fromkeys(("heads", "groups", "d_k", "d_v", "bias", "scale", "output_bias", "qk_norm"), "any"),
        "output_norm": (None,),
    },
    **{f"feedforward {kind}": {"hidden": "any", "bias": "any"} for kind in FEEDFORWARDS},
    "residual pre": {},
    "residual post": {},
    "norm layernorm": {"eps": "any"},
    "norm rmsnorm": {"eps": "any"},
    "linear dense": {},
    "head logits": {"bias": "any", "scale": "any"},
}
SLOTS = {"position": "position", "mask": "mask", "mixer": "mixer", "cross": "mixer", "feedforward": "feedforward"}
MODEL_SETTINGS = {
    "d_model", "vocabulary", "source_vocabulary", "norm", "linear", "embedding", "encoder", "decoder", "head",
}  # fmt: skip


def find_unsupported_kind(table: Json) -> str:
    """The first part that it does not compute, of an expanded table; "" if there is none."""
    if more := sorted(table.keys() - MODEL_SETTINGS):
        return f"it has {more[0]}"
    for slot in ("norm", "linear", "head"):
        if reason := _check_part(slot, slot, table[slot]):
            return reason
    if table["head"].get("scale") not in (None, 1.0, table["d_model"] ** -0.5):
        return f"head has scale = {table['head']['scale']}"
    if table["embedding"]["segments"]:
        return f"embedding has segments = {table['embedding']['segments']}"
    if not table["decoder"]["layers"]:
        return "it has no decoder"
    for name in ("encoder", "decoder"):
        if table[name]["layers"] and (reason := _check_side(name, table[name], bool(table["encoder"]["layers"]))):
            return reason
    return ""


def _check_side(name: str, side: Json, is_translator: bool) -> str:
    for setting in ("distinct_layers", "memory_tokens", "retrieval", "streams", "frontend"):
        if side.get(setting):
            return f"{name} has {setting}"
    if reason := _check_part(f"{name}.residual", "residual", side["residual"]):
        return reason
    for slot, kind in SLOTS.items():
        for part in side.get(slot) or ():
            if reason := _check_part(f"{name}.{slot}", kind, part):
                return reason
    mixers = [*side["mixer"], *(side.get("cross") or ())]
    if any(part["kind"] != ("causal" if name == "decoder" else "full") for part in side["mask"]):
        return f'{name}.mask is "{side["mask"][0]["kind"]}"'
    if any(mixer["d_v"] != mixer["d_k"] for mixer in mixers):
        return f"{name}.mixer has d_v = {mixers[0]['d_v']} beside d_k = {mixers[0]['d_k']}"
    if is_translator and any(part["kind"] == "rope" for part in side["position"]):
        return f'{name}.position is "rope", which it has for language models alone'
    if any((mixer.get("qk_norm") or {"kind": "rmsnorm"})["kind"] != "rmsnorm" for mixer in mixers):
        return f'{name}.mixer has qk_norm = "{mixers[0]["qk_norm"]["kind"]}"'
    sizes = [(mixer["heads"], mixer["groups"], mixer["d_k"]) for mixer in mixers]
    for what, values in (("mixer", sizes), ("position", side["position"])):
        if any(value != values[0] for value in values):
            return f"{name}.{what} differs from layer to layer"
    if len({part["kind"] for part in side["feedforward"]}) > 1:
        return f"{name}.feedforward differs from layer to layer"
    return ""


def _check_part(where: str, slot: str, part: Json) -> str:
    known = KINDS.get(f"{slot} {part['kind']}")
    if known is None:
        return f'{where} is "{part["kind"]}"'
    for name, value in part.items():
        if name != "kind" and (name not in known or (known[name] != "any" and value not in known[name])):
            shown = value["kind"] if isinstance(value, dict) else value
            return f'{where} is "{part["kind"]}" with {name} = {shown!r}'
    return ""
