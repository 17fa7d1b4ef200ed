"""generation_config.json: our search in the terms of transformers' `generate`."""

from headway.config.objective_kinds import continues_text
from headway.config.search import Search
from headway.convert.architecture import Json
from headway.convert.export.stored_model import StoredModel
from headway.decode.ctranslate2.backend import nearest_power
from headway.text.lm_text import line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.language_model import list_suppressed

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
    if continues_text(model.objective):
        config["suppress_tokens"] = sorted(list_suppressed(model.tokenizers.target)) or None
        start = line_end_id(model.tokenizers.target)
        length = min(MAX_TEXT_LENGTH, max_tokens)
        if others := getattr(model.tokenizers.target, "other_ends", ()):
            config["eos_token_id"] = [tokens.end, *others]
        return {**config, "bos_token_id": start, "do_sample": True, "top_k": 0, "max_length": length}
    search = model.config.search
    return {
        **config,
        "bos_token_id": find_bos(model.tokenizers.target),
        "forced_bos_token_id": find_forced_start(model.tokenizers.target),
        "decoder_start_token_id": tokens.start,
        "num_beams": search.beam_size,
        "length_penalty": round(find_length_penalty(search), 4),
        "early_stopping": search.stopping == "count",  # when as many outputs have ended as the beam is wide
        "renormalize_logits": search.renormalise,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "max_new_tokens": search.max_length or max_tokens - 1,
        **({"min_length": search.min_length + 1} if search.min_length else {}),
        **_describe_sampling(search),
    }


def _describe_sampling(search: Search) -> Json:
    if not search.sample:
        return {}
    return {"do_sample": True, "temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p}


def find_bos(tokenizer: Tokenizer) -> int:
    """The id of the beginning of a text: of an imported tokenizer what stands before every source (BART), or what the
    original called so, which may be another than the one that its decoder starts with."""
    if isinstance(tokenizer, ImportedTokenizer):
        if len(first := tokenizer.source_prefix.get("", ())) == 1:
            return int(first[0])
        named = tokenizer.original_config.get("bos_token")
        spelling = named.get("content") if isinstance(named, dict) else named
        found = [n for n in range(tokenizer.size) if tokenizer.spelling(n) == spelling]
        if found:
            return found[0]
    return int(tokenizer.start)


def find_forced_start(tokenizer: Tokenizer) -> int | None:
    """The token that every output begins with: one for all, or that of the only language that it writes."""
    prefixes = [list(ids) for ids in tokenizer.target_prefix.values()]
    return prefixes[0][0] if len(prefixes) == 1 and len(prefixes[0]) == 1 else None


def describe_tasks(tokenizer: Tokenizer) -> Json:
    """T5's: what stands before a text, for each direction, as its config.json says it."""
    tasks = {}
    for direction, ids in tokenizer.source_prefix.items():
        source, _, target = direction.partition("-")
        if source and target:
            tasks[f"translation_{source}_to_{target}"] = {"prefix": f"{tokenizer.decode(ids).strip()} "}
    return tasks


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
