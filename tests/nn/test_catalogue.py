"""Every kind of the network's slots that the catalogue names can be built, knows its kind, runs, and has its place on
a page of the documentation."""

import re

import pytest
import torch

from headway.cli.verbs.variants import DOCS, SLOT_PAGES, docs_page
from headway.config import catalogue
from headway.config.own_kinds import import_target
from headway.config.schema import Part, config_class, make_part
from headway.nn.layers.int8 import quantise_model
from headway.nn.transformer import Transformer
from nn.building import NN_ENTRIES, NN_SLOTS, named, with_kind, written

each_entry = pytest.mark.parametrize("entry", NN_ENTRIES, ids=named)


@each_entry
def test_its_config_knows_its_kind(entry: catalogue.Entry) -> None:
    owner = import_target(entry.target)
    assert owner.__name__ == entry.target.partition(":")[2] and owner.__module__ == entry.target.partition(":")[0]
    cls = config_class(entry.slot, entry.kind)
    assert cls is owner.Config and issubclass(cls, Part)
    part = make_part(entry.slot, written(entry))
    assert (type(part), part.kind) == (cls, entry.kind)
    default = cls.__dataclass_fields__["kind"].default
    shared = [other.kind for other in NN_ENTRIES if (other.slot, other.target) == (entry.slot, entry.target)]
    assert default in shared
    assert entry.line and "\n" not in entry.line


@each_entry
@torch.no_grad()
def test_it_runs(entry: catalogue.Entry) -> None:
    model = Transformer(with_kind(entry)).eval()
    ids = torch.randint(29, (2, 5))
    hidden = model(*(ids if side in model.config.sides else None for side in ("encoder", "decoder"))).hidden
    assert hidden.shape == (2, 5, 16)
    assert model.logits(hidden).isfinite().all()


@each_entry
@torch.no_grad()
def test_it_runs_in_eight_bits(entry: catalogue.Entry) -> None:
    torch.manual_seed(0)
    model = Transformer(with_kind(entry)).eval()
    small, ids = quantise_model(model), torch.randint(29, (2, 5))
    given = [ids if side in model.config.sides else None for side in ("encoder", "decoder")]
    ours, theirs = (part(*given).hidden for part in (small, model))
    assert not torch.equal(ours, theirs) or entry.kind == "bitnet"  # which has fewer bits already
    assert (ours - theirs).norm() < 0.1 * theirs.norm()


@each_entry
def test_it_has_a_place_on_a_page(entry: catalogue.Entry) -> None:
    """A row of a table that begins with the kind, as code; its own page, if it has one, names its references."""
    where = docs_page(entry)
    page = (DOCS / where).read_text(encoding="utf-8")
    rows = [page]
    if where == SLOT_PAGES[entry.slot]:
        rows = re.findall(rf"^\| `{entry.kind}(?:\([^`]*\))?` \|.*$", page, flags=re.MULTILINE)
    assert rows and f"`{entry.kind}" in page, f"{where} says nothing of {entry.kind}"
    names = re.findall(r"[A-Z]\w+ \d{4}", entry.reference)
    assert any(all(name in row for name in names) for row in rows), f"{where} does not name {names}"


def test_kinds_are_named_once() -> None:
    names = [(entry.slot, entry.kind) for entry in catalogue.CATALOGUE]
    assert [name for name in dict.fromkeys(names) if names.count(name) > 1] == [], "named twice in the catalogue"
    assert set(NN_SLOTS) <= set(catalogue.slots())
