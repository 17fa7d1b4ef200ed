"""Request bodies read from JSON or forms, and checked by their schema, with error messages for clients."""

import asyncio
import json
import logging
import shutil
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from headway.serve.errors import ApiError, body_too_large, missing_parameter

MAX_FORM_FIELDS = 2000
SMALL_FORM_BYTES = 2**15  # that are parsed at once
MAX_FIELD_BYTES = 2**20  # of all fields of a form but its file
LIST_FIELDS = frozenset(["q", "protect", "ablate"])  # of which a form may have several
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # the client gets the error: keep it out of the log
TYPE_NAMES = {  # by the first word of pydantic's error types
    "int": "an integer", "float": "a number", "bool": "true or false", "string": "a string", "list": "a list",
    "dict": "an object", "model": "an object", "is": "null",
}  # fmt: skip
COMPARISONS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
BodyType = TypeVar("BodyType", bound=BaseModel)


class Upload(NamedTuple):
    """A file of a form. A large one is on disk already: its content is never held in memory."""

    filename: str
    size: int
    content: IO[bytes]

    def save(self, path: Path) -> None:
        with open(path, "xb") as file:
            shutil.copyfileobj(self.content, file)


async def read_body(request: Request) -> dict[str, Any]:
    """The body, JSON or a form with the query, as a dict. The query comes before the body, and the first of several
    values counts, but for LIST_FIELDS, which become lists."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _parse_json(await request.body())
    pairs: list[tuple[str, Any]] = []
    if kind == "multipart/form-data":
        pairs += await _read_multipart(request)
    else:
        body = await request.body()
        if body.lstrip().startswith(b"{"):
            raise ApiError(
                400, "Invalid request: the body looks like JSON: send Content-Type: application/json with it"
            )
        # in a thread: a body of percent signs takes half a second
        pairs += _parse_form(body) if len(body) < SMALL_FORM_BYTES else await asyncio.to_thread(_parse_form, body)
    return {**_collect_fields(pairs), **_collect_fields(request.query_params.multi_items())}


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise ApiError(400, "Invalid request: the form cannot be read") from None


def _collect_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, list[Any]] = {}
    for name, value in pairs:
        table.setdefault(name, []).append(value.replace("\r\n", "\n") if isinstance(value, str) else value)
    return {name: values if len(values) > 1 and name in LIST_FIELDS else values[0] for name, values in table.items()}


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise ApiError(400, "Invalid JSON format")
    if b"\\u" in body:  # it may hold half of a surrogate pair, which could not be sent back
        try:
            json.dumps(table, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise ApiError(400, "Invalid request: the text is not valid Unicode") from None
    return table


async def _read_multipart(request: Request) -> list[tuple[str, Any]]:
    try:
        form = await request.form(max_files=1, max_fields=MAX_FORM_FIELDS, max_part_size=MAX_FIELD_BYTES)
    except (MultiPartException, HTTPException, ValueError):
        raise ApiError(400, "Invalid request: the form cannot be read") from None
    items = form.multi_items()
    request.scope["uploads"].extend(value.file for _, value in items if isinstance(value, UploadFile))
    if sum(len(value) for _, value in items if isinstance(value, str)) > MAX_FIELD_BYTES:
        raise body_too_large(MAX_FIELD_BYTES)
    return [
        (name, Upload(value.filename or "", value.size or 0, value.file) if isinstance(value, UploadFile) else value)
        for name, value in items
    ]


def parse_body(kind: type[BodyType], table: dict[str, Any]) -> BodyType:
    given = {name: value for name, value in table.items() if value is not None}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _to_api_error(kind, error, given) from None


def _to_api_error(kind: type[BaseModel], error: ValidationError, table: dict[str, Any]) -> ApiError:
    """The first mistake, with LibreTranslate's message where it has one; what is missing comes first."""
    mistakes = error.errors(include_url=False)
    mistake = next((one for one in mistakes if is_missing(kind, one, table)), mistakes[0])
    name = str(mistake["loc"][0])
    if is_missing(kind, mistake, table):
        return missing_parameter(name)
    what = mistake["type"]
    if what == "extra_forbidden":
        where = ".".join(map(str, mistake["loc"]))[:100]
        return ApiError(400, f"Unrecognized request argument supplied: {where}", code="unknown_parameter")
    return ApiError(
        400, f"Invalid request: {name} parameter {describe_mistake(what, mistake.get('ctx') or {})}", param=name
    )


def is_missing(kind: type[BaseModel], mistake: Any, table: dict[str, Any]) -> bool:
    """Whether a required field was not sent, or sent empty."""
    name = str(mistake["loc"][0])
    return name in kind.model_fields and kind.model_fields[name].is_required() and not table.get(name)


def describe_mistake(what: str, context: dict[str, Any]) -> str:
    """what: pydantic's type of error; context: the bound that was broken."""
    bound = next((key for key in COMPARISONS if key in context), None)
    if bound:
        return f"must be {COMPARISONS[bound]} {context[bound]}"
    if what.startswith(("too_long", "string_too_long")):
        return f"is too long: {context.get('max_length')} at most"
    if what == "literal_error":
        return f"must be {context.get('expected')}"
    if what == "not_a_number":
        return "is not a number"
    return f"is not {TYPE_NAMES.get(what.partition('_')[0], 'valid')}"
