"""Language codes: all spellings of a language are understood, and lists of many stay short."""

import time

from headway.text.language_codes import (
    MAX_LISTED,
    count_directions,
    describe_languages,
    format_directions,
    format_languages,
    languages_match,
    list_directions,
    match_languages,
    primary_language,
    shorten_codes,
    usual_direction,
)
from headway.text.language_names import language_from_name

MANY = [f"q{a}{b}" for a in "abcdefghijklmn" for b in "abcdefghijklmn"]  # 196


def test_spellings_of_a_language() -> None:
    assert [primary_language(code) for code in ("eng_Latn", "en_XX", "EN-gb", "nob_Latn", "zh_CN", "ace")] == [
        "en", "en", "en", "no", "zh", "ace",
    ]  # fmt: skip
    assert languages_match("eng_Latn", "en") and languages_match("de", "deu_Latn") and languages_match("no", "nb")
    assert languages_match("zh_CN", "zh-Hans") and languages_match("zh", "zho_Hant")
    assert not languages_match("zh-TW", "zh-Hans") and not languages_match("pt-PT", "pt-BR")
    assert language_from_name("tel") == "" and language_from_name("eng") == "en"  # a column of telephone numbers


def test_which_language_is_meant() -> None:
    known = ["en", "pt-BR", "zh-Hans", "zh-Hant", "nb", "nn"]
    assert match_languages("eng_Latn", known) == ["en"]
    assert match_languages("pt", known) == ["pt-BR"]
    assert match_languages("zh-CN", known) == ["zh-Hans"]
    assert match_languages("zh", known) == ["zh-Hans", "zh-Hant"]
    assert match_languages("no", known) == ["nb"]
    assert match_languages("fr", known) == []


def test_codes_of_other_toolkits_are_shortened_as_far_as_they_differ() -> None:
    codes = ["eng_Latn", "zho_Hans", "zho_Hant", "arb_Arab", "arb_Latn", "kas_Arab", "kas_Deva", "yue_Hant", "ace_Latn"]
    assert list(shorten_codes(codes).values()) == [
        "en", "zh-Hans", "zh-Hant", "ar", "ar-Latn", "ks-Arab", "ks-Deva", "yue", "ace",
    ]  # fmt: skip
    assert shorten_codes(["en_XX", "zh_CN", "pt_XX", "ro_RO"]) == {
        "en_XX": "en", "zh_CN": "zh", "pt_XX": "pt", "ro_RO": "ro",
    }  # fmt: skip
    assert shorten_codes(["fas", "pes"]) == {"fas": "fas", "pes": "pes"}  # both would be fa
    everything = shorten_codes([*codes, *MANY])
    assert len(set(everything.values())) == len(everything)


def test_many_languages_are_listed_in_little_time_and_space() -> None:
    start = time.perf_counter()
    assert len(describe_languages(MANY, MANY)) < 200
    assert describe_languages(MANY, MANY).endswith("(196 in all)")
    assert describe_languages(MANY, ["en"]) == f"{format_languages(MANY)} → en"
    pairs = list_directions(MANY, MANY)
    assert len(pairs) == count_directions(MANY, MANY) == 196 * 195
    assert format_directions(pairs).endswith(f"… ({len(pairs)} directions)")
    assert format_directions(pairs).count("↔") == MAX_LISTED
    assert time.perf_counter() - start < 2
    assert describe_languages(["en", "de"], ["de", "en"]) == "en ↔ de"
    assert describe_languages([], []) == ""
    assert usual_direction(MANY, MANY) == ("qaa", "qab") and usual_direction([*MANY, "en"], ["de", "en"]) == (
        "en",
        "de",
    )
    assert usual_direction(["fr", "en"], ["en", "de"]) == ("fr", "en") and usual_direction([], []) == ("", "")
