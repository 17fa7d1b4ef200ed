"""OpenAI's /v1/embeddings, for models with an encoder that do not translate."""

import asyncio
import base64
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from headway.serve import openapi
from headway.serve.errors import ApiError
from headway.serve.schemas import EmbeddingBody
from headway.serve.served_model import ServedModel
from headway.serve.state import ServerState
from headway.serve.translate import use_model


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/embeddings", **openapi.EMBEDDINGS)
    async def embeddings(request: Request) -> JSONResponse:
        """Vectors of texts, of length 1."""
        body = await state.read_body(request, EmbeddingBody)
        texts = [body.input] if isinstance(body.input, str) else body.input
        if not texts or not all(texts):
            raise ApiError(400, "input must be a text, or a list of texts, none of them empty", param="input")
        state.check_size(request, texts, together=True)
        model = state.pool.encoder_named(body.model)
        if model is None:
            raise ApiError(404, f"The model `{body.model[:100]}` does not exist", code="model_not_found")
        state.begin_stream(texts)
        try:
            return JSONResponse(await state.finish_in_time(request, embed(model, texts, body.encoding_format)))
        finally:
            state.end_stream()

    async def embed(model: ServedModel, texts: list[str], encoding: str | None) -> dict[str, Any]:
        async with use_model(state.pool, model):
            return await asyncio.to_thread(embed_texts, model, texts, encoding)

    return router


def embed_texts(model: ServedModel, texts: list[str], encoding: str | None) -> dict[str, Any]:
    """The answer: vectors as lists of numbers or, as OpenAI's own client asks for them, float32 in base64."""
    from headway.retrieval.vector_search import normalise

    encoder = model.language_model
    vectors = normalise(encoder.embed(texts))
    tokens = sum(len(encoder.encode(text)) for text in texts)
    data = [
        {
            "object": "embedding",
            "index": number,
            "embedding": base64.b64encode(row.tobytes()).decode() if encoding == "base64" else row.tolist(),
        }
        for number, row in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model.name, "usage": usage}
