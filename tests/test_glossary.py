"""Everything that docs/glossary.md names exists: identifiers, kinds of the catalogue, and settings of a config."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headway.config import catalogue
from headway.config.config import Config
from headway.config.schema import make_part

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "glossary.md"
CODE = re.compile(r"`([^`]+)`")
IDENTIFIER = re.compile(r"headway(?:\.\w+)*:\w+(?:\.\w+)*")
KIND = re.compile(r'(\w+) = "(.+)"')
SETTING = re.compile(r"(?:train|search|model)(?:\.\w+)+")
TRITON = "headway.nn.ops.triton."  # cannot be imported without Triton


class Row(NamedTuple):
    term: str
    identifiers: str
    sentence: str


def glossary_rows() -> list[Row]:
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0] != "term" and set(cells[0]) != {"-"}:
            rows.append(Row(*cells))
    return rows


ROWS = glossary_rows()


def code_spans(pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The code spans of the page that have this form."""
    for row in ROWS:
        for span in CODE.findall(f"{row.identifiers} {row.sentence}"):
            if found := pattern.fullmatch(span):
                yield found


def find_identifier(identifier: str) -> None:
    """Raise an error if there is no such module or name."""
    module, _, path = identifier.partition(":")
    if module.startswith(TRITON):
        tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
        assert path in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        return
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)


def test_the_table_is_complete() -> None:
    assert len(ROWS) > 100
    terms = [row.term for row in ROWS]
    assert len(set(terms)) == len(terms)
    for row in ROWS:
        assert row.identifiers, row.term
        assert all(IDENTIFIER.fullmatch(span) for span in CODE.findall(row.identifiers)), row.term
        assert row.sentence.endswith("."), row.term


@pytest.mark.parametrize("identifier", sorted({found[0] for found in code_spans(IDENTIFIER)}))
def test_identifiers_exist(identifier: str) -> None:
    find_identifier(identifier)


@pytest.mark.parametrize(
    "wrong", ["headway.nn.nothing:Mask", "headway.nn.masks.masks:Nothing", f"{TRITON}beam_step:nothing"]
)
def test_a_wrong_identifier_is_noticed(wrong: str) -> None:
    with pytest.raises((ImportError, AttributeError, AssertionError)):
        find_identifier(wrong)


def test_kinds_exist() -> None:
    named = {(found[1], found[2]) for found in code_spans(KIND) if found[1] in catalogue.slots()}
    assert len(named) > 40
    for slot, value in named:
        make_part(slot, value)  # raises for a kind or a field that does not exist


def test_settings_exist() -> None:
    """Written `train.ema`, with or without a value."""
    named = {found[0] for found in code_spans(SETTING)}
    named |= {found[0] for found in code_spans(re.compile(rf'({SETTING.pattern}) = ".+"'))}
    assert len(named) > 15
    for name in named:
        node: Any = Config()
        *sections, last = name.partition(" ")[0].split(".")
        for section in sections:
            node = getattr(node, section)
        assert last in {field.name for field in fields(node)}, name
