"""API errors: a status and a message, which middleware.py sends in the form that the clients of each API expect."""

import math
from collections.abc import Mapping
from typing import Any

MAX_RETRY_SECONDS = 60  # the longest wait that Retry-After asks for


class ApiError(Exception):
    """A request that is refused or fails, with the HTTP status and the message for the client.

    extra: fields that OpenAI's form of an error has beside them, such as `param`."""

    reason = ""  # a word by which the page knows the error, to tell it in its own language
    values: Mapping[str, Any] = {}  # that the page's message has in it

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        self.extra = extra

    def because(self, reason: str, **values: Any) -> "ApiError":
        """The same error, with its reason."""
        self.reason = reason
        self.values = values
        return self

    def to_dict(self) -> dict[str, Any]:
        """The error as the page's own routes send it."""
        return {"error": self.message, **({"reason": self.reason, "values": self.values} if self.reason else {})}


class ApiKeyError(ApiError):
    """A request without a valid API key. LibreTranslate's clients get 400 or 403, OpenAI's get 401."""

    def __init__(self, key_given: bool) -> None:
        if key_given:
            super().__init__(403, "Invalid API key")
        else:
            super().__init__(400, "Please contact the server operator to get an API key")
        self.key_given = key_given
        self.because("wrong_key" if key_given else "no_key")


class ClientGone(Exception):
    """The client has closed the connection: there is nobody to answer."""


def internal_error(message: str) -> ApiError:
    return ApiError(500, message).because("internal")


def missing_parameter(name: str) -> ApiError:
    return ApiError(400, f"Invalid request: missing {name} parameter", param=name)


def text_limit_exceeded(size: int, limit: int) -> ApiError:
    error = ApiError(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")
    return error.because("text_limit", size=size, limit=limit)


def body_too_large(limit: int) -> ApiError:
    error = ApiError(413, f"Invalid request: request exceeds {limit} bytes. Send less at a time.")
    return error.because("body_limit", limit=limit)


def file_too_large(limit: int) -> ApiError:
    return ApiError(413, f"Invalid request: file exceeds {limit} bytes. Send a smaller one.")


def takes_too_long(seconds: float, limit: float) -> ApiError:
    """seconds: that a request is expected to take, at the speed that has been measured."""
    return ApiError(
        413,
        f"Invalid request: this would take about {math.ceil(seconds)} s, and a request may take {limit:g} s. Send less "
        "at a time, or ask for fewer alternatives.",
    ).because("would_take_too_long", seconds=math.ceil(seconds), limit=limit)


def too_many_requests(seconds: float) -> ApiError:
    """seconds: after which it is worth trying again."""
    wait = min(max(math.ceil(seconds), 1), MAX_RETRY_SECONDS)
    error = ApiError(429, f"Slowdown: the server is busy. Try again in {wait} s.", {"Retry-After": str(wait)})
    return error.because("busy", seconds=wait)


def request_timeout(seconds: float) -> ApiError:
    error = ApiError(504, f"the request took longer than {seconds:g} s. Send less at a time.")
    return error.because("took_too_long", limit=seconds)


def server_ending() -> ApiError:
    error = ApiError(503, "the server is about to end. Try again in a moment.", {"Retry-After": "5"})
    return error.because("ending")


def server_full(reason: str) -> ApiError:
    error = ApiError(503, f"{reason}. Try again in a moment.", {"Retry-After": "1"})
    return error.because("busy", seconds=1)
