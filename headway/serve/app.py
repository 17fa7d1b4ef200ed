"""The FastAPI application: routes, pages, middleware."""

import asyncio
import functools
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from headway import __version__
from headway.serve import openapi
from headway.serve.addresses import RequestOrigin
from headway.serve.admission import Admission, find_key
from headway.serve.answers import ServedIndex
from headway.serve.api_keys import ApiKeys
from headway.serve.connections import Connections
from headway.serve.document_workers import DocumentWorkers
from headway.serve.downloads import Downloads
from headway.serve.errors import ApiError
from headway.serve.exit_signals import watch_exit_signals
from headway.serve.memory import MemoryBudget, limit_arenas
from headway.serve.metrics import Metrics
from headway.serve.middleware import RequestGuard, error_response
from headway.serve.model_pool import ModelPool
from headway.serve.preload import preload_model
from headway.serve.routes import (
    answer,
    docs_page,
    embeddings,
    inspect,
    libretranslate,
    openai,
    studies,
    translate_stream,
)
from headway.serve.security_headers import SecurityHeaders
from headway.serve.settings import Log, ServerSettings
from headway.serve.state import ServerState
from headway.serve.suggestions import SuggestionFile

STATIC_DIR = Path(__file__).parent / "static"
CLOSE_SECONDS = 30.0  # that batches have to end, when the server stops
EXTRA_THREADS = 32  # beside those of the streams, for what would block the event loop


def create_app(settings: ServerSettings, log: Log) -> FastAPI:
    metrics = Metrics()
    origin = RequestOrigin(settings)
    warn = functools.partial(log, level="warning")
    keys = ApiKeys(settings.api_keys, settings.client_limits, warn=warn)
    metrics_keys = ApiKeys(settings.metrics_keys, option="--metrics-keys", warn=warn)
    admission = Admission(settings, keys, metrics)
    memory = MemoryBudget(settings.memory)
    pool = ModelPool(settings, log, metrics.count_batch)
    memory.release_memory = pool.unload_idle
    state = ServerState(
        settings=settings,
        pool=pool,
        keys=keys,
        admission=admission,
        connections=Connections(settings.limits, origin.is_exempt, metrics, log),
        metrics=metrics,
        downloads=Downloads(settings.files, settings.limits),
        memory=memory,
        workers=DocumentWorkers(settings.limits, memory),
        suggestions=SuggestionFile(settings.suggestions),
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        limit_arenas()
        threads = ThreadPoolExecutor(EXTRA_THREADS + settings.limits.streams, "work")
        loop = asyncio.get_running_loop()
        loop.set_default_executor(threads)
        loop.set_exception_handler(state.connections.handle_loop_error)
        watching = asyncio.create_task(memory.watch())
        loading = asyncio.create_task(asyncio.to_thread(preload_model, pool, memory)) if settings.preload else None
        stop_long_jobs = functools.partial(pool.stop_long_jobs, CLOSE_SECONDS)
        with watch_exit_signals(lambda: loop.call_soon_threadsafe(stop_long_jobs)):
            yield
        watching.cancel()
        if loading is not None:
            await asyncio.gather(loading, return_exceptions=True)  # a thread in C code may not be torn from the process
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
    for module in (libretranslate, translate_stream, inspect, studies, openai, embeddings, docs_page):
        app.include_router(module.make_router(state))
    if settings.index is not None:  # without one, the server has no such routes
        app.include_router(answer.make_router(state, ServedIndex(settings, log)))
    if settings.metrics_port is None:
        _add_metrics(app, metrics, metrics_keys)
    _add_pages(app)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_middleware(
        RequestGuard,
        settings=settings,
        origin=origin,
        admission=admission,
        memory=memory,
        metrics=metrics,
        log=log,
    )
    if settings.cors:  # around the guard, so that pages of other origins can read its errors as well
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
    app.add_middleware(SecurityHeaders)
    return app


def _add_metrics(app: FastAPI, metrics: Metrics, keys: ApiKeys) -> None:
    @app.get("/metrics", **openapi.METRICS)
    async def show_metrics(request: Request) -> Response:
        """Metrics for Prometheus."""
        if keys.required:
            keys.identify(find_key(request.scope))
        return PlainTextResponse(metrics.render())


def _add_pages(app: FastAPI) -> None:
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
    return error_response(ApiError(error.status_code, message, error.headers), request.scope["route_path"])
