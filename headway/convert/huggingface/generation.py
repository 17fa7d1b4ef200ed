"""Search settings of generation_config.json, and what they have that Headway's search has not."""

from typing import Any

from headway.convert.architecture import ConversionError, Json

# Settings without a counterpart, with the value at which they do nothing.
WITHOUT_COUNTERPART: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (None, 1, 1.0),
    "encoder_repetition_penalty": (None, 1, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "num_beam_groups": (None, 1),
    "diversity_penalty": (None, 0, 0.0),
    "exponential_decay_length_penalty": (None,),
    "begin_suppress_tokens": (None, []),
    "sequence_bias": (None,),
    "min_p": (None, 0, 0.0),
    "typical_p": (None, 1, 1.0),
    "epsilon_cutoff": (None, 0, 0.0),
    "eta_cutoff": (None, 0, 0.0),
    "guidance_scale": (None, 1, 1.0),
    "penalty_alpha": (None, 0, 0.0),
    "dola_layers": (None,),
}


def read_search(generation: Json) -> tuple[Json, list[str]]:
    """The settings of Search for a translator, and what is lost. Their lengths count the start token, ours do not."""
    beams = _read_number(generation, "num_beams", 1, low=1)
    samples = generation.get("do_sample") is True
    search: Json = {"beam_size": 1 if samples else int(beams)}
    lost = [
        f"{name} = {generation[name]!r} of its generation config"
        for name, idle in WITHOUT_COUNTERPART.items()
        if name in generation and generation[name] not in idle
    ]
    if samples:
        for name, ours, idle in (("temperature", "temperature", 1.0), ("top_k", "top_k", 50), ("top_p", "top_p", 1.0)):
            search[ours] = type(idle)(_read_number(generation, name, idle, low=0))
        search["sample"] = True
        if beams > 1:
            lost.append(f"num_beams = {beams} while sampling: Headway samples without a beam")
    else:
        search |= {"penalty": "power", "alpha": float(_read_number(generation, "length_penalty", 1.0, low=-10.0))}
        if beams > 1 and generation.get("early_stopping") is not True:
            search["stopping"] = "score"
            if generation.get("early_stopping") not in (None, False):
                lost.append(f"early_stopping = {generation['early_stopping']!r}: it is read as false")
    if generation.get("renormalize_logits") is True and beams > 1:
        search["renormalise"] = True
    forced = generation.get("forced_eos_token_id")
    if forced is not None:
        search["force_end"] = forced == generation.get("eos_token_id")
        if not search["force_end"]:
            lost.append(f"forced_eos_token_id = {forced!r}: an output that reaches the maximum length is cut")
    if generation.get("max_new_tokens") or generation.get("max_length"):
        limit = _read_number(generation, "max_new_tokens", 0, low=0)
        search["max_length"] = int(limit or max(_read_number(generation, "max_length", 20, low=1) - 1, 1))
    if generation.get("min_length"):
        search["min_length"] = max(int(_read_number(generation, "min_length", 0, low=0)) - 1, 0)
    if generation.get("no_repeat_ngram_size"):
        search["no_repeat_ngram"] = int(_read_number(generation, "no_repeat_ngram_size", 0, low=0))
    return search, lost


def read_suppressed(generation: Json) -> tuple[list[int], list[str]]:
    """The ids that `generate` never produces, and what is lost: sequences of several."""
    suppressed = generation.get("suppress_tokens") or []
    bad_words = generation.get("bad_words_ids") or []
    if not isinstance(suppressed, list) or not all(isinstance(word, list) for word in bad_words):
        raise ConversionError("its generation_config.json is damaged: suppress_tokens or bad_words_ids are no lists.")
    ids = {*suppressed, *(word[0] for word in bad_words if len(word) == 1)}
    if not all(type(n) is int and n >= 0 for n in ids):
        raise ConversionError("its generation_config.json is damaged: suppressed ids must be positive integers.")
    sequences = sum(len(word) > 1 for word in bad_words)
    lost = [f"bad_words_ids of several tokens: {sequences} of {len(bad_words)}"] if sequences else []
    return sorted(ids), lost


def _read_number(table: Json, name: str, default: float, low: float) -> float:
    """A finite number; the default where there is none or it makes no sense."""
    value = table.get(name)
    sensible = isinstance(value, int | float) and not isinstance(value, bool) and low <= value < 2**31
    return value if sensible else default  # type: ignore[return-value]
