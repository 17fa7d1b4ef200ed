"""Probes: their numbers, against independent computations."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from headway.compare.probes import PROBES, check_probe, retention_forms, run_probe, segment_evaluation
from headway.compare.probes.coding_rate import coding_rate, subspace_bases, subspace_coding_rate
from headway.compare.probes.retention_forms import Operation, measure_forms
from headway.compare.probes.segment_evaluation import draw_sample, lay_out_rows, read_segments, reread_windows
from headway.config.config import Config, read_config
from headway.errors import ConfigError, HeadwayError
from headway.nn.ops.retention import fixed_log_decay
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.lm_dataset import ContiguousTextDataset, WholeTextDataset
from headway.train.validation import mean_loss

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


SEGMENTS = {"mixer": "attention(2)", "position": "transformer_xl", "mask": "causal & segments(16, 16)"}


def direct_loss(model: Transformer, window: torch.Tensor, label: int) -> float:
    with torch.no_grad():
        return -float(model.logits(model.decode(window[None]))[0, -1].log_softmax(-1)[label])


def test_segments_are_read_as_validation_reads_them() -> None:
    model, config = make(SEGMENTS, "causal(carry=true)")
    stream = STREAM[:641]
    ids = torch.from_numpy(stream.astype(np.int64))
    rows = torch.stack([ids[start : start + 161] for start in range(0, 640, 160)])
    with torch.no_grad():
        carried, separate = (read_segments(model, rows, 16, carry=carry) for carry in (True, False))
    expected = mean_loss(model, ContiguousTextDataset(stream, 16, budget=64), config, SPECIAL)
    assert expected.tokens == carried.losses.numel() == 640
    assert float(carried.losses.mean()) == pytest.approx(expected.loss, abs=1e-12)
    config = read_config({**config.to_dict(), "train": {"objective": "causal", "max_tokens": 16}})
    expected = mean_loss(model, WholeTextDataset(stream, 16), config, SPECIAL)
    assert float(separate.losses.mean()) == pytest.approx(expected.loss, abs=1e-12)
    assert carried.tokens_per_second > 0


def test_windows_are_reread_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_evaluation, "BATCH_TOKENS", 100)  # three windows at once
    model, _ = make(SEGMENTS)
    ids = torch.from_numpy(STREAM[:162].astype(np.int64)).view(2, 81)
    rows, ends = draw_sample(2, 31, 80, 7)
    with torch.no_grad():
        again = reread_windows(model, ids, rows, ends, 32)
    for loss, row, end in zip(again.losses.tolist(), rows.tolist(), ends.tolist()):
        expected = direct_loss(model, ids[row, end - 31 : end + 1], int(ids[row, end + 1]))
        assert loss == pytest.approx(expected, abs=1e-12)


def test_a_sample_has_every_token_once() -> None:
    rows, ends = draw_sample(3, 5, 9, 100)
    assert sorted(zip(rows.tolist(), ends.tolist())) == [(row, end) for row in range(3) for end in range(5, 9)]


def test_rows_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_evaluation, "BATCH_TOKENS", 40)
    rows = lay_out_rows(np.arange(1000), 10, 3)
    assert rows.shape == (4, 241) and rows[0, -1] == rows[1, 0] == 240 and rows[3, -1] == 960
    assert lay_out_rows(np.arange(61), 10, 3).shape == (2, 31)


def test_one_layer_reads_the_same_with_a_state_as_in_windows() -> None:
    """What a token sees of its window is all that it sees of the text."""
    model, config = make({"layers": 1, "mixer": "attention(2)", "position": "rope", "mask": "causal & local(24)"})
    carried, again, separate = probe("segment_evaluation", model, config)
    assert [row["way"] for row in (carried, again, separate)] == [
        "carried segments", "re-read windows", "separate windows"
    ]  # fmt: skip
    assert [row["context"] for row in (carried, again, separate)] == [24, 24, 16]
    assert carried["loss"] == pytest.approx(again["loss"], abs=1e-12) and carried["loss"] != separate["loss"]
    assert again["speed_up"] == 1 and carried["tokens"] == again["tokens"] == separate["tokens"] == 256
    assert carried["speed_up"] == pytest.approx(carried["tokens_per_second"] / again["tokens_per_second"])


def test_ways_that_a_model_does_not_have() -> None:
    ways = [row["way"] for row in probe("segment_evaluation", *make({"mixer": "attention(2)", "position": "rope"}))]
    assert ways == ["re-read windows", "separate windows"]
    carried, again, _ = probe("segment_evaluation", *make({"mixer": "retention(2)", "position": "rope"}))
    assert (carried["way"], carried["context"], again["context"]) == ("carried segments", "all", 16)


def test_a_way_stops_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_evaluation, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(segment_evaluation, "BATCH_TOKENS", 64)
    rows = probe("segment_evaluation", *make(SEGMENTS))
    assert [row["tokens"] for row in rows] == [2, 2, 2]  # one batch of windows of 32


def test_what_segment_evaluation_refuses() -> None:
    model, config = make(SEGMENTS)
    with pytest.raises(HeadwayError, match="needs 49 tokens of validation text for a context of 32, and there are 48"):
        run_probe("segment_evaluation", model, STREAM[:48], config, SPECIAL)
    table = {"d_model": 16, "vocabulary": 40, "head": "masked", "encoder": {"layers": 1}, "decoder": {"layers": 0}}
    config = read_config({"model": table, "train": {"objective": "masked"}})
    with pytest.raises(HeadwayError, match="measures causal language models"):
        run_probe("segment_evaluation", Transformer(config.model), STREAM, config, SPECIAL)


def test_forms_of_retention_are_equal_and_keep_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_forms, "LENGTHS", (20, 70))
    monkeypatch.setattr(retention_forms, "MAX_MATRIX_BYTES", 2 * 60**2 * 8)
    model, config = make({"layers": 3, "mixer": ["retention(2, chunk=8)", "retention(2, gated=true)", "attention(2)"]})
    rows = probe("retention_forms", model, config, STREAM[:50])
    assert [(row["decay"], row["length"], row["layers"]) for row in rows] == [
        ("fixed", 20, 1), ("fixed", 70, 1), ("gated", 20, 1), ("gated", 70, 1)
    ]  # fmt: skip
    for row in rows:
        assert row["state_bytes"] == row["heads"] * row["d_k"] * row["d_v"] * 8 == 2 * 8 * 16 * 8
        assert row["chunkwise_difference"] < 1e-9 and row["recurrent_seconds"] > 0
        assert (row["parallel_seconds"] == "") == (row["parallel_difference"] == "") == (row["length"] == 70)
        assert row["decode_seconds_per_token"] > 0
    assert rows[0]["parallel_difference"] < 1e-9
    assert rows[0]["model_state_bytes"] > 2 * rows[0]["state_bytes"]  # attention has one, too


def test_inputs_and_differences_of_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = Operation(2, 4, 6, False, 8)
    q, k, v, decay = operation.draw_inputs(12, torch.float64, torch.device("cpu"))
    expected = torch.zeros_like(v)
    for t in range(12):
        for s in range(t + 1):
            weights = fixed_log_decay(2)[..., 0].exp() ** (t - s) * (q[:, :, t] * k[:, :, s]).sum(-1)  # (1, H)
            expected[:, :, t] += weights[..., None] * v[:, :, s]
    torch.testing.assert_close(retention_forms.retain(q, k, v, decay, form="parallel")[0], expected)
    real = retention_forms.retain

    def wrong(*given: Any, form: Any, chunk: int = 8) -> Any:
        output, state = real(*given, form=form, chunk=chunk)
        return output + 0.5 * (form == "chunkwise"), state

    monkeypatch.setattr(retention_forms, "retain", wrong)
    monkeypatch.setattr(retention_forms, "MAX_SECONDS", 0.0)
    stopped: set[Any] = set()
    row = measure_forms(operation, 12, torch.float32, torch.device("cpu"), stopped)
    assert row["chunkwise_difference"] == pytest.approx(0.5) and row["parallel_difference"] == pytest.approx(0)
    assert row["state_bytes"] == 2 * 4 * 6 * 4 and stopped == {"recurrent", "parallel", "chunkwise"}
    again = measure_forms(operation, 24, torch.float32, torch.device("cpu"), stopped)
    assert list(again) == list(row) and set(again.values()) == {""}


def test_decoding_ends_where_time_or_positions_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_forms, "LENGTHS", (20, 70))
    model, config = make({"mixer": "retention(2)", "position": "learned(64)"})
    first, second = probe("retention_forms", model, config)
    assert first["decode_seconds_per_token"] > 0 and second["decode_seconds_per_token"] == ""
    assert first["model_state_bytes"] == 2 * first["state_bytes"]
    monkeypatch.setattr(retention_forms, "MAX_READ_SECONDS", 0.0)
    model, config = make({"mixer": "retention(2)", "position": "rope"})
    assert [row["model_state_bytes"] for row in probe("retention_forms", model, config)] == [4096, ""]


def test_models_without_the_parts_of_a_probe_are_refused() -> None:
    model, config = make({"mixer": "attention(2)"})
    with pytest.raises(HeadwayError, match='needs layers with the mixer "retention", and this model has none'):
        run_probe("retention_forms", model, STREAM, config, SPECIAL)
    with pytest.raises(HeadwayError, match='needs layers with the feed-forward "moe", and this model has none'):
        run_probe("expert_load", model, STREAM, config, SPECIAL)


def test_the_load_of_experts_is_what_the_router_chose() -> None:
    model, config = make({"mixer": "attention(2)", "feedforward": ["relu(8)", "moe(4, top_k=1, expert='relu(8)')"]})
    rows = probe("expert_load", model, config)
    moe: Any = model.stacks["decoder"].blocks[1].sublayers["feedforward"]  # type: ignore[union-attr, index]
    logits: list[torch.Tensor] = []
    handle = moe.register_forward_hook(lambda _, given, out: logits.append(given[0] @ moe.router.weight.T))
    with torch.no_grad():
        model.decode(torch.from_numpy(STREAM[: 43 * 16].astype(np.int64)).view(43, 16))
    handle.remove()
    counts = np.bincount(logits[0].flatten(0, 1).argmax(-1).numpy(), minlength=4)
    assert [row["share"] for row in rows] == pytest.approx(sorted(counts / (43 * 16), reverse=True))
    assert [(row["layer"], row["rank"], row["even_share"]) for row in rows] == [(2, rank, 0.25) for rank in range(1, 5)]
    total = config.model.parameter_count()
    expert = 2 * 16 * 8 + 8 + 16
    assert all(row["parameters"] == total and row["visited_parameters"] == total - 3 * expert for row in rows)


def test_layers_that_share_experts_visit_more_of_them() -> None:
    model, config = make(
        {"distinct_layers": 1, "mixer": "attention(2)", "feedforward": "moe(5, top_k=2, expert='relu(8)')"}
    )
    rows = probe("expert_load", model, config)
    assert rows[0]["parameters"] - rows[0]["visited_parameters"] == 2 * 16 * 8 + 8 + 16
    assert len(rows) == 10 and sum(row["share"] for row in rows) == pytest.approx(2)
