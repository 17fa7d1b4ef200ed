"""Learning a vocabulary."""

import json
import time
from collections.abc import Iterator

import pytest

from headway.errors import ConfigError, HeadwayError
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.tokenizer.training_text import recommend_size

LOSSLESS = ["bpe", "unigram", "bytes", "characters"]
KINDS = [*LOSSLESS, "wordpiece"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_tokenizer(kind: str, lines: list[str]) -> None:
    texts = {json.dumps(Tokenizer.train(lines, kind).to_json()) for _ in range(3)}
    assert len(texts) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_of_lines_will_do(kind: str, lines: list[str]) -> None:
    tricky = [*lines, "two\nlines", "\r", 'quote " and \\ back', ""]
    from_stream = Tokenizer.train((line for line in tricky), kind)
    assert from_stream.fingerprint() == Tokenizer.train(tricky, kind).fingerprint()


@pytest.mark.parametrize(
    ("text_bytes", "least", "most"),
    [
        (0, 320, 320),
        (2 * 2_000 * 25, 400, 700),
        (4_000_000, 6_000, 8_000),
        (400_000_000, 32_000, 32_000),
        (1_300_000_000, 37_000, 37_000),
        (10**12, 37_000, 37_000),
    ],
)
def test_size_follows_the_text(text_bytes: int, least: int, most: int) -> None:
    assert least <= recommend_size(text_bytes) <= most


def test_more_text_never_means_a_smaller_vocabulary() -> None:
    sizes = [recommend_size(10**power // 7) for power in range(12)]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_a_size_that_is_given_is_kept(kind: str, lines: list[str]) -> None:
    assert Tokenizer.train(lines, f"{kind}(384)").size == 384
    assert Tokenizer.train(lines, f"{kind}(330)").size == 384


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_teaches_little_gives_a_small_vocabulary(kind: str) -> None:
    config = kind if kind == "bytes" else f"{kind}(8000)"
    tokenizer = Tokenizer.train(["a b", "a b"], config)
    assert tokenizer.size <= 320
    assert tokenizer.decode(tokenizer.encode("a b")) == "a b"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "wordpiece"])
def test_a_huge_line_does_not_hang(kind: str) -> None:
    began = time.process_time()
    for line in ("a" * 200_000, " " * 200_000, "abcdefg" * 30_000, "ab, 12. " * 20_000):
        tokenizer = Tokenizer.train([line, "some words"], kind)
        ids = tokenizer.encode(line)
        assert kind == "wordpiece" or tokenizer.decode(ids) == line
    assert time.process_time() - began < 20


@pytest.mark.parametrize("kind", LOSSLESS)
def test_characters_never_seen_are_spelled_in_bytes(kind: str) -> None:
    tokenizer = Tokenizer.train(["abc"], kind)
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), 0x10FFFF]))
    assert tokenizer.decode(tokenizer.encode(everything)) == everything


def test_a_lone_surrogate_is_refused_with_its_line() -> None:
    with pytest.raises(HeadwayError, match=r"line 2: the character at index 1 is U\+DFFF, a lone surrogate"):
        Tokenizer.train(["fine", "x\udfff"], "bpe")
    with pytest.raises(HeadwayError, match=r"line 1: the character at index 0 is U\+D800"):
        Tokenizer.train(iter(["\ud800"]), "unigram")


def test_what_the_stream_raises_comes_through() -> None:
    def broken() -> Iterator[str]:
        yield "a line"
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        Tokenizer.train(broken(), "bpe")


@pytest.mark.parametrize("lines", [[], ["", ""], iter(())])
def test_no_text_is_refused(lines: list[str]) -> None:
    with pytest.raises(HeadwayError, match="no text to train a tokenizer on"):
        Tokenizer.train(lines, "bpe")


def test_one_string_is_refused() -> None:
    with pytest.raises(HeadwayError, match="the text to train on is one string"):
        Tokenizer.train("a text", "bpe")


def test_a_size_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 320"):
        Tokenizer.train(["a"], "bpe(100)")
    tags = [f"l{n}" for n in range(100)]
    with pytest.raises(
        ConfigError, match=r"320 entries are too few for 104 control tokens and 256 bytes.*at least 384"
    ):
        Tokenizer.train(["a"], "bpe(320)", tags=tags)
    assert Tokenizer.train(["a"], "bpe", tags=tags).tags["l99"] == 103


@pytest.mark.parametrize("tag", ["", "d e", "⟩", "to:de"])
def test_a_tag_has_a_plain_name(tag: str) -> None:
    with pytest.raises(HeadwayError, match="cannot be a language tag"):
        Tokenizer.train(["a"], "bytes", tags=[tag])


def test_a_tag_is_given_once() -> None:
    with pytest.raises(HeadwayError, match='the language tag "de" is given twice'):
        Tokenizer.train(["a"], "bytes", tags=["de", "fr", "de"])
