import time

import pytest

from headway.text.degenerate import is_copy, is_repetitive, is_stuttering

LOOPS = [
    "salad " * 40,
    "a plate of " + "salad " * 30,
    "(掌声) " * 25,
    "the committee on the " * 8,
    "I would like to thank the rapporteur . " + "and the Commission , " * 12,
    "one two three four five six seven eight " * 4,
    "- " * 50,
    "and so on and so on " + "very " * 20 + "good",
]
SPEECH = [
    "",
    "ha ha ha",
    "ha ha ha ha ha ha ha ha",
    "New York, New York",
    "no , no , no , no !",
    "the cat sat on the mat and the dog sat on the cat and the bird sat on the dog",
    "row , row , row your boat gently down the stream , merrily , merrily , merrily , merrily , life is but a dream",
    "he said that that that that he had used was wrong and that that was that , which is fine by all of us here",
    "it was the best of times , it was the worst of times , it was the age of wisdom , it was the age of foolishness",
    "0 . 0 0 0 0 0 0 0 0 1 is a very small number of this kind , as every one of you will know from school and work",
]


@pytest.mark.parametrize("text", LOOPS)
def test_loops_are_found(text: str) -> None:
    assert is_repetitive(text.split())


@pytest.mark.parametrize("text", SPEECH)
def test_speech_is_no_loop(text: str) -> None:
    assert not is_repetitive(text.split())


def test_ids_do_as_well_as_words() -> None:
    assert is_repetitive([7, 8, 9] * 10)
    assert not is_repetitive(list(range(100)))


def test_a_loop_of_nine_is_not_looked_for() -> None:
    assert not is_repetitive(list(range(9)) * 10)


def test_a_loop_in_a_long_good_output_is_let_pass() -> None:
    assert not is_repetitive([*range(100), *[5] * 20])


COPIES = [
    ("This is a sentence that should be translated.", "This is a sentence that should be translated."),
    ("This is a sentence that should be translated.", "this is a sentence that should be translated"),
    ("Das ist ein Satz, der übersetzt werden soll!", "Das ist ein Satz , der übersetzt werden soll !"),
    ("今天我们要讨论这个非常重要的问题。", "今天我们要讨论这个非常重要的问题。"),
    ("это предложение надо было перевести на английский", "это предложение надо было перевести на английский"),
]
NO_COPIES = [
    ("", ""),
    ("Hello", "Hello"),
    ("Berlin", "Berlin"),
    (
        "Angela Merkel, Emmanuel Macron, Barack Obama, Theresa May",
        "Angela Merkel, Emmanuel Macron, Barack Obama, Theresa May",
    ),
    ("1 2 3 4 5 6 7 8 9 10", "1 2 3 4 5 6 7 8 9 10"),
    ("https://example.com/this/is/a/very/long/path", "https://example.com/this/is/a/very/long/path"),
    (
        "see www.example.com/one/two/three and mail me@example.com",
        "see www.example.com/one/two/three and mail me@example.com",
    ),
    ("Jazz, Rock, Pop", "Jazz, Rock, Pop"),
    ("東京", "東京"),
    ("This is a sentence that should be translated.", "Das ist ein Satz, der übersetzt werden soll."),
    ("A hotel, a bar and a taxi", "Ein Hotel, eine Bar und ein Taxi"),
]


@pytest.mark.parametrize(("source", "output"), COPIES)
def test_copies_are_found(source: str, output: str) -> None:
    assert is_copy(source, output)


@pytest.mark.parametrize(("source", "output"), NO_COPIES)
def test_what_may_stay_the_same_is_no_copy(source: str, output: str) -> None:
    assert not is_copy(source, output)


@pytest.mark.parametrize("part", ["a", "a/", "a b ", "東", "."])
def test_long_text_takes_no_long_time(part: str) -> None:
    text = part * 100_000
    began = time.process_time()
    is_copy(text, text)
    is_repetitive(text[:100_000])
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("source", "output", "found"),
    [
        ("He laughs.", "Er lacht, er lacht.", False),
        ("He laughs.", "Er lacht, er lacht, er lacht.", True),
        ("Ha ha ha!", "Ha, ha, ha!", False),  # the source does it
        ("Ha ha ha!", "Ha ha ha ha!", True),
        ("No.", "nein nein nein", True),
        ("No.", "a b c d e f g h a b c d e f g h a b c d e f g h", True),  # eight words are the longest
        ("No.", "a b c d e f g h i a b c d e f g h i a b c d e f g h i", False),
        ("", "", False),
    ],
)
def test_stutters(source: str, output: str, found: bool) -> None:
    assert is_stuttering(source, output) == found
