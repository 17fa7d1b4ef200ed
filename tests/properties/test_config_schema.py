"""How parts are written in a config: three forms that mean one thing, literals only, lists tiled over layers, masks
composed, derived values absent going in and written out coming back; and whatever is refused is refused in our words,
with the path, what was given and what is allowed."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import catalogue
from headway.config.config import Config
from headway.config.schema import from_dict, make_part, tile_over_layers
from headway.config.shorthand import expand
from headway.errors import ConfigError
from headway.nn.layers.feedforward import FeedForward
from headway.nn.masks.masks import CAUSAL, LocalMask, Mask, make_mask
from headway.nn.mixers.attention import Attention
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer

SLOTS = ("position", "mask", "mixer", "feedforward", "residual", "norm", "linear", "head")
PLAIN = {"vocabulary": 29, "d_model": 16, "encoder": {"layers": 2}, "decoder": {"layers": 2}}


def model(**changes: Any) -> Transformer.Config:
    return from_dict(Transformer.Config, PLAIN | changes)


# Rule 1: a string, a call or a table


@pytest.mark.parametrize(
    ("slot", "forms"),
    [
        ("mask", ["local(7)", "local(window=7)", " local( 7 ) ", {"kind": "local", "window": 7}]),
        ("mask", ["causal", "causal()", {"kind": "causal"}]),
        ("mixer", ["attention(4, 2)", "attention(heads=4, groups=2)", {"kind": "attention", "heads": 4, "groups": 2}]),
        (
            "mixer",
            ["attention(4, bias=false)", "attention(4, bias=False)", {"kind": "attention", "heads": 4, "bias": False}],
        ),
        (
            "position",
            ["rope(500, 'halves')", 'rope(500.0, layout="halves")', {"kind": "rope", "base": 500, "layout": "halves"}],
        ),
        ("feedforward", ["gelu(64)", {"kind": "gelu", "hidden": 64}]),
        ("norm", ["layernorm(1e-6)", {"kind": "layernorm", "eps": 0.000001}]),
        ("head", ["pooled(3)", {"kind": "pooled", "classes": 3}]),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value[0]),
)
def test_the_forms_of_a_part_are_one(slot: str, forms: list[Any]) -> None:
    parts = [make_part(slot, form) for form in forms]
    assert all(part == parts[0] for part in parts)
    assert make_part(slot, parts[0]) is parts[0], "a part is a part already"


def test_positional_values_follow_the_fields() -> None:
    part = make_part("mixer", "attention(4, 2, 6, 10, false, 0.1)")
    assert part == Attention.Config(heads=4, groups=2, d_k=6, d_v=10, bias=False, dropout=0.1)
    assert make_part("mask", "local(3)") == LocalMask.Config(window=3)
    assert make_part("feedforward", "silu(9)") == FeedForward.Config(kind="silu", hidden=9)


def test_a_table_without_kind_takes_the_default_of_its_slot() -> None:
    config = model(encoder={"layers": 2, "mixer": {"heads": 2}, "feedforward": {"hidden": 9}}, norm={"eps": 0.5})
    assert config.encoder.mixer == (Attention.Config(heads=2),)
    assert config.encoder.feedforward == (FeedForward.Config(hidden=9),)
    assert (config.norm.kind, config.norm.eps) == ("layernorm", 0.5)
    with pytest.raises(
        ConfigError, match=r"encoder\.mask: this table has no kind\. Choose one of: full, causal, local"
    ):
        model(encoder={"mask": {"window": 3}})


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "__import__('os').system('true')", "local(__import__('os'))", "local(open('x'))",
        "local([].append(1))", "local(1 if 1 else 2)", "local(lambda: 3)", "local(f'{1}')", "local(window := 3)",
        "local(2**8)", "local(1 + 1)", "local(x)", "local({[]: 1})", "local({**{}})", "local(*[3])",
        "local(**{'window': 3})", "eval('3')", "local.__class__", "local[3]", "[local]", "lambda: 3", "causal; full",
        "causal\nfull",
    ],
)  # fmt: skip
def test_nothing_is_evaluated(text: str) -> None:
    with pytest.raises(ConfigError):
        make_part("mask", text)


@pytest.mark.parametrize(
    ("slot", "text", "says"),
    [
        ("mask", "local(3, 4)", '"local(3, 4)" gives 2 values; local takes 1: window.'),
        ("norm", "none(1)", '"none(1)" gives values, and none takes none. Write "none".'),
        ("mask", "local(3, window=4)", "gives window twice"),
        ("mask", "local(windw=4)", 'there is no setting "windw" here. Did you mean "window"? Known: kind, window.'),
        ("mask", "local(kind='full')", "gives kind twice"),
        ("mask", "locl", 'is not a kind of mask. Did you mean "local"? Choose one of: full, causal, local'),
        ("mask", "locl(3)", 'is not a kind of mask. Did you mean "local"?'),
        ("mixer", "xyzzy", "is not a kind of mixer. Choose one of: attention"),
        ("mask", "", "cannot be read"),
        ("mask", "local(", "cannot be read"),
        ("mask", "causal full", "cannot be read"),
        ("mask", "3", "cannot be read"),
        ("mask", "local(x)", "only numbers, strings, true, false and lists are allowed"),
        ("norm", "layernorm(true)", "eps: must be a number, not True (true or false)."),
        ("mixer", "attention(2.5)", "heads: must be an integer, not 2.5 (a number)."),
        ("mixer", "attention('8')", "heads: must be an integer, not '8' (a string)."),
        ("mixer", "attention([8])", "heads: must be an integer, not [8] (a list)."),
        ("mixer", "attention(0)", "heads: 0 is out of range: it must be at least 1."),
        ("mixer", "attention(dropout=1.5)", "dropout: 1.5 is out of range: it must be at least 0 and at most 1."),
        ("mixer", "attention(kernel='fast')",
         "kernel: 'fast' is not allowed here. Choose one of: auto, math, sdpa, flex, blocks."),
        ("mixer", "attention(kernel='fex')", 'Did you mean "flex"?'),
        ("mixer", "attention(scale=1e999)", "scale: inf is not allowed: give a finite number."),
    ],
)  # fmt: skip
def test_what_is_refused_is_told(slot: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_part(slot, text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, 3, 2.5, True, [], ["causal"], {}, {"kind": 3}, {"kind": None}, object(), b"causal"]
)
def test_what_is_no_part_at_all(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"causal|full"):
        make_part("mask", value)


def test_a_part_of_another_slot_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a kind of mask"):
        make_part("mask", Attention.Config())
    with pytest.raises(ConfigError, match='not the config of the feedforward "swiglu"'):
        make_part("feedforward", FeedForward.Config(kind="swiglu"))


# Rule 2: lists are tiled, masks compose


def test_lists_are_tiled_over_the_layers() -> None:
    config = model(encoder={"layers": 6, "mask": ["local(2)", "full", "local(3)"], "mixer": "attention(2)"})
    kinds = [part.to_dict() for part in config.encoder.tiled("mask")]
    three = [{"kind": "local", "window": 2}, {"kind": "full"}, {"kind": "local", "window": 3}]
    assert kinds == three + three
    assert [part.heads for part in config.encoder.tiled("mixer")] == [2] * 6
    parts = config.encoder.mask
    assert parts is not None and tile_over_layers(parts, 3) == list(parts)


@pytest.mark.parametrize("name", ["mask", "mixer", "feedforward", "position"])
def test_a_list_must_divide_the_layers(name: str) -> None:
    kind = {"mask": "full", "mixer": "attention(2)", "feedforward": "relu", "position": "rope"}[name]
    config = model(encoder={"layers": 5, "mixer": "attention(2)", name: [kind, kind]})
    with pytest.raises(ConfigError) as caught:
        config.resolved()
    assert str(caught.value) == (
        f"encoder.{name}: this list has 2 entries, which do not divide 5 layers. "
        "Give one entry for all layers, or a number of entries that divides them."
    )


@pytest.mark.parametrize("value", [[], ()])
def test_an_empty_list_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"encoder\.mixer: the list is empty: give at least one entry\."):
        model(encoder={"mixer": value})


def test_masks_compose_and_nothing_else_does() -> None:
    assert expand("mask", "causal & local(256)") == {
        "kind": "all",
        "parts": [{"kind": "causal"}, {"kind": "local", "window": 256}],
    }
    both = expand("mask", "causal & (local(2) | full) & local(9)")
    assert [part["kind"] for part in both["parts"]] == ["causal", "any", "local"]
    for slot, text in (("mixer", "attention & attention"), ("position", "rope | alibi"), ("norm", "none & none")):
        with pytest.raises(ConfigError, match=rf"only masks can be combined with & and \|, not a {slot}\."):
            make_part(slot, text)
    for text in ("causal + full", "not causal", "~causal", "causal and full", "causal & 3", "causal &"):
        with pytest.raises(ConfigError, match="cannot be read"):
            make_part("mask", text)
    for text in ("all", "any", "causal & all"):
        with pytest.raises(ConfigError, match="the list is empty"):
            make_part("mask", text)


def test_however_long_or_deep() -> None:
    assert len(make_part("mask", " & ".join(["causal"] * 2000)).parts) == 2000
    for text in (
        "(" * 5000,
        "-" * 100_000 + "1",
        "causal" + " & (causal | (causal" * 90 + "))" * 90,
        "local(" + "9" * 9999,
    ):
        with pytest.raises(ConfigError):
            make_part("mask", text)
    deep: Any = "causal"
    for _ in range(3000):
        deep = {"kind": "all", "parts": [deep]}
    with pytest.raises(ConfigError, match="nested too deeply"):
        make_part("mask", deep)
    with pytest.raises(ConfigError, match="out of range"):
        make_part("mixer", {"kind": "attention", "heads": -(10**5000)})


# Rules 3 and 4: one spelling, derived values


def test_a_side_without_layers_is_not_there() -> None:
    config = model(d_model=15, encoder={"layers": 0}, decoder={"layers": 1, "mixer": "attention(5)"}).resolved()
    assert config.sides == ["decoder"]
    assert config.decoder.cross is None
    with pytest.raises(ConfigError, match=r"both 0\. Give at least one side layers"):
        model(encoder={"layers": 0}, decoder={"layers": 0}).resolved()
    with pytest.raises(ConfigError, match=r"encoder\.layers: -1 is out of range"):
        model(encoder={"layers": -1})


def test_derived_values_are_absent_going_in_and_written_coming_out() -> None:
    config = model(encoder={"layers": 2, "mixer": "attention(2)"}, decoder={"layers": 2, "mixer": "attention(2)"})
    before, after = config.to_dict(), config.resolved().to_dict()
    assert "source_vocabulary" not in before
    assert "mask" not in before["encoder"] and "cross" not in before["decoder"]
    assert before["encoder"]["mixer"] == [{"kind": "attention", "heads": 2, "bias": True, "kernel": "auto"}]
    assert after["source_vocabulary"] == 29
    assert after["encoder"]["mask"] == [{"kind": "full"}] and after["decoder"]["mask"] == [{"kind": "causal"}]
    mixer = {"kind": "attention", "heads": 2, "groups": 2, "d_k": 8, "d_v": 8, "bias": True, "dropout": 0.1}
    mixer |= {"scale": 8**-0.5, "kernel": "auto"}
    assert after["encoder"]["mixer"] == after["decoder"]["cross"] == [mixer]
    assert after["encoder"]["feedforward"][0]["hidden"] == 64
    assert "cross" not in after["encoder"]


def parts_of(slot: str) -> st.SearchStrategy[Any]:
    """Ways to write a part of this slot that are right."""
    some = {
        "position": ["none", "sinusoidal", "learned(40)", "rope(500)", "alibi", "sinusoidal(layout='halves')"],
        "mask": ["causal", "causal & local(3)", "causal & (local(2) | full)", {"kind": "causal"}],
        "mixer": ["attention(2)", "attention(4, 2)", {"heads": 2, "d_v": 3}, "attention(4, bias=false, dropout=0.5)"],
        "feedforward": ["relu", "gelu(8)", "swiglu", {"hidden": 12}],
        "residual": ["post", "pre"],
        "norm": ["layernorm", "rmsnorm(0.1)", "none"],
        "head": ["logits", "logits(true)", "masked"],
    }
    return st.sampled_from(some[slot])


def per_layer(slot: str) -> st.SearchStrategy[Any]:
    return st.one_of(parts_of(slot), st.lists(parts_of(slot), min_size=2, max_size=2))


def sides() -> st.SearchStrategy[dict[str, Any]]:
    slots = {name: per_layer(name) for name in ("position", "mask", "mixer", "feedforward")}
    return st.fixed_dictionaries(
        {"layers": st.sampled_from([2, 4]), "mixer": slots["mixer"], "mask": slots["mask"]},
        optional={"position": slots["position"], "feedforward": slots["feedforward"], "residual": parts_of("residual")},
    )


@settings(max_examples=50, deadline=None)
@given(
    st.fixed_dictionaries(
        {"vocabulary": st.just(29), "d_model": st.just(16), "encoder": sides(), "decoder": sides()},
        optional={"norm": parts_of("norm"), "head": parts_of("head"), "dropout": st.floats(0, 1)},
    )
)
def test_round_trip(table: dict[str, Any]) -> None:
    """What is written out reads back as the same, resolved or not, through JSON too, and resolving again adds
    nothing."""
    config = from_dict(Transformer.Config, table)
    resolved = config.resolved()
    assert from_dict(Transformer.Config, config.to_dict()) == config
    assert from_dict(Transformer.Config, resolved.to_dict()) == resolved
    assert from_dict(Transformer.Config, json.loads(json.dumps(resolved.to_dict()))) == resolved
    assert resolved.resolved() == resolved


# Rule 7: refusals


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"d_modell": 3}, 'there is no setting "d_modell" here. Did you mean "d_model"? Known: d_model, vocabulary'),
        ({"encoder": {"layer": 3}}, 'encoder: there is no setting "layer" here. Did you mean "layers"? Known: layers'),
        ({"encoder": {"mixer": {"head": 3}}}, 'encoder.mixer: there is no setting "head" here. Did you mean "heads"?'),
        ({"encoder": {3: 4}}, 'encoder: there is no setting "3" here.'),
        ({"encoder": 6}, "encoder: 6 is not a table. Write its fields as key = value."),
        ({"encoder": {"residual": "middle"}},
         'encoder.residual: "middle" is not a kind of residual. Choose one of: post, pre'),
        ({"encoder": {"residual": ["post", "pre"]}},
         "encoder.residual: ['post', 'pre'] is not a residual. Write a kind"),
        ({"d_model": "big"}, "d_model: must be an integer, not 'big' (a string)."),
        ({"d_model": 0}, "d_model: 0 is out of range: it must be at least 1."),
        ({"d_model": None}, "d_model: must be an integer, not None (no value)."),
        ({"dropout": -0.1}, "dropout: -0.1 is out of range: it must be at least 0 and at most 1."),
        ({"dropout": math.nan}, "dropout: nan is not allowed: give a finite number."),
        ({"dropout": 10**400}, "dropout: 1000"),
        ({"embedding": {"tied": "both"}},
         "embedding.tied: 'both' is not allowed here. Choose one of: all, inputs, target, none."),
        ({"embedding": {"scale": 1}}, "embedding.scale: must be true or false, not 1 (an integer)."),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_refused_when_read(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model(**changes)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"d_model": 12, "encoder": {"mixer": "attention(8)"}},
         "encoder.mixer.heads: d_model = 12 is not a multiple of 8 heads. "
         "Choose another number of heads, or give d_k."),
        ({"encoder": {"mixer": "attention(4, 3)"}},
         "encoder.mixer.groups: heads = 4 is not a multiple of groups = 3. Choose another number of groups."),
        ({"decoder": {"mask": "local(3)"}},
         'decoder.mask: a decoder must not see the future, and the mask "local(3)" shows it. Write "causal & …".'),
        ({"decoder": {"mask": "causal | local(3)"}}, "decoder.mask: a decoder must not see the future"),
        ({"decoder": {"layers": 2, "mask": ["causal", "full"]}}, "decoder.mask: a decoder must not see the future"),
        ({"encoder": {"position": "rope", "mixer": "attention(4, d_k=5)"}},
         "encoder.position: rope rotates pairs of channels, so d_k must be even, not 5."),
        ({"encoder": {"mixer": "attention(4, kernel='flex')"}},
         "encoder.mixer.kernel: the kernel \"flex\" has no dropout, and dropout = 0.1."),
        ({"source_vocabulary": 31},
         'embedding.tied: source and target have vocabularies of 31 and 29, so they cannot share one embedding. '
         'Set tied = "target" or "none".'),
        ({"head": "pooled"}, 'head: the head "pooled" reads the output of an encoder. Set decoder.layers = 0.'),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_refused_together(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model(**changes).resolved()
    assert says in str(caught.value)


def test_python_and_files_are_checked_alike() -> None:
    with pytest.raises(ConfigError, match="heads: 0 is out of range"):
        Attention.Config(heads=0)
    with pytest.raises(ConfigError, match="layers: must be an integer, not 'six'"):
        Stack.Config(layers="six")
    assert Stack.Config(mixer="attention(2)").mixer == (Attention.Config(heads=2),)
    assert Stack.Config(mixer=Attention.Config(heads=2)).mixer == (Attention.Config(heads=2),)
    with pytest.raises(TypeError):
        Attention.Config(8)  # by keyword only
    with pytest.raises(AttributeError):
        Attention.Config().heads = 3


WORDS = [
    "kind",
    "heads",
    "window",
    "parts",
    "layers",
    "mask",
    "mixer",
    "encoder",
    "decoder",
    "causal",
    "local",
    "attention",
]
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=3))
NAMES = st.one_of(st.sampled_from(WORDS), st.text(max_size=5), st.integers(0, 3))
JUNK = st.recursive(
    st.one_of(VALUES, st.sampled_from(WORDS)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4), st.tuples(inner)),
    max_leaves=8,
)
CALLS = st.builds(
    "{}{}{}".format,
    st.one_of(st.sampled_from([entry.kind for entry in catalogue.CATALOGUE]), st.text(max_size=4)),
    st.sampled_from(["(", "", " & ", "((", ".", "["]),
    st.text(alphabet="()[]{}&|=,.:*+-~'\"\\ \n\t\x00019ex_hadsé", max_size=20),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SLOTS), st.one_of(JUNK, CALLS))
def test_junk_in_a_slot_raises_nothing_but_our_error(slot: str, junk: Any) -> None:
    try:
        part = make_part(slot, junk)
    except ConfigError:
        return
    assert part.kind in catalogue.kinds(slot)
    assert make_part(slot, part.to_dict()) == part


@settings(max_examples=200, deadline=None)
@given(JUNK)
def test_junk_for_a_model_raises_nothing_but_our_error(junk: Any) -> None:
    try:
        from_dict(Transformer.Config, junk).resolved()
    except ConfigError:
        return
    assert isinstance(junk, dict)


def test_a_mask_may_be_an_object_in_python(tmp_path: Path) -> None:
    every_third = Mask("every_third", lambda b, h, q, k: (q - k) % 3 == 0)
    config = model(d_model=16, decoder={"layers": 2, "mixer": "attention(2)", "mask": ["causal", CAUSAL & every_third]})
    assert config.resolved().decoder.mask is not None
    assert Transformer(config).stacks["decoder"].masks == [CAUSAL, make_mask(config.decoder.mask[1])]
    assert config.resolved().to_dict()["decoder"]["mask"][1] == {"kind": "object", "value": "(causal & every_third)"}
    with pytest.raises(ConfigError, match=r"decoder\.mask: a decoder must not see the future"):
        model(decoder={"mask": every_third}).resolved()
    with pytest.raises(ConfigError, match='not the config of the mixer "object"|"object" is not a kind of mixer'):
        make_part("mixer", every_third)
    with pytest.raises(ConfigError) as caught:
        Config(model=config).save(tmp_path / "config.json")
    assert str(caught.value) == (
        "model.decoder.mask: this is a Python object, which cannot be written to config.json. Use a kind of the "
        "catalogue, or a class of your own: see docs/own-kinds.md."
    )
    assert not list(tmp_path.iterdir())
