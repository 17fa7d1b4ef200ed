"""The toy corpus is a real task: a function from one language to the other, with true links, and no leaks."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from headway.data.toy import MAX_WORDS, MIN_WORDS, ToyPair, punctuate, toy_corpus, write_toy
from headway.data.toy import words as dictionary
from headway.data.toy.phrases import make_number
from headway.errors import HeadwayError

CORPUS = toy_corpus(5000)


def test_the_same_seed_gives_the_same_text_everywhere() -> None:
    text = "\n".join(f"{pair.source}\t{pair.target}\t{pair.alignment}" for pair in CORPUS)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "5d76db0e56a8047c"
    assert toy_corpus(100) == CORPUS[:100]
    assert toy_corpus(100, seed=1) != CORPUS[:100]


def test_a_translation_is_one_to_one() -> None:
    assert len({pair.source for pair in CORPUS}) == len(CORPUS)
    assert len({pair.target for pair in CORPUS}) == len(CORPUS)


def test_sentences_are_short_and_complete() -> None:
    for pair in CORPUS:
        for side in (pair.source, pair.target):
            assert MIN_WORDS <= len(side.split(" ")) <= MAX_WORDS, pair
            assert not side[0].islower()  # a capital letter, or the first digit of a year
            assert side[-1] in ".?"
        assert pair.source[-1] == pair.target[-1]


def test_every_word_has_a_link_and_every_link_two_words() -> None:
    for pair in CORPUS:
        sources, targets = zip(*pair.alignment)
        assert set(sources) == set(range(len(pair.source.split(" ")))), pair
        assert set(targets) == set(range(len(pair.target.split(" ")))), pair
        assert len(set(pair.alignment)) == len(pair.alignment)


def test_links_join_words_that_mean_the_same() -> None:
    """A noun, an adjective or a name is linked with a word that begins with its stem, in every sentence."""
    nouns = {form: stem for *forms, stem in dictionary.LIVING + dictionary.THINGS for form in forms}
    stems = nouns | dict(dictionary.ADJECTIVES) | {name: name for name in dictionary.NAMES}
    checked = Counter[str]()
    for pair in CORPUS:
        source, target = (side.rstrip(".?").split(" ") for side in (pair.source, pair.target))
        for i, word in enumerate(source):
            word = word[0].lower() + word[1:] if i == 0 and word not in dictionary.NAMES else word
            if word in stems and not (word == "old" and source[i - 1] == "years"):
                linked = [target[j].lower() for k, j in pair.alignment if k == i]
                assert len(linked) == 1
                assert linked[0].startswith(stems[word].lower()), (pair, word)
                checked[word] += 1
    assert set(checked) == set(stems)


def test_the_languages_differ_in_order_and_in_number_of_words() -> None:
    crossing = [any(a < c and b > d for a, b in p.alignment for c, d in p.alignment) for p in CORPUS]
    assert sum(crossing) > 0.9 * len(CORPUS)
    counts = [Counter(i for i, _ in pair.alignment) for pair in CORPUS]
    assert sum(max(count.values()) > 1 for count in counts) > 0.1 * len(CORPUS)
    lengths = [len(pair.source.split()) - len(pair.target.split()) for pair in CORPUS]
    assert min(lengths) < 0 < max(lengths)


def test_a_sentence_by_hand() -> None:
    from headway.data.toy.phrases import arrange, link_words

    dog = arrange([link_words("a", ""), link_words("red", "ruda"), link_words("dog", "kavu")], [0, 3, 2], head=2)
    phrase = arrange([dog, link_words("does not sleep", "nedorma")], [0, 1])
    assert punctuate((phrase, ".")) == ToyPair(
        "A red dog does not sleep.",
        "Kavu ruda nedorma.",
        ((0, 0), (1, 1), (2, 0), (3, 2), (4, 2), (5, 2)),
    )


@pytest.mark.parametrize(
    ("value", "english", "qtx"),
    [
        (1, "one", "un"),
        (10, "ten", "dek"),
        (13, "thirteen", "tridek"),
        (20, "twenty", "duti"),
        (23, "twenty-three", "tri e duti"),
        (100, "one hundred", "unsen"),
        (345, "three hundred forty-five", "trisen pem e kvati"),
        (910, "nine hundred ten", "navsen dek"),
    ],
)
def test_numbers(value: int, english: str, qtx: str) -> None:
    assert " ".join(make_number(value).source) == english
    assert " ".join(make_number(value).target) == qtx


def test_all_numbers_have_their_own_names() -> None:
    numbers = [make_number(value) for value in range(1, 1000)]
    assert len({phrase.source for phrase in numbers}) == len({phrase.target for phrase in numbers}) == 999


def test_the_files_share_no_sentence_and_keep_the_order(tmp_path: Path) -> None:
    files = write_toy(tmp_path / "deep" / "toy", pairs=300, seed=3, held_out=50)
    assert sorted(path.name for path in files) == sorted(path.name for path in (tmp_path / "deep/toy").iterdir())
    texts = {path.name: path.read_text(encoding="utf-8").split("\n")[:-1] for path in files}
    assert {name: len(lines) for name, lines in texts.items()} == {
        "train.en": 300,
        "train.qtx": 300,
        "valid.en": 50,
        "valid.qtx": 50,
        "test.en": 50,
        "test.qtx": 50,
        "test.align": 50,
    }
    for code in ("en", "qtx"):
        train, valid, test = (set(texts[f"{part}.{code}"]) for part in ("train", "valid", "test"))
        assert not train & valid
        assert not train & test
        assert not valid & test
    by_source = {pair.source: pair for pair in toy_corpus(400, seed=3)}
    for source, target, links in zip(texts["test.en"], texts["test.qtx"], texts["test.align"]):
        pair = by_source[source]
        assert target == pair.target
        assert links == " ".join(f"{i}-{j}" for i, j in pair.alignment)


def test_more_text_to_train_on_leaves_the_test_alone(tmp_path: Path) -> None:
    write_toy(tmp_path / "small", pairs=10, held_out=20)
    write_toy(tmp_path / "large", pairs=30, held_out=20)
    for name in ("valid.en", "test.qtx", "test.align"):
        assert (tmp_path / "small" / name).read_bytes() == (tmp_path / "large" / name).read_bytes()


def test_impossible_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="count must be at least 0, not -1"):
        toy_corpus(-1)
    with pytest.raises(HeadwayError, match="pairs must be at least 1, not 0"):
        write_toy(tmp_path, pairs=0)
    with pytest.raises(HeadwayError, match="held_out must be at least 1, not 0"):
        write_toy(tmp_path, held_out=0)


def test_other_files_of_the_same_names_are_not_written_over(tmp_path: Path) -> None:
    write_toy(tmp_path, 5)
    write_toy(tmp_path, 5)  # the same again
    for mine in ("my own text\n", "x" * (tmp_path / "train.en").stat().st_size):
        (tmp_path / "train.en").write_text(mine)
        with pytest.raises(HeadwayError) as caught:
            write_toy(tmp_path, 5)
        assert str(caught.value) == (
            f"{tmp_path} already has train.en with other text, which is never overwritten. Choose another folder."
        )
        assert (tmp_path / "train.en").read_text() == mine
