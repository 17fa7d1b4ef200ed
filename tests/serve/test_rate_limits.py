"""Rate limits: after the seconds that Retry-After says, and not before, the same request is accepted."""

import pytest

from headway.serve.errors import ApiError
from headway.serve.rate_limits import DAY, MAX_CLIENTS, RateLimiter, TokenBucket
from headway.serve.settings import ClientLimits


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limiter(clock: Clock) -> RateLimiter:
    return RateLimiter(clock, clock)


def retry_after(error: pytest.ExceptionInfo[ApiError]) -> int:
    assert error.value.status == 429
    return int(error.value.headers["Retry-After"])


def test_requests_a_minute() -> None:
    clock = Clock()
    made = limiter(clock)
    usage = made.usage_of("a", ClientLimits(requests=6))
    for _ in range(6):
        made.begin_request(usage)
    with pytest.raises(ApiError, match="the limit is 6 requests a minute") as error:
        made.begin_request(usage)
    wait = retry_after(error)
    assert wait == 10
    clock.now += wait - 0.5
    with pytest.raises(ApiError):
        made.begin_request(usage)
    clock.now += 0.5
    made.begin_request(usage)
    made.begin_request(made.usage_of("b", ClientLimits(requests=6)))  # others have their own


@pytest.mark.parametrize("count", [1, 50, 100, 1000])
def test_characters_a_minute(count: int) -> None:
    """Also those of a text that is longer than a minute's worth: the rate holds in the long run."""
    clock = Clock()
    made = limiter(clock)
    usage = made.usage_of("a", ClientLimits(characters=100))
    began, taken = clock.now, 0
    while taken < 5000:
        try:
            made.take_characters(usage, count)
            taken += count
        except ApiError as error:
            clock.now += int(error.headers["Retry-After"])
            made.take_characters(usage, count)  # exactly this one is accepted then
            taken += count
    rate = 60 * taken / (clock.now - began)
    assert rate < 100 * (1 + 1.5 * max(count, 100) / 2000)


def test_both_rates_are_in_retry_after() -> None:
    clock = Clock()
    made = limiter(clock)
    usage = made.usage_of("a", ClientLimits(requests=1, characters=60))
    made.begin_request(usage)
    made.take_characters(usage, 60)
    clock.now += 60
    made.begin_request(usage)
    made.take_characters(usage, 50)
    usage.running = 0
    clock.now += 60
    made.begin_request(usage)
    made.take_characters(usage, 60)
    with pytest.raises(ApiError) as error:
        made.take_characters(usage, 1)
    assert retry_after(error) == 60  # a character would be there after a second, a request after a minute


def test_characters_a_day() -> None:
    clock = Clock()
    made = limiter(clock)
    usage = made.usage_of("a", ClientLimits(quota=100))
    made.take_characters(usage, 90)
    with pytest.raises(ApiError, match="100 characters a day, of which 10 are left") as error:
        made.take_characters(usage, 11)
    wait = retry_after(error)
    assert (clock.now + wait) % DAY == 0
    made.take_characters(usage, 10)
    with pytest.raises(ApiError, match="101 characters exceed the quota of a day"):
        made.take_characters(usage, 101)
    clock.now += wait
    made.take_characters(usage, 100)


def test_requests_at_a_time() -> None:
    clock = Clock()
    made = limiter(clock)
    usage = made.usage_of("a", ClientLimits(concurrent=2))
    made.begin_request(usage)
    made.begin_request(usage)
    with pytest.raises(ApiError, match="2 requests at a time") as error:
        made.begin_request(usage)
    assert retry_after(error) == 1
    for _ in range(50):
        made.end_request(usage, 8.0)
        made.begin_request(usage)
    with pytest.raises(ApiError) as error:
        made.begin_request(usage)
    assert retry_after(error) == 8  # as long as this client's requests take


def test_many_addresses_do_not_grow_it() -> None:
    clock = Clock()
    made = limiter(clock)
    limits = ClientLimits(requests=1)
    running = made.usage_of("running", limits)
    made.begin_request(running)
    for number in range(2 * MAX_CLIENTS):
        clock.now += 0.001
        made.begin_request(usage := made.usage_of(str(number), limits))
        made.end_request(usage, 0.1)
    assert len(made._clients) == MAX_CLIENTS
    assert made.usage_of("running", limits) is running


def test_new_limits_count_at_once() -> None:
    clock = Clock()
    made = limiter(clock)
    usage = made.usage_of("a", ClientLimits(concurrent=2))
    made.begin_request(usage)
    again = made.usage_of("a", ClientLimits(concurrent=1))
    with pytest.raises(ApiError):
        made.begin_request(again)


def test_shares_of_processes() -> None:
    limits = ClientLimits(requests=10, characters=None, quota=1, concurrent=4)
    assert limits.divided_by(4) == ClientLimits(requests=3, characters=None, quota=1, concurrent=1)


def test_a_bucket_fills_no_further_than_its_capacity() -> None:
    bucket = TokenBucket(10, 60, 0.0)
    assert bucket.seconds_until(10, 1e9) == 0
    bucket.take(10)
    assert bucket.seconds_until(1, 1e9) == pytest.approx(6)


def test_limits_that_change_forget_nothing() -> None:
    """Also while requests run: a client whose requests never seemed to end would be refused for ever."""
    clock = Clock()
    made = limiter(clock)
    first = made.usage_of("a", ClientLimits(requests=10, quota=100, concurrent=1))
    made.begin_request(first)
    made.take_characters(first, 90)
    second = made.usage_of("a", ClientLimits(requests=2, quota=95, concurrent=1))
    with pytest.raises(ApiError, match="1 requests at a time"):
        made.begin_request(second)
    made.end_request(first, 0.1)
    made.begin_request(second)
    with pytest.raises(ApiError, match="95 characters a day, of which 5 are left"):
        made.take_characters(second, 6)
    made.end_request(second, 0.1)
    unlimited = made.usage_of("a", ClientLimits())
    for _ in range(20):
        made.begin_request(unlimited)


def test_a_changed_rate_gives_no_second_start() -> None:
    clock = Clock()
    made = limiter(clock)
    for capacity in (3, 4, 3, 4):  # two keys of one name
        usage = made.usage_of("a", ClientLimits(requests=capacity))
        if usage.requests and not usage.requests.seconds_until(1, clock()):
            made.begin_request(usage)
    with pytest.raises(ApiError):
        made.begin_request(made.usage_of("a", ClientLimits(requests=4)))
