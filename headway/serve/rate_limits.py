"""Rate limits of each client: requests and characters a minute, characters a day, requests at a time."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from headway.serve.errors import ApiError
from headway.serve.settings import ClientLimits

MAX_CLIENTS = 10_000  # that are remembered; beyond that, the one that was seen longest ago is forgotten
MINUTE = 60.0
DAY = 86_400


class TokenBucket:
    """Holds what may be used at once, and fills within `period` seconds. A cost above its capacity is allowed when
    it is full, and leaves it in debt, so that in the long run the rate holds for every size of request."""

    def __init__(self, capacity: int, period: float, now: float) -> None:
        self.capacity = float(capacity)
        self.rate = capacity / period
        self.level = self.capacity
        self.updated = now

    def seconds_until(self, cost: float, now: float) -> float:
        """After which `take` may be called; 0: now."""
        self.level = min(self.level + (now - self.updated) * self.rate, self.capacity)
        self.updated = now
        missing = min(cost, self.capacity) - self.level
        return missing / self.rate if missing > 1e-9 * self.capacity else 0.0

    def take(self, cost: float) -> None:
        self.level -= cost


def change_capacity(bucket: TokenBucket | None, capacity: int | None, period: float, now: float) -> TokenBucket | None:
    """A bucket of another capacity, with no more in it than there was."""
    if not capacity:
        return None
    changed = TokenBucket(capacity, period, now)
    if bucket is not None:
        changed.level = min(bucket.level, changed.level)
    return changed


class ClientUsage:
    """What one client has used of its limits."""

    def __init__(self, limits: ClientLimits, now: float) -> None:
        self.requests: TokenBucket | None = None
        self.characters: TokenBucket | None = None
        self.set_limits(limits, now)
        self.running = 0
        self.mean_seconds = 1.0  # of its requests, lately
        self.day = 0
        self.day_characters = 0

    def set_limits(self, limits: ClientLimits, now: float) -> None:
        """Its limits may change, and two keys of one name may have different ones. What was used stays used."""
        self.limits = limits
        self.requests = change_capacity(self.requests, limits.requests, MINUTE, now)
        self.characters = change_capacity(self.characters, limits.characters, MINUTE, now)

    def quota_used(self, today: int) -> int:
        return self.day_characters if self.day == today else 0


class RateLimiter:
    def __init__(self, clock: Callable[[], float] = time.monotonic, date: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.date = date
        self._clients: OrderedDict[str, ClientUsage] = OrderedDict()

    def usage_of(self, client: str, limits: ClientLimits) -> ClientUsage:
        usage = self._clients.get(client)
        if usage is None:
            usage = self._clients[client] = ClientUsage(limits, self.clock())
            if len(self._clients) > MAX_CLIENTS:
                self._forget_one()
        elif usage.limits != limits:
            usage.set_limits(limits, self.clock())
        self._clients.move_to_end(client)
        return usage

    def _forget_one(self) -> None:
        for client, usage in self._clients.items():
            if not usage.running:
                del self._clients[client]
                return

    def begin_request(self, usage: ClientUsage) -> None:
        """Raises 429 where this request is one too many. Otherwise `end_request` must follow."""
        limits = usage.limits
        if usage.requests and (wait := usage.requests.seconds_until(1, self.clock())):
            raise rate_limited(wait, f"{limits.requests} requests a minute")
        if limits.concurrent and usage.running >= limits.concurrent:
            raise rate_limited(usage.mean_seconds, f"{limits.concurrent} requests at a time")
        if usage.requests:
            usage.requests.take(1)
        usage.running += 1

    def end_request(self, usage: ClientUsage, seconds: float) -> None:
        usage.running -= 1
        usage.mean_seconds += 0.2 * (seconds - usage.mean_seconds)

    def take_characters(self, usage: ClientUsage, count: int) -> None:
        """Raises 429 where they are too many, and takes none of them then."""
        limits = usage.limits
        today, second = divmod(int(self.date()), DAY)
        used = usage.quota_used(today)
        if limits.quota and count > limits.quota:
            raise ApiError(400, f"Invalid request: {count} characters exceed the quota of a day ({limits.quota})")
        if limits.quota and used + count > limits.quota:
            left = max(limits.quota - used, 0)
            raise rate_limited(DAY - second, f"{limits.quota} characters a day, of which {left} are left")
        if usage.characters:
            wait = usage.characters.seconds_until(count, self.clock())
            if wait:
                again = usage.requests.seconds_until(1, self.clock()) if usage.requests else 0.0
                raise rate_limited(max(wait, again), f"{limits.characters} characters a minute")
        self.charge_characters(usage, count)

    def charge_characters(self, usage: ClientUsage, count: int) -> None:
        today = int(self.date()) // DAY
        usage.day_characters = usage.quota_used(today) + count
        usage.day = today
        if usage.characters:
            usage.characters.take(count)


def rate_limited(seconds: float, limit: str) -> ApiError:
    """seconds: after which this very request would be accepted."""
    wait = max(math.ceil(seconds), 1)
    error = ApiError(429, f"Slowdown: the limit is {limit}. Try again in {wait} s.", {"Retry-After": str(wait)})
    return error.because("rate_limit", seconds=wait)
