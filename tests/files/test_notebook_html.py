"""Cells of notebooks: nothing breaks out of them, nothing is fetched, and large things stay small."""

import html.parser
import re

from headway.files.notebook_html import MAX_ROWS, render_framed_page, render_grid, render_table

HOSTILE = "</td><script>alert(1)</script>\" onload='x' & <b>"


class Tags(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.opened: list[str] = []
        self.texts: list[str] = []
        self.attributes: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.opened.append(tag)
        self.attributes |= {name: value or "" for name, value in attributes}

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_table_has_its_texts_and_nothing_else() -> None:
    page = Tags(render_table(["a", HOSTILE], [("1", HOSTILE)], HOSTILE))
    assert page.texts.count(HOSTILE) == 3
    assert set(page.tags) == {"table", "caption", "thead", "tr", "th", "tbody", "td"} and not page.opened


def test_a_long_table_is_cut_and_says_so() -> None:
    page = Tags(render_table(["n"], [(str(number),) for number in range(MAX_ROWS + 1234)]))
    assert page.tags.count("td") == MAX_ROWS
    assert "… and 1,234 more" in page.texts


def test_a_grid_has_a_cell_for_each_number_that_can_be_seen() -> None:
    page = Tags(render_grid([[0.0, 0.5], [1.0, 0.001]], ["q1", HOSTILE], ["k1", "a" * 99], HOSTILE))
    assert page.tags.count("title") == 2
    assert "q1 → " + "a" * 99 + ": 0.50" in page.texts
    assert "script" not in page.tags and not page.opened
    assert "a" * 13 + "…" in page.texts, "labels are shortened"


def test_a_large_grid_stays_small() -> None:
    wide = Tags(render_grid([[0.2] * 150] * 100, ["x"] * 100, ["y"] * 150))
    assert float(wide.attributes["width"]) < 600
    assert "text" not in wide.tags, "labels that could not be read are left out"
    assert render_grid([]).startswith("<figure")


def test_a_framed_page_is_sandboxed() -> None:
    page = '<!doctype html><title>"x"</title><script>1 < 2</script>'
    frame = Tags(render_framed_page(page, HOSTILE, 300))
    assert frame.tags == ["iframe"]
    assert frame.attributes["srcdoc"] == page and frame.attributes["title"] == HOSTILE
    assert frame.attributes["sandbox"] == "allow-scripts allow-downloads"
    assert not re.search(r'(src|href)="http', render_framed_page(page, "", 300))
