"""`headway variants` tells everything in the catalogue, and one thing with its settings and its page."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from headway.cli.app import main
from headway.cli.markdown import wrap_markdown
from headway.cli.verbs.variants import DOCS
from headway.config.catalogue import CATALOGUE, Entry, all_names, find_entry, kinds, search, slots
from headway.config.kind_settings import kind_settings
from headway.errors import ConfigError

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
    assert [line.split("\t")[1] for line in lines] == ["kind", *kinds("residual")]


def test_a_slot_may_be_named_alone(capsys: Capture) -> None:
    assert said(capsys, "mixer") == said(capsys, "--slot", "mixer")


def test_one_kind_with_its_settings_and_its_page(capsys: Capture) -> None:
    text = said(capsys, "rope")
    assert text.startswith("position rope: queries and keys rotated by their position (cost O(n); Su 2021)\n")
    assert "  base = 10000.0          # number, at least 1\n" in text
    assert '  layout = "interleaved"  # "interleaved" or "halves"\n' in text
    assert "\n# Positions\n" in text and "## `rope(" in text


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("attention", ["  heads = 8              # integer, at least 1", "  qk_norm = none"]),
        ("attention", ["  bias = true            # true or false", "  dropout = derived      # number from 0 to 1"]),
        ("bitnet", ['  norm = "none"', "  packed = false  # true or false"]),
        ("any", ["  parts = required"]),
        ("silu", ["    also: swish, sigmoid linear unit, Searching for Activation Functions"]),
    ],
)
def test_settings_have_their_allowed_values(capsys: Capture, kind: str, lines: list[str]) -> None:
    text = said(capsys, kind).splitlines()
    assert [line for line in lines if line not in text] == []


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: f"{entry.slot} {entry.kind}")
def test_every_setting_is_described(entry: Entry) -> None:
    for setting in kind_settings(entry.slot, entry.kind):
        assert setting.allowed and "None" not in str(setting) and "typing" not in setting.allowed, setting
        assert setting.default in ("derived", "none", "required") or tomllib.loads(f"value = {setting.default}")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("rotary", "rope"),
        ("yoco", "shared_kv"),
        ("You only cache once", "shared_kv"),
        ("GQA", "attention"),
        ("grouped query", "attention"),
        ("multi query attention", "attention"),
        ("mamba", "mamba"),
        ("transformer-xl", "transformer_xl"),
        ("Transformer XL", "transformer_xl"),
        ("RetNet", "retention"),
        ("sliding window", "local"),
        ("pre-LN", "pre"),
        ("Swish", "silu"),
        ("vaswani 2017 noam", "noam"),
        ("gated linear units", "swiglu"),
        ("switch transformers", "moe"),
        ("1.58", "bitnet"),
        ("optimizers: muon", "muon"),
        ("Byte-Pair Encoding", "bpe"),
        ("sentencepiece", "unigram"),
        ("ByT5", "bytes"),
    ],
)
def test_a_search_finds_by_what_people_call_it(capsys: Capture, text: str, first: str) -> None:
    lines = said(capsys, "--search", text).splitlines()
    assert lines[0].startswith("slot\tkind\t")
    assert lines[1].split("\t")[1] == first


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("rwkv", ["mixer rwkv4", "mixer rwkv7", "feedforward rwkv_channel_mix"]),
        ("YOCO", ["mixer shared_kv"]),
        ("Pre-LN", ["residual pre"]),
        ("ALiBi", ["position alibi"]),
        ("swish", ["feedforward silu"]),
        ("resi-dual", ["residual residual_dual"]),
    ],
)
def test_another_name_shows_all_that_have_it(capsys: Capture, name: str, kinds: list[str]) -> None:
    text = said(capsys, name)
    assert [line.partition(":")[0] for line in text.splitlines() if line.startswith(tuple(kinds))] == kinds
    assert "# " in text, "and the page"


def test_a_search_groups_by_slot_and_keeps_to_one(capsys: Capture) -> None:
    found = [line.split("\t")[0] for line in said(capsys, "--search", "bert").splitlines()[1:]]
    assert len(set(found)) > 2 and [slot for slot, _ in itertools.groupby(found)] == list(dict.fromkeys(found))
    only = said(capsys, "--search", "bert", "--slot", "head").splitlines()[1:]
    assert [line.split("\t")[1] for line in only] == ["masked", "pooled", "embedding"]


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        ("bitnet", f"one of the norms: {', '.join(kinds('norm'))}"),
        ("any", f"one or more of the masks: {', '.join(kinds('mask'))}"),
    ],
)
def test_a_part_names_what_may_stand_there(capsys: Capture, kind: str, allowed: str) -> None:
    assert allowed in re.sub(r"\n    # ", " ", said(capsys, kind))


def test_a_word_inside_another_does_not_count() -> None:
    found = [[entry.kind for entry in search(text)] for text in ("glu", "elu")]
    assert "swiglu" in found[0], "one of its names begins with it"
    assert "relu" not in found[1] and "gelu" not in found[1]
    assert search("") == search("!?") == []


def test_every_kind_is_found_by_its_names() -> None:
    for entry in CATALOGUE:
        for name in all_names(entry):
            assert entry in search(name), name


def test_a_kind_that_a_config_does_not_know_is_looked_up_by_its_other_names() -> None:
    with pytest.raises(ConfigError, match=r'"swish" is not a kind of feedforward. Did you mean "silu"\?'):
        find_entry("feedforward", "swish")


def test_a_name_in_two_slots_is_told_for_both(capsys: Capture) -> None:
    text = said(capsys, "none")
    assert {line.split(" ")[0] for line in text.splitlines() if " none: " in line} >= {"position", "norm"}
    assert said(capsys, "none", "--slot", "norm").count(" none: ") == 1


def test_where_somebody_watches_it_is_grouped(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.cli.terminal.is_interactive", lambda stream: True)
    text = said(capsys)
    assert [line for line in text.splitlines() if line in slots()] == slots()
    assert "causal only the past and the present [O(n²), Vaswani 2017]" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "Positions" in said(capsys, "rope")


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("columns", [48, 80])
def test_every_line_fits(capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: int, watched: bool) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("headway.cli.terminal.is_interactive", lambda stream: watched)
    monkeypatch.setattr("headway.cli.markdown.is_interactive", lambda stream: watched)
    monkeypatch.setattr("headway.cli.verbs.variants.DOCS", DOCS / "missing")
    texts = [said(capsys, kind) for kind in dict.fromkeys(entry.kind for entry in CATALOGUE)] + (
        [said(capsys)] if watched else []
    )
    assert max(len(line) for text in texts for line in text.splitlines()) <= columns


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_is_as_wide_as_asked(page: Path) -> None:
    """Only code stays as it is."""
    code = False
    for line in wrap_markdown(page.read_text(encoding="utf-8"), 80).splitlines():
        code ^= line.lstrip().startswith("```")
        assert len(line) <= 80 or code or line.startswith("    "), line


def test_what_a_page_becomes() -> None:
    assert wrap_markdown("A sum: 1 - 2 - 3 + 4 = 0, not more.\n\n- one two three\n- four\n", 12).splitlines() == [
        "A sum: 1 -",  # a line that began with "- 2" would be a list
        "2 - 3 + 4 =",
        "0, not more.",
        "",
        "- one two",
        "  three",
        "- four",
    ]
    kept = "# A heading that is long\n\n    code = that_is_long\n```\n| in | code |\n```\n|a|\n|-|\n|b|"
    assert wrap_markdown(kept, 12) == kept
    table = "| kind | what |\n|---|---|\n| `a \\| b` | either of [two](them) |\n| c | |"
    assert wrap_markdown(table, 22).splitlines() == [
        "| kind     | what    |",
        "|----------|---------|",
        "| `a \\| b` | either  |",
        "|          | of      |",
        "|          | [two](t |",
        "|          | hem)    |",
        "| c        |         |",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resi-duel"], 'nothing is called "resi-duel". Did you mean "residual"? See: headway variants'),
        (["feed-forward"], 'nothing is called "feed-forward". Did you mean "feedforward"? See: headway variants'),
        (["rop"], 'nothing is called "rop". Did you mean "rope"? See: headway variants'),
        (
            ["retention", "--slot", "mask"],
            'nothing is called "retention" in the slot mask. It is a kind of mixer. See:',
        ),
        (["--search", "xyzzy"], 'nothing matches "xyzzy". Try fewer words, or see: headway variants'),
        (["--search", "retenshun"], 'nothing matches "retenshun". Did you mean "retention"? Try fewer words'),
        (["--search", "注意"], 'nothing matches "注意". Try fewer words'),
        (["--search", "swish", "--slot", "mask"], '"swish" in the slot mask. It matches: silu (feedforward). Try'),
        (["rope", "--search", "rotary"], 'not both. Try: headway variants --search "rope rotary"'),
        (["--slot", "masks"], 'there is no slot "masks". Did you mean "mask"? Known: position, mask, mixer'),
    ],
)
def test_what_is_not_there_is_named(capsys: Capture, words: list[str], message: str) -> None:
    assert message in said(capsys, *words, code=2)
