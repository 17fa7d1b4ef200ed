"""Answers from the documents of the server's index: every step of one, as NDJSON."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headway.answering.answerer import AnswerOptions, answer_steps
from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.answers import ServedIndex
from headway.serve.errors import ApiError, internal_error
from headway.serve.event_stream import Emit, Event, EventStreamResponse
from headway.serve.routes.translate_stream import encode_line
from headway.serve.schemas import AnswerBody
from headway.serve.state import ServerState


def make_router(state: ServerState, index: ServedIndex) -> APIRouter:
    router = APIRouter()
    pool = state.pool

    @router.get("/api/index", **openapi.INDEX)
    async def describe_index(request: Request) -> JSONResponse:
        """How many documents can be asked, and which models can write answers."""
        state.check_key(request, {})
        models = [model.name for model in pool.models if model.is_causal]
        return JSONResponse({**index.describe(), "models": models})

    @router.post("/api/answer", **openapi.ANSWER)
    async def answer(request: Request) -> Response:
        """Answer a question from documents: an event for the search, the passages, the quotes and the answer."""
        body = await state.read_body(request, AnswerBody)
        state.check_size(request, [body.q])
        model = pool.causal_model_named(body.model) if body.model else None
        if body.model and model is None:
            raise ApiError(404, f"there is no language model {body.model[:100]}").because(
                "no_model", name=body.model[:100]
            )
        options = AnswerOptions(
            passages=body.passages, sentences=body.sentences, method=body.retrieval, model_name=body.model
        )

        def work(emit: Emit) -> None:
            opened, embed = index.open()
            writer = model.language_model if model is not None else None
            for step in answer_steps(opened, body.q, options, embed, writer):
                emit(step.to_event())

        def error_event(error: Exception) -> Event:
            if isinstance(error, ApiError):
                return {"event": "error", **error.to_dict()}
            if isinstance(error, HeadwayError):
                message = index.hide_path(str(error))
                return {"event": "error", "error": model.hide_path(message) if model else message}
            pool.log(f"{type(error).__name__} in an answer", "internal error")
            return {"event": "error", **internal_error("something went wrong on the server").to_dict()}

        state.begin_stream([body.q])
        headers = {"Content-Type": "application/x-ndjson", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return EventStreamResponse(
            request, state, model, work, encode=encode_line, error_event=error_event, headers=headers
        )

    return router
