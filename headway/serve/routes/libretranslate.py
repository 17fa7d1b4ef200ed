"""LibreTranslate's API: https://docs.libretranslate.com. Its keys, its answers, its error texts."""

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse

from headway.serve import documents, openapi
from headway.serve.errors import ApiError, file_too_large, missing
from headway.serve.languages import Detected, detected, heard, name_of, untranslated
from headway.serve.schemas import DetectBody, TranslateBody, Upload, Wishes, checked, read
from headway.serve.state import Service
from headway.serve.translate import How, translated
from headway.translate.results import Guess, Translation


def routes(service: Service) -> APIRouter:
    router, shelf = APIRouter(), service.shelf

    @router.post("/translate", **openapi.TRANSLATE)
    async def translate(request: Request) -> JSONResponse:
        """Translate text from a language to another."""
        body = await service.body(request, TranslateBody)
        texts = [body.q] if isinstance(body.q, str) else body.q
        service.check_size(request, texts)
        return JSONResponse(await service.answered(request, answer_of(service, body, texts)))

    @router.post("/detect", **openapi.DETECT)
    async def detect(request: Request) -> JSONResponse:
        """Detect the language of a text."""
        body = await service.body(request, DetectBody)
        service.check_size(request, [body.q])
        found = await asyncio.to_thread(detected, body.q, shelf.languages)
        return JSONResponse([one._asdict() for one in found])

    @router.get("/languages", **openapi.LANGUAGES)
    async def languages() -> JSONResponse:
        """The languages, and what each can be translated to."""
        return JSONResponse(
            [{"code": code, "name": name_of(code), "targets": shelf.targets(code)} for code in shelf.languages]
        )

    @router.get("/frontend/settings", **openapi.FRONTEND)
    async def frontend_settings() -> JSONResponse:
        """What a page needs to know."""
        first = next(iter(shelf.pairs), ("", ""))
        sides = [{"code": code, "name": name_of(code)} for code in first]
        return JSONResponse(
            {
                "apiKeys": service.keys.required,
                "keyRequired": service.keys.required,
                "charLimit": service.settings.limits.characters,
                "filesTranslation": bool(documents.suffixes()),
                "frontendTimeout": 500,
                "language": {"source": sides[0], "target": sides[1]},
                "suggestions": False,
                "supportedFilesFormat": documents.suffixes(),
            }
        )

    @router.get("/health", **openapi.HEALTH)
    async def health() -> JSONResponse:
        """Whether the server lives."""
        return JSONResponse({"status": "ok"})

    @router.post("/translate_file", **openapi.TRANSLATE_FILE)
    async def translate_file(request: Request) -> JSONResponse:
        """Translate a file; the answer says where to fetch the result."""
        table = await read(request)
        service.admit(request, table)
        url = str(request.url_for("download_file", filename="x"))[:-1]
        return JSONResponse(await service.answered(request, file_of(service, table, url)))

    @router.get("/download_file/{filename}", name="download_file", **openapi.DOWNLOAD)
    async def download_file(filename: str) -> FileResponse:
        """Fetch a translated file."""
        path = service.files.find(filename)
        return FileResponse(path, media_type="application/octet-stream", filename=f"translated{path.suffix}")

    return router


async def answer_of(service: Service, body: Any, texts: list[str]) -> dict[str, Any]:
    shelf = service.shelf
    target = shelf.language(body.target)
    if body.format not in ("text", "html"):
        raise ApiError(400, f"{body.format[:40]} format is not supported")
    guesses: list[Detected] = []
    if body.source == "auto":
        among = shelf.sources_of(target)
        said = documents.said_in if body.format == "html" else str
        guesses = await asyncio.to_thread(lambda: [heard(said(text), among, target) for text in texts])
        sources = [guess.language if guess.language in among else target for guess in guesses]  # target: it stays
    else:
        sources = [shelf.language(body.source)] * len(texts)
    how = how_of(body, target, body.alternatives)
    if body.format == "html":
        found = await html_of(service, texts, sources, how)
    else:
        found = await found_for(service, texts, sources, how)
    for made, guess in zip(found, guesses):
        if guess.language not in among:
            made.warnings.append(untranslated(guess.language))
    return shown(body, found, guesses)


def how_of(body: Wishes, target: str, alternatives: int = 0) -> How:
    """In which way a request wants to be translated."""
    changes: dict[str, Any] = {"beam_size": body.beam_size} if body.beam_size else {}
    if alternatives:
        changes["n_best"] = alternatives + 1
        if body.beam_size:
            changes["beam_size"] = max(body.beam_size, alternatives + 1)
    more: dict[str, Any] = {}
    if body.glossary:
        more["glossary"] = tuple(sorted(body.glossary.items()))
    if body.protect:  # as they are: a pattern from outside could keep a core busy for ever
        more["protect"] = tuple(re.escape(text) for text in body.protect)
    if body.min_score:
        more["min_score"] = body.min_score
    return How(
        target,
        changes=tuple(sorted(changes.items())),
        align=body.alignments,
        more=tuple(sorted(more.items())),
        whole=body.scores,
    )


async def found_for(service: Service, texts: Sequence[str], sources: Sequence[str], how: How) -> list[Translation]:
    """Each text by the model for its language, all at the same time."""
    found: list[Translation] = [unscored(text, text) for text in texts]

    async def fill(source: str) -> None:
        model = service.shelf.between(source, how.to)
        if model is None:
            return
        places = [n for n, one in enumerate(sources) if one == source]
        own = replace(how, source=source)
        for n, made in zip(places, await translated(service.shelf, model, [texts[n] for n in places], own)):
            found[n] = made

    wanted = dict.fromkeys(sources)
    for source in wanted:
        service.shelf.between(source, how.to)  # refused before anything is begun
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_caught(fill(source))) for source in wanted]
    for task in tasks:
        if error := task.result():
            raise error
    return found


async def _caught(work: Any) -> Exception | None:
    """A group of tasks would wrap it."""
    try:
        await work
    except Exception as error:
        return error
    return None


async def html_of(service: Service, texts: Sequence[str], sources: Sequence[str], how: How) -> list[Translation]:
    found = []
    for text, source in zip(texts, sources):
        model = service.shelf.between(source, how.to)
        made, warnings = await documents.html(service.shelf, model, text, replace(how, source=source))
        found.append(unscored(text, made, warnings))
    return found


def unscored(source: str, text: str, warnings: Sequence[str] = ()) -> Translation:
    """What no model has translated as a whole: a text that stays, or HTML, which is many."""
    return Translation(source, [Guess(text, math.nan, math.nan, [], [], [])], list(warnings))


def shown(body: TranslateBody, found: list[Translation], guesses: Sequence[Detected]) -> dict[str, Any]:
    """As LibreTranslate answers; more only where it was asked for."""
    columns: dict[str, list[Any]] = {"translatedText": [made.text for made in found]}
    if guesses:
        columns["detectedLanguage"] = [guess._asdict() for guess in guesses]
    if body.alternatives:
        columns["alternatives"] = [others(made, body.alternatives) for made in found]
    if body.scores:
        columns["scores"] = [score_of(made.guesses[0]) for made in found]
    if body.alignments:
        columns["alignments"] = [made.guesses[0].alignment or [] for made in found]
    if body.warnings:
        columns["warnings"] = [made.warnings for made in found]
    return columns if isinstance(body.q, list) else {name: values[0] for name, values in columns.items()}


def others(made: Translation, most: int) -> list[str]:
    """What else it could be, each once: a search may find one text in several spellings by tokens."""
    return [text for text in dict.fromkeys(guess.text for guess in made.guesses) if text != made.text][:most]


def score_of(guess: Guess) -> float | None:
    """Between 0 and 1 where the model has been calibrated; otherwise the search's, which is never above 0. None: nobody
    has scored it."""
    score = guess.score if guess.confidence is None else guess.confidence
    return None if math.isnan(score) else round(score, 4)


async def file_of(service: Service, table: dict[str, Any], url: str) -> dict[str, Any]:
    """url: where results are fetched, before their names."""
    upload = table.get("file")
    if not isinstance(upload, Upload):
        raise missing("file")
    if len(upload.content) > service.settings.limits.file:
        raise file_too_large(service.settings.limits.file)
    for name in ("source", "target"):
        if not isinstance(table.get(name), str) or not table[name]:
            raise missing(name)
    suffix = re.sub(r".*(?=\.)|^[^.]*$", "", upload.filename.lower())
    if suffix not in documents.suffixes():
        known = ", ".join(documents.suffixes())
        named = f"{suffix[:20]} is not one of {known}" if suffix else f"its name does not end with one of {known}"
        raise ApiError(400, f"Invalid request: file format not supported: {named}")
    shelf, target = service.shelf, service.shelf.language(table["target"])
    told = None if table["source"] == "auto" else shelf.language(table["source"])
    how = how_of(checked(Wishes, table), target)
    result, given = service.files.new(suffix), service.files.new(suffix)
    guess: dict[str, Any] = {}
    try:
        await asyncio.to_thread(given.write_bytes, upload.content)
        if told is None:
            found = await documents.language_of(given, shelf.sources_of(target), target)
            guess = {"detectedLanguage": found._asdict()}
        source = told or found.language
        counts = await documents.file(shelf, shelf.between(source, target), given, result, replace(how, source=source))
    finally:
        given.unlink(missing_ok=True)
    return {"translatedFileUrl": url + result.name, **_counted(counts), **guess}


def _counted(counts: Any) -> dict[str, Any]:
    return {"segments": counts.segments, "translated": counts.translated, "warnings": list(counts.warnings)}
