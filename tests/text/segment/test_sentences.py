import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.text.segment.sentences import Segment, join_segments, split_sentences

# Sentences are separated by " | ", which is one space in the text.
ENGLISH = [
    "This is one. | This is two.",
    "Is it? | Yes! | It is.",
    "Mr. Smith met Mrs. Jones. | They talked.",
    "Dr. Who lives on Baker St. in London. | He travels.",
    "Prof. Brown and Gen. Lee spoke. | Nobody listened.",
    "See e.g. Smith, i.e. the first one. | It is good.",
    "We met at 5 p.m. in the park. | It rained.",
    "We met at 5 p.m. | Then it rained.",
    "The U.S. Senate voted. | The bill passed.",
    "He lives in the U.S. | She does not.",
    "J. S. Bach wrote it. | It is famous.",
    "George W. Bush and J.R.R. Tolkien never met. | Pity.",
    "So do I. | Peter does too.",
    "It costs 3.50 dollars. | That is cheap.",
    "Pi is 3.14. | It goes on.",
    "It was 1999. | Nobody knew.",
    "He is 42. | Nobody cares.",
    "See No. 5 on the list. | It is new.",
    "No. | I won't.",
    "See Fig. 3 and p. 12. | They show it.",
    "Apples, pears, etc. are fruit. | Beans are not.",
    "Apples, pears, etc. | They are fruit.",
    "Apple Inc. Announced Results",
    "He said: “Go.” | Then he left.",
    'He said, "Stop!" and ran. | We stayed.',
    '"Stop!" he said. | "Why?" | Nobody answered.',
    "(It was late.) | We went home.",
    "Really?! | Yes.",
    "Well... I don't know. | Ask him.",
    "He waited... | Nothing happened.",
    "He waited… and waited. | Nothing happened.",
    "Visit www.example.com. | It is free.",
    "Open file.txt at example.com/a.html now. | Then read it.",
    "Version 2.0.1 is out. | Update now.",
    "Smith et al. (2019) found it. | We did not.",
    "1. Introduction",
    "Yahoo! is a company. | It is old.",
    "MR. SMITH IS HERE. | HE IS LATE.",
    "The end.",
    "No stop at all",
    "He moved to St. Louis in Sept. 1990. | It was warm.",
    "Wait! | 😀 See you.",
    "What is 2 vs. 3? | One less.",
    "I know that you don't. | Tom knows too.",
    "The club (est. 1905) is old. | Nobody cares.",
    "Berlin is large.[1] | It is old.[2][3] | He left.¹ | She “did.”⁴ | Nobody cared.⟦0⟧ | The end.",
    "See sec.[1] for it.",
]
GERMAN = [
    "Das ist eins. | Das ist zwei.",
    "Ist das so? | Ja! | So ist es.",
    "Hr. Müller und Fr. Dr. Schmidt kamen. | Sie sprachen.",
    "Das gilt z.B. Montag und Dienstag. | Sonst nicht.",
    "Das gilt z. B. Montag und Dienstag. | Sonst nicht.",
    "Er kommt morgen, d.h. Freitag. | Warte.",
    "Er kommt morgen, d. h. Freitag. | Warte.",
    "Katzen bzw. Hunde sind erlaubt. | Vögel nicht.",
    "Er kam am 3. Mai zurück. | Es regnete.",
    "Am 24. Dezember 1999 schneite es. | Alle freuten sich.",
    "Er wurde zum 100. Geburtstag eingeladen. | Er kam nicht.",
    "Im 19. Jahrhundert war das anders. | Heute nicht.",
    "Das war 1999. | Niemand wusste es.",
    "Er ist 42. | Das ist alt.",
    "Friedrich II. König von Preußen spielte Flöte. | Er komponierte auch.",
    "Ludwig XIV. regierte lange. | Dann starb er.",
    "J. S. Bach lebte in Leipzig. | Er war Kantor.",
    "Es kostet 3,50 Euro bzw. 4.000 Yen. | Das ist viel.",
    "Siehe Nr. 5 und Abs. 2. | Dort steht es.",
    "Er isst Äpfel, Birnen usw. | Sie isst nichts.",
    "Er isst Äpfel usw. und trinkt. | Sie nicht.",
    "Rom wurde 753 v. Chr. gegründet. | Das ist lange her.",
    "„Komm her.“ | Er kam.",
    "„Komm her!“, rief er. | Sie kam.",
    "»Komm her.« | Er kam.",
    "Er ging. | »Komm«, sagte sie.",
    "Er ging (endlich.) | Sie blieb.",
    "Na ja … vielleicht. | Wer weiß?",
    "Max. 5 Personen sind erlaubt. | Mehr nicht.",
    "Er heißt Max. | Peter kennt ihn.",
    "Das ist, was ich mag. | Peter nicht.",
    "Das kostet ca. 5 Mio. Euro. | Zu viel.",
    "Dipl.-Ing. Weber rief an. | Niemand hob ab.",
    "Ggf. Termin verschieben. | Danke.",
    "Er sprach mit Mrs. Thatcher. | Sie schwieg.",
    "Tel. +49 30 1234. | Anrufen!",
]
UNKNOWN_LANGUAGE = [
    "Mr. Smith und Hr. Müller kamen. | Then they left.",
    "Am 3. Mai. | It was late.",
    "今日は晴れです。|明日は雨です。",
    "他说:「你好。」然后走了。|我没走。",
    "真的吗?! | 是的！|好。",
    "これは？|はい。 | そう。",
    "هل أنت هنا؟ | نعم.",
    "यह एक है। | यह दो है।|तीन॥",
    "¿Qué tal? | ¡Bien! | ¿Y tú?",
    "Bonjour ! » | Il partit.",
]
CASES = [("en", case) for case in ENGLISH] + [("de", case) for case in GERMAN]
CASES += [(None, case) for case in UNKNOWN_LANGUAGE]


@pytest.mark.parametrize(("language", "case"), CASES)
def test_where_sentences_end(language: str | None, case: str) -> None:
    text = case.replace(" | ", " ").replace("|", "")
    expected = [part.strip() for part in case.split("|")]
    assert [piece.text for piece in split_sentences(text, language)] == expected


def test_spacing_is_kept_where_it_stood() -> None:
    text = "  One.   Two.\n\n\tThree\n"
    assert split_sentences(text) == [("  ", "One."), ("   ", "Two."), ("\n\n\t", "Three"), ("\n", "")]


def test_a_line_break_always_ends_a_sentence() -> None:
    pieces = split_sentences("a heading  \nand more\u2028and mr.\rSmith")
    assert [piece.text for piece in pieces] == ["a heading", "and more", "and mr.", "Smith"]
    assert pieces[1].before == "  \n"


def test_nothing_and_white_space() -> None:
    assert split_sentences("") == []
    assert split_sentences(" \n ") == [Segment(" \n ", "")]


def test_language_tags_with_regions() -> None:
    assert len(split_sentences("He is 42. Nobody cares.", "en-GB")) == 2
    assert len(split_sentences("Das ist der 42. Film.", "de_AT")) == 1


SENTENCE_TEXT = st.text() | st.text(alphabet="ab Z.!?…»“\"')\n 。」3I\u2028\u00a0")


@settings(deadline=None)
@given(SENTENCE_TEXT, st.sampled_from([None, "en", "de", "ja"]))
def test_joined_sentences_are_the_text(text: str, language: str | None) -> None:
    pieces = split_sentences(text, language)
    assert join_segments(pieces) == text
    assert all(piece.text == piece.text.strip() for piece in pieces)
    assert all(piece.text for piece in pieces[:-1])
    assert all(not piece.before.strip() for piece in pieces)


@pytest.mark.parametrize(
    "part", [".", "a. ", " ", "\n", "Mr. A. ", '."', "。", "1. ", "- ", "x", "     ", "\t", ".[1]", ".¹"]
)
def test_long_text_takes_no_long_time(part: str) -> None:
    text = part * (200_000 // len(part))
    began = time.process_time()
    assert join_segments(split_sentences(text)) == text
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a house\ta garden\t12.50", [("", "a house"), ("\t", "a garden"), ("\t", "12.50")]),
        ("\tone\t\ttwo", [("\t", "one"), ("\t\t", "two")]),
        ("--help     show this", [("", "--help"), ("     ", "show this")]),
        ("one   two", [("", "one   two")]),
    ],
)
def test_cells_are_apart(text: str, found: list[tuple[str, str]]) -> None:
    assert split_sentences(text, "en") == [Segment(*one) for one in found]
    assert join_segments(split_sentences(text, "en")) == text


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("今天很好。我们去公园吧！你来吗？", ["今天很好。", "我们去公园吧！", "你来吗？"]),
        ("你好!你叫什么名字?我叫小明.", ["你好!", "你叫什么名字?", "我叫小明."]),
        ("价格是3.5元，见v1.2。我……不知道", ["价格是3.5元，见v1.2。", "我……不知道"]),
        ("“好的。”他说。（走了。）", ["“好的。”他说。", "（走了。）"]),
    ],
)
def test_chinese_with_either_width_of_punctuation(text: str, sentences: list[str]) -> None:
    assert [one.text for one in split_sentences(text, "zh")] == sentences
