"""LibreTranslate's API (https://docs.libretranslate.com), with its field names and error messages."""

import asyncio
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from headway.errors import HeadwayError
from headway.serve import documents, openapi
from headway.serve.download_names import add_download_name, content_disposition, split_download_name
from headway.serve.downloads import DownloadResponse
from headway.serve.errors import ApiError, file_too_large, missing_parameter
from headway.serve.languages import (
    DetectedLanguage,
    detect_languages,
    detect_source,
    untranslated_warning,
)
from headway.serve.request_bodies import Upload, parse_body, read_body
from headway.serve.schemas import DetectBody, ExtendedOptions, SuggestBody, TranslateBody
from headway.serve.state import ServerState
from headway.serve.translate import RequestOptions, translate_texts
from headway.text.glossary import Glossary
from headway.text.language_names import language_name
from headway.translate.options import TranslateOptions
from headway.translate.results import Guess, PivotText, Translation


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()
    pool = state.pool

    @router.post("/translate", **openapi.TRANSLATE)
    async def translate(request: Request) -> JSONResponse:
        """Translate text from one language to another."""
        body = await state.read_body(request, TranslateBody)
        texts = [body.q] if isinstance(body.q, str) else body.q
        state.check_size(request, texts)
        return JSONResponse(await state.finish_in_time(request, translate_request(state, body, texts)))

    @router.post("/detect", **openapi.DETECT)
    async def detect(request: Request) -> JSONResponse:
        """Detect the language of a text."""
        body = await state.read_body(request, DetectBody)
        texts = [body.q] if isinstance(body.q, str) else body.q
        state.check_size(request, texts)
        detecting = asyncio.to_thread(detect_languages, texts, pool.languages)
        return JSONResponse([one._asdict() for one in await state.finish_in_time(request, detecting)])

    @cache  # LibreTranslate's format has every direction: of 200 languages, 300 kB
    def encode_languages() -> bytes:
        found = [(code, language_name(code), pool.targets_from(code)) for code in pool.languages]
        listed = [{"code": code, "name": name, "targets": targets} for code, name, targets in found]
        return json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode()

    @router.get("/languages", **openapi.LANGUAGES)
    async def languages() -> Response:
        """The languages, each with those it can be translated to."""
        return Response(encode_languages(), media_type="application/json")

    @router.get("/frontend/settings", **openapi.FRONTEND)
    async def frontend_settings() -> JSONResponse:
        """Settings for web pages."""
        _, target = pool.default_pair
        return JSONResponse(
            {
                "apiKeys": state.keys.required,
                "keyRequired": state.keys.required,
                "charLimit": state.settings.limits.characters,
                "filesTranslation": bool(documents.file_suffixes()),
                "frontendTimeout": 500,
                "language": {
                    "source": {"code": "auto", "name": "Auto Detect"},
                    "target": {"code": target, "name": language_name(target)},
                },
                "suggestions": state.suggestions.enabled,
                "supportedFilesFormat": documents.file_suffixes(),
            }
        )

    @router.post("/suggest", **openapi.SUGGEST)
    async def suggest(request: Request) -> JSONResponse:
        """Suggest a better translation, which the server's owner gets to see."""
        state.suggestions.check_enabled()
        body = await state.read_body(request, SuggestBody)
        state.check_size(request, [body.q, body.s])
        await state.suggestions.add(q=body.q, s=body.s, source=body.source, target=body.target)
        return JSONResponse({"success": True})

    @router.get("/health", **openapi.HEALTH)
    async def health() -> JSONResponse:
        """Whether the server is up."""
        return JSONResponse({"status": "ok"})

    @router.post("/translate_file", **openapi.TRANSLATE_FILE)
    async def translate_file(request: Request) -> JSONResponse:
        """Translate a file; the answer has the URL of the result."""
        table = await read_body(request)
        state.check_key(request, table)
        url = str(request.url_for("download_file", filename="x"))[:-1]
        state.admission.begin_file(request.scope)
        charge = partial(state.admission.charge_file, request.scope)
        translating = translate_upload(state, table, url, request.scope["client_id"], charge)
        return JSONResponse(await state.finish_in_time(request, translating))

    @router.get("/download_file/{filename}", name="download_file", **openapi.DOWNLOAD)
    async def download_file(filename: str) -> FileResponse:
        """Download a translated file. It is deleted soon afterwards."""
        stored, name = split_download_name(filename)
        path = state.downloads.find(stored)
        return DownloadResponse(
            path,
            state.downloads.delete_later,
            media_type="application/octet-stream",
            headers={"Content-Disposition": content_disposition(name)},
        )

    return router


async def translate_request(state: ServerState, body: Any, texts: list[str]) -> dict[str, Any]:
    pool = state.pool
    named_source = None if body.source == "auto" else pool.resolve_source(body.source)
    target = pool.resolve_language(body.target)
    if body.format not in ("text", "html"):
        raise ApiError(400, f"{body.format[:40]} format is not supported")
    detections: list[DetectedLanguage] = []
    if named_source is None:
        known = pool.sources_for(target)
        plain_text = documents.html_text if body.format == "html" else str
        detections = await asyncio.to_thread(lambda: [detect_source(plain_text(text), known, target) for text in texts])
        # a text in an unknown language is treated as one in the target language: it stays as it is
        sources = [detected.language if detected.language in known else target for detected in detections]
    else:
        sources = [named_source] * len(texts)
    request = parse_options(body, target, body.alternatives)
    if body.format == "html":
        translations = await translate_html_texts(state, texts, sources, request)
    else:
        translations = await translate_by_language(state, texts, sources, request)
    for translation, detected in zip(translations, detections):
        if detected.language not in known:
            translation.warnings.append(untranslated_warning(detected.language))
    return format_answer(body, translations, detections)


def parse_options(body: ExtendedOptions, target: str, alternatives: int = 0) -> RequestOptions:
    """The options of a translation from a request's fields."""
    changes: dict[str, Any] = {"beam_size": body.beam_size} if body.beam_size else {}
    if alternatives:
        changes["n_best"] = alternatives + 1
        if body.beam_size:
            changes["beam_size"] = max(body.beam_size, alternatives + 1)
    try:
        options = TranslateOptions(
            target=target,
            align=body.alignments,
            protect=tuple(re.escape(text) for text in body.protect or ()),  # a pattern could keep a core busy for ever
            glossary=Glossary(dict(sorted(body.glossary.items()))) if body.glossary else None,
            min_confidence=body.min_score or 0.0,
        )
    except HeadwayError as error:
        raise ApiError(400, f"Invalid request: {error}") from None
    return RequestOptions(options, tuple(sorted(changes.items())), needs_scores=body.scores, model=body.model)


async def translate_by_language(
    state: ServerState, texts: Sequence[str], sources: Sequence[str], request: RequestOptions
) -> list[Translation]:
    """Each text by the model for its language, concurrently."""
    translations: list[Translation] = [unscored_translation(text, text) for text in texts]

    async def fill(source: str) -> None:
        route = state.pool.route_for(source, request.options.target, request.model)
        if route is None:
            return
        indices = [n for n, one in enumerate(sources) if one == source]
        made = await translate_texts(state.pool, route, [texts[n] for n in indices], request)
        for n, translation in zip(indices, made):
            translations[n] = translation

    wanted = dict.fromkeys(sources)
    for source in wanted:
        state.pool.route_for(source, request.options.target, request.model)  # refuse before anything is translated
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_catch_error(fill(source))) for source in wanted]
    for task in tasks:
        if error := task.result():
            raise error
    return translations


async def _catch_error(work: Any) -> Exception | None:
    """Returns an exception, because a TaskGroup would wrap it."""
    try:
        await work
    except Exception as error:
        return error
    return None


async def translate_html_texts(
    state: ServerState, texts: Sequence[str], sources: Sequence[str], request: RequestOptions
) -> list[Translation]:
    translations = []
    for text, source in zip(texts, sources):
        route = state.pool.route_for(source, request.options.target, request.model)
        translated, warnings = await documents.translate_html(state.pool, state.memory, route, text, request)
        made = unscored_translation(text, translated, warnings)
        if route is not None and route.pivot:
            made = replace(made, pivot=PivotText(route.pivot, ""))
        translations.append(made)
    return translations


def unscored_translation(source: str, text: str, warnings: Sequence[str] = ()) -> Translation:
    """Without a score: a text that is left unchanged, or HTML, which is many segments."""
    return Translation(source, [Guess(text, math.nan, math.nan, [], [], [])], list(warnings))


def format_answer(
    body: TranslateBody, translations: list[Translation], detections: Sequence[DetectedLanguage]
) -> dict[str, Any]:
    """LibreTranslate's answer; other fields only where they were requested, or where there is something to say."""
    columns: dict[str, list[Any]] = {"translatedText": [one.text for one in translations]}
    if detections:
        columns["detectedLanguage"] = [detected._asdict() for detected in detections]
    if body.alternatives:
        columns["alternatives"] = [distinct_alternatives(one, body.alternatives) for one in translations]
    if body.scores:
        columns["scores"] = [format_score(one.guesses[0]) for one in translations]
    if body.alignments:
        columns["alignments"] = [one.guesses[0].alignment or [] for one in translations]
    if body.warnings:
        columns["warnings"] = [one.warnings for one in translations]
    if any(one.pivot for one in translations):
        columns["pivot"] = [one.pivot.language if one.pivot else None for one in translations]
    return columns if isinstance(body.q, list) else {name: values[0] for name, values in columns.items()}


def distinct_alternatives(made: Translation, count: int) -> list[str]:
    """Other translations, each once: beam search may find one text as several token sequences."""
    return [text for text in dict.fromkeys(guess.text for guess in made.guesses) if text != made.text][:count]


def format_score(guess: Guess) -> float | None:
    """A calibrated model's confidence, from 0 to 1; otherwise the search's score, never above 0; None without."""
    score = guess.score if guess.confidence is None else guess.confidence
    return None if math.isnan(score) else round(score, 4)


async def translate_upload(
    state: ServerState, table: dict[str, Any], url: str, client: str, charge: Callable[[int], None]
) -> dict[str, Any]:
    """url: of downloads, without the file's name. client: whose file it is. charge: is told the characters."""
    upload = table.get("file")
    if not isinstance(upload, Upload):
        raise missing_parameter("file")
    if upload.size > state.settings.limits.file_bytes:
        raise file_too_large(state.settings.limits.file_bytes)
    for name in ("source", "target"):
        if not isinstance(table.get(name), str) or not table[name]:
            raise missing_parameter(name)
    if not upload.filename:
        raise ApiError(400, "Invalid request: empty file")
    suffix = Path(upload.filename).suffix.lower()
    if suffix not in documents.file_suffixes():
        raise ApiError(400, "Invalid request: file format not supported")
    pool = state.pool
    named_source = None if table["source"] == "auto" else pool.resolve_source(table["source"])
    target = pool.resolve_language(table["target"])
    request = parse_options(parse_body(ExtendedOptions, table), target)
    result = state.downloads.new_path(documents.result_suffix(suffix), client)
    given = state.downloads.new_upload(suffix)
    document = documents.UploadedDocument(state.workers, given, client, target)
    detected: dict[str, Any] = {}
    try:
        await asyncio.to_thread(upload.save, given)
        segments = await document.read_segments()
        charge(sum(len(segment.text) for segment in segments))
        if named_source is None:
            found = await documents.detect_file_language(segments, pool.sources_for(target), target)
            detected = {"detectedLanguage": found._asdict()}
        source = named_source or found.language
        route = pool.route_for(source, target, request.model)
        results = await documents.translate_segments(pool, route, segments, request)
        counts = await document.write(result, results)
        state.downloads.make_room()
    finally:
        given.unlink(missing_ok=True)
    file_url = url + add_download_name(result.name, upload.filename, target)
    pivot = {"pivot": route.pivot} if route is not None and route.pivot else {}
    return {"translatedFileUrl": file_url, **_format_counts(counts), **detected, **pivot}


def _format_counts(counts: Any) -> dict[str, Any]:
    return {"segments": counts.segments, "translated": counts.translated, "warnings": list(counts.warnings)}
