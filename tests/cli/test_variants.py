"""`headway variants` tells everything in the catalogue, and one thing with its settings and its page."""

import pytest

from headway.catalogue import CATALOGUE, slots
from headway.cli.root import main

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *words: str, code: int = 0) -> str:
    assert main(["variants", *words]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_everything_is_listed_once(capsys: Capture) -> None:
    lines = [line.split("\t") for line in said(capsys).splitlines()]
    assert lines[0] == ["slot", "kind", "what", "cost", "reference"]
    assert [(line[0], line[1]) for line in lines[1:]] == [(entry.slot, entry.kind) for entry in CATALOGUE]
    assert ["mask", "causal", "only the past and the present", "O(n²)", "Vaswani 2017"] in lines


def test_one_slot(capsys: Capture) -> None:
    lines = said(capsys, "--slot", "residual").splitlines()
    assert [line.split("\t")[1] for line in lines] == ["kind", "post", "pre", "deepnorm", "resi_dual"]


def test_a_slot_may_be_named_alone(capsys: Capture) -> None:
    assert said(capsys, "mixer") == said(capsys, "--slot", "mixer")


def test_one_kind_with_its_settings_and_its_page(capsys: Capture) -> None:
    text = said(capsys, "rope")
    assert text.startswith("position rope: queries and keys turned by their position (cost O(n); Su 2021)\n")
    assert "  base = 10000.0\n  layout = 'interleaved'\n" in text
    assert "\n# Positions\n" in text and "## `rope(" in text


def test_a_name_in_two_slots_is_told_for_both(capsys: Capture) -> None:
    text = said(capsys, "none")
    assert {line.split(" ")[0] for line in text.splitlines() if " none: " in line} >= {"position", "norm"}
    assert said(capsys, "none", "--slot", "norm").count(" none: ") == 1


def test_where_somebody_watches_it_is_grouped(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.cli.terminal.is_watched", lambda stream: True)
    text = said(capsys)
    assert [line for line in text.splitlines() if line in slots()] == slots()
    assert "causal only the past and the present [O(n²), Vaswani 2017]" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "Positions" in said(capsys, "rope")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rop"], 'nothing is called "rop". Did you mean "rope"? See: headway variants'),
        (
            ["retention", "--slot", "mask"],
            'nothing is called "retention" in the slot mask. It is a kind of mixer. See:',
        ),
        (["--slot", "masks"], 'there is no slot "masks". Did you mean "mask"? Known: position, mask, mixer'),
    ],
)
def test_what_is_not_there_is_named(capsys: Capture, words: list[str], message: str) -> None:
    assert message in said(capsys, *words, code=2)
