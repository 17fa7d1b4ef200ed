"""Who asks, and whether they may: the API key of a request, before its body is read, and the limits of its client."""

import re
import time
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl

from starlette.types import Scope

from headway.serve.addresses import network_of
from headway.serve.api_keys import ApiKeys
from headway.serve.errors import ApiKeyError
from headway.serve.metrics import ANONYMOUS, Metrics
from headway.serve.rate_limits import ClientUsage, RateLimiter, TokenBucket, rate_limited
from headway.serve.settings import ClientLimits, ServerSettings

KEYED_PREFIXES = ("/api/", "/v1/")  # with their GET requests; elsewhere POST alone needs a key
BEARER = re.compile(r"bearer\s+", re.IGNORECASE)  # authorization schemes are case-insensitive
MULTIPART_KEY = re.compile(  # bounded and possessive: whoever has no key must not keep the server busy
    rb'name="?api_key"?[^\r\n]{0,200}+\r\n(?:[^\r\n]{1,200}+\r\n){0,5}+\r\n([^\r\n]{1,1000}+)\r\n'
)
MAX_QUERY_BYTES = 10_000  # that are searched for a key
PEEKED_BYTES = 2**16  # of a form with a file, in which the key is looked for
FAILED_KEY_LIMIT = ClientLimits(requests=30)  # of one address, for bodies that were read in vain


class Peekable(Protocol):
    """A request whose body can be looked at before it is received."""

    received_all: bool

    async def peek(self, count: int) -> bytes: ...


@dataclass
class Caller:
    """Who a request is from, once that is known. In scope["caller"]."""

    name: str  # of its key; ANONYMOUS without
    usage: ClientUsage
    began: float


class Admission:
    def __init__(self, settings: ServerSettings, keys: ApiKeys, metrics: Metrics) -> None:
        self.keys = keys
        self.metrics = metrics
        self.processes = settings.processes
        self.address_limits = settings.client_limits.divided_by(settings.processes)
        self.limiter = RateLimiter()
        self.failures = RateLimiter()  # of its own: however many addresses fail, what keys have used is not forgotten

    async def admit(self, scope: Scope, request: Peekable) -> None:
        """Raises for a wrong key, or for a client that has used up its limits. A key that may be in the body is left to
        `admit_by_body`, unless the body has a file: the key must come before it."""
        scope["client_id"] = network_of(scope["client"][0]) if scope.get("client") else "-"
        scope["caller"] = None
        if not needs_key(scope["method"], scope["route_path"]):
            return
        key = find_key(scope)
        if not self.keys.required:
            self._begin(scope, ANONYMOUS, self.address_limits)
        elif key:
            self._begin_with_key(scope, key)
        elif scope["method"] != "POST":
            raise ApiKeyError(key_given=False)
        else:
            await self._look_into_body(scope, request)

    async def _look_into_body(self, scope: Scope, request: Peekable) -> None:
        failed = self._failures(scope)
        if wait := failed.seconds_until(1, self.failures.clock()):
            raise rate_limited(wait, f"{FAILED_KEY_LIMIT.requests} requests a minute without a valid API key")
        try:
            await self._look_into_form(scope, request)
        except ApiKeyError:
            failed.take(1)
            raise

    async def _look_into_form(self, scope: Scope, request: Peekable) -> None:
        kind = dict(scope["headers"]).get(b"content-type", b"").lower()
        if kind.startswith(b"multipart/"):
            found = MULTIPART_KEY.search(await request.peek(PEEKED_BYTES))
            if found:
                self._begin_with_key(scope, found[1].decode("utf-8", "replace"))
            elif not request.received_all:
                error = ApiKeyError(key_given=False)
                error.message += ", and send it in the header Authorization, or in api_key before the file"
                raise error

    def admit_by_body(self, scope: Scope, table: dict[str, Any]) -> None:
        """table: the fields of the body."""
        if scope["caller"] is None:
            given = table.get("api_key")
            try:
                self._begin_with_key(scope, given if isinstance(given, str) else "")
            except ApiKeyError:
                self._failures(scope).take(1)
                raise

    def take_characters(self, scope: Scope, count: int) -> None:
        """Of a text to translate. Raises 429 where there are too many."""
        caller: Caller | None = scope["caller"]
        if caller is None:
            return
        self.limiter.take_characters(caller.usage, count)
        self._count_characters(caller, count)

    def begin_file(self, scope: Scope) -> None:
        """The characters of a file are known when it is read: it is accepted while its client has some left."""
        self.take_characters(scope, 1)

    def charge_file(self, scope: Scope, count: int) -> None:
        """Characters of a file that was accepted, which may leave its client in debt."""
        caller: Caller | None = scope["caller"]
        if caller is not None:
            self.limiter.charge_characters(caller.usage, count)
            self._count_characters(caller, count)

    def _count_characters(self, caller: Caller, count: int) -> None:
        used, quota = caller.usage.day_characters, caller.usage.limits.quota
        self.metrics.count_characters(caller.name, count, used, quota)

    def finish(self, scope: Scope, status: int) -> None:
        """Once a request has been answered, however."""
        caller: Caller | None = scope.get("caller")
        if caller is not None:
            self.limiter.end_request(caller.usage, time.perf_counter() - caller.began)
        self.metrics.count_client(scope["log_fields"].get("key", ANONYMOUS), status)

    def _begin_with_key(self, scope: Scope, key: str) -> None:
        found = self.keys.identify(key)
        scope["client_id"] = found.name
        scope["log_fields"]["key"] = found.name
        self._begin(scope, found.name, found.limits.divided_by(self.processes))

    def _begin(self, scope: Scope, name: str, limits: ClientLimits) -> None:
        kind = "address" if name == ANONYMOUS else "key"
        usage = self.limiter.usage_of(f"{kind} {scope['client_id']}", limits)
        self.limiter.begin_request(usage)
        scope["caller"] = Caller(name, usage, time.perf_counter())

    def _failures(self, scope: Scope) -> TokenBucket:
        bucket = self.failures.usage_of(scope["client_id"], FAILED_KEY_LIMIT).requests
        assert bucket is not None
        return bucket


def needs_key(method: str, path: str) -> bool:
    """Whether a request is work for the server, and no page, list of languages or download."""
    return method == "POST" or path.startswith(KEYED_PREFIXES)


def find_key(scope: Scope) -> str:
    """The key in the header Authorization or X-Api-Key, or in the query. Other schemes than Bearer are not for us."""
    headers = dict(scope["headers"])
    authorization = _decode(headers.get(b"authorization", b""))
    if BEARER.match(authorization) or " " not in authorization:
        key = BEARER.sub("", authorization, count=1).strip()
        if key and key.lower() != "bearer":
            return key
    if key := _decode(headers.get(b"x-api-key", b"")):
        return key
    query = _decode(scope["query_string"][:MAX_QUERY_BYTES])
    return next((value for name, value in parse_qsl(query) if name == "api_key"), "")


def _decode(header: bytes) -> str:
    return header.decode("utf-8", "replace").strip()
