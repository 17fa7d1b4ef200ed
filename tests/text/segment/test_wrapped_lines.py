"""Paragraphs that were broken at a width are read as one line, and what became of them is broken again."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.documents.segments import SegmentResult
from headway.documents.txt import translate_bytes
from headway.text.segment.wrapped_lines import unwrap_text, wrap_unspaced

PROSE = (
    "The committee met on Tuesday to discuss the new rules for the market. It was decided that the Commission should "
    "make a proposal before the end of the year, and that Parliament would then be asked for its opinion."
)


@pytest.mark.parametrize("width", [40, 60, 72])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["", "    "])
def test_a_broken_paragraph_is_one_line(width: int, end: str, indent: str) -> None:
    lines = textwrap.wrap(PROSE, width, initial_indent=indent, subsequent_indent=indent)
    text = end.join(["Dear all,", "", *lines, "", "Kind regards", "Anna"])
    layout = unwrap_text(text)
    assert layout is not None
    assert layout.text == end.join(["Dear all,", "", indent + PROSE, "", "Kind regards", "Anna"])
    assert layout.restore(layout.text) == text
    said = layout.restore(layout.text.replace("Commission", "European Commission"))
    assert all(len(line) <= width for line in said.split(end))
    assert said.count(indent) >= len(lines)
    assert said.split() == text.replace("Commission", "European Commission").split()


@pytest.mark.parametrize(
    "text",
    [
        "one line",
        "Milk and some bread for the weekend\nEggs and a bottle of good oil\nCheese, the one from the market",
        "hey what time are we meeting tonight\nalso bring some drinks with you",
        "A first sentence of some length here.\nA second sentence of some length here.",
        "- an item that is long enough to be broken,\n- and another one that is an item of its own.",
        "Roses are red,\nviolets are blue.",
        "This line ends.\nthis one too, which is very much longer than the first line was, or so it seems.",
        "A line of a text with ends that\r\nare of one kind, and then of another\nkind, which must stay.",
        "> What was quoted from somebody who\n> wrote it with a sign before each line.",
        "Ein Satz, der so lang ist, dass er nicht\n\nin eine Zeile geht.",
        "",
    ],
)
def test_other_lines_are_left_alone(text: str) -> None:
    assert unwrap_text(text) is None


@pytest.mark.parametrize("above", [["Dear all,"], ["THE NEW RULES"], ["Dear all,", "thank you."], ["Yes."]])
@pytest.mark.parametrize("below", [[], ["Anna"], ["Kind regards,", "Anna"]])
def test_what_stands_directly_above_and_below_stays_apart(above: list[str], below: list[str]) -> None:
    layout = unwrap_text("\n".join([*above, *textwrap.wrap(PROSE, 60), *below]))
    assert layout is not None
    assert layout.text.split("\n") == [*above, PROSE, *below]


def test_a_noun_may_begin_a_line_too() -> None:
    layout = unwrap_text("Dieser Satz wurde von einem\nProgramm nach einigen Wörtern\numbrochen.")
    assert layout is not None
    assert layout.text == "Dieser Satz wurde von einem Programm nach einigen Wörtern umbrochen."


def test_what_has_another_number_of_lines_is_not_broken_again() -> None:
    layout = unwrap_text("\n".join(textwrap.wrap(PROSE, 50)))
    assert layout is not None
    assert layout.restore("two\nlines") == "two\nlines"


def test_a_document_of_plain_text_too() -> None:
    broken = "\n".join(textwrap.wrap(PROSE, 50))
    said, counts = translate_bytes(
        f"Title\n\n{broken}\n".encode(), "a.txt", lambda group: [SegmentResult(one.text.upper()) for one in group]
    )
    assert counts.segments == 2
    assert said.decode() == f"TITLE\n\n{broken.upper()}\n"


lines = st.lists(st.text(alphabet="aBc é.,-\t ", max_size=60), max_size=8)


@given(lines, st.sampled_from(["\n", "\r\n"]))
def test_what_did_not_change_is_laid_out_as_it_was(lines: list[str], end: str) -> None:
    text = end.join(lines)
    layout = unwrap_text(text)
    if layout is not None:
        assert layout.restore(layout.text) == text
        assert layout.text.split() == text.split()


def test_a_script_without_spaces_is_wrapped_between_its_characters() -> None:
    """By columns, of which a character takes two; a line does not begin with what closes, nor end with what opens."""
    text = "这是一段以固定宽度换行的文字，就像邮件里那样。它提到 Headway 和“引号”，（括号）等等。"
    lines = wrap_unspaced(text, 20)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "") and len(lines) > 3
    assert all(sum(1 + (ord(one) > 0x2E7F) for one in line) <= 22 for line in lines)
    assert not any(line[0] in "，。”）" or line[-1] in "“（" for line in lines)
    wrapped = unwrap_text(
        "This is a paragraph of text that was\nwrapped at a fixed width, as in mails,\nand it ends here."
    )
    assert wrapped is not None
    assert wrapped.restore(text).count("\n") >= 2


@given(st.text("这是。，“”（） a1", max_size=60), st.integers(5, 30))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    assert "".join("".join(wrap_unspaced(text.strip(), width)).split()) == "".join(text.split())
