"""Traditional and simplified Chinese."""

import pytest

from headway.text.chinese_script import (
    FREQUENT,
    find_script,
    reads_simplified_alone,
    simplified_forms,
    to_simplified,
)
from headway.text.line_language import LineLanguageDetector
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.source import SourceReader

PAIRS = [
    ("今天天氣很好，我們去公園散步。", "今天天气很好，我们去公园散步。"),
    ("這個軟體很好用", "这个软体很好用"),
    ("臺灣的資訊科技發展迅速。裡面有餘額", "台湾的资讯科技发展迅速。里面有余额"),
]


@pytest.mark.parametrize(("traditional", "simplified"), PAIRS)
def test_traditional_text_in_simplified_characters(traditional: str, simplified: str) -> None:
    assert find_script(traditional) == "traditional" and find_script(simplified) == "simplified"
    assert to_simplified(traditional) == simplified
    assert to_simplified(simplified) == simplified


def test_other_text_stays_as_it_is() -> None:
    """Also what both write alike, where a character may mean something else: 后 is an empress, too."""
    for text in ("著名的作家，皇后之后", "中文", "Grüße", "", "12:30"):
        assert to_simplified(text) == text
    assert find_script("中文") == ""


def test_the_table_leads_to_an_end() -> None:
    forms = simplified_forms()
    assert len(forms) > 2500 and not any(ord(form) in forms for form in forms.values())
    assert all(ord(character) in forms for character in FREQUENT)


def test_a_model_of_simplified_text_reads_traditional_text() -> None:
    simplified = [*(simplified for _, simplified in PAIRS), FREQUENT.translate(simplified_forms())]
    learned = Tokenizer.train(simplified * 20, "characters")
    both = Tokenizer.train([*simplified, FREQUENT] * 20, "characters")
    assert reads_simplified_alone(learned.characters) and not reads_simplified_alone(both.characters)
    assert not reads_simplified_alone(Tokenizer.train(["a dog"], "bytes").characters)
    reader = SourceReader(learned, DirectionTokens(), 500, "zh", True, simplify=True)
    line = reader.read("".join(traditional for traditional, _ in PAIRS[:1]), 0)
    assert [learned.decode(one.ids) for one in line.sentences] == [PAIRS[0][1]] and line.source == PAIRS[0][0]


def test_the_two_are_told_apart_and_from_japanese() -> None:
    known = LineLanguageDetector(["zh-Hans", "zh-Hant", "ja", "en"], "en")
    for traditional, simplified in [*PAIRS, ("謝謝", "谢谢")]:
        assert (known.detect(traditional), known.detect(simplified)) == ("zh-Hant", "zh-Hans")
    assert known.detect("今日は天気がいいので公園に行きます。") == known.detect("ありがとう") == "ja"
    assert known.detect("오늘은 날씨가 좋습니다.") == "ko"
    assert known.detect("中文") == "zh-Hans", "in doubt"
    one = LineLanguageDetector(["zh", "de"], "de")
    assert one.detect(PAIRS[0][0]) == one.detect(PAIRS[0][1]) == "zh"
