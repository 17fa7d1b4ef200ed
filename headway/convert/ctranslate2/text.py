"""What splits text into the ids of a model of CTranslate2: the tokenizer files of the original, in its directory or in
the one that --tokenizer names. The vocabulary of CTranslate2 decides which id a piece has."""

from collections.abc import Mapping
from pathlib import Path

from headway.convert.architecture import Architecture, ConversionError, Json
from headway.convert.ctranslate2.architecture import starts_with_zeros
from headway.convert.ctranslate2.model_file import ModelFile
from headway.convert.ctranslate2.stacks import SINUSOIDS
from headway.convert.ctranslate2.vocabulary import read_special_ids, read_vocabularies
from headway.convert.huggingface.directory import apply_generation
from headway.convert.huggingface.language_tokens import read_multilingual_text
from headway.convert.huggingface.marian_text import TAG
from headway.convert.huggingface.mbart import read_bart_text
from headway.convert.huggingface.model_folder import ModelFolder, ModelText, read_optional
from headway.convert.huggingface.original_files import keep_original
from headway.convert.huggingface.t5_text import read_t5_text
from headway.convert.huggingface.tokenizer_files import (
    SENTENCEPIECE_FILES,
    describe_sentencepiece,
    find_unknown,
    read_limited,
    read_model_text,
)
from headway.convert.options import ImportOptions
from headway.errors import HeadwayError
from headway.text.tokenizer.imported import MAX_VOCABULARY, ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

START = "⟨start⟩"  # zeros
SIDE_FILES = ("source.spm", "target.spm")
READERS = {
    "t5": read_t5_text, "mbart": read_multilingual_text, "m2m_100": read_multilingual_text, "bart": read_bart_text,
}  # fmt: skip
UNUSED = "⟨unused:"


def read_text(
    path: Path, file: ModelFile, architecture: Architecture, settings: Json, options: ImportOptions
) -> tuple[ModelText, ModelFolder]:
    """Tokenizers and languages, and the directory that they were found in."""
    folder = open_folder(path, file, architecture, settings, options)
    return keep_original(read_tokenizers(path, file, architecture, settings, folder), folder), folder


def read_tokenizers(
    path: Path, file: ModelFile, architecture: Architecture, settings: Json, folder: ModelFolder
) -> ModelText:
    vocabularies = read_vocabularies(path, architecture.objective)
    rows = count_rows(file, architecture.objective)
    for vocabulary, count in zip(vocabularies, rows):
        if not len(vocabulary) <= count <= MAX_VOCABULARY:
            raise HeadwayError(
                f"{path}: its vocabulary has {len(vocabulary):,} entries, and the model {count:,}. Download it again."
            )
    reader = READERS.get(folder.config["model_type"])
    is_pair = reader is None and architecture.objective == "translation" and not folder.has("tokenizer.json")
    if is_pair:
        return read_pieces(folder, vocabularies, rows, starts_with_zeros(file), settings)
    check_files(folder)
    if starts_with_zeros(file):
        raise ConversionError(
            f"{folder.path} has no source.spm and target.spm, which a model whose decoder starts with zeros (Marian's) "
            "needs. Copy them into it, or name the directory of the original: --tokenizer DIR."
        )
    if rows[0] != rows[-1]:
        raise ConversionError(
            f"{path} has two vocabularies, and its tokenizer files are those of one. Import the original."
        )
    text = reader(folder) if reader else read_model_text(folder, architecture.objective)
    text = apply_generation(text, folder) if architecture.objective == "translation" else text
    check_vocabulary(text.tokenizers.target, vocabularies[1], folder.path)
    return text


def open_folder(
    path: Path, file: ModelFile, architecture: Architecture, settings: Json, options: ImportOptions
) -> ModelFolder:
    """The directory of the tokenizer files, with a config of Hugging Face that says what that of CTranslate2 does."""
    place = options.tokenizer or path
    if not place.is_dir():
        raise HeadwayError(
            f"--tokenizer {place} is not a directory. Name one with the tokenizer files of the original."
        )
    vocabulary = read_vocabularies(path, architecture.objective)[1]
    original = read_optional(place / "config.json") if options.tokenizer else {}
    special = read_special_ids(path, settings, architecture.objective, vocabulary)
    guessed = {
        "model_type": guess_family(architecture, place),
        "vocab_size": count_rows(file, architecture.objective)[1],
    }
    config = {**guessed, **original, **special, "vocab_size": guessed["vocab_size"]}
    return ModelFolder(
        path=place,
        config=config,
        generation={**config, **read_optional(place / "generation_config.json")},
        tokenizer_config={**read_optional(place / "special_tokens_map.json"), **read_tokenizer_config(place, settings)},
        vocabulary=tuple(vocabulary),
        target_language=options.target_language,
    )


def read_tokenizer_config(place: Path, settings: Json) -> Json:
    """tokenizer_config.json, completed by the tokens of CTranslate2's config.json."""
    names = ("bos_token", "eos_token", "unk_token")
    known = {name: settings[name] for name in names if settings.get(name)}
    return {**known, **read_optional(place / "tokenizer_config.json")}


def guess_family(architecture: Architecture, place: Path) -> str:
    """The model_type of Hugging Face that prepares text as this model's does, by what its layers are; "" for those that
    need nothing but pieces."""
    model = architecture.model
    side = model["decoder"] if architecture.objective != "masked" else model["encoder"]
    position, mixer = side["position"], side["mixer"]
    if architecture.objective == "translation":
        if str(position).startswith("t5"):
            return "t5"
        if model["embedding"].get("norm"):
            return "mbart" if side["residual"] == "pre" else "bart"
        return "m2m_100" if position == SINUSOIDS[1] else ""
    if architecture.objective == "causal":
        if model["norm"]["kind"] == "rmsnorm":
            return "qwen3" if "qk_norm" in mixer else "qwen2" if mixer.get("output_bias") is False else "llama"
        return "gpt2" if str(position).startswith("learned") else "gpt_neox"
    files = {"vocab.txt": "bert", "sentencepiece.bpe.model": "xlm-roberta", "merges.txt": "roberta"}
    return next((family for name, family in files.items() if (place / name).exists()), "bert")


def count_rows(file: ModelFile, objective: str) -> tuple[int, int]:
    """Words of the source and of the target that the model has."""
    names = {
        "translation": ("encoder/embeddings_0/weight", "decoder/embeddings/weight"),
        "causal": ("decoder/embeddings/weight",) * 2,
        "masked": ("encoder/embeddings_0/weight",) * 2,
    }[objective]
    source, target = (name if file.has(name) else name.replace("_0", "") for name in names)
    return file.shape(source)[0], file.shape(target)[0]


def check_files(folder: ModelFolder) -> None:
    """Raise ConversionError unless there is something that splits text."""
    files = ("tokenizer.json", *SENTENCEPIECE_FILES, "vocab.txt", "merges.txt")
    if not any(folder.has(name) for name in files):
        raise ConversionError(
            f"{folder.path} has no tokenizer: none of {', '.join([*SIDE_FILES, *files])} is there, and CTranslate2 "
            "splits no text itself. Copy the tokenizer files of the original into it, or name a directory that has "
            "them: --tokenizer DIR."
        )


def check_vocabulary(tokenizer: object, vocabulary: list[str], place: Path) -> None:
    """Raise ConversionError unless the tokenizer has the entries of the model, each under its id."""
    assert isinstance(tokenizer, ImportedTokenizer)
    for n, spelling in enumerate(vocabulary):
        own = tokenizer.spelling(n)
        if own != spelling and not own.startswith(UNUSED):
            raise ConversionError(
                f"the tokenizer in {place} is of another model: the id {n} is {own!r} there and {spelling!r} in the "
                "vocabulary of CTranslate2. Name the directory of the original: --tokenizer DIR."
            )


def read_pieces(
    folder: ModelFolder, vocabularies: tuple[list[str], list[str]], rows: tuple[int, int], zeros: bool, settings: Json
) -> ModelText:
    """Sentencepiece models for both sides, or one for each, over the vocabularies of CTranslate2: Marian, Pegasus,
    OpenNMT. `zeros`: one more entry stands for the zeros with which the decoder starts."""
    tags = {} if rows[0] != rows[1] else find_tags(vocabularies[0])
    source, target = (
        make_tokenizer(folder, name, vocabulary, count, zeros, settings, tags if name == SIDE_FILES[0] else {})
        for name, vocabulary, count in zip(SIDE_FILES, vocabularies, rows)
    )
    same = source.fingerprint() == target.fingerprint()
    return ModelText(tokenizers=Tokenizers(source, source if same else target), target_languages=tuple(tags))


def find_tags(vocabulary: list[str]) -> dict[str, int]:
    """>>de<<: target languages, before a source."""
    return {match[1]: n for n, entry in enumerate(vocabulary) if (match := TAG.fullmatch(entry))}


def make_tokenizer(
    folder: ModelFolder,
    name: str,
    vocabulary: list[str],
    rows: int,
    zeros: bool,
    settings: Json,
    tags: Mapping[str, int],
) -> ImportedTokenizer:
    path = next((folder.path / file for file in (name, *SENTENCEPIECE_FILES) if folder.has(file)), None)
    if path is None:
        check_files(folder)
        raise ConversionError(
            f"{folder.path} has no {name}, nor one sentencepiece model for both sides "
            f"({', '.join(SENTENCEPIECE_FILES)}). Copy those of the original into it, or name a directory that has "
            "them: --tokenizer DIR."
        )
    model = read_limited(path)
    ids = {piece: n for n, piece in enumerate(vocabulary)}
    end, first = (
        ids.get(folder.vocabulary[folder.config[name]]) if name in folder.config else None
        for name in ("eos_token_id", "decoder_start_token_id")
    )
    if end is None or (first is None and not zeros):
        raise ConversionError(
            f"{folder.path}: the vocabulary for {name} lacks the end or the start token that its config.json names."
        )
    start = rows if first is None or zeros else first
    special = {"pad": start, "start": start, "end": end}
    special["unknown"] = find_unknown(model, ids, path)
    fill = [f"{UNUSED}{n}⟩" for n in range(len(vocabulary), rows)]
    spellings = [*vocabulary, *fill, *([START] if zeros else [])]
    more = {"tags": dict(tags)} if tags else {}
    return ImportedTokenizer(
        describe_sentencepiece(model, spellings, special, text_entries=True, suppress=[start] if zeros else [], **more)
    )
