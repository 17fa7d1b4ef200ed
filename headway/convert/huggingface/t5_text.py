"""The text of T5 and its like: what stands before a source for each target language.

    MADLAD      <2de> A dog.                                  entries of its vocabulary
    T5          translate English to German: A dog.           tasks of its config.json: translation_en_to_de

They are found as the ids by which the original begins such a text, and checked: what follows must be the ids of the
text alone."""

import json
import re
from collections.abc import Callable, Mapping

from headway.convert.architecture import ConversionError, Json
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.tokenizer_files import read_model_text
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

TAG = re.compile(r"<2([a-z]{2,3}(?:_\w+)?)>")
TASK = re.compile(r"translation_([a-z]{2,3})_to_([a-z]{2,3})")
TRIED_TEXTS = ("a", "A dog runs.", "Привет, мир: 3 ☃")


def read_t5_text(folder: ModelFolder) -> ModelText:
    text = read_model_text(folder, "translation")
    tokenizer = text.tokenizers.target
    entries = map(tokenizer.spelling, range(tokenizer.size))
    prefixes = {f"-{match[1]}": match[0] for entry in entries if (match := TAG.fullmatch(entry))}
    prefixes = prefixes or read_tasks(folder.config)
    if not prefixes:
        return text
    data = tokenizer.to_json()
    encode = open_original(data, tokenizer)
    leads = {direction: find_lead(encode, prefix) for direction, prefix in prefixes.items()}
    prefixed = ImportedTokenizer({**data, "source_prefix": leads})
    sources, targets = (tuple(dict.fromkeys(direction.split("-")[n] for direction in leads)) for n in (0, 1))
    return ModelText(
        tokenizers=Tokenizers(prefixed, prefixed),
        source_languages=tuple(filter(None, sources)),
        target_languages=targets,
        lost=text.lost,
    )


def read_tasks(config: Json) -> dict[str, str]:
    """What stands before a text, by its direction: {"en-de": "translate English to German:"}."""
    tasks = config.get("task_specific_params")
    found = {}
    for name, task in tasks.items() if isinstance(tasks, Mapping) else ():
        prefix = task.get("prefix") if isinstance(task, Mapping) else None
        if (match := TASK.fullmatch(name)) and isinstance(prefix, str) and prefix.strip():
            found[f"{match[1]}-{match[2]}"] = prefix.strip()
    return found


def open_original(data: Json, tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    """As the original encodes a text: what is spelled like a control token is one, and no space comes before it."""
    if data["imported"] != "tokenizers":
        ids = {tokenizer.spelling(n): n for n in range(tokenizer.size)}
        return lambda text: _encode_after_tag(tokenizer, ids, text)
    import tokenizers

    library = tokenizers.Tokenizer.from_str(json.dumps(data["model"]))
    return lambda text: list(library.encode(text, add_special_tokens=False).ids)


def _encode_after_tag(tokenizer: Tokenizer, ids: Mapping[str, int], text: str) -> list[int]:
    tag, _, rest = text.partition(" ")
    return [ids[tag], *tokenizer.encode(rest)] if TAG.fullmatch(tag) else tokenizer.encode(text)


def find_lead(encode: Callable[[str], list[int]], prefix: str) -> list[int]:
    """The ids of a prefix, whatever the text after it is."""
    lead = encode(f"{prefix} {TRIED_TEXTS[0]}")[: -len(encode(TRIED_TEXTS[0]))]
    if not lead or any(encode(f"{prefix} {text}") != lead + encode(text) for text in TRIED_TEXTS):
        raise ConversionError(f"its tokenizer does not separate {prefix!r} from the text that follows it.")
    return lead
