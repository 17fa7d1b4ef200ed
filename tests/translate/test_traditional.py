"""A translator that has learned simplified Chinese alone reads traditional text as the same text."""

from pathlib import Path

from random_models import translator_table, write_random_model

from headway.text.chinese_script import FREQUENT, simplified_forms
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.options import TranslateOptions
from headway.translate.search import TranslationStages, make_requests
from headway.translate.translator import load_translator

TRADITIONAL = "這個軟體很好，我們都說對。"
SIMPLIFIED = "这个软体很好，我们都说对。"


def test_traditional_text_is_translated_as_simplified(tmp_path: Path) -> None:
    learned = [SIMPLIFIED, FREQUENT.translate(simplified_forms()), "a dog"] * 20
    both = [*learned, *[TRADITIONAL + FREQUENT] * 20]
    for name, lines, simplifies in (("one", learned, True), ("both", both, False)):
        tokenizer = Tokenizer.train(lines, "characters")
        languages = {"source_languages": ["zh"], "target_languages": ["en"]}
        write_random_model(tmp_path / name, translator_table(), tokenizer=tokenizer, **languages)
        translator = load_translator(tmp_path / name, device="cpu")
        assert translator.reads_simplified("zh") is translator.reads_simplified("zh-Hans") is simplifies
        assert not translator.reads_simplified("en") and not translator.reads_simplified(None)
        requests = make_requests([TRADITIONAL, SIMPLIFIED])
        stages = TranslationStages(translator, requests, TranslateOptions())
        one, other = (stages.read(request) for request in requests)
        assert (one.sentences[0].ids == other.sentences[0].ids) is simplifies
        assert one.source == TRADITIONAL
