"""The card of an exported model: README.md, with licence, languages, and how to use it."""

from headway import __version__
from headway.config.objective_kinds import continues_text
from headway.convert.export.huggingface.proposals import ENDINGS, Family
from headway.convert.export.huggingface.sentence_modules import has_sentence_modules
from headway.convert.export.huggingface.sentencepiece_files import is_sentencepiece
from headway.convert.export.huggingface.tokenizer import spell_tag
from headway.convert.export.stored_model import StoredModel
from headway.storage.card import format_front_matter

EXAMPLE_TEXT = "The weather is nice today."


def format_card(model: StoredModel, family: Family, lost: tuple[str, ...]) -> str:
    config = model.config
    languages = list(dict.fromkeys([*config.source_languages, *config.target_languages]))
    front_matter = format_front_matter(languages, model.card.scores, model.card.licence)
    front_matter = front_matter.replace("---\n", "---\nlibrary_name: transformers\n", 1) or (
        "---\nlibrary_name: transformers\n---\n\n"
    )
    found = "\n".join(f"- {line}" for line in model.describe())
    parts = [
        f"{front_matter}# {model.name}",
        f"A model of Headway {__version__}, as a {family.name} model for transformers.",
        found,
        "## How to use it",
        _format_usage(model, family),
    ]
    if config.tags:
        tags = ", ".join(f"`{spell_tag(tag)}`" for tag in config.tags)
        parts.append(
            f"It translates into several languages: every source text begins with the tag of one of them, {tags}."
        )
    if has_two_folders(model):
        parts.append("The tokenizer of its outputs is another one, in the folder `target`.")
    parts += ["## What Headway has and this does not", "\n".join(f"- {line}" for line in lost) or "Nothing."]
    return "\n\n".join(parts) + "\n"


def has_two_folders(model: StoredModel) -> bool:
    """Whether the tokenizer of the outputs is in a folder of its own. Marian's reads and writes."""
    return not model.tokenizers.shared and not is_sentencepiece(model.tokenizers.target)


def find_model_class(model: StoredModel, family: Family) -> str:
    """The class of transformers that loads the model."""
    if model.objective != "masked":
        return family.auto_class
    return f"AutoModel{ENDINGS.get(model.config.model.head.kind, '')}"


def find_tokenizer_class(model: StoredModel, family: Family) -> str:
    """The class of transformers that loads its tokenizer."""
    return "AutoTokenizer" if model.tokenizers.target.kind == "imported" else family.tokenizer_class


def _format_usage(model: StoredModel, family: Family) -> str:
    loader, maker = find_tokenizer_class(model, family), find_model_class(model, family)
    lines = [
        "```python",
        f"from transformers import {maker}, {loader}",
        "",
        f'model = {maker}.from_pretrained("{model.name}")',
        f'tokenizer = {loader}.from_pretrained("{model.name}")',
    ]
    tags = model.config.tags
    text = f"{spell_tag(tags[0])} {EXAMPLE_TEXT}" if tags else EXAMPLE_TEXT
    if model.objective == "translation":
        reader = "tokenizer"
        if has_two_folders(model):
            reader = "target"
            lines.append(f'target = {loader}.from_pretrained("{model.name}", subfolder="target")')
        lines += [
            f'ids = tokenizer(["{text}"], return_tensors="pt", padding=True)',
            f"print({reader}.batch_decode(model.generate(**ids), skip_special_tokens=True))",
        ]
    elif continues_text(model.objective):
        alone = "" if model.objective == "causal" else ", return_token_type_ids=False"
        if alone and model.tokenizers.target.kind == "imported":  # it would put <sep><cls> behind the text
            alone += ", add_special_tokens=False"
        lines += [
            f'ids = tokenizer("Once", return_tensors="pt"{alone})',
            "print(tokenizer.decode(model.generate(**ids)[0], skip_special_tokens=True))",
        ]
    elif model.config.model.head.kind in ("pooled", "tags"):
        lines += [
            'ids = tokenizer("The weather is nice today.", return_tensors="pt")',
            "print(model(**ids).logits.softmax(-1), model.config.id2label)",
        ]
    elif has_sentence_modules(model):
        lines = [
            "```python",
            "from sentence_transformers import SentenceTransformer",
            "",
            f'model = SentenceTransformer("{model.name}")',
            'print(model.encode(["A cat sat.", "A dog ran."]) @ model.encode("A kitten sat down."))',
        ]
    elif maker == "AutoModel":
        lines += [
            'ids = tokenizer("The weather is nice today.", return_tensors="pt")',
            "print(model(**ids).last_hidden_state[0, 0])",
        ]
    else:
        lines += [
            'ids = tokenizer(f"The {tokenizer.mask_token} is nice.", return_tensors="pt")',
            "print(tokenizer.decode(model(**ids).logits[0].argmax(-1)))",
        ]
    return "\n".join([*lines, "```"])
