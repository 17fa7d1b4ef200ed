"""CTranslate2Format: a directory that ctranslate2.Translator or ctranslate2.Generator loads.

Written by the package's own specifications, which quantise as its converters do. The model is in memory meanwhile."""

from pathlib import Path
from typing import Any

from headway import __version__
from headway.convert.export.ctranslate2.kinds import find_unsupported_kind
from headway.convert.export.ctranslate2.specification import MAX_POSITIONS, build_specification
from headway.convert.export.differences import expand_table
from headway.convert.export.formats import ExportReport
from headway.convert.export.huggingface.generation import find_length_penalty
from headway.convert.export.huggingface.marian_files import is_marian_pair, write_marian_tokenizer
from headway.convert.export.huggingface.sentencepiece_files import find_pieces_file, is_sentencepiece
from headway.convert.export.huggingface.tokenizer import spell_tag
from headway.convert.export.huggingface.tokenizer import write_tokenizers as write_both_tokenizers
from headway.convert.export.stored_model import StoredModel
from headway.files.atomic import write_text_atomically
from headway.storage.card import format_front_matter
from headway.text.lm_text import line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer

DTYPES = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")


class CTranslate2Format:
    dtypes = DTYPES

    def __init__(self, dtype: str = "") -> None:
        self.dtype = dtype

    def unsupported(self, model: StoredModel) -> str:
        if model.objective == "masked":
            return 'it has no head "masked": its encoders give vectors alone.'
        reason = find_unsupported_kind(expand_table(model.config.model.to_dict()))
        return f"{reason}, which CTranslate2 does not compute." if reason else ""

    def write(self, model: StoredModel, folder: Path) -> ExportReport:
        table = expand_table(model.config.model.to_dict())
        dtype = self.dtype or find_stored_dtype(model)
        specification = build_specification(model.load().model, table)
        self._add_text(specification, model, table)
        specification.validate()
        specification.optimize(quantization=dtype)
        specification.save(str(folder))
        lost = list(model.describe_lost())
        lost += write_tokenizers(model, folder)
        lost += describe_lost_search(model)
        if any(part["kind"] != "learned" for part in table["decoder"]["position"]):
            lost.append(f"texts of more than {MAX_POSITIONS} tokens")
        write_text_atomically(folder / "README.md", format_card(model))
        return ExportReport(
            format="CTranslate2",
            found=model.describe(),
            checked=(f"every part is of a kind that it computes; weights are in {dtype}",),
            lost=tuple(lost),
            files=tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())),
        )

    def _add_text(self, specification: Any, model: StoredModel, table: dict[str, Any]) -> None:
        """Vocabularies, special tokens and the epsilon of norms."""
        target = model.tokenizers.target
        tokens = special_tokens(target)
        vocabulary = list_tokens(target)
        config = specification.config
        config.layer_norm_epsilon = float(table["norm"]["eps"])
        unknown = target.unknown if isinstance(target, ImportedTokenizer) and target.unknown >= 0 else tokens.pad
        config.unk_token, config.eos_token = vocabulary[unknown], vocabulary[tokens.end]
        if model.objective == "causal":
            config.bos_token = vocabulary[line_end_id(target)]
            specification.register_vocabulary(vocabulary)
            return
        config.bos_token = config.decoder_start_token = vocabulary[tokens.start]
        specification.register_source_vocabulary(list_tokens(model.tokenizers.source))
        specification.register_target_vocabulary(vocabulary)


def write_tokenizers(model: StoredModel, folder: Path) -> list[str]:
    """Those of both sides; returns what is lost."""
    if is_marian_pair(model.tokenizers):
        write_marian_tokenizer(folder, model, MAX_POSITIONS)
        return []
    lost = write_both_tokenizers(model, folder, MAX_POSITIONS)
    return [] if is_sentencepiece(model.tokenizers.target) else lost  # which has no tokenizer.json, and needs none


def find_stored_dtype(model: StoredModel) -> str:
    """That of the weights, as CTranslate2 calls it."""
    name = next(iter(model.weights.shapes()))
    return "int8" if model.is_int8 else str(model.weights.dtype(name)).removeprefix("torch.")


def list_tokens(tokenizer: Tokenizer) -> list[str]:
    """The spelling of each id, with language tags as the exported tokenizer spells them."""
    spellings = [tokenizer.spelling(n) for n in range(tokenizer.size)]
    if not isinstance(tokenizer, ImportedTokenizer):
        for tag, n in tokenizer.tags.items():
            spellings[n] = spell_tag(tag)
    return spellings


def describe_lost_search(model: StoredModel) -> list[str]:
    """Settings of a search are those of each call there."""
    lost = ["control tokens are not suppressed unless a call says so (suppress_sequences)"]
    if model.objective == "translation":
        lost.append(f"the search settings: pass {format_search(model)} with each call")
    return lost


def format_search(model: StoredModel) -> str:
    """Settings of a call. With fewer hypotheses than beams it would stop before the beam has ended."""
    search = model.config.search
    penalty = round(find_length_penalty(search), 2)
    return str({"beam_size": search.beam_size, "num_hypotheses": search.beam_size, "length_penalty": penalty})


def format_card(model: StoredModel) -> str:
    config = model.config
    languages = list(dict.fromkeys([*config.source_languages, *config.target_languages]))
    front_matter = format_front_matter(languages, model.card.scores, model.card.licence)
    about = f"A model of Headway {__version__}, for CTranslate2."
    code = _choose_usage(model)
    return "\n\n".join([f"{front_matter}# {model.name}", about, code]) + "\n"


def _choose_usage(model: StoredModel) -> str:
    if is_marian_pair(model.tokenizers):
        return _format_marian_usage(model)
    return _format_sentencepiece_usage(model) if is_sentencepiece(model.tokenizers.target) else _format_usage(model)


def _format_sentencepiece_usage(model: StoredModel) -> str:
    """With the tokens that name languages, where the model has some: of the first direction."""
    source, target = model.tokenizers.source, model.tokenizers.target
    assert isinstance(target, ImportedTokenizer)
    file = find_pieces_file(target, "")
    first = [source.spelling(n) for n in next(iter(source.source_prefix.values()), ())]
    last = [source.spelling(n) for n in next(iter(source.source_suffix.values()), ())]
    leads = [[target.spelling(n) for n in ids] for ids in target.target_prefix.values()]
    lead = leads[-1] if leads else []
    lines = [
        "import ctranslate2",
        "import sentencepiece",
        "",
        f'pieces = sentencepiece.SentencePieceProcessor(model_file="{model.name}/{file}")',
    ]
    if model.objective == "translation":
        text = 'pieces.encode("The weather is nice today.", out_type=str)'
        parts = [*map(repr, first), f"*{text}", repr(source.spelling(source.end)), *map(repr, last)]
        prefix = f", target_prefix=[{lead!r}]" if lead else ""
        lines += [
            f'translator = ctranslate2.Translator("{model.name}")',
            f"tokens = [{', '.join(parts)}]",
            f"result = translator.translate_batch([tokens]{prefix}, **{format_search(model)})[0]",
            f"print(pieces.decode(result.hypotheses[0]{f'[{len(lead)}:]' if lead else ''}))",
        ]
    else:
        start = [target.spelling(target.start)] if target.adds_start else []
        parts = [*map(repr, start), '*pieces.encode("Once", out_type=str)']
        lines += [
            f'generator = ctranslate2.Generator("{model.name}")',
            f"tokens = [{', '.join(parts)}]",
            "result = generator.generate_batch([tokens], max_length=50, sampling_topk=0)[0]",
            "print(pieces.decode(result.sequences[0]))",
        ]
    return "\n".join(["```python", *lines, "```"])


def _format_marian_usage(model: StoredModel) -> str:
    lines = [
        "import ctranslate2",
        "from transformers import MarianTokenizer",
        "",
        f'tokenizer = MarianTokenizer.from_pretrained("{model.name}")',
        f'translator = ctranslate2.Translator("{model.name}")',
        'tokens = tokenizer.convert_ids_to_tokens(tokenizer("The weather is nice today.").input_ids)',
        f"result = translator.translate_batch([tokens], **{format_search(model)})[0]",
        "print(tokenizer.decode(tokenizer.convert_tokens_to_ids(result.hypotheses[0])))",
    ]
    return "\n".join(["```python", *lines, "```"])


def _format_usage(model: StoredModel) -> str:
    tags = model.config.tags
    text = f"{spell_tag(tags[0])} The weather is nice today." if tags else "The weather is nice today."
    lines = [
        "import ctranslate2",
        "from tokenizers import Tokenizer",
        "",
        f'tokenizer = Tokenizer.from_file("{model.name}/tokenizer.json")',
        "tokenizer.encode_special_tokens = True  # text that is spelled like a control token stays text",
    ]
    reader = "tokenizer" if model.tokenizers.shared else "target"
    if not model.tokenizers.shared:
        lines.append(f'target = Tokenizer.from_file("{model.name}/target/tokenizer.json")')
    if model.objective == "translation":
        lines += [
            f'translator = ctranslate2.Translator("{model.name}")',
            f'tokens = [tokenizer.id_to_token(n) for n in tokenizer.encode("{text}").ids]',
            f"search = {format_search(model)}",
            "result = translator.translate_batch([tokens], **search)[0]",
            f"print({reader}.decode([{reader}.token_to_id(token) for token in result.hypotheses[0]]))",
        ]
    else:
        lines += [
            f'generator = ctranslate2.Generator("{model.name}")',
            'tokens = [tokenizer.id_to_token(n) for n in tokenizer.encode("Once").ids]',
            "result = generator.generate_batch([tokens], max_length=50, sampling_topk=0)[0]",
            "print(tokenizer.decode(result.sequences_ids[0]))",
        ]
    return "\n".join(["```python", *lines, "```"])
