"""Studies of `headway compare`, for the page: which there are, and what each found."""

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headway.serve import openapi
from headway.serve.state import ServerState


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()
    pool = state.pool

    @router.get("/api/studies", **openapi.STUDIES)
    async def studies(request: Request) -> JSONResponse:
        """All studies of this server."""
        state.check_key(request, {})
        return JSONResponse([study.summary.model_dump() for study in pool.studies])

    @router.get("/api/studies/{name}", **openapi.STUDY)
    async def study(request: Request, name: str) -> Response:
        """The variants of a study: what each reached, what it costs, and the models that this server has of it."""
        state.check_key(request, {})
        return _json_response(pool.study_named(name).results)

    return router


def _json_response(body: BaseModel) -> Response:
    """As pydantic writes it: numbers that are not finite become null."""
    return Response(body.model_dump_json(), media_type="application/json")
