"""Tokenizers with language tokens: NLLB, M2M100, mBART and mBART-50.

              a language      source                     output
    NLLB      eng_Latn        eng_Latn … </s>            </s> deu_Latn …
    M2M100    __en__          __en__ … </s>              </s> __de__ …
    mBART-50  en_XX           en_XX … </s>               </s> de_DE …
    mBART     en_XX           … </s> en_XX               de_DE …

mBART's decoder starts with the token of its language, so a model writes one language: the one that its config names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.convert.architecture import ConversionError, Json
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.tokenizer_files import (
    add_tokens,
    describe_library,
    describe_sentencepiece,
    find_unknown,
    list_library_ids,
    list_pieces,
    read_limited,
    read_vocabulary,
    vocabulary_size,
)
from headway.convert.json_files import read_json_object
from headway.text.language_codes import match_languages, shorten_codes
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

PIECES_FILE = "sentencepiece.bpe.model"
FAIRSEQ_TOKENS = {
    "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>",
    "unk_token": "<unk>", "mask_token": "<mask>",
}  # fmt: skip
# In the order of their ids: files do not always list them.
M2M100_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
WMT21_LANGUAGES = "en ha is ja cs ru zh de"
CC25_LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
MBART50_LANGUAGES = (
    f"{CC25_LANGUAGES} af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX "
    "sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)


@dataclass(frozen=True)
class LanguageStyle:
    """How a family writes languages."""

    name: str
    token: re.Pattern[str]  # its group is the code
    suffix: bool = False  # the language of a source comes after its end, and the decoder starts with its own
    known: tuple[str, ...] = ()  # tokens, if the files list none


NLLB = LanguageStyle("NLLB", re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"))
M2M100_TOKEN = re.compile(r"__([a-z]{2,3}(?:_[A-Za-z]{2,4})?)__")
M2M100 = LanguageStyle("M2M100", M2M100_TOKEN, known=tuple(f"__{code}__" for code in M2M100_LANGUAGES.split()))
WMT21 = LanguageStyle("M2M100", M2M100_TOKEN, known=tuple(f"__{code}__" for code in WMT21_LANGUAGES.split()))
MBART_TOKEN = re.compile(r"([a-z]{2}_[A-Z]{2})")
MBART50 = LanguageStyle("mBART-50", MBART_TOKEN, known=tuple(MBART50_LANGUAGES.split()))
MBART = LanguageStyle("mBART", MBART_TOKEN, suffix=True, known=tuple(CC25_LANGUAGES.split()))
STYLES = {"Nllb": NLLB, "MBart50": MBART50, "MBart": MBART}


def read_multilingual_text(folder: ModelFolder) -> ModelText:
    """The tokenizer of a model with language tokens, and its languages by their shortest codes."""
    for name, token in FAIRSEQ_TOKENS.items():
        folder.tokenizer_config.setdefault(name, token)
    style = find_style(folder)
    data, ids = describe_base(folder, style)
    tokens = {match[1]: ids[token] for token in ids if (match := style.token.fullmatch(token))}
    names = shorten_codes(list(tokens))
    languages = {names[code]: n for code, n in tokens.items()}
    if not languages:
        raise ConversionError(
            f"{folder.path} has no language tokens in its tokenizer files, as {style.name} models have. Download "
            "special_tokens_map.json and tokenizer_config.json, too."
        )
    suffix = style.suffix or folder.tokenizer_config.get("legacy_behaviour") is True
    tables: Json = {"source_suffix" if suffix else "source_prefix": {code: [n] for code, n in languages.items()}}
    targets = find_targets(folder, style, languages, data["special"])
    if style.suffix:
        data["special"]["start"] = languages[targets[0]]
    else:
        tables["target_prefix"] = {code: [languages[code]] for code in targets}
    tokenizer = ImportedTokenizer({**data, **tables})
    sources = tuple(code for code in languages if targets != (code,))
    return ModelText(tokenizers=Tokenizers(tokenizer, tokenizer), source_languages=sources, target_languages=targets)


def find_style(folder: ModelFolder) -> LanguageStyle:
    """By the class of its tokenizer; where that is not said, by its files."""
    named = str(folder.tokenizer_config.get("tokenizer_class") or "").removesuffix("Fast").removesuffix("Tokenizer")
    if named == "M2M100" or (folder.config.get("model_type") == "m2m_100" and folder.has("vocab.json")):
        return WMT21 if folder.tokenizer_config.get("language_codes") == "wmt21" else M2M100
    if named in STYLES:
        return STYLES[named]
    if folder.vocabulary:
        return find_style_of(folder.vocabulary)
    if folder.config.get("model_type") == "m2m_100":
        return NLLB
    return MBART50 if len(list_special_tokens(folder)) > len(MBART.known) else MBART


def find_style_of(vocabulary: Sequence[str]) -> LanguageStyle:
    """By the entries of a vocabulary: the style of most languages."""
    counts = {style.name: sum(map(bool, map(style.token.fullmatch, vocabulary))) for style in (NLLB, M2M100, MBART)}
    most = max(counts, key=lambda name: counts[name])
    if most == MBART.name:
        return MBART50 if counts[most] > len(MBART.known) else MBART
    if most == M2M100.name:
        return WMT21 if counts[most] <= len(WMT21.known) else M2M100
    return NLLB


def find_targets(
    folder: ModelFolder, style: LanguageStyle, languages: Mapping[str, int], special: Mapping[str, int]
) -> tuple[str, ...]:
    """All languages, or the one that every output begins with."""
    key = "decoder_start_token_id" if style.suffix else "forced_bos_token_id"
    forced = folder.generation.get(key)
    only = [code for code, n in languages.items() if n == forced]
    if only:
        return tuple(only)
    if style.suffix:
        meant = match_languages(folder.target_language, list(languages)) if folder.target_language else []
        if len(meant) == 1:
            return tuple(meant)
        raise ConversionError(
            f"its config.json does not say which language this {style.name} model writes: {key} = {forced!r} is not "
            "the token of a language. Say it with --to."
        )
    return tuple(languages)


def list_special_tokens(folder: ModelFolder) -> list[str]:
    """Spellings of tokens that the directory calls special, in the order of their ids."""
    found: list[str] = [str(token["content"]) for _, token in sorted(folder.added_tokens().items())]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        listed: Any = folder.tokenizer_config.get(name)
        if isinstance(listed, list):
            contents = [token.get("content") if isinstance(token, Mapping) else token for token in listed]
            found += [token for token in contents if isinstance(token, str)]
    return list(dict.fromkeys(found))


def describe_base(folder: ModelFolder, style: LanguageStyle) -> tuple[Json, dict[str, int]]:
    """The data of an ImportedTokenizer without languages, and the id of each special token, by its spelling."""
    if folder.has("tokenizer.json"):
        model = read_json_object(folder.path / "tokenizer.json")
        data = describe_library(folder, "translation", model)
        all_ids = list_library_ids(model, folder.path)
        listed = [token["content"] for token in model.get("added_tokens") or ()]
        known = {*listed, *list_special_tokens(folder), *style.known}
        return data, {token: n for token, n in all_ids.items() if token in known}
    path = folder.path / PIECES_FILE
    model_file = read_limited(path)
    pieces = list_pieces(model_file, path)
    if folder.vocabulary:
        return describe_given(folder, style, path, model_file, set(pieces))
    special = [token for token in list_special_tokens(folder) if style.token.fullmatch(token)] or list(style.known)
    if style.token is M2M100_TOKEN:
        spellings = _append(read_vocabulary(folder.path / "vocab.json"), special)
    else:  # as fairseq does: its own tokens first, the languages after the pieces, the mask last
        spellings = _append(["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]], special)
        spellings += [] if "<mask>" in spellings else ["<mask>"]
    spellings = add_tokens(spellings, folder.added_tokens(), path)
    ids = {spelling: n for n, spelling in enumerate(spellings)}
    unknown = find_unknown(model_file, ids, path)
    numbers = folder.special_ids("translation", ids, unknown=unknown)
    size = vocabulary_size(folder, len(spellings))
    data = describe_sentencepiece(model_file, spellings, numbers, size=size)
    return data, {token: ids[token] for token in special}


def describe_given(
    folder: ModelFolder, style: LanguageStyle, path: Path, model_file: bytes, pieces: set[str]
) -> tuple[Json, dict[str, int]]:
    """The same for a model whose vocabulary is known: its entries decide which ids pieces and languages have."""
    ids = {spelling: n for n, spelling in enumerate(folder.vocabulary)}
    numbers = folder.special_ids("translation", ids, unknown=find_unknown(model_file, ids, path))
    size = vocabulary_size(folder, len(folder.vocabulary))
    data = describe_sentencepiece(model_file, folder.vocabulary, numbers, size=size)
    return data, {token: n for token, n in ids.items() if token not in pieces and style.token.fullmatch(token)}


def _append(spellings: Sequence[str], tokens: Sequence[str]) -> list[str]:
    known = set(spellings)
    return [*spellings, *(token for token in tokens if token not in known)]
