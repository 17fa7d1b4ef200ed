"""The FastAPI application: routes, pages, middleware."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from headway import __version__
from headway.serve import openapi
from headway.serve.api_keys import ApiKeys
from headway.serve.downloads import Downloads
from headway.serve.errors import ApiError
from headway.serve.metrics import Metrics
from headway.serve.middleware import RequestGuard, error_response
from headway.serve.model_pool import ModelPool
from headway.serve.routes import inspect, libretranslate, openai, translate_stream
from headway.serve.routes.docs_page import render_docs_page
from headway.serve.settings import Log, ServerSettings
from headway.serve.state import ServerState

STATIC_DIR = Path(__file__).parent / "static"
CLOSE_SECONDS = 30.0  # that batches have to end, when the server stops
EXTRA_THREADS = 32  # beside those of the streams, for what would block the event loop


def create_app(settings: ServerSettings, log: Log) -> FastAPI:
    metrics = Metrics()
    state = ServerState(
        settings=settings,
        pool=ModelPool(settings, log, metrics.count_batch),
        keys=ApiKeys(settings.api_keys),
        metrics=metrics,
        downloads=Downloads(settings.files, settings.limits),
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        threads = ThreadPoolExecutor(EXTRA_THREADS + settings.limits.streams, "work")
        asyncio.get_running_loop().set_default_executor(threads)
        yield
        await asyncio.to_thread(state.pool.close, CLOSE_SECONDS)
        state.downloads.close()

    app = FastAPI(
        title="Headway",
        version=__version__,
        description="Translation with LibreTranslate's API; completions with OpenAI's.",
        openapi_url="/spec",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.server = state
    for module in (libretranslate, translate_stream, inspect, openai):
        app.include_router(module.make_router(state))
    _add_pages(app, metrics)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_middleware(RequestGuard, limits=settings.limits, metrics=metrics, log=log, log_text=settings.log_text)
    if settings.cors:  # around the guard, so that pages of other origins can read its errors as well
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
    return app


def _add_pages(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/metrics", **openapi.METRICS)
    async def show_metrics() -> Response:
        """Metrics for Prometheus."""
        return PlainTextResponse(metrics.render())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs_page(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def front() -> Response:
        index = STATIC_DIR / "index.html"
        return FileResponse(index) if index.is_file() else RedirectResponse("docs")

    if STATIC_DIR.is_dir():
        app.mount("/static", StaticFiles(directory=STATIC_DIR), name="static")


async def _handle_http_error(request: Request, error: Any) -> JSONResponse:
    """A path without a route, or a method that it does not have."""
    messages = {404: "there is nothing at this address: see /docs", 405: "this method is not allowed here: see /docs"}
    message = messages.get(error.status_code, str(error.detail))
    return error_response(ApiError(error.status_code, message, error.headers), request.scope["path"])
