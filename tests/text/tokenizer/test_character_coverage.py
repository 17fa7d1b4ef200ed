"""Characters of scripts without spaces have entries of their own, in a vocabulary as large as it was."""

import random
from collections import Counter

from headway.text.tokenizer.character_coverage import choose_characters, count_unspaced
from headway.text.tokenizer.tokenizer import Tokenizer

HAN = [chr(0x4E00 + n) for n in range(300)]


def make_lines(seed: int) -> list[str]:
    """Text in which few characters are frequent and many rare, as in Chinese."""
    generator = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(len(HAN))]
    return ["".join(generator.choices(HAN, weights, k=20)) + " and some English words" for _ in range(400)]


def test_frequent_characters_are_one_token_each() -> None:
    lines = make_lines(0)
    tokenizer = Tokenizer.train(lines, "bpe(1024)")
    counts = count_unspaced(lines)
    wanted = choose_characters(counts, 1024)
    assert 200 < len(wanted) <= 256
    assert all(len(tokenizer.encode(f"1{character}")) == len(tokenizer.encode("1")) + 1 for character in wanted)
    assert tokenizer.size == 1024


def test_text_is_what_it_was() -> None:
    tokenizer = Tokenizer.train(make_lines(1), "bpe(1024)")
    for line in make_lines(2):
        assert tokenizer.decode(tokenizer.encode(line)) == line


def test_rare_ones_stay_bytes() -> None:
    counts = Counter(dict.fromkeys(HAN[:50], 100)) + Counter({HAN[200]: 2, HAN[201]: 1})
    assert choose_characters(counts, 4096) == sorted(HAN[:50])
    assert len(choose_characters(counts, 100)) == 25  # a quarter of the vocabulary at most


def test_other_scripts_are_learned_as_before() -> None:
    assert not count_unspaced(["Größe über Straße", "Привет, 한국어 안녕"])
