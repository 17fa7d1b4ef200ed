"""What notebooks show of translators, translations, attention, masks and studies."""

from html import escape
from pathlib import Path

import pytest

from headway.compare.report import StudyReport
from headway.compare.study import read_study
from headway.errors import HeadwayError
from headway.inspect.attention import compute_attention
from headway.inspect.html_page import PageWidget
from headway.nn.masks.masks import make_mask
from headway.translate.options import TranslateOptions
from headway.translate.results import Translations
from headway.translate.translator import Translator, load, load_translator

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return load_translator(translator_dir)


def test_a_translator_says_what_it_is(translator: Translator) -> None:
    shown = translator._repr_html_()
    for text in ("Headway translator", "en → qtx", "engine ctranslate2", "beam 4"):
        assert text in shown
    assert translator.engines._torch is None, "without torch's engine"


def test_a_language_model_says_what_it_is(lm_dir: Path) -> None:
    model = load(lm_dir)
    shown = model._repr_html_()
    assert "causal" in shown and f"{model.config.model.parameter_count():,}" in shown
    assert "recording" in model.widget("The dog", length=3).page  # type: ignore[union-attr]


def test_translations_are_a_list_and_a_table(translator: Translator) -> None:
    found = translator.translate(["The dog sees a <red> house.", ""])
    assert isinstance(found, list) and isinstance(found, Translations) and len(found) == 2
    shown = found._repr_html_()
    assert "The dog sees a &lt;red&gt; house." in shown and shown.count("<tr>") == 3
    many = translator.translate(["We are old."], TranslateOptions(search=translator.search(n_best=3, beam_size=3)))[0]
    assert many._repr_html_().count("<tr>") == 1 + len(many.guesses)
    assert many.guesses[-1].text in many._repr_html_()


def test_warnings_of_a_translation_are_shown(translator: Translator) -> None:
    search = translator.search(max_length=2)
    [result] = translator.translate(["The dog sees a red house."], TranslateOptions(search=search, retry=False))
    assert "⚠ the output was cut at" in result._repr_html_()


def test_attention_has_a_grid_for_each_head(translator: Translator) -> None:
    attention = compute_attention(translator, "The dog sees.")
    shown = attention._repr_html_()
    assert shown.count("<svg") == 1 + len(attention.weights)
    assert "mean of all heads" in shown and "cross, layer 1" in shown
    key = int(attention.weights[0, 0].argmax())
    row, column = attention.queries[0].strip(), escape(attention.keys[key].strip())
    assert f"{row} → {column}: {attention.weights[0, 0, key]:.2f}" in shown


def test_a_mask_is_drawn() -> None:
    shown = make_mask("causal & local(3)")._repr_html_()
    assert shown.count("<rect") == sum(min(query + 1, 3) for query in range(32)) + 1
    assert "(causal &amp; local(3))" in shown


def test_the_widget_is_the_whole_page(translator: Translator, tmp_path: Path) -> None:
    widget = translator.widget("The dog sees a red house.", height=500)
    assert isinstance(widget, PageWidget) and "PageWidget 'The dog" in repr(widget)
    assert "height: 500px" in widget._repr_html_()
    assert '"nearest"' in widget.page or "nearest" in widget.page
    widget.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == widget.page


def test_a_study_and_its_report(tmp_path: Path) -> None:
    study = read_study(sorted(STUDIES.glob("*.toml"))[0])
    shown = study._repr_html_()
    assert study.name in shown and study.axes[0].name in shown and study.budget.describe() in shown
    (tmp_path / "report.html").write_text("<!doctype html><h1>Losses</h1>")
    report = StudyReport(tmp_path)
    assert 'srcdoc="&lt;!doctype html&gt;&lt;h1&gt;Losses' in report._repr_html_() and "StudyReport" in repr(report)
    with pytest.raises(HeadwayError, match="there is no report .* A study leaves one: headway compare"):
        StudyReport(tmp_path / "nothing")
