"""Probes: their numbers, against independent computations."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from headway.compare.probes import PROBES, check_probe, run_probe
from headway.compare.probes.coding_rate import coding_rate, subspace_bases, subspace_coding_rate
from headway.config.config import Config, read_config
from headway.errors import ConfigError, HeadwayError
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens

SPECIAL = SpecialTokens(start=1, end=2, vocabulary=40)
STREAM = np.random.default_rng(3).integers(4, 40, 700).astype(np.uint16)


def make(decoder: dict[str, Any], objective: str = "causal", max_tokens: int = 16) -> tuple[Transformer, Config]:
    model = {"d_model": 16, "vocabulary": 40, "encoder": {"layers": 0}, "decoder": {"layers": 2, **decoder}}
    config = read_config({"model": model, "train": {"objective": objective, "max_tokens": max_tokens}})
    return Transformer(config.model).double().eval(), config


def probe(name: str, model: Transformer, config: Config, stream: np.ndarray = STREAM) -> list[dict[str, Any]]:
    rows = run_probe(name, model, stream, config, SPECIAL)
    assert rows and all(list(row) == list(rows[0]) for row in rows)
    assert all(isinstance(value, str) or np.isfinite(value) for row in rows for value in row.values())
    return rows


def test_names_are_read_without_torch() -> None:
    code = "import sys; from headway.compare.probes import PROBES; assert PROBES and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'no probe "coding-rate"\. Did you mean "coding_rate"\? Known: coding_rate'):
        check_probe("coding-rate")
    for name in PROBES:
        check_probe(name)
    side = {"layers": 1, "mixer": "attention(2)"}
    table = {"model": {"d_model": 16, "vocabulary": 40, "encoder": side, "decoder": side}}
    config = read_config(table)
    with pytest.raises(HeadwayError, match="measures language models, and this one translates"):
        run_probe("coding_rate", Transformer(config.model), STREAM, config, SPECIAL)


def rate_by_eigenvalues(z: torch.Tensor) -> float:
    """½ Σ log(1 + d/(N ε²) σ²) over the singular values."""
    return 0.5 * float(torch.log1p(z.shape[1] / (len(z) * 0.5) * torch.linalg.svdvals(z) ** 2).sum())


@pytest.mark.parametrize(("tokens", "width"), [(50, 6), (4, 9)])
def test_a_coding_rate_is_that_of_its_eigenvalues(tokens: int, width: int) -> None:
    z = torch.randn(tokens, width, dtype=torch.float64)
    assert coding_rate(z) == pytest.approx(rate_by_eigenvalues(z), abs=1e-12)
    bases = torch.linalg.qr(torch.randn(3, width, 2, dtype=torch.float64))[0]
    expected = sum(rate_by_eigenvalues(z @ basis) for basis in bases)
    assert subspace_coding_rate(z, bases) == pytest.approx(expected, abs=1e-12)


def test_the_coding_rate_of_all_directions_is_the_highest() -> None:
    z = torch.eye(5, dtype=torch.float64)
    assert coding_rate(z) == pytest.approx(2.5 * np.log(3))
    assert coding_rate(z[:1].expand(5, 5)) == pytest.approx(0.5 * np.log(11))  # one direction


def test_bases_span_what_the_heads_project_onto() -> None:
    model, _ = make({"mixer": "crate(4)", "feedforward": "ista", "residual": "crate"})
    mixer: Any = model.stacks["decoder"].blocks[0].sublayers["self"]  # type: ignore[union-attr, index]
    with torch.no_grad():
        bases = subspace_bases(mixer, 16)
    weights = mixer.subspaces.weight.detach().view(4, 4, 16).mT  # (K, d, p)
    torch.testing.assert_close(bases.mT @ bases, torch.eye(4, dtype=torch.float64).expand(4, 4, 4))
    torch.testing.assert_close(bases @ (bases.mT @ weights), weights)


def test_layers_of_crate_are_measured_before_and_after() -> None:
    model, config = make(
        {"mixer": ["crate(4)", "attention(2)"], "feedforward": ["ista", "relu(32)"], "residual": "crate"}
    )
    model.train()
    first, second = probe("coding_rate", model, config)
    assert model.training  # as it was
    model.eval()
    ids = torch.from_numpy(STREAM[: 43 * 16].astype(np.int64)).view(43, 16)  # all whole windows
    kept: dict[str, torch.Tensor] = {}
    block: Any = model.stacks["decoder"].blocks[0]  # type: ignore[union-attr, index]
    handles = [
        block.register_forward_pre_hook(lambda _, given: kept.update(before=given[0])),
        block.register_forward_hook(lambda _, given, s: kept.update(end=s)),
        block.sublayers["self"].register_forward_hook(lambda _, given, out: kept.update(read=given[0], added=out)),
    ]
    with torch.no_grad():
        model.decode(ids)
        mixed = kept["before"] + kept["added"]
        read_again = block.residuals["self"].norm(mixed)
    for handle in handles:
        handle.remove()

    def unit(z: torch.Tensor) -> torch.Tensor:
        return (z / z.norm(dim=-1, keepdim=True)).flatten(0, 1)

    for name, z in (("before", kept["before"]), ("after_mixer", mixed), ("after_feedforward", kept["end"])):
        assert first[f"rate_{name}"] == pytest.approx(rate_by_eigenvalues(unit(z)), abs=1e-9)
    with torch.no_grad():
        bases = subspace_bases(block.sublayers["self"], 16)
    for name, z in (("before", kept["read"]), ("after", read_again)):
        expected = sum(rate_by_eigenvalues(unit(z) @ basis) for basis in bases)
        assert first[f"subspace_rate_{name}"] == pytest.approx(expected, abs=1e-9)
    assert first["zeros"] == pytest.approx(float((kept["end"] == 0).double().mean())) and first["zeros"] > 0.1
    assert first["near_zeros"] >= first["zeros"] and second["zeros"] == 0
    assert second["rate_before"] == first["rate_after_feedforward"]
    assert second["subspace_rate_before"] == second["subspace_rate_after"] == ""
    assert [second[name] for name in ("layer", "mixer", "feedforward")] == [2, "attention", "relu"]


@pytest.mark.parametrize(
    "decoder",
    [
        {"residual": "residual_dual"},
        {"mixer": "crate(2)", "residual": "residual_dual"},
        {"mixer": "gau", "feedforward": "none"},
        {"memory_tokens": "prefix(2)", "mixer": "crate(2)"},
        {"distinct_layers": 1},
    ],
)
def test_coding_rates_of_any_model(decoder: dict[str, Any]) -> None:
    rows = probe("coding_rate", *make({"mixer": "attention(2)", **decoder}))
    most = 8 * np.log(3) + 1e-9
    assert all(0 < row[f"rate_{when}"] <= most for row in rows for when in ("before", "after_mixer"))
    assert ("subspace_rate_after" in rows[0]) == decoder.get("mixer", "").startswith("crate")


def test_a_masked_model_and_a_short_text() -> None:
    encoder = {"layers": 1, "mixer": "attention(2)"}
    table = {"d_model": 16, "vocabulary": 40, "head": "masked", "encoder": encoder, "decoder": {"layers": 0}}
    config = read_config({"model": table, "train": {"objective": "masked", "max_tokens": 32}})
    (row,) = probe("coding_rate", Transformer(config.model), config, STREAM[:5])
    assert row["rate_before"] > 0
