"""Terms of a search engine: words without case and endings, pairs of characters without spaces."""

import pytest

from headway.text.search_terms import MAX_TERM_CHARS, find_terms, split_terms, split_words


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The model's CACHE", ["the", "model", "s", "cach"]),
        ("max_tokens=2 --top-k", ["max", "token", "2", "top", "k"]),
        ("Größe ＡＢＣ ﬁne", ["grös", "abc", "fine"]),
        ("模型很小", ["模型", "型很", "很小"]),
        ("用 GPU 训练", ["用", "gpu", "训练"]),
        ("ひらがなです。", ["ひら", "らが", "がな", "なで", "です"]),
        ("भाषा हिन्दी", ["भाषा", "हिन्दी"]),
        ("язык языка", ["язык", "языка"]),
        ("한국어 모델", ["한국어", "모델"]),
        (" -- … ", []),
    ],
)
def test_words_by_script(text: str, terms: list[str]) -> None:
    assert split_terms(text) == terms
    assert [span.term for span in find_terms(text)] == terms


@pytest.mark.parametrize(
    "forms",
    [
        "model models modelled modelling",
        "cache caches cached caching",
        "translate translates translated translating translation translations",
        "copied copies",
        "decode decoder decoders decoding decoded",
        "modell modelle modellen modells",
        "planning planned planner",
    ],
)
def test_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len(set(split_terms(forms))) == 1


def test_short_words_keep_their_endings() -> None:
    words = "size ring bus pass gas king does this status virus"
    assert split_words(words) == words.split()
    assert len(set(split_terms(words))) == len(words.split())


def test_places_are_those_of_the_text() -> None:
    text = "Straße, 模型小 ﬁnes"
    for span in find_terms(text):
        assert split_terms(text[span.start : span.end]) == [span.term]
    assert [text[span.start : span.end] for span in find_terms(text)] == ["Straße", "模型", "型小", "ﬁnes"]


def test_data_without_spaces_is_cut() -> None:
    assert split_terms("x1" * 10_000) == ["x1" * (MAX_TERM_CHARS // 2)]
    assert [len(term) for term in split_terms("é9" * 10_000)] == [MAX_TERM_CHARS]
