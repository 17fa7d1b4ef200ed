"""Saying no: a status and a text, in the shape that the clients of each API expect."""

import math
from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A request that is not served, and why: told to the client, whose fault it need not be."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(text)
        self.status, self.text, self.headers, self.more = status, text, dict(headers or {}), more


class Gone(Exception):
    """The client has closed the connection: nobody waits for an answer."""


def missing(name: str) -> ApiError:
    return ApiError(400, f"Invalid request: missing {name} parameter")


def too_much(size: int, limit: int) -> ApiError:
    return ApiError(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def too_large(limit: int) -> ApiError:
    return ApiError(413, f"Invalid request: request exceeds {limit} bytes")


def file_too_large(limit: int) -> ApiError:
    return ApiError(413, f"Invalid request: a file may have {limit} bytes at most. Send a smaller one.")


def slow_down(seconds: float) -> ApiError:
    wait = min(max(math.ceil(seconds), 1), 60)
    return ApiError(429, f"Slowdown: too much is waiting. Try again in {wait} s.", {"Retry-After": str(wait)})


def too_long(seconds: float) -> ApiError:
    return ApiError(504, f"this took longer than {seconds:g} s. Send less at a time.")
