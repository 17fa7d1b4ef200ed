"""Security headers on every answer: pages may load from this server alone, and nobody may frame them."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COMMON_HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
]
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
API_POLICY = "default-src 'none'; frame-ancestors 'none'"
API_HEADERS = [*COMMON_HEADERS, ("Content-Security-Policy", API_POLICY)]


class SecurityHeaders:
    """ASGI middleware, around all others."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", [])))
                is_page = headers.get("content-type", "").startswith("text/html")
                for name, value in COMMON_HEADERS:
                    headers[name] = value
                headers["Content-Security-Policy"] = PAGE_POLICY if is_page else API_POLICY
                message = {**message, "headers": headers.raw}
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)
