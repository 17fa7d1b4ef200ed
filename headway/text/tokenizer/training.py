"""Learning a vocabulary: each kind of tokenizer trains the `tokenizers` library and hands back its JSON."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.text.tokenizer.training_text import Corpus, choose_size, corpus
from headway.text.tokenizer.vocabulary import UNKNOWN, byte_letters, filler_spellings, rounded_up

Json = dict[str, Any]

# A word with the space before it, one apostrophe inside kept (don't, geht's); a digit, so that a number is spelled
# the same way everywhere; a run of signs; a run of spaces, less the one that belongs to the next word. Marks count
# as letters, or Hindi would be cut at every vowel. No run is longer than 64: training is quadratic in its length.
LETTERS = r"[\p{L}\p{M}]{1,64}"
WORD = rf" ?{LETTERS}(?:['’]{LETTERS})?| ?\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]{{1,64}}|\s{{1,64}}(?!\S)|\s{{1,64}}"
CHARACTER = r"[\s\S]"
UP_TO_64 = r"[\s\S]{1,64}"

CHARACTERS_AT_MOST = 32_768
UNSEEN_STEP = 0.0001  # by which the library's Unigram trainer sets apart the scores of bytes it has not seen


def target_size(given: int | None, text: Corpus, controls: list[str]) -> int:
    wanted = choose_size(text.bytes) + len(controls) if given is None else given
    if wanted < len(controls) + 256:
        raise ConfigError(
            f"{wanted} entries are too few for {len(controls)} control tokens and 256 bytes. "
            f"Give at least {rounded_up(len(controls) + 256)}, or leave it out.",
            "size",
        )
    return rounded_up(wanted)


def lossless(model: Any, pattern: str | None) -> Any:
    """The library's tokenizer around a model: one space before the text, words by the pattern, bytes as letters."""
    library = tokenizers.Tokenizer(model)
    library.normalizer = normalizers.Prepend(" ")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([cut_by(pattern), to_bytes]) if pattern else to_bytes
    library.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return library


def cut_by(pattern: str) -> Any:
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


def trained(library: Any, trainer: Any, text: Corpus) -> Json:
    """The library's JSON after training, its control tokens turned from special tokens into plain entries."""
    library.train_from_iterator(text.lines, trainer)
    data: Json = json.loads(library.to_str())
    data["added_tokens"] = []
    return data


def merged(text: Corpus, pattern: str, size: int, controls: list[str]) -> Json:
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=controls,
        initial_alphabet=list(byte_letters()),
        show_progress=False,
    )
    return trained(lossless(models.BPE(), pattern), trainer, text)


def steadied(data: Json, controls: list[str]) -> Json:
    """The same Unigram model every time.

    The trainer sums in an order that changes from run to run, which moves scores by about 1e-11, and gives bytes
    that it has not seen the lowest score plus one, two, three … steps in an order that changes too. So scores are
    rounded, those bytes get one score, and entries are sorted.
    """
    letters = byte_letters()
    pieces = data["model"]["vocab"][len(controls) :]
    lowest = min(score for _, score in pieces)
    low = lowest + len(letters) * UNSEEN_STEP
    costs = {piece: -(lowest if piece in letters and score < low else score) for piece, score in pieces}
    ordered = sorted((round(cost, 3), piece) for piece, cost in costs.items())
    data["model"]["vocab"] = [[name, 0.0] for name in controls] + [[piece, -cost] for cost, piece in ordered]
    return data


def inner_letters(library: Any, text: Corpus) -> list[str]:
    """The characters of the text that can stand inside a word: those that do not cut the word they are put in."""
    seen = {character for line in text.lines for character in line}
    normal = {letter for character in seen for letter in library.normalizer.normalize_str(character)}
    cut = library.pre_tokenizer.pre_tokenize_str
    return sorted(letter for letter in normal if len(cut(f"a{letter}a")) == 1)


def filled(data: Json) -> Json:
    vocabulary = data["model"]["vocab"]
    for spelling in filler_spellings(len(vocabulary)):
        if isinstance(vocabulary, dict):
            vocabulary[spelling] = len(vocabulary)
        else:
            vocabulary.append([spelling, 0.0])
    return data


def kind_of(data: Json) -> str:
    """Which kind wrote this JSON. The library allows no field of ours in it, but each kind cuts text its own way."""
    model = data["model"]["type"]
    if model != "BPE":
        return str(model).lower()
    if data["pre_tokenizer"]["type"] == "ByteLevel":
        return "bytes"
    pattern = data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    return "characters" if pattern == CHARACTER else "bpe"


class Bpe:
    """Byte pairs merged by frequency. `dropout` is for training data: whoever reads it calls encode_batch with it."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bpe"
        size: int | None = number(None, low=320)
        dropout: float = number(0.0, low=0.0, high=1.0)

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        with corpus(lines) as text:
            return filled(merged(text, WORD, target_size(config.size, text, controls), controls))


class Unigram:
    """The likeliest split into pieces."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "unigram"
        size: int | None = number(None, low=320)

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        with corpus(lines) as text:
            trainer = trainers.UnigramTrainer(
                vocab_size=target_size(config.size, text, controls),
                special_tokens=controls,
                initial_alphabet=list(byte_letters()),
                show_progress=False,
            )
            return filled(steadied(trained(lossless(models.Unigram(), WORD), trainer, text), controls))


class Bytes:
    """One token a byte. Nothing is learned, so the text is not read."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bytes"

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        letters = byte_letters()
        names = controls + sorted(letters, key=lambda letter: letters[letter])
        model = models.BPE({name: n for n, name in enumerate(names)}, [])
        return filled(json.loads(lossless(model, None).to_str()))


class Characters:
    """One token a character that occurs at least twice; rarer ones are spelled in bytes."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "characters"
        size: int | None = number(None, low=320)

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        with corpus(lines) as text:
            size = target_size(config.size or CHARACTERS_AT_MOST, text, controls)
            return filled(merged(text, CHARACTER, size, controls))


class WordPiece:
    """BERT's pieces. Not lossless: spacing, control characters and characters that training never saw are lost."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "wordpiece"
        size: int | None = number(None, low=320)
        lowercase: bool = False

    @staticmethod
    def train(lines: Iterable[str], config: Config, controls: list[str]) -> Json:
        library = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        library.normalizer = normalizers.BertNormalizer(lowercase=config.lowercase, strip_accents=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), cut_by(UP_TO_64)])
        library.decoder = decoders.WordPiece("##")
        with corpus(lines) as text:
            # Inner letters are given in order: left to the trainer, they are numbered, and ties broken by their
            # numbers, differently each time.
            inner = [f"##{letter}" for letter in inner_letters(library, text)]
            trainer = trainers.WordPieceTrainer(
                vocab_size=target_size(config.size, text, controls),
                min_frequency=2,
                special_tokens=[*controls, UNKNOWN, *inner],
                show_progress=False,
            )
            return filled(trained(library, trainer, text))
