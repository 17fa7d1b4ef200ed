"""Which numbers a translation lost."""

import pytest

from headway.text.numbers import (
    find_lost_numbers,
    find_missing_numbers,
    find_numbers,
    localise_number,
    share_number_format,
)


def test_digits_are_what_counts() -> None:
    assert find_numbers("1,000.5 at 10:30 in 1999, No. 7") == ["10005", "1030", "1999", "7"]
    assert find_numbers("1.000,5 um 10.30 Uhr 1999, Nr. 7") == ["10005", "1030", "1999", "7"]
    assert find_numbers("10 000 or 10 000") == ["10000", "10000"]
    assert find_numbers("in 1999 7 people") == ["1999", "7"]
    assert find_numbers("no number, A4 and 2x") == ["4", "2"]


@pytest.mark.parametrize(
    ("source", "output", "missing"),
    [
        ("It costs 1,250.50 euros.", "Es kostet 1.250,50 Euro.", []),
        ("It costs 1,250.50 euros.", "Es kostet Geld.", ["125050"]),
        ("5 and 5", "5 und fünf", []),
        ("5 and 5", "nur 5", ["5"]),
        ("She has 1 dog and 12 cats.", "Sie hat einen Hund und zwölf Katzen.", []),
        ("13 cats", "dreizehn Katzen", ["13"]),  # only so far are words known
        ("drei Hunde", "no dogs", []),  # no digits, no number
        ("in 2010", "im Jahr 2011", ["2010"]),
        ("version 007", "Version 7", ["007"]),
        ("0 Fehler", "zero errors", []),
    ],
)
def test_missing(source: str, output: str, missing: list[str]) -> None:
    assert find_missing_numbers(source, output) == missing


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("We sold 40,000 of 96 in 2019.", "2019 haben wir 40.000 von 96 verkauft.", []),
        ("We sold 40,000 in 2019.", "2019 haben wir 4000 verkauft.", ["40,000"]),
        ("12 cats and 13 dogs", "zwölf Katzen und Hunde", ["13"]),
        ("7 cats", "Katzen", []),  # seven, sieben, sept …: too many ways
        ("in 2010 and 2010", "im Jahr 2010", []),
        ("in 1998", "سنة ١٩٩٨", []),
        ("We sold 1,250,000.", "Wir haben 1.250 000 verkauft.", ["1,250,000"]),  # two numbers, the second of them 000
        ("It costs 1,250,000.50.", "Das kostet 1 250 000,50.", []),
        ("Am 16.11.2026 um 18:45", "On 16 November 2026, at 6:45", []),
        ("Am 16.11.2026 um 18:45", "On 17 November 2026, at 6:54", ["16.11.2026", "18:45"]),
        ("on 16/11/2026", "am 16.11.2026", []),
        ("version 2.13.0", "Version 2.13.0", []),
        ("9" * 5000, "eine Zahl", ["9" * 5000]),
        ("12,345,678 people", "12,345.678 Leute", ["12,345,678"]),  # which would have decimals
        ("12,345,678 people", "12.345.678 Leute", []),
        ("12,345.5 miles", "12.345,5 Meilen", []),
        ("12,345.678 miles", "12.345.678 Meilen", ["12,345.678"]),
        ("1,234,567 people", "1.234.567,00 Leute", []),
        ("12,206,486.56 euros", "12.206,486.56 Euro", ["12,206,486.56"]),
        ("1,250 people", "1,250 Leute", []),  # which may be either
        ("12.345.678 Euro", "EUR 12:345,678", ["12.345.678"]),
        ("$440 billion", "4440 Milliarden Dollar", ["440"]),  # digits that stand in another number
        ("33 Prozent, 200 Aussteller", "333%, 2000 exhibitors", ["33", "200"]),
        ("250 people", "1.250 Leute", ["250"]),
        ("70 thousand people", "70 000 Leute", []),
        ("70 thousand people", "700 Leute", ["70"]),
        ("1.5 million, 2.5 metres", "1.500.000, 2,50 Meter", []),
        ("in den 90er Jahren", "in the 1990s", []),
        ("um 14 Uhr, 150 Euro", "at 14:00, 150.00 euros", []),
        ("no number", "keine Zahl", []),
    ],
)
def test_lost(source: str, output: str, lost: list[str]) -> None:
    assert find_lost_numbers(source, output) == lost


@pytest.mark.parametrize(
    ("source", "output", "languages", "lost"),
    [
        ("12 Millionen Kronen Entschädigung", "compensation", ["en"], ["12"]),
        ("12 Millionen Kronen Entschädigung", "compensation", ["en", "fr"], []),  # whose words nobody knows here
        ("2 Stunden 40 Minuten", "40 minutes", ["en"], ["2"]),
        ("2 Stunden 40 Minuten", "two hours and 40 minutes", ["en-GB"], []),
        ("die 2. Frau, 3 Hunde", "the second woman, three dogs", ["en"], []),
        ("um 2 Uhr, um 11 Uhr", "at 14:00, at 11:00", ["en"], []),
        ("at 3 p.m. and 12 o'clock", "um 15 Uhr und zu Mittag", ["de"], []),
        ("5 thousand men, 6 months, 1 dog", "5.000 Männer, ein halbes Jahr, der Hund", ["de"], []),
        ("ten of 10", "often", ["en"], ["10"]),
        ("A4, 3D, 16.11.2026", "paper in space, 16 November 2026", ["en"], []),
        ("8 hours", "achtstündig", ["en", "de"], []),
    ],
)
def test_small_ones_may_be_words(source: str, output: str, languages: list[str], lost: list[str]) -> None:
    assert find_lost_numbers(source, output, languages) == lost


def test_which_languages_write_numbers_alike() -> None:
    assert share_number_format(("en", "de")) and share_number_format({"en", "pt-BR", "hi"})
    assert share_number_format(("en", "zh")) and share_number_format(("zh-Hans", "de"))
    assert not any(map(share_number_format, [("ja", "zh"), ("ja", "de"), ("src", "tgt"), ("en", "qtx"), ("en",), ()]))


@pytest.mark.parametrize(
    ("number", "languages", "written"),
    [
        ("1,250,000", ("en", "de"), "1.250.000"),
        ("1.250.000,50", ("de", "en"), "1,250,000.50"),
        ("1,250", ("en-GB", "de-AT"), "1.250"),
        ("3.12", ("en", "de"), "3.12"),  # a version, maybe
        ("16.11.2026", ("de", "en"), "16.11.2026"),
        ("1.250", ("en", "de"), "1,250"),  # it would be a thousand times as much
        ("309,555", ("de", "en"), "309.555"),
        ("3,5", ("de", "en"), "3.5"),
        ("0,500", ("de", "en"), "0.500"),
        ("0,500", ("en", "de"), "0,500"),  # nobody writes that
        ("192.168.178.201", ("de", "en"), "192.168.178.201"),
        ("030.901.820", ("de", "en"), "030.901.820"),
        ("1,250,000", ("en", "fr"), "1,250,000"),  # whose signs nobody has told
        ("2026", ("en", "de"), "2026"),
    ],
)
def test_as_another_language_writes_it(number: str, languages: tuple[str, str], written: str) -> None:
    assert localise_number(number, *languages) == written


@pytest.mark.parametrize(
    ("source", "output", "target"),
    [
        ("1.2 billion people", "12亿人", "zh"),
        ("300 million stars", "3亿颗星", "zh"),
        ("12,000 books", "1.2万本书", "zh"),
        ("30 million pictures", "3000多万张照片", "zh"),
        ("25 cats", "二十五只猫", "zh"),
        ("105 days in 2026", "二〇二六年的一百零五天", "zh"),
        ("120 million", "一亿两千万", "zh"),
        ("in the 1990s", "在 90 年代", "zh"),
        ("35 million people", "3500万人", "zh"),
        ("3500万人", "35 million people", "en"),
        ("2.5万人", "25,000 people", "en"),
        ("下午15点开会", "we meet at 3 pm", "en"),
        ("2026 年 8 月 1 日", "August 1, 2026", "en"),
        ("20 世纪 80 年代", "the 1980s", "en"),
    ],
)
def test_numbers_that_chinese_writes_otherwise(source: str, output: str, target: str) -> None:
    assert find_lost_numbers(source, output, [target]) == []


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("20000 books", "3万本书", ["20000"]),
        ("25 cats", "猫", ["25"]),
        ("25 cats", "二十六只猫", ["25"]),
        ("3500万人", "45 million people", ["3500"]),
        ("2026年", "in 2025", ["2026"]),
    ],
)
def test_numbers_that_are_lost_beside_chinese(source: str, output: str, lost: list[str]) -> None:
    assert find_lost_numbers(source, output, ["zh" if source.isascii() else "en"]) == lost


def test_a_long_row_of_numerals_takes_no_time() -> None:
    assert find_lost_numbers("25", "一二三万" * 50_000, ["zh"]) == ["25"]
