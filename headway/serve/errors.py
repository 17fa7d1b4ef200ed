"""API errors: a status and a message, which middleware.py sends in the form that the clients of each API expect."""

import math
from collections.abc import Mapping
from typing import Any

MAX_RETRY_SECONDS = 60  # the longest wait that Retry-After asks for


class ApiError(Exception):
    """A request that is refused or fails, with the HTTP status and the message for the client.

    extra: fields that OpenAI's form of an error has beside them, such as `param`."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        self.extra = extra


class ApiKeyError(ApiError):
    """A request without a valid API key. LibreTranslate's clients get 400 or 403, OpenAI's get 401."""

    def __init__(self, key_given: bool) -> None:
        if key_given:
            super().__init__(403, "Invalid API key")
        else:
            super().__init__(400, "Please contact the server operator to get an API key")
        self.key_given = key_given


class ClientGone(Exception):
    """The client has closed the connection: there is nobody to answer."""


def missing_parameter(name: str) -> ApiError:
    return ApiError(400, f"Invalid request: missing {name} parameter", param=name)


def text_limit_exceeded(size: int, limit: int) -> ApiError:
    return ApiError(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def body_too_large(limit: int) -> ApiError:
    return ApiError(413, f"Invalid request: request exceeds {limit} bytes. Send less at a time.")


def file_too_large(limit: int) -> ApiError:
    return ApiError(413, f"Invalid request: file exceeds {limit} bytes. Send a smaller one.")


def takes_too_long(seconds: float, limit: float) -> ApiError:
    """seconds: that a request is expected to take, at the speed that has been measured."""
    return ApiError(
        413,
        f"Invalid request: this would take about {math.ceil(seconds)} s, and a request may take {limit:g} s. Send less "
        "at a time, or ask for fewer alternatives.",
    )


def too_many_requests(seconds: float) -> ApiError:
    """seconds: after which it is worth trying again."""
    wait = min(max(math.ceil(seconds), 1), MAX_RETRY_SECONDS)
    return ApiError(429, f"Slowdown: the server is busy. Try again in {wait} s.", {"Retry-After": str(wait)})


def request_timeout(seconds: float) -> ApiError:
    return ApiError(504, f"the request took longer than {seconds:g} s. Send less at a time.")


def server_ending() -> ApiError:
    return ApiError(503, "the server is about to end. Try again in a moment.", {"Retry-After": "5"})


def server_full(reason: str) -> ApiError:
    return ApiError(503, f"{reason}. Try again in a moment.", {"Retry-After": "1"})
