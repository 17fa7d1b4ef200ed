"""An imported model with language tokens on the page: two lists of languages, and all panels."""

from collections.abc import Callable
from pathlib import Path

from convert.multilingual import make_original
from serve.conftest import running

from browser.conftest import Look
from browser.test_other_models import walked
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.translate.translator import load_translator


def test_directions_are_chosen_by_two_languages(look: Callable[..., Look], tmp_path: Path) -> None:
    original = make_original("NLLB", tmp_path / "original")
    plan_import(str(original.folder), ImportOptions()).write(tmp_path / "nllb")
    with running(tmp_path / "nllb") as server:
        seen = look(url=server.url).open(pair="en-de")
        page = seen.page
        assert page.locator("#direction").count() == 0 and page.locator("#from option").count() == 7
        assert (page.input_value("#from"), page.input_value("#to")) == ("en", "de")
        walked(seen.translate("the dog sees a cat"))
        assert seen.state == "done"
        expected = load_translator(tmp_path / "nllb", source="en", target="de")("the dog sees a cat")
        assert expected in seen.result and "deu_Latn" not in seen.result
        page.select_option("#to", "zh-Hans")
        seen.ended()
        page.wait_for_function("() => location.hash.includes('zh-Hans')")
        page.reload()
        page.wait_for_selector("#to")
        assert (page.input_value("#from"), page.input_value("#to")) == ("en", "zh-Hans")
        page.select_option("#from", "zh-Hans")  # the same twice: the other way round
        assert (page.input_value("#from"), page.input_value("#to")) == ("zh-Hans", "en")
        assert seen.faults == []
