"""The learning rate: the paper's formula to the digit, and the shapes of the others."""

import pytest

from headway.config.catalogue import kinds
from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.train.schedules import ScheduleContext


def rates(written: str, at: list[int], steps: int = 1000, d_model: int = 512) -> list[float]:
    part = make_part("schedule", written)
    return [part.rate(step, ScheduleContext(d_model, steps)) for step in at]  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", [1, 2, 4000, 4001, 100_000])
@pytest.mark.parametrize("d_model", [512, 1024])
def test_noam_is_the_papers(step: int, d_model: int) -> None:
    expected = d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert rates("noam", [step], d_model=d_model) == [pytest.approx(expected, rel=1e-12)]
    assert rates("noam(factor=2.0)", [step], d_model=d_model) == [pytest.approx(2 * expected, rel=1e-12)]


def test_noam_by_hand() -> None:
    assert rates("noam", [1, 4000, 100_000]) == pytest.approx([1.746928e-7, 6.987712e-4, 1.397542e-4], rel=1e-6)


def test_inverse_sqrt_peaks_where_it_is_told() -> None:
    assert rates("inverse_sqrt(0.01, warmup=100)", [50, 100, 400, 10_000]) == pytest.approx([0.005, 0.01, 0.005, 0.001])


def test_cosine_rises_falls_by_half_a_wave_and_rests_on_the_floor() -> None:
    found = rates("cosine(1.0, warmup=200, floor=0.1)", [100, 200, 600, 1000, 5000])
    assert found == pytest.approx([0.55, 1.0, 0.55, 0.1, 0.1])
    quarter = rates("cosine(1.0, warmup=200)", [400])[0]
    assert quarter == pytest.approx(0.5 * (1 + 0.5**0.5))


def test_linear_falls_in_a_straight_line() -> None:
    assert rates("linear(1.0, warmup=200)", [100, 200, 600, 1000, 2000]) == pytest.approx([0.5, 1.0, 0.5, 0.0, 0.0])


def test_constant_stays() -> None:
    assert rates("constant(0.2, warmup=10)", [5, 10, 10_000]) == pytest.approx([0.1, 0.2, 0.2])


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_without_a_known_end_the_rate_stays_at_its_peak(kind: str) -> None:
    assert rates(f"{kind}(0.3, warmup=10)", [10, 1000, 10**6], steps=0) == pytest.approx([0.3, 0.3, 0.3])


@pytest.mark.parametrize("kind", kinds("schedule"))
def test_every_schedule_warms_up_from_almost_nothing(kind: str) -> None:
    first, later, warm = rates(f"{kind}(warmup=100)", [1, 50, 100], steps=10_000)
    assert 0 < first < later < warm
    assert later == pytest.approx(warm / 2, rel=0.01)


@pytest.mark.parametrize("kind", ["cosine(0.1, warmup=2)", "linear(0.1, warmup=2)"])
def test_a_budget_of_time_or_epochs_brings_the_rate_down_too(kind: str) -> None:
    schedule = make_part("schedule", kind)
    rates = [schedule.rate(10, ScheduleContext(64, 1_000_000, done)) for done in (0.0, 0.5, 1.0)]  # type: ignore[attr-defined]
    assert rates[0] == pytest.approx(0.1, rel=1e-3)
    assert rates[1] == pytest.approx(0.05, rel=1e-3)
    assert rates[2] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_a_floor_above_the_peak_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"floor: 0.1 is above the peak, 0.001. The learning rate must not rise"):
        make_part("schedule", f"{kind}(0.001, floor=0.1)")
    make_part("schedule", f"{kind}(0.001, floor=0.001)")
