"""What /spec says of each route: the bodies it takes, and how it answers."""

from typing import Any

from headway.serve.schemas import (
    Body,
    CompletionBody,
    DetectBody,
    PlaceBody,
    PlacesBody,
    ReadBody,
    StreamBody,
    TokensBody,
    TranslateBody,
)

LANGUAGE = {"type": "object", "required": ["code", "name"], "properties": {"code": {"type": "string"}, "name": {"type": "string"}}}  # fmt: skip
DETECTION = {
    "type": "object",
    "required": ["confidence", "language"],
    "properties": {"confidence": {"type": "integer", "minimum": 0, "maximum": 100}, "language": {"type": "string"}},
}
TEXT: dict[str, Any] = {"type": "string"}
WARNINGS = {"type": "array", "items": TEXT}
LINKS = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
ERROR = {"type": "object", "required": ["error"], "properties": {"error": TEXT}}
OPENAI_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type"],
            "properties": {"message": TEXT, "type": TEXT, "param": {}, "code": {}},
        }
    },
}
WHY = {
    400: "Invalid request", 403: "Not allowed", 404: "Not found", 408: "The request did not arrive in time",
    413: "Too large", 429: "Slow down", 500: "Translation error", 503: "Busy", 504: "It took too long",
}  # fmt: skip


def _or_list(shape: Any) -> dict[str, Any]:
    return {"anyOf": [shape, {"type": "array", "items": shape}]}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _takes(kind: type[Any], form: bool = True) -> dict[str, Any]:
    """A body, as JSON and as a form."""
    schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("title", None)
    types = ["application/json", "application/x-www-form-urlencoded"] if form else ["application/json"]
    return {"requestBody": {"required": True, "content": {name: {"schema": schema} for name in types}}}


def _answers(shape: Any, *codes: int, kind: str = "application/json", error: Any = None) -> dict[int | str, Any]:
    answers: dict[int | str, Any] = {200: {"description": "Done", "content": {kind: {"schema": shape}}}}
    for code in codes:
        schema = {"application/json": {"schema": error or ERROR}}
        answers[code] = {"description": WHY[code], "content": schema}
        if code in (429, 503):
            answers[code]["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    return answers


ALL = (400, 403, 408, 413, 429, 500, 503, 504)

TRANSLATE: dict[str, Any] = {
    "tags": ["translate"],
    "openapi_extra": _takes(TranslateBody),
    "responses": _answers(
        _object(
            ["translatedText"],
            translatedText=_or_list(TEXT),
            detectedLanguage=_or_list(DETECTION),
            alternatives={"type": "array"},
            scores=_or_list({"type": ["number", "null"]}),
            alignments={"type": "array"},
            warnings={"type": "array"},
        ),
        *ALL,
    ),
}
DETECT: dict[str, Any] = {
    "tags": ["translate"],
    "openapi_extra": _takes(DetectBody),
    "responses": _answers({"type": "array", "items": DETECTION}, *ALL),
}
LANGUAGES: dict[str, Any] = {
    "tags": ["translate"],
    "responses": _answers(
        {"type": "array", "items": _object(["code", "name", "targets"], code=TEXT, name=TEXT, targets=WARNINGS)}
    ),
}
FRONTEND: dict[str, Any] = {
    "tags": ["frontend"],
    "responses": _answers(
        _object(
            ["charLimit", "language"],
            apiKeys={"type": "boolean"},
            keyRequired={"type": "boolean"},
            charLimit={"type": "integer"},
            filesTranslation={"type": "boolean"},
            frontendTimeout={"type": "integer"},
            suggestions={"type": "boolean"},
            supportedFilesFormat=WARNINGS,
            language=_object(["source", "target"], source=LANGUAGE, target=LANGUAGE),
        )
    ),
}
HEALTH: dict[str, Any] = {"tags": ["server"], "responses": _answers(_object(["status"], status=TEXT))}
METRICS: dict[str, Any] = {"tags": ["server"], "responses": _answers(TEXT, kind="text/plain")}
TRANSLATE_FILE: dict[str, Any] = {
    "tags": ["translate"],
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": _object(
                        ["file", "source", "target"],
                        file={"type": "string", "format": "binary"},
                        source=TEXT,
                        target=TEXT,
                        **Body.model_json_schema()["properties"],
                    )
                }
            },
        }
    },
    "responses": _answers(
        _object(
            ["translatedFileUrl"],
            translatedFileUrl=TEXT,
            segments={"type": "integer"},
            translated={"type": "integer"},
            warnings=WARNINGS,
            detectedLanguage=DETECTION,
        ),
        *ALL,
    ),
}
DOWNLOAD: dict[str, Any] = {
    "tags": ["translate"],
    "responses": _answers({"type": "string", "format": "binary"}, 400, 404, kind="application/octet-stream"),
}
STREAM: dict[str, Any] = {
    "tags": ["look inside"],
    "openapi_extra": _takes(StreamBody),
    "responses": _answers(TEXT, 404, *ALL, kind="application/x-ndjson"),
}
INSIDE = {"tags": ["look inside"]}
INSIDE_MODELS: dict[str, Any] = {
    **INSIDE,
    "responses": _answers({"type": "array", "items": _object(["name", "kind"])}, 403),
}
INSIDE_MODEL: dict[str, Any] = {**INSIDE, "responses": _answers(_object(["name", "blocks"]), 404, *ALL)}
INSIDE_READ: dict[str, Any] = {
    **INSIDE,
    "openapi_extra": _takes(ReadBody, form=False),
    "responses": _answers({"type": "array", "items": _object(["event"])}, 404, *ALL),
}
INSIDE_PLACES: dict[str, Any] = {
    **INSIDE,
    "openapi_extra": _takes(PlacesBody, form=False),
    "responses": _answers(_object(["places"]), 404, *ALL),
}
INSIDE_PLACE: dict[str, Any] = {
    **INSIDE,
    "openapi_extra": _takes(PlaceBody, form=False),
    "responses": _answers(_object([]), 404, *ALL),
}
INSIDE_VECTORS: dict[str, Any] = {
    **INSIDE,
    "openapi_extra": _takes(TokensBody, form=False),
    "responses": _answers(_object([]), 404, *ALL),
}
COMPLETIONS: dict[str, Any] = {
    "tags": ["language models"],
    "openapi_extra": _takes(CompletionBody, form=False),
    "responses": _answers(_object(["id", "object", "choices"]), *ALL, 404, error=OPENAI_ERROR),
}
EVENTS = _object(["data"], data=TEXT)  # with `stream`
COMPLETIONS["responses"][200]["content"]["text/event-stream"] = {"schema": EVENTS}
MODELS: dict[str, Any] = {"tags": ["language models"], "responses": _answers(_object(["object", "data"]))}
MODEL: dict[str, Any] = {
    "tags": ["language models"],
    "responses": _answers(_object(["id", "object"]), 404, error=OPENAI_ERROR),
}
