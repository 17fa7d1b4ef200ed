"""Tokenizers of Hugging Face directories, with the ids of the original.

    tokenizer.json                              the library's own format: taken as it is
    spiece.model, tokenizer.model, …            sentencepiece, whose pieces have their own ids
    spiece.model of XLNet                       its pieces in the library's format, after XLNet's changes of the text
    sentencepiece.bpe.model of XLM-R and kin    sentencepiece, with the ids that fairseq gave them
    vocab.json and spiece.model                 sentencepiece, with the ids of vocab.json
    vocab.txt                                   BERT's WordPiece
    vocab.json and merges.txt                   GPT-2's byte-level BPE

What is none of these is refused. A family with language tokens, or two vocabularies, builds its own from the functions
here (Architecture.read_text)."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.convert.architecture import ConversionError, Json
from headway.convert.huggingface.generation import read_suppressed
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.xlnet_text import TOKENS as XLNET_TOKENS
from headway.convert.huggingface.xlnet_text import make_xlnet_library
from headway.convert.json_files import read_json_object
from headway.errors import HeadwayError
from headway.text.tokenizer.imported import MAX_VOCABULARY, ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

# Families that split text by their sentencepiece model alone, under its own ids. Others prepare the text first.
SENTENCEPIECE_MODELS = {"llama", "mistral", "mixtral", "t5", "mt5", "umt5"}
SENTENCEPIECE_FILES = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "sentencepiece.model")
# Tokenizers that put <s> <pad> </s> <unk> before the pieces, as fairseq does, and <mask> after them.
FAIRSEQ_MODELS = {"xlm-roberta", "mbart", "xlm-roberta-xl"}
FAIRSEQ_TOKENS = {
    "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>",
    "mask_token": "<mask>",
}  # fmt: skip
# Those of GPT-2's files that split text as GPT-2 does.
GPT2_MODELS = {"gpt2", "roberta", "bart", "opt", "longformer", "gpt_neo", "led"}
BERT_TOKENS = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
}  # fmt: skip
ADVICE = (
    "Download the whole model, or write its tokenizer.json with transformers: "
    "AutoTokenizer.from_pretrained(…).save_pretrained(…)."
)
TAG_TOKEN = re.compile(r">>([a-z]{2,3}(?:[-_]\w+)*)<<")
MAX_FILE_BYTES = 64 * 2**20


def read_model_text(folder: ModelFolder, objective: str) -> ModelText:
    """One tokenizer for both sides."""
    data = describe_tokenizer(folder, objective)
    tags = find_tags(data) if objective == "translation" else {}
    others = list_other_ends(folder, data["special"]["end"])
    lost: tuple[str, ...] = ()
    if objective == "causal":
        suppressed, sequences = read_suppressed(folder.generation)
        data = {
            **data,
            **({"other_ends": others} if others else {}),
            **({"suppress": suppressed} if suppressed else {}),
        }
        lost = tuple(sequences)
    tokenizer = ImportedTokenizer({**data, "tags": tags} if tags else data)
    lost = describe_lost_ends(tokenizer.end, others) if objective == "translation" else lost
    return ModelText(tokenizers=Tokenizers(tokenizer, tokenizer), target_languages=tuple(tags), lost=lost)


def find_tags(data: Json) -> dict[str, int]:
    """The tokens >>de<< of a tokenizer.json, as `headway export` writes them: target languages, before a source."""
    added = data["model"].get("added_tokens") or () if data["imported"] == "tokenizers" else ()
    found = {token["id"]: TAG_TOKEN.fullmatch(str(token["content"])) for token in added}
    return {match[1]: n for n, match in found.items() if match}


def list_other_ends(folder: ModelFolder, end: int) -> list[int]:
    """Tokens besides `end` that end a text, as generation_config.json lists them."""
    ends = folder.generation.get("eos_token_id")
    if not isinstance(ends, list):
        return []
    if not all(type(n) is int and n >= 0 for n in ends):
        raise ConversionError(f"{folder.path}: eos_token_id = {ends!r} is not a list of ids. Download it again.")
    return sorted({n for n in ends if n != end})


def describe_lost_ends(end: int, others: Sequence[int]) -> tuple[str, ...]:
    return (f"the ends of a text other than {end}: the ids {', '.join(map(str, others))}",) if others else ()


def describe_tokenizer(folder: ModelFolder, objective: str) -> Json:
    """The data of an ImportedTokenizer, from whichever files the directory has."""
    if folder.has("tokenizer.json"):
        return describe_library(folder, objective, read_json_object(folder.path / "tokenizer.json"))
    model = next((name for name in SENTENCEPIECE_FILES if folder.has(name)), None)
    if model is not None:
        return describe_sentencepiece_file(folder, objective, folder.path / model)
    if folder.has("vocab.txt"):
        return describe_library(folder, objective, make_wordpiece(folder), BERT_TOKENS)
    if folder.has("vocab.json", "merges.txt"):
        return describe_library(folder, objective, make_byte_bpe(folder))
    raise ConversionError(
        f"{folder.path} has no tokenizer that can be imported: none of tokenizer.json, {', '.join(SENTENCEPIECE_FILES)}"
        f", vocab.txt, or vocab.json and merges.txt is there. {ADVICE}"
    )


def describe_library(
    folder: ModelFolder, objective: str, model: Json, default_tokens: Mapping[str, str] | None = None
) -> Json:
    """A tokenizer of the `tokenizers` library, from its JSON."""
    for name, token in (default_tokens or {}).items():
        folder.tokenizer_config.setdefault(name, token)
    if isinstance(model.get("model"), Mapping) and model["model"].get("dropout"):
        raise ConversionError(f"{folder.path}: its tokenizer has dropout: it splits text at random.")
    ids = list_library_ids(model, folder.path)
    special = folder.special_ids(objective, ids)
    size = vocabulary_size(folder, max(ids.values(), default=-1) + 1)
    data: Json = {"imported": "tokenizers", "model": model, "special": special, "size": size}
    return data if objective != "causal" else {**data, "adds_start": adds_start(folder, special, model)}


def adds_start(folder: ModelFolder, special: Mapping[str, int], model: Json | None = None) -> bool:
    """Whether the tokenizer puts the start token before a prompt: as tokenizer_config.json says, else as the template
    in the JSON of the library does. sentencepiece has no template, and its models that continue texts do."""
    said = folder.tokenizer_config.get("add_bos_token")
    if isinstance(said, bool) or model is None:
        return said is not False
    from tokenizers import Tokenizer as Library

    try:
        ids = Library.from_str(json.dumps(model)).encode("x", add_special_tokens=True).ids
    except Exception as error:  # the library raises nothing more precise
        raise HeadwayError(f"{folder.path}: its tokenizer cannot be read: {error}") from None
    return ids[:1] == [special["start"]]


def list_library_ids(model: Json, path: Path) -> dict[str, int]:
    """The id of each spelling in the JSON of a tokenizer."""
    try:
        entries = model["model"]["vocab"]
        ids = dict(entries) if isinstance(entries, Mapping) else {entry[0]: n for n, entry in enumerate(entries)}
        ids |= {token["content"]: token["id"] for token in model.get("added_tokens") or ()}
        return {str(spelling): int(n) for spelling, n in ids.items()}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise HeadwayError(f"{path}: its tokenizer.json is damaged. Download it again.") from None


def describe_sentencepiece_file(folder: ModelFolder, objective: str, path: Path) -> Json:
    """A sentencepiece model, with the ids that this family gives to its pieces."""
    model = read_limited(path)
    if folder.config.get("model_type") == "xlnet":
        return describe_library(folder, objective, make_xlnet_library(folder, path, model), XLNET_TOKENS)
    pieces = list_pieces(model, path)
    vocabulary: list[str] | None = None
    if folder.vocabulary:
        vocabulary = list(folder.vocabulary)
    elif folder.has("vocab.json"):
        vocabulary = read_vocabulary(folder.path / "vocab.json")
    elif folder.config.get("model_type") in FAIRSEQ_MODELS:
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], "<mask>"]
        for name, token in FAIRSEQ_TOKENS.items():
            folder.tokenizer_config.setdefault(name, token)
    elif folder.config.get("model_type") not in SENTENCEPIECE_MODELS:
        raise ConversionError(
            f"{path} comes without tokenizer.json, and what the {folder.config.get('model_type')} family does to text "
            f"before is not known, only that of {', '.join(sorted(SENTENCEPIECE_MODELS | FAIRSEQ_MODELS))}. {ADVICE}"
        )
    if folder.tokenizer_config.get("sp_model_kwargs"):
        raise ConversionError("a tokenizer with sp_model_kwargs, which splits text at random, is not supported.")
    spellings = add_tokens(vocabulary or pieces, folder.added_tokens(), path)
    ids = {spelling: n for n, spelling in enumerate(spellings)}
    unknown = find_unknown(model, ids, path)
    special = folder.special_ids(objective, ids, unknown=unknown)
    vocabulary = spellings if spellings != pieces else None
    size = vocabulary_size(folder, len(spellings))
    more = {"adds_start": adds_start(folder, special)} if objective == "causal" else {}
    return describe_sentencepiece(model, vocabulary, special, size=size, **more)


def describe_sentencepiece(
    model: bytes, vocabulary: Sequence[str] | None, special: Mapping[str, int], **more: Any
) -> Json:
    """vocabulary: the spelling of each id; None if the model's own ids are used."""
    data: Json = {"imported": "sentencepiece", "model": base64.b64encode(model).decode(), "special": dict(special)}
    return data | ({} if vocabulary is None else {"vocabulary": list(vocabulary)}) | more


def list_pieces(model: bytes, path: Path) -> list[str]:
    """The pieces of a sentencepiece model by their own ids."""
    processor = open_sentencepiece(model, path)
    return [processor.IdToPiece(n) for n in range(processor.GetPieceSize())]


def find_unknown(model: bytes, ids: Mapping[str, int], path: Path) -> int:
    """The id of the unknown piece."""
    processor = open_sentencepiece(model, path)
    piece = processor.IdToPiece(processor.unk_id())
    if piece not in ids:
        raise ConversionError(f"{path}: its unknown piece {piece!r} is not in the vocabulary of the model.")
    return ids[piece]


def open_sentencepiece(model: bytes, path: Path) -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise HeadwayError(
            f"{path} is a sentencepiece model: it needs the package. Install it: pip install headway[convert]"
        ) from None
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, TypeError, ValueError):
        raise HeadwayError(f"{path} is damaged: it is not a sentencepiece model. Download it again.") from None
    return processor


def read_limited(path: Path) -> bytes:
    """The content of a small file."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise HeadwayError(f"{path} has {path.stat().st_size:,} bytes, too many for a file of this kind.")
        return path.read_bytes()
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror}. Download the whole model again.") from None


def read_vocabulary(path: Path) -> list[str]:
    """The spelling of each id, from a table spelling -> id without gaps."""
    table = read_json_object(path)
    spellings = {n: spelling for spelling, n in table.items() if type(n) is int}
    if len(spellings) != len(table) or sorted(spellings) != list(range(len(table))):
        raise ConversionError(f"{path} is not a vocabulary: it does not give the ids 0, 1, 2, … to one entry each.")
    return [spellings[n] for n in range(len(spellings))]


def add_tokens(vocabulary: Sequence[str], added: Mapping[int, Json], path: Path) -> list[str]:
    """A vocabulary with the tokens that were added to it."""
    result = list(vocabulary)
    for n in sorted(added):
        if not 0 <= n < MAX_VOCABULARY:
            raise ConversionError(f"{path.parent}: the id {n} of an added token is out of range.")
        result += [f"⟨unused:{m}⟩" for m in range(len(result), n + 1)]
        result[n] = added[n]["content"]
    return result


def vocabulary_size(folder: ModelFolder, entries: int) -> int:
    """The rows of the model's embeddings, which may be more than its tokenizer has entries."""
    size = folder.config.get("vocab_size", entries)
    if type(size) is not int or not entries <= size <= MAX_VOCABULARY:
        raise ConversionError(
            f"its tokenizer has {entries:,} entries, and vocab_size = {size!r} in its config.json: some have no "
            "embedding. Download the model again."
        )
    return size


def make_wordpiece(folder: ModelFolder) -> Json:
    """BERT's tokenizer, as the `tokenizers` library writes it."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    path = folder.path / "vocab.txt"
    try:
        entries = read_limited(path).decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise HeadwayError(f"{path} is damaged: it is not UTF-8. Download it again.") from None
    vocabulary = {entry.removesuffix("\r"): n for n, entry in enumerate(entries)}
    settings = folder.tokenizer_config
    unknown = folder.token("unk_token") or BERT_TOKENS["unk_token"]
    if len(vocabulary) != len(entries) or unknown not in vocabulary:
        raise ConversionError(f"{path} is not a vocabulary of BERT: an entry comes twice, or {unknown} is missing.")
    if settings.get("do_basic_tokenize", True) is not True or settings.get("never_split"):
        raise ConversionError("a BERT tokenizer with do_basic_tokenize = false or never_split is not supported.")
    library = Library(models.WordPiece(vocab=vocabulary, unk_token=unknown, max_input_chars_per_word=100))
    library.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True) is True,
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True) is True,
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix="##")
    tokens = [folder.token(name) or default for name, default in BERT_TOKENS.items()]
    library.add_special_tokens([token for token in tokens if token in vocabulary])
    return dict(json.loads(library.to_str()))


def make_byte_bpe(folder: ModelFolder) -> Json:
    """GPT-2's tokenizer, as the `tokenizers` library writes it."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    family = folder.config.get("model_type")
    if family not in GPT2_MODELS:
        raise ConversionError(
            f"the {family} model has vocab.json and merges.txt without tokenizer.json, and how it splits text before "
            f"merging is known only for {', '.join(sorted(GPT2_MODELS))}. {ADVICE}"
        )
    vocabulary = read_json_object(folder.path / "vocab.json")
    path = folder.path / "merges.txt"
    try:
        lines = read_limited(path).decode("utf-8").split("\n")
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        merges = [(left, right) for left, right in pairs]
        library = Library(models.BPE(vocab=vocabulary, merges=merges, fuse_unk=False))
    except HeadwayError:
        raise
    except Exception:  # the library raises nothing more precise
        raise HeadwayError(f"{path} does not fit its vocab.json. Download both again.") from None
    space = folder.tokenizer_config.get("add_prefix_space", False) is True
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    library.decoder = decoders.ByteLevel()
    names = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
    library.add_special_tokens(sorted({folder.token(name) for name in names} & vocabulary.keys()))
    for n, token in sorted(folder.added_tokens().items()):
        flags = {name: bool(token.get(name, False)) for name in ("lstrip", "rstrip", "normalized", "single_word")}
        library.add_tokens([AddedToken(token["content"], special=bool(token.get("special")), **flags)])
        if library.token_to_id(token["content"]) != n:
            raise ConversionError(f"{folder.path}: the added token {token['content']!r} cannot have the id {n}.")
    return dict(json.loads(library.to_str()))
