"""Terms: read from a table, found in a sentence, the longest first, and what goes wrong is said."""

from pathlib import Path

import pytest

from headway.decode.constraints import PhraseConstraints
from headway.errors import HeadwayError
from headway.text.glossary import Glossary, Term, encode_term, find_unplaced_terms
from headway.text.tokenizer.tokenizer import Tokenizer

TERMS = {"dog": "Köter", "hot dog": "Würstchen", "dog house": "Hütte", "US": "USA", "New York": "Neu York"}


def found(text: str) -> list[str]:
    return [term.target for term in Glossary(TERMS).find_terms(text).terms]


def test_words_are_found_whole_and_as_they_are_written() -> None:
    assert found("A dog and a dog.") == ["Köter", "Köter"]
    assert found("Dog, dogs, hotdog, DOG") == ["Köter"]  # a capital as at the start of a sentence
    assert found("The US helps us in new york.") == ["USA"]
    assert Glossary(TERMS).find_terms("A Dog in  New York.").text == "A Köter in  Neu York."


def test_the_longest_first() -> None:
    assert found("A hot dog") == ["Würstchen"]
    terms, text, told = Glossary(TERMS).find_terms("A hot dog house.")
    assert [term.target for term in terms] == ["Hütte"]
    assert text == "A hot Hütte."
    assert told == ['the terms "dog house" and "hot dog" overlap: the first was taken']


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tHund\n\nold man \t alter Mann\ndog\tHund\n")
    assert Glossary.load(path).terms == {"dog": "Hund", "old man": "alter Mann"}
    path.write_text("dog\tHund\ndog\tKöter\n")
    with pytest.raises(HeadwayError, match=r'terms.tsv, line 2: "dog" is "Köter" here and "Hund" on line 1. Keep one.'):
        Glossary.load(path)
    path.write_text("dog Hund\n")
    with pytest.raises(HeadwayError, match=r"terms.tsv, line 1: each line must be a term, a tab and its translation"):
        Glossary.load(path)
    with pytest.raises(HeadwayError, match=r"the glossary translates 'dog' by ' ': neither may be empty"):
        Glossary({"dog": " "})


def test_what_stands_for_a_span_is_no_term() -> None:
    terms, text, _ = Glossary({"0": "null", "dog": "Hund"}).find_terms("⟦0⟧0 ⟦0⟧dog 0")
    assert [term.source for term in terms] == ["0", "dog", "0"]
    assert text == "⟦0⟧null ⟦0⟧Hund null"
    for entry in ({"⟦0⟧": "x"}, {"dog": "⟦ Hund"}):
        with pytest.raises(HeadwayError, match="the brackets ⟦ and ⟧ are reserved for protected spans. Remove them"):
            Glossary(entry)


def test_how_a_term_is_spelled() -> None:
    tokenizer = Tokenizer.train([], "bytes")
    assert tokenizer.decode(encode_term(Term("a", "xy"), tokenizer)) == "xy"
    assert len(encode_term(Term("a", "xy"), tokenizer)) == len(encode_term(Term("a", "xy", True), tokenizer)) + 1
    assert [term.no_space for term in Glossary(TERMS).find_terms('A "dog" dog').terms] == [True, False]


def test_what_an_output_lacks() -> None:
    terms = [Term("dog", "Köter"), Term("dog", "Köter", True), Term("US", "USA")]
    assert find_unplaced_terms(terms, "Köter, USA, Köter") == []
    assert find_unplaced_terms(terms, "Köter und Köters") == [
        'the term "dog" could not be placed as "Köter"',
        'the term "US" could not be placed as "USA"',
    ]


def test_terms_in_text_without_spaces() -> None:
    """A term stands between other characters, the longest first, on either side."""
    found = Glossary({"数据中心": "data centre", "中心": "middle", "data centre": "数据中心"})
    made = found.find_terms("这个数据中心很大，中心。")
    assert [term.source for term in made.terms] == ["数据中心", "中心"] and made.text == "这个data centre很大，middle。"
    terms = found.find_terms("A data centre.").terms
    assert find_unplaced_terms(terms, "这个数据中心很大") == []
    assert find_unplaced_terms(terms, "这个中心很大")
    target = Tokenizer.train(["这个数据中心很大。"] * 20)
    assert target.decode(encode_term(terms[0], target)) == "数据中心"
    assert target.decode([*target.encode("这个"), *encode_term(terms[0], target)]) == "这个数据中心"
    assert not {n for n in target.continuation_ids if target.pieces([n])[0].startswith("很")}
    phrase = encode_term(terms[0], target)
    ids = [*phrase, target.encode("a")[-1]]
    assert PhraseConstraints((phrase,), target.continuation_ids, frozenset([0])).state(ids).met == 1
