"""Errors as OpenAI's clients expect them: `{"error": {"message", "type", "param", "code"}}`, and 401 for keys."""

from starlette.responses import JSONResponse

from headway.serve.errors import ApiError, ApiKeyError

UNAUTHORIZED = {"WWW-Authenticate": "Bearer"}
MISSING_KEY_MESSAGE = "No API key was provided. Send it in the header Authorization: Bearer YOUR_KEY"
WRONG_KEY_MESSAGE = "Incorrect API key provided. The operator of this server gives out keys."


def format_openai_error(error: ApiError) -> JSONResponse:
    status = error.status
    message = error.message
    headers = error.headers
    extra = error.extra
    if isinstance(error, ApiKeyError):
        status = 401
        message = WRONG_KEY_MESSAGE if error.key_given else MISSING_KEY_MESSAGE
        headers = {**headers, **UNAUTHORIZED}
        extra = {"code": "invalid_api_key"} if error.key_given else {}
    fields = {"message": message, "type": error_type(status), "param": None, "code": error_code(status), **extra}
    return JSONResponse({"error": fields}, status, headers)


def error_type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


def error_code(status: int) -> str | None:
    """For errors that do not bring their own."""
    return "rate_limit_exceeded" if status == 429 else None
