"""generation_config.json: our search in the terms of transformers' `generate`."""

from headway.config.search import Search
from headway.convert.architecture import Json
from headway.convert.export.stored_model import StoredModel
from headway.decode.ctranslate2.backend import nearest_power
from headway.text.lm_text import line_end_id
from headway.text.tokenizer.special_tokens import special_tokens

USUAL_LENGTH = 30  # tokens of a sentence
MAX_TEXT_LENGTH = 200  # of what a language model writes, with the prompt


def make_generation_config(model: StoredModel, max_tokens: int) -> Json:
    """For translators their own beam; language models sample, as `headway generate` does."""
    tokens = special_tokens(model.tokenizers.target)
    config: Json = {
        "pad_token_id": tokens.pad,
        "eos_token_id": tokens.end,
        "forced_eos_token_id": tokens.end if model.config.search.force_end else None,
        "suppress_tokens": list(tokens.suppress),
    }
    if model.objective == "causal":
        start = line_end_id(model.tokenizers.target)
        length = min(MAX_TEXT_LENGTH, max_tokens)
        if others := getattr(model.tokenizers.target, "other_ends", ()):
            config["eos_token_id"] = [tokens.end, *others]
        return {**config, "bos_token_id": start, "do_sample": True, "top_k": 0, "max_length": length}
    search = model.config.search
    return {
        **config,
        "bos_token_id": tokens.start,
        "decoder_start_token_id": tokens.start,
        "num_beams": search.beam_size,
        "length_penalty": round(find_length_penalty(search), 4),
        "early_stopping": search.stopping == "count",  # when as many outputs have ended as the beam is wide
        "renormalize_logits": search.renormalise,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "max_new_tokens": search.max_length or max_tokens - 1,
    }


def find_length_penalty(search: Search) -> float:
    """The exponent of the length by which transformers ranks; 0: by log-probability alone."""
    if search.penalty == "none":
        return 0.0
    return nearest_power(search, USUAL_LENGTH) if search.alpha else 0.0


def describe_lost_search(model: StoredModel) -> tuple[str, ...]:
    """What of our search `generate` does not have, a sentence each."""
    search = model.config.search
    lost = []
    if search.penalty == "paper" and search.alpha and search.beam_size > 1:
        lost.append(
            f'the length penalty "paper" with alpha = {search.alpha}: transformers has powers of the length only, and '
            f"{find_length_penalty(search):.2f} is nearest for sentences"
        )
    if search.max_length is None:
        lost.append("the maximum length by that of the source: there is one for all")
    return tuple(lost)
