"""`headway check-kind` runs the contracts over a class of another package, and says what was expected and found."""

from pathlib import Path

import pytest
import torch
from own_package import installed_package, new_process, own_package, write_package

from contracts.toys import BROKEN, in_catalogue
from headway.cli.app import main
from headway.contracts import check_kind as checks
from headway.contracts.check_kind import CONTRACTS, Subject, check_kind, find_subject
from headway.contracts.masks import check_mask_fields, check_rule_by_pairs
from headway.contracts.results import ContractError, require_close
from headway.errors import ConfigError
from headway.nn.masks.masks import Mask

__all__ = ["installed_package", "new_process", "own_package"]
Capture = pytest.CaptureFixture[str]


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    kept = tuple(contract for contract in CONTRACTS if contract.name in names)
    assert len(kept) == len(names)
    monkeypatch.setattr(checks, "CONTRACTS", kept)


def test_a_mixer_of_another_package_passes_all_of_them(own_package: Path, capsys: Capture) -> None:
    assert main(["check-kind", "my_package.kinds:RunningMean(zeros=1)"]) == 0
    lines = capsys.readouterr().out.splitlines()
    wanted = [contract for contract in CONTRACTS if "mixer" in contract.slots]
    assert lines[-1] == f"mixer my_package.kinds:RunningMean(zeros=1): {len(wanted)} passed"
    assert [line.split(":")[0].split()[-1] for line in lines[:-1]] == [contract.name for contract in wanted]


@pytest.mark.parametrize(
    ("kind", "slot"), [("sinks", "mask"), ("logarithmic(0.5)", "position"), ("squared_relu(24)", "feedforward")]
)
def test_kinds_of_other_slots_pass(
    installed_package: Path, monkeypatch: pytest.MonkeyPatch, kind: str, slot: str
) -> None:
    quick = [contract.name for contract in CONTRACTS if slot in contract.slots and contract.name != "learning"]
    only(monkeypatch, *quick)
    subject = find_subject(kind)
    assert subject == Subject(slot, kind)
    assert [(result.outcome, result.details) for result in check_kind(subject)] == [("passed", "")] * len(quick)


@pytest.mark.parametrize(
    ("form", "contract", "says"),
    [
        ("deaf_to_masks(4)", "mask", 'expected some of the future that "full" shows'),
        ("never_ahead(4)", "mask", "found no effect of it"),
        ("deaf_to_positions(4)", "position", "expected another output with rope than without"),
        ("torch_linear", "linear", "not made by make_linear: read"),
        ("wrong_outputs", "outputs", "found 1 of it"),
        ("hoarder(4)", "cache", "bounded() = True, found"),
        ("miser", "cache", "bounded() = False, found"),
    ],
)
def test_a_broken_kind_fails(monkeypatch: pytest.MonkeyPatch, form: str, contract: str, says: str) -> None:
    only(monkeypatch, contract)
    with in_catalogue(BROKEN):
        [result] = check_kind(find_subject(form, "mixer"))
    assert result.outcome == "failed"
    assert says in result.details


BAD = """
from dataclasses import dataclass, replace
import torch
from headway.nn.mixers.attention import Attention
from headway.nn.build import Cost
from headway.nn.layers.feedforward import FeedForward, ACTIVATIONS

class Late(Attention):
    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        def cost(self, scope):
            return super().cost(scope) + Cost(parameters=5, flops_per_query=7)

    def forward(self, x, ctx, *, source=None, cache=None):
        out = super().forward(x, ctx, source=source, cache=cache)
        return out + x.mean((0, 1))  # of the whole batch, padding and future included

class Raises(Attention):
    def forward(self, x, ctx, *, source=None, cache=None):
        raise KeyError("lost")
"""


def test_what_fails_is_told_with_what_was_expected_and_found(
    tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    write_package(tmp_path, "evil_package", BAD)
    monkeypatch.syspath_prepend(tmp_path)
    only(monkeypatch, "parameters", "flops", "chunks", "future", "padding", "neighbours", "select")
    assert main(["check-kind", "evil_package.kinds:Late(4)"]) == 1
    lines = capsys.readouterr().out.splitlines()
    failed = {line.split()[1].rstrip(":"): line for line in lines if line.startswith("failed")}
    assert set(failed) == {"parameters", "flops", "chunks", "future", "padding", "neighbours", "select"}
    assert "parameters by the config, found" in failed["parameters"]
    assert "expected the same numbers to 1e-12, found a difference of" in failed["chunks"]
    assert "(with position sinusoidal and mask causal)" in failed["chunks"]
    assert main(["check-kind", "evil_package.kinds:Raises(4)"]) == 1
    assert "failed          chunks: decoding in chunks is one whole pass: KeyError: 'lost'" in capsys.readouterr().out


def test_what_does_not_apply_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "parameters", "chunks", "cache", "position")
    results = {result.name.split(":")[0]: result for result in check_kind(find_subject("reformer(4, 3, 4)", "mixer"))}
    assert results["parameters"].outcome == "passed"
    assert results["chunks"].details == "it takes no causal mask, so it stands in encoders alone"
    assert results["cache"].outcome == "not applicable"
    [normalised] = [one for one in check_kind(find_subject("instancenorm", "norm")) if one.name.startswith("chunks")]
    assert normalised.outcome == "not applicable" and normalised.details.startswith("a decoder refuses it: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["retention"], "For one of Headway's own give --slot."),
        (["--slot", "mixer", "nothing"], '"nothing" is not a kind of mixer'),
        (["--slot", "optimiser", "adam"], "there are no checks for a optimiser: they are for mixer,"),
        (["--slot", "mixer", "retention(x=1)"], 'there is no setting "x" here'),
        (["os:system"], "standard library"),
    ],
)
def test_what_cannot_be_checked_is_refused(capsys: Capture, words: list[str], says: str) -> None:
    assert main(["check-kind", *words]) == 2
    assert says in capsys.readouterr().err


def rule(allows: object, **fields: object) -> Mask:
    return Mask("odd", allows, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (rule(lambda b, h, q, k: (q >= k).long()), "a rule that gives bool tensors"),
        (rule(lambda b, h, q, k: q == q, hides_future=True), "no later keys"),
        (rule(lambda b, h, q, k: q >= k, lookback=4), "no keys beyond lookback = 4"),
        (rule(lambda b, h, q, k: (q >= k) & (h > 0), broadcasts=True), "one rule for all rows and heads"),
        (rule(lambda b, h, q, k: q >= k, stride=2), "only distances that 2 divides"),
        (rule(lambda b, h, q, k: q >= k, interval=lambda q: (q - 2, q + 1)), "exactly the keys of interval"),
        (
            rule(lambda b, h, q, k: q >= k, key_ranges=lambda a, z, n: [(a, z)]),
            "only keys of key_ranges",
        ),
    ],
)
def test_fields_of_a_mask_that_are_wrong_are_found(mask: Mask, says: str) -> None:
    with pytest.raises(ContractError, match=says):
        check_mask_fields(mask)


def test_a_reduction_inside_a_rule_is_found() -> None:
    with pytest.raises(ContractError, match="the same answer for one pair as for a table of pairs"):
        check_rule_by_pairs(rule(lambda b, h, q, k: (k == k.max()) & (q == q)))


def test_other_shapes_are_told() -> None:
    with pytest.raises(ContractError, match=r"x: the shape \(2,\), found \(3,\)"):
        require_close(torch.zeros(3), torch.zeros(2), what="x")


def test_a_class_that_fits_no_slot_has_no_checks(
    tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(
        tmp_path, "evil_package", "import dataclasses\nclass Odd:\n    @dataclasses.dataclass\n    class Config: ..."
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="there are no checks for this class"):
        find_subject("evil_package.kinds:Odd")
