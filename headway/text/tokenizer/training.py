"""Train a tokenizer: each kind (BPE, Unigram, …) trains the `tokenizers` library and returns its JSON."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.text.tokenizer.character_coverage import choose_characters, count_unspaced, cover_characters
from headway.text.tokenizer.training_text import TrainingText, open_training_text, recommend_size
from headway.text.tokenizer.vocabulary import UNKNOWN, byte_alphabet, list_filler_tokens, round_up_size

Json = dict[str, Any]

# A word with the space before it and at most one apostrophe inside (don't, geht's); a single digit, so that a number
# is tokenized the same way everywhere; a run of punctuation; a run of spaces, except the one that belongs to the next
# word. Combining marks count as letters, or Hindi would be split at every vowel. No run is longer than 64: training
# time is quadratic in its length.
LETTERS_PATTERN = r"[\p{L}\p{M}]{1,64}"
WORD_PATTERN = (
    rf" ?{LETTERS_PATTERN}(?:['’]{LETTERS_PATTERN})?| ?\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]{{1,64}}"
    r"|\s{1,64}(?!\S)|\s{1,64}"
)
CHARACTER_PATTERN = r"[\s\S]"
CHUNK_PATTERN = r"[\s\S]{1,64}"

MAX_CHARACTER_ENTRIES = 32_768
UNSEEN_STEP = 0.0001  # between the scores that the library's Unigram trainer gives to bytes it has not seen


def resolve_size(given: int | None, text: TrainingText, controls: list[str]) -> int:
    """The vocabulary size to train: as given, or by the amount of text; rounded up to a multiple of 64."""
    size = recommend_size(text.utf8_bytes) + len(controls) if given is None else given
    if size < len(controls) + 256:
        raise ConfigError(
            f"{size} entries are too few for {len(controls)} control tokens and 256 bytes. "
            f"Give at least {round_up_size(len(controls) + 256)}, or leave it out.",
            "size",
        )
    return round_up_size(size)


def make_lossless_library(model: Any, pattern: str | None) -> Any:
    """The library's tokenizer around a model: a space before the text, split by the pattern, bytes as letters."""
    library = tokenizers.Tokenizer(model)
    library.normalizer = normalizers.Prepend(" ")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([split_by(pattern), to_bytes]) if pattern else to_bytes
    library.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return library


def split_by(pattern: str) -> Any:
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


def train_library(library: Any, trainer: Any, text: TrainingText) -> Json:
    """The library's JSON after training, with its special tokens turned into plain entries."""
    library.train_from_iterator(text.lines, trainer)
    data: Json = json.loads(library.to_str())
    data["added_tokens"] = []
    return data


def train_bpe(text: TrainingText, pattern: str, size: int, controls: list[str]) -> Json:
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=controls,
        initial_alphabet=list(byte_alphabet()),
        show_progress=False,
    )
    return train_library(make_lossless_library(models.BPE(), pattern), trainer, text)


def make_deterministic(data: Json, controls: list[str]) -> Json:
    """Make the same text give the same Unigram model.

    The trainer sums in an order that changes from run to run, which moves scores by about 1e-11, and gives bytes that
    it has not seen the lowest score plus one, two, three … steps, in an order that changes too. So scores are rounded,
    those bytes get the same score, and entries are sorted.
    """
    alphabet = byte_alphabet()
    pieces = data["model"]["vocab"][len(controls) :]
    lowest = min(score for _, score in pieces)
    unseen = lowest + len(alphabet) * UNSEEN_STEP
    costs = {piece: -(lowest if piece in alphabet and score < unseen else score) for piece, score in pieces}
    ordered = sorted((round(cost, 3), piece) for piece, cost in costs.items())
    data["model"]["vocab"] = [[name, 0.0] for name in controls] + [[piece, -cost] for cost, piece in ordered]
    return data


def find_inner_characters(library: Any, text: TrainingText) -> list[str]:
    """The characters of the text that can stand inside a word: those that do not split a word they are put into."""
    seen = {character for line in text.lines for character in line}
    normalised = {letter for character in seen for letter in library.normalizer.normalize_str(character)}
    split = library.pre_tokenizer.pre_tokenize_str
    return sorted(letter for letter in normalised if len(split(f"a{letter}a")) == 1)


def add_filler(data: Json) -> Json:
    """Pad the vocabulary to a multiple of 64 entries."""
    vocabulary = data["model"]["vocab"]
    for spelling in list_filler_tokens(len(vocabulary)):
        if isinstance(vocabulary, dict):
            vocabulary[spelling] = len(vocabulary)
        else:
            vocabulary.append([spelling, 0.0])
    return data


def detect_kind(data: Json) -> str:
    """The kind of tokenizer in this JSON. It cannot hold a field of ours, but each kind splits text its own way."""
    model = data["model"]["type"]
    if model != "BPE":
        return str(model).lower()
    if data["pre_tokenizer"]["type"] == "ByteLevel":
        return "bytes"
    pattern = data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    return "characters" if pattern == CHARACTER_PATTERN else "bpe"


class Bpe:
    """Byte-level BPE: pairs merged by frequency. `dropout` (BPE-dropout) is for training data: see encode_batch."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bpe"
        size: int | None = number(None, low=320)
        dropout: float = number(0.0, low=0.0, high=1.0)

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        with open_training_text(lines) as text:
            size = resolve_size(config.size, text, controls)
            characters = choose_characters(count_unspaced(text.lines), size)
            return add_filler(cover_characters(train_bpe(text, WORD_PATTERN, size, controls), characters))


class Unigram:
    """Unigram language model: the most likely split into pieces."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "unigram"
        size: int | None = number(None, low=320)

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        with open_training_text(lines) as text:
            trainer = trainers.UnigramTrainer(
                vocab_size=resolve_size(config.size, text, controls),
                special_tokens=controls,
                initial_alphabet=list(byte_alphabet()),
                show_progress=False,
            )
            return add_filler(
                make_deterministic(
                    train_library(make_lossless_library(models.Unigram(), WORD_PATTERN), trainer, text), controls
                )
            )


class Bytes:
    """One token per byte. Nothing is learned, so the text is not read."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bytes"

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        alphabet = byte_alphabet()
        names = controls + sorted(alphabet, key=lambda letter: alphabet[letter])
        model = models.BPE({name: n for n, name in enumerate(names)}, [])
        return add_filler(json.loads(make_lossless_library(model, None).to_str()))


class Characters:
    """One token per character that occurs at least twice; rarer ones become bytes."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "characters"
        size: int | None = number(None, low=320)

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        with open_training_text(lines) as text:
            size = resolve_size(config.size or MAX_CHARACTER_ENTRIES, text, controls)
            return add_filler(train_bpe(text, CHARACTER_PATTERN, size, controls))


class WordPiece:
    """WordPiece as in BERT. Lossy: spacing, control characters and characters not seen in training are lost."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "wordpiece"
        size: int | None = number(None, low=320)
        lowercase: bool = False

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        library = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        library.normalizer = normalizers.BertNormalizer(lowercase=config.lowercase, strip_accents=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), split_by(CHUNK_PATTERN)])
        library.decoder = decoders.WordPiece("##")
        with open_training_text(lines) as text:
            # Given in order: left to the trainer, inner characters get ids, and ties are broken by id, differently
            # each time.
            inner = [f"##{letter}" for letter in find_inner_characters(library, text)]
            trainer = trainers.WordPieceTrainer(
                vocab_size=resolve_size(config.size, text, controls),
                min_frequency=2,
                special_tokens=[*controls, UNKNOWN, *inner],
                show_progress=False,
            )
            return add_filler(train_library(library, trainer, text))


class Imported:
    """A tokenizer of another toolkit, which comes with its model and is not trained."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "imported"

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        raise ConfigError(
            'an "imported" tokenizer belongs to a model of another toolkit and cannot be trained. Fine-tune that '
            'model, or choose another kind, such as "bpe".',
            "tokenizer",
        )
