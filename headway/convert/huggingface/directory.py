"""Import a Hugging Face directory: config.json names the family, which gives the Architecture."""

from dataclasses import replace
from pathlib import Path

from headway.config.objective_kinds import ENCODER_TASKS, continues_text
from headway.convert.architecture import Architecture, ConversionError, Json, find_family
from headway.convert.card import format_import_card
from headway.convert.huggingface.generation import read_search, read_suppressed
from headway.convert.huggingface.model_folder import ModelFolder, ModelText
from headway.convert.huggingface.original_files import keep_original
from headway.convert.huggingface.sentence_transformers import read_sentence_modules
from headway.convert.huggingface.tokenizer_files import read_model_text
from headway.convert.importer import ImportPlan
from headway.convert.json_files import read_json_object
from headway.convert.options import ImportOptions
from headway.convert.weight_files import open_weights
from headway.errors import HeadwayError
from headway.text.language_codes import match_languages
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

PREPROCESSOR_FILE = "preprocessor_config.json"  # how pictures or sound become what a model reads
QUANTIZED_FAMILIES = ("bitnet",)  # that are quantized by nature


def detect(path: Path) -> bool:
    return path.is_dir() and (path / "config.json").exists() and "model_type" in read_json_object(path / "config.json")


def plan_import(path: Path, options: ImportOptions) -> ImportPlan:
    folder = replace(ModelFolder.open(path), target_language=options.target_language)
    if (sentence := read_sentence_modules(path)) is not None:
        folder = replace(folder, config={**folder.config, "sentence_embedding": sentence})
    if path.joinpath(PREPROCESSOR_FILE).exists():
        folder = replace(folder, config={**folder.config, "preprocessor": read_json_object(path / PREPROCESSOR_FILE)})
    architecture = read_architecture(folder)
    text = keep_original(read_text(architecture, folder), folder)
    sources, targets = choose_languages(architecture, text, options)
    architecture = replace(architecture, lost=(*architecture.lost, *text.lost))
    return ImportPlan(
        architecture=architecture,
        weights=open_weights(path, options.allow_pickle),
        tokenizers=text.tokenizers,
        source_languages=sources,
        target_languages=targets,
        card=format_import_card(architecture, path, options, [*sources, *targets]),
    )


def read_text(architecture: Architecture, folder: ModelFolder) -> ModelText:
    """Tokenizers and languages, as the family reads them."""
    if architecture.read_text is None:
        kind = "causal" if continues_text(architecture.objective) else architecture.objective
        text = read_model_text(folder, "masked" if kind in ENCODER_TASKS else kind)
    else:
        text = architecture.read_text(folder)
    return apply_generation(text, folder) if architecture.objective == "translation" else text


def read_architecture(folder: ModelFolder) -> Architecture:
    """The family's Architecture, with the search settings of a translator's generation config."""
    model_type = folder.config.get("model_type")
    quantized = folder.config.get("quantization_config")
    if quantized and model_type not in QUANTIZED_FAMILIES:
        method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
        raise ConversionError(
            f"its weights are quantized ({method}), which is not supported. Look for the model as it was before: in "
            "float32, float16 or bfloat16."
        )
    try:
        architecture = find_family(str(model_type))(folder.config)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise HeadwayError(
            f"{folder.path / 'config.json'} is damaged: {type(error).__name__}: {error}. Download it again."
        ) from None
    if architecture.objective != "translation":
        return architecture
    found, lost = read_search(folder.generation)
    search: Json = {**found, **architecture.search}
    return replace(architecture, search=search, lost=(*architecture.lost, *lost))


def apply_generation(text: ModelText, folder: ModelFolder) -> ModelText:
    """The same, with what its generation config says of tokens: those that a search never produces, which are these and
    no others, and the one that every output begins with."""
    ids, lost = read_suppressed(folder.generation)
    source, target = (tokenizer.to_json() for tokenizer in (text.tokenizers.source, text.tokenizers.target))
    target = {**target, "suppress": ids}
    first = folder.generation.get("forced_bos_token_id")
    if type(first) is int and not target.get("target_prefix"):
        target["target_prefix"] = {"": [first]}
    writer = ImportedTokenizer(target)
    tokenizers = Tokenizers(writer if text.tokenizers.shared else ImportedTokenizer(source), writer)
    return replace(text, tokenizers=tokenizers, lost=(*text.lost, *lost))


def choose_languages(
    architecture: Architecture, text: ModelText, options: ImportOptions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The languages that the model says, or that the user does."""
    result = []
    for flag, known, given in (
        ("--from", text.source_languages, options.source_language),
        ("--to", text.target_languages, options.target_language),
    ):
        if given and architecture.objective != "translation":
            raise ConversionError(f"{flag} {given}: this {architecture.family} model does not translate. Remove it.")
        if given and known and not match_languages(given, known):
            raise ConversionError(f"{flag} {given}: the model itself says {', '.join(known)}. Remove {flag}.")
        result.append(known or ((given,) if given else ()))
    return result[0], result[1]
