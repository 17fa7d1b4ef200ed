"""The generated pages are what the code says now, and every kind of the catalogue has a page that names it."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headway.config.catalogue import CATALOGUE, Entry

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cli_page_is_fresh(generate: ModuleType) -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == generate.cli_page(), "run: python docs/generate.py"


def test_variants_page_is_fresh(generate: ModuleType) -> None:
    assert (DOCS / "variants.md").read_text(encoding="utf-8") == generate.variants_page(), (
        "run: python docs/generate.py"
    )


def test_the_gallery_is_fresh(generate: ModuleType) -> None:
    """To the letter, but for pictures of mixers: rounding on another machine may move a cell by one level."""
    shipped, now = json.loads(generate.GALLERY.read_text(encoding="utf-8")), json.loads(generate.gallery())
    for kind, fresh in zip(shipped, now, strict=True):
        if kind["slot"] == "mixer" and "picture" in fresh:
            ours, theirs = (
                [[int(cell) for cell in row] for row in one["picture"].pop("rows")] for one in (kind, fresh)
            )
            assert np.abs(np.subtract(ours, theirs)).max() <= 1, f"{kind['kind']}: run: python docs/generate.py"
        assert kind == fresh, "run: python docs/generate.py"


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: f"{entry.slot}-{entry.kind}")
def test_every_kind_has_a_page(generate: ModuleType, entry: Entry) -> None:
    page = (DOCS / generate.docs_page(entry)).read_text(encoding="utf-8")
    written = {"all": "&", "any": "|"}.get(entry.kind, entry.kind)
    assert written in page


def test_help_fits_80_columns(generate: ModuleType) -> None:
    assert max(len(line) for line in generate.cli_page().splitlines()) <= 80
