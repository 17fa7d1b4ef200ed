"""The application: everything put together."""

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
from headway.serve.api_keys import Keys
from headway.serve.downloads import Files
from headway.serve.errors import ApiError
from headway.serve.metrics import Metrics
from headway.serve.middleware import Guard, answer
from headway.serve.model_pool import Shelf
from headway.serve.routes import inspect, libretranslate, openai, translate_stream
from headway.serve.routes.docs_page import docs_page
from headway.serve.settings import Settings, Tell
from headway.serve.state import Service

STATIC = Path(__file__).parent / "static"
LAST_BATCH = 30.0  # seconds
THREADS = 32  # beside those of the streams: for what would hold the event loop up


def create_app(settings: Settings, tell: Tell) -> FastAPI:
    """tell: writes the log."""
    metrics = Metrics()
    service = Service(
        settings=settings,
        shelf=Shelf(settings, tell, metrics.batch),
        keys=Keys(settings.api_keys),
        metrics=metrics,
        files=Files(settings.files, settings.limits),
    )

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        pool = ThreadPoolExecutor(THREADS + settings.limits.streams, "work")
        asyncio.get_running_loop().set_default_executor(pool)
        yield
        await asyncio.to_thread(service.shelf.close, LAST_BATCH)
        service.files.close()

    app = FastAPI(
        title="Headway",
        version=__version__,
        description="Translation, as LibreTranslate's clients ask for it; completions, as OpenAI's do.",
        openapi_url="/spec",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=life,
    )
    app.state.service = service
    for part in (libretranslate, translate_stream, inspect, openai):
        app.include_router(part.routes(service))
    _add_pages(app, metrics)
    app.add_exception_handler(HTTPException, _told)
    app.add_middleware(Guard, limits=settings.limits, metrics=metrics, tell=tell, log_text=settings.log_text)
    if settings.cors:  # around the guard: a page may read why it was refused, too
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
        """Numbers for Prometheus."""
        return PlainTextResponse(metrics.shown())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def front() -> Response:
        index = STATIC / "index.html"
        return FileResponse(index) if index.is_file() else RedirectResponse("docs")

    if STATIC.is_dir():
        app.mount("/static", StaticFiles(directory=STATIC), name="static")


async def _told(request: Request, error: Any) -> JSONResponse:
    """What no route is for."""
    known = {404: "there is nothing here: see /docs", 405: "this method is not for this address: see /docs"}
    text = known.get(error.status_code, str(error.detail))
    return answer(ApiError(error.status_code, text, error.headers), request.scope["path"])
