"""Passages: some sentences, whole, under their headings."""

from headway.answering.passages import MAX_SENTENCE_CHARS, MAX_WORDS, Source, cut_passages
from headway.documents.blocks.block import TextBlock
from headway.text.unspaced import count_words


def paragraph(sentences: int, place: int, words: int = 10) -> TextBlock:
    return TextBlock(" ".join(f"Word{n} {'and so ' * (words // 2 - 1)}on." for n in range(sentences)), place)


def test_headings_end_passages_and_stand_above_them() -> None:
    blocks = [
        TextBlock("Before.", 1), TextBlock("Book", 2, level=1), TextBlock("Part", 3, level=2), TextBlock("One.", 4),
        TextBlock("Two.", 5, last=6), TextBlock("Deep", 7, level=4), TextBlock("Three.", 8),
        TextBlock("Next", 9, level=2), TextBlock("Empty", 10, level=2), TextBlock("Four.", 11),
    ]  # fmt: skip
    found = [(one.heading, one.text, one.first, one.last) for one in cut_passages(blocks, 3)]
    assert found == [
        ("", "Before.", 1, 1), ("Book › Part", "One.\nTwo.", 4, 6), ("Book › Part › Deep", "Three.", 8, 8),
        ("Book › Empty", "Four.", 11, 11),
    ]  # fmt: skip
    assert {one.document for one in cut_passages(blocks, 3)} == {3}


def test_long_sections_are_cut_between_sentences_and_a_short_rest_joins() -> None:
    found = list(cut_passages([paragraph(13, 1), paragraph(14, 2), TextBlock("The end.", 3)]))
    assert [(one.first, one.last) for one in found] == [(1, 1), (1, 2), (2, 3)]
    assert max(count_words(one.text) for one in found) <= MAX_WORDS
    joined = list(cut_passages([paragraph(12, 1), TextBlock("A short rest.", 2)]))
    assert len(joined) == 1 and joined[0].text.endswith("on.\nA short rest.")
    assert "".join(one.text for one in found).count("on.") == 27


def test_no_text_is_lost_and_spaces_stay_as_they_were() -> None:
    text = "第一句。第二句！ Third one. Fourth?"
    assert [one.text for one in cut_passages([TextBlock(text, 1)])] == [text]
    code = TextBlock("a = 1\n\n    b = 2", 5, code=True)
    assert [one.text for one in cut_passages([code])] == ["a = 1\n    b = 2"]


def test_what_is_no_sentence_is_cut_between_words() -> None:
    long = "word " * 1000
    found = list(cut_passages([TextBlock(long.strip(), 1), TextBlock("x" * 2500, 2)]))
    lines = [line for one in found for line in one.text.split("\n")]
    assert sum(one.text.count("word") for one in found) == 1000 and sum(one.text.count("x") for one in found) == 2500
    assert max(len(line) for line in lines) <= 3 * MAX_SENTENCE_CHARS


def test_chinese_passages_are_counted_in_characters() -> None:
    found = list(cut_passages([TextBlock("这是一个句子。" * 60, 1)]))
    assert len(found) == 2 and "".join(one.text for one in found) == "这是一个句子。" * 60


def test_places_name_file_and_line() -> None:
    passage = next(cut_passages([TextBlock("One.", 7)]))
    assert Source("docs/a.md", "line", passage).place == "docs/a.md:7"
    assert Source("a.pdf", "page", passage).place == "a.pdf, page 7"
